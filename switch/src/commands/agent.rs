//! How commands ask a running switch: over HTTP, and directly. A proxy that the environment names is for the
//! web; it knows nothing of the addresses of this machine.

use std::time::Duration;

use ureq::Agent;
use ureq::config::ConfigBuilder;
use ureq::typestate::AgentScope;

/// An agent that waits so long for a whole answer.
pub(super) fn agent(timeout: Duration) -> ConfigBuilder<AgentScope> {
    Agent::config_builder().proxy(None).timeout_global(Some(timeout))
}
