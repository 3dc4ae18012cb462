use std::time::Duration;

use miette::IntoDiagnostic as _;

use crate::cli::{URL_VARIABLE, number, print};
use xoff_switch::client::{self, DEFAULT_URL};
use xoff_switch::control::PolicyNames;
use xoff_switch::control::policy::PolicyChange;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Show or change the flow-control policies of a running switch.
///
/// A change loses no frame.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// New policy (pfc, capfc-stop-max, ...) [default: show policies].
    policy: Option<String>,
    /// Class that gets the policy, 0 to 7 [default: all].
    #[arg(long, value_name = "N", requires = "policy", value_parser = number(0..=7_u8))]
    class: Option<u8>,
    /// Address of the switch: a URL or unix:PATH.
    #[arg(long, value_name = "URL", env = URL_VARIABLE, default_value = DEFAULT_URL, value_parser = client::url)]
    url: String,
}

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
