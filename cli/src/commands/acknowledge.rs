use std::time::Duration;

use miette::IntoDiagnostic as _;

use crate::cli::{URL_VARIABLE, print};
use xoff_switch::client::{self, DEFAULT_URL};
use xoff_switch::control::acknowledge::AcknowledgedNow;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Acknowledge past gaps in a switch's proof of losslessness.
///
/// A gap arises when a device disappears with its last drop counters, or an XDP program is detached. Verdict, exit code and metrics ignore
/// an acknowledged gap. Losses, and gaps whose cause still lasts, cannot be acknowledged.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Address of the switch: a URL or unix:PATH.
    #[arg(long, value_name = "URL", env = URL_VARIABLE, default_value = DEFAULT_URL, value_parser = client::url)]
    url: String,
}

pub fn run(Args { url }: &Args) -> miette::Result<()> {
    let answer =
        client::ask(url, TIMEOUT, |agent, base| agent.put(format!("{base}/acknowledge")).send_empty());
    print(render(&answer.into_diagnostic()?))
}

fn render(AcknowledgedNow { acknowledged, unproved }: &AcknowledgedNow) -> String {
    let none = acknowledged.is_empty().then(|| "there is nothing to acknowledge\n".to_owned());
    let acknowledged = acknowledged.iter().map(|gap| format!("acknowledged: {gap}\n"));
    let unproved = unproved.iter().map(|gap| format!("NOT PROVED: {gap}\n"));
    none.into_iter().chain(acknowledged).chain(unproved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledge_prints_acknowledged_and_remaining_proof_gaps() {
        let none = AcknowledgedNow { acknowledged: Vec::new(), unproved: vec!["p1: gone".into()] };
        assert_eq!(render(&none), "there is nothing to acknowledge\nNOT PROVED: p1: gone\n");
        let one = AcknowledgedNow { acknowledged: vec!["p2: was gone".into()], unproved: Vec::new() };
        assert_eq!(render(&one), "acknowledged: p2: was gone\n");
    }
}
