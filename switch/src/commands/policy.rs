//! `xoff policy`: which flow-control policy each class of a running switch has, and another one for it.

use std::io;
use std::time::Duration;

use miette::IntoDiagnostic as _;

use super::agent::agent;
use crate::cli::{number, print};
use crate::control::policy::PolicyChange;
use crate::control::policy_cells::PolicyNames;

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
    /// Where the switch serves its status.
    #[arg(long, default_value = "http://127.0.0.1:9464")]
    url: String,
}

/// Why it was not shown or changed.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Nothing answers there.
    #[error(
        "no switch answers at {url}: {error}; start one with `xoff run`, or say where it serves with --url"
    )]
    Silent {
        /// Where it was asked.
        url: String,
        /// What the network said.
        error: Box<ureq::Error>,
    },
    /// The switch says no.
    #[error("{0}")]
    Refused(String),
    /// Something answers, but not with policies.
    #[error("{url} is no policy list of this version of xoff: {error}")]
    Foreign {
        /// Where it was asked.
        url: String,
        /// What is wrong with the answer.
        error: io::Error,
    },
}

/// Runs the command.
///
/// # Errors
/// Where there is no switch, or it refuses.
pub fn run(args: &Args) -> miette::Result<()> {
    let url = format!("{}/policy", args.url.trim_end_matches('/'));
    let names = ask(&url, args).into_diagnostic()?;
    let lines = names.iter().enumerate().map(|(class, name)| format!("class {class}  {name}\n"));
    print(lines.collect::<String>())
}

fn ask(url: &str, args: &Args) -> Result<PolicyNames, PolicyError> {
    let agent = agent(TIMEOUT).http_status_as_error(false).build().new_agent();
    let answer = match &args.policy {
        None => agent.get(url).call(),
        Some(policy) => agent.put(url).send_json(PolicyChange { policy: policy.clone(), class: args.class }),
    };
    let silent = |error| PolicyError::Silent { url: url.into(), error: Box::new(error) };
    let mut answer = answer.map_err(silent)?;
    let body = answer.body_mut().read_to_string().map_err(silent)?;
    if !answer.status().is_success() {
        return Err(PolicyError::Refused(body.trim_end().into()));
    }
    let foreign = |error: serde_json::Error| PolicyError::Foreign { url: url.into(), error: error.into() };
    serde_json::from_str(&body).map_err(foreign)
}
