//! Switches that run in namespaces of this process.

use std::sync::Arc;

use xoff_config::Config;

use super::Namespace;
use xoff_switch::control::SwitchView;
use xoff_switch::control::status::Status;
use xoff_switch::run::{self, Privileges, RunError, Running, ThreadError};

/// Running switches, which are stopped where they were started: a generic program comes off nowhere
/// else.
#[derive(Debug, Default)]
pub struct Switches(Vec<(Namespace, Running)>);

impl Switches {
    /// One in each of these namespaces.
    ///
    /// # Errors
    /// The index of one that cannot run, and why; the others are stopped.
    pub fn start(configs: &[(Namespace, Config)]) -> Result<Switches, (usize, RunError)> {
        let mut switches = Switches::default();
        for (index, (namespace, config)) in configs.iter().enumerate() {
            let started = namespace.run(|| run::start(config, &Privileges::Keep));
            let running = started.map_err(|error| (index, error))?;
            switches.0.push((namespace.clone(), running));
        }
        Ok(switches)
    }

    /// What can be seen of them.
    #[must_use]
    pub fn views(&self) -> Vec<Arc<SwitchView>> {
        self.0.iter().map(|(_, running)| Arc::clone(running.view())).collect()
    }

    /// Stops them; what each said in the end, or how a thread of it ended before it was asked to.
    pub fn stop(&mut self) -> Vec<Result<Status, ThreadError>> {
        self.0.drain(..).map(|(namespace, running)| namespace.run(|| running.stop())).collect()
    }
}

impl Drop for Switches {
    fn drop(&mut self) {
        for (namespace, running) in self.0.drain(..) {
            namespace.run(|| drop(running));
        }
    }
}
