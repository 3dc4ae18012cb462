use std::time::Duration;

use miette::IntoDiagnostic as _;

use crate::cli::{URL_VARIABLE, print};
use xoff_switch::client::{self, DEFAULT_URL};
use xoff_switch::control::reload::{ReloadRequest, Reloaded, line};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Reload the configuration of a running switch.
///
/// The switch reads its file again and applies the changes; ports that stay lose no frame. If the file is invalid or
/// a change requires a restart, the problems are printed, nothing changes, and the exit code is 2.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Change nothing: print the changes, or why they are impossible.
    #[arg(long)]
    dry_run: bool,
    /// Address of the switch: a URL or unix:PATH.
    #[arg(long, value_name = "URL", env = URL_VARIABLE, default_value = DEFAULT_URL, value_parser = client::url)]
    url: String,
}

pub fn run(Args { dry_run, url }: &Args) -> miette::Result<()> {
    let request = ReloadRequest { dry_run: *dry_run };
    let answer =
        client::ask(url, TIMEOUT, |agent, base| agent.put(format!("{base}/reload")).send_json(request));
    print(render(&answer.into_diagnostic()?))
}

pub(super) fn render(Reloaded { dry_run, changes, warnings }: &Reloaded) -> String {
    let heading = match (changes.len(), dry_run) {
        (0, _) => "no changes in the configuration".to_owned(),
        (1, true) => "1 change would be made".to_owned(),
        (1, false) => "1 change was made".to_owned(),
        (count, true) => format!("{count} changes would be made"),
        (count, false) => format!("{count} changes were made"),
    };
    let changes = changes.iter().map(|change| format!("  {}\n", line(change)));
    let warnings = warnings.iter().map(|warning| format!("warning: {warning}\n"));
    std::iter::once(heading + "\n").chain(changes).chain(warnings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_switch::control::reload::Changed;

    #[test] // proves: reload
    fn reload_prints_each_change_on_a_line() {
        let none = Reloaded { dry_run: false, changes: Vec::new(), warnings: vec!["doubtful".into()] };
        assert_eq!(render(&none), "no changes in the configuration\nwarning: doubtful\n");
        let change = Changed { what: "switch.log".into(), before: "info".into(), after: "debug".into() };
        let one = Reloaded { dry_run: true, changes: vec![change], warnings: Vec::new() };
        assert_eq!(render(&one), "1 change would be made\n  switch.log: info -> debug\n");
        assert!(render(&Reloaded { dry_run: false, ..one }).starts_with("1 change was made\n"));
    }
}
