use std::sync::Arc;

use xoff_config::Config;

use super::{Namespace, parallel};
use xoff_switch::control::SwitchView;
use xoff_switch::control::reload::{Reloads, Source};
use xoff_switch::control::status::Status;
use xoff_switch::run::{self, Privileges, RunError, Running, ThreadError};

pub type SwitchHandle = (Arc<SwitchView>, Option<Reloads>);

fn handle(running: &Running) -> SwitchHandle {
    (Arc::clone(running.view()), running.reloads().cloned())
}

/// Running switches with their namespaces. A switch must stop in its namespace: only there can a generic XDP program be
/// detached.
#[derive(Debug, Default)]
pub struct Switches(Vec<(Namespace, Option<Running>)>);

impl Switches {
    /// Starts a switch in each namespace.
    ///
    /// # Errors
    ///
    /// Returns the first failure with the index of its switch, and stops the others.
    pub fn start(configs: &[(Namespace, Config)]) -> Result<Switches, (usize, RunError)> {
        Switches::start_from(configs, |_| None)
    }

    /// Starts switches, each with a file for reloads if `source` gives one.
    ///
    /// # Errors
    /// Fails as [`Switches::start`] does.
    pub fn start_from(
        configs: &[(Namespace, Config)],
        source: impl Fn(&str) -> Option<Source> + Sync,
    ) -> Result<Switches, (usize, RunError)> {
        let start = |(namespace, config): &(Namespace, Config)| {
            let source = source(&config.shell.name);
            let running = namespace.try_run(|| run::start_from(source, config, None, &Privileges::Keep))?;
            Ok((namespace.clone(), Some(running)))
        };
        let (mut switches, mut failed) = (Switches::default(), None);
        for (index, started) in parallel::each(configs.iter().collect(), start).into_iter().enumerate() {
            match started {
                Ok(running) => switches.0.push(running),
                Err(error) => failed = failed.or(Some((index, error))),
            }
        }
        failed.map_or(Ok(switches), Err)
    }

    #[must_use]
    pub fn views(&self) -> Vec<Arc<SwitchView>> {
        self.0.iter().filter_map(|(_, running)| Some(Arc::clone(running.as_ref()?.view()))).collect()
    }

    pub fn stop_one(&mut self, index: usize) -> Option<Result<Status, ThreadError>> {
        let (namespace, running) = &mut self.0[index];
        let running = running.take()?;
        Some(namespace.on_keeper(|| running.stop()))
    }

    pub fn start_one(
        &mut self,
        index: usize,
        source: Option<Source>,
        config: &Config,
    ) -> Result<SwitchHandle, RunError> {
        let (namespace, running) = &mut self.0[index];
        let started = namespace.try_run(|| run::start_from(source, config, None, &Privileges::Keep))?;
        Ok(handle(running.insert(started)))
    }

    #[must_use]
    pub fn handles(&self) -> Vec<SwitchHandle> {
        self.0.iter().filter_map(|(_, running)| Some(handle(running.as_ref()?))).collect()
    }

    pub fn stop(&mut self) -> Vec<Option<Result<Status, ThreadError>>> {
        parallel::each(self.0.drain(..).collect(), |(namespace, running)| {
            namespace.on_keeper(|| running.map(Running::stop))
        })
    }
}

impl Drop for Switches {
    fn drop(&mut self) {
        parallel::each(self.0.drain(..).collect(), |(namespace, running)| {
            namespace.on_keeper(|| drop(running))
        });
    }
}
