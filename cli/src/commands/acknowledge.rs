//! `xoff acknowledge`: what a switch cannot prove any more counts no more against it.

use std::time::Duration;

use miette::IntoDiagnostic as _;

use crate::cli::print;
use xoff_switch::client::{self, DEFAULT_URL};
use xoff_switch::control::acknowledge::AcknowledgedNow;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Acknowledge what a running switch cannot prove any more, because a device went away with its last drop counters, or an XDP
/// program was taken off. It stays in the status, and counts no more for the verdict, the exit code and the metrics. What still
/// lasts cannot be acknowledged, nor can losses.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Where the switch serves its status: an address, or unix: and the path of a socket.
    #[arg(long, default_value = DEFAULT_URL, value_parser = client::url)]
    url: String,
}

/// Runs the command.
///
/// # Errors
/// Where there is no switch, or it refuses.
pub fn run(Args { url }: &Args) -> miette::Result<()> {
    let answer =
        client::ask(url, TIMEOUT, |agent, base| agent.put(format!("{base}/acknowledge")).send_empty());
    print(told(&answer.into_diagnostic()?))
}

fn told(AcknowledgedNow { acknowledged, unproved }: &AcknowledgedNow) -> String {
    let none = acknowledged.is_empty().then(|| "there is nothing to acknowledge\n".to_owned());
    let acknowledged = acknowledged.iter().map(|gap| format!("acknowledged: {gap}\n"));
    let unproved = unproved.iter().map(|gap| format!("NOT PROVED: {gap}\n"));
    none.into_iter().chain(acknowledged).chain(unproved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_and_what_still_lasts_is_told() {
        let none = AcknowledgedNow { acknowledged: Vec::new(), unproved: vec!["p1: gone".into()] };
        assert_eq!(told(&none), "there is nothing to acknowledge\nNOT PROVED: p1: gone\n");
        let one = AcknowledgedNow { acknowledged: vec!["p2: was gone".into()], unproved: Vec::new() };
        assert_eq!(told(&one), "acknowledged: p2: was gone\n");
    }
}
