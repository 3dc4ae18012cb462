//! `xoff policy`: which flow-control policy each class of a running switch has, and another one for it.

use std::time::Duration;

use miette::IntoDiagnostic as _;

use crate::cli::{number, print};
use xoff_switch::client::{self, DEFAULT_URL};
use xoff_switch::control::policy::PolicyChange;
use xoff_switch::control::policy_cells::PolicyNames;

/// Longer than a switch takes to answer for workers that do not.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Show or change the flow-control policies of a running switch; no frame is lost by it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The policy that takes over (pfc, capfc-stop-max, ...); without it, what there is is shown.
    policy: Option<String>,
    /// The class that gets it, 0 to 7; without it, all.
    #[arg(long, requires = "policy", value_parser = number(0..=7_u8))]
    class: Option<u8>,
    /// Where the switch serves its status: an address, or unix: and the path of a socket.
    #[arg(long, default_value = DEFAULT_URL, value_parser = client::url)]
    url: String,
}

/// Runs the command.
///
/// # Errors
/// Where there is no switch, or it refuses.
pub fn run(Args { policy, class, url }: &Args) -> miette::Result<()> {
    let names: Result<PolicyNames, _> = client::ask(url, TIMEOUT, |agent, base| {
        let place = format!("{base}/policy");
        match policy {
            None => agent.get(place).call(),
            Some(policy) => {
                agent.put(place).send_json(PolicyChange { policy: policy.clone(), class: *class })
            }
        }
    });
    let names = names.into_diagnostic()?;
    let lines = names.iter().enumerate().map(|(class, name)| format!("class {class}  {name}\n"));
    print(lines.collect::<String>())
}
