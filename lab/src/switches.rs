//! Switches in namespaces of this process.

use std::sync::Arc;

use xoff_config::Config;

use super::{Namespace, parallel};
use xoff_switch::control::SwitchView;
use xoff_switch::control::reload::{Reloads, Source};
use xoff_switch::control::status::Status;
use xoff_switch::run::{self, Privileges, RunError, Running, ThreadError};

/// Running switches. Each stops in its own namespace: a generic XDP program can be detached nowhere else.
#[derive(Debug, Default)]
pub struct Switches(Vec<(Namespace, Running)>);

impl Switches {
    /// Starts a switch in each namespace.
    ///
    /// # Errors
    /// The first failure with its switch's index; the others are stopped.
    pub fn start(configs: &[(Namespace, Config)]) -> Result<Switches, (usize, RunError)> {
        Switches::start_from(configs, |_| None)
    }

    /// Starts the switches, each of which `source` may give a file for reloads.
    ///
    /// # Errors
    /// As [`Switches::start`].
    pub fn start_from(
        configs: &[(Namespace, Config)],
        source: impl Fn(&str) -> Option<Source> + Sync,
    ) -> Result<Switches, (usize, RunError)> {
        let start = |(namespace, config): &(Namespace, Config)| {
            let source = source(&config.shell.name);
            let running = namespace.try_run(|| run::start_from(source, config, None, &Privileges::Keep))?;
            Ok((namespace.clone(), running))
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
        self.0.iter().map(|(_, running)| Arc::clone(running.view())).collect()
    }

    /// Returns the handles that reload the switches; `None` for a switch without a file.
    #[must_use]
    pub fn reloads(&self) -> Vec<Option<Reloads>> {
        self.0.iter().map(|(_, running)| running.reloads().cloned()).collect()
    }

    /// Stops all switches, and returns their final states, or the errors of their threads.
    pub fn stop(&mut self) -> Vec<Result<Status, ThreadError>> {
        parallel::each(self.0.drain(..).collect(), |(namespace, running)| {
            namespace.on_keeper(|| running.stop())
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
