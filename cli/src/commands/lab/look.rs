use std::io::{self, IsTerminal as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use miette::IntoDiagnostic as _;

use crate::cli;
use xoff_lab::display;
use xoff_lab::network::control::{Request, ask};
use xoff_lab::network::links::{self, LinkStatus};
use xoff_lab::network::view::Description;
use xoff_lab::network::{NetworkError, NetworkStatus};

const CLEAR_SCREEN: &str = "\x1b[H\x1b[2J";
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

pub(super) fn status(lab: &str, watch: Option<Duration>, json: bool) -> miette::Result<ExitCode> {
    let mut before: Option<NetworkStatus> = None;
    loop {
        let now: NetworkStatus = ask(lab, Request::Status)?;
        let clear = if watch.is_some() && !json && io::stdout().is_terminal() { CLEAR_SCREEN } else { "" };
        let text = if json {
            serde_json::to_string(&now).into_diagnostic()? + "\n"
        } else {
            clear.to_owned() + &display::text(&now, before.as_ref())
        };
        let (ControlFlow::Continue(()), Some(period)) = (cli::print_more(text)?, watch) else {
            let is_whole = !now.hosts.iter().any(|host| host.lacks_agent() || host.lost_namespace.is_some());
            return Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(cli::EXIT_CANNOT) });
        };
        before = Some(now);
        sleep(period);
    }
}

pub(super) fn graph(lab: &str, output: Option<&Path>) -> miette::Result<ExitCode> {
    if let Some(path) = output.filter(|path| path.extension().is_some_and(|extension| extension != "svg")) {
        return Err(NetworkError::NotSvg { file: path.display().to_string() }.into());
    }
    let before: NetworkStatus = ask(lab, Request::Status)?;
    sleep(BETWEEN_LOOKS);
    let svg = display::svg(&ask(lab, Request::Status)?, Some(&before));
    match output {
        None => cli::print(svg)?,
        Some(path) => {
            std::fs::write(path, svg).map_err(NetworkError::io(format!("write {}", path.display())))?
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the node and the command that capture `link`.
///
/// The command is `xoff capture` at the switch whose port `link` names, or at the first switch of a link between two;
/// else it is `tcpdump` at the link's host.
pub(super) fn capture_command(
    network: &Description,
    link: &str,
    file: &str,
) -> Result<(String, Vec<String>), NetworkError> {
    let found = &network.links[find(&network.name, &network.links, link)?];
    let named = found.ends.iter().find(|end| end.is_switch && link == format!("{}:{}", end.node, end.port));
    let end = named.or_else(|| found.ends.iter().find(|end| !end.is_switch)).unwrap_or(&found.ends[0]);
    let command = match end.is_switch {
        true => {
            let this = std::env::current_exe().map_err(NetworkError::io("find this program"))?;
            vec![
                this.to_string_lossy().into_owned(),
                "capture".into(),
                end.port.clone(),
                "-w".into(),
                file.into(),
            ]
        }
        false => ["tcpdump", "-i", &end.port, "-U", "-w", file].map(str::to_owned).into(),
    };
    Ok((end.node.clone(), command))
}

pub(super) fn find(lab: &str, links: &[LinkStatus], link: &str) -> Result<usize, NetworkError> {
    let names = links::names(links);
    let (lab, link_name) = (lab.to_owned(), link.to_owned());
    match links::find(links, link)[..] {
        [found] => Ok(found),
        [] => Err(NetworkError::NoLink { lab, link: link_name, links: names.join(", ") }),
        ref several => {
            let names: Vec<&str> = several.iter().map(|index| names[*index].as_str()).collect();
            Err(NetworkError::AmbiguousLink { lab, link: link_name, links: names.join(", ") })
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use xoff_lab::network::links::{Downs, EndStatus};

    #[test] // proves: lab-account
    fn lab_capture_of_link_runs_at_its_host() {
        let end = |node: &str, port: &str| EndStatus {
            node: node.into(),
            port: port.into(),
            is_switch: node.starts_with('s'),
        };
        let link = |ends| LinkStatus {
            ends,
            speed_bits_per_second: 1,
            sending_bits_per_second: None,
            line: None,
            failure: None,
            downs: Downs::default(),
        };
        let network = Description {
            name: "n".into(),
            variables: Default::default(),
            guests: Default::default(),
            lost_namespaces: Default::default(),
            page: None,
            entrances: Default::default(),
            links: vec![
                link([end("h1", "eth0"), end("s1", "h1")]),
                link([end("s1", "s2"), end("s2", "s1")]),
                link([end("h2", "eth0"), end("s2", "h2")]),
                link([end("h2", "eth1"), end("s1", "h2")]),
            ],
        };
        let at = |link: &str| {
            let (node, command) = capture_command(&network, link, "file")?;
            Ok::<_, NetworkError>(node + " " + &command[1..].join(" "))
        };
        for link in ["h1", "h1-s1", "s1-h1", "h1:eth0"] {
            assert_eq!(at(link).unwrap(), "h1 -i eth0 -U -w file", "{link}");
        }
        assert_eq!(at("h2:eth1").unwrap(), "h2 -i eth1 -U -w file");
        assert!(
            matches!(at("h2"), Err(NetworkError::AmbiguousLink { .. })),
            "the name of a host with two links must select no link"
        );
        assert_eq!(at("s1:h1").unwrap(), "s1 capture h1 -w file");
        assert_eq!(at("s2-s1").unwrap(), "s1 capture s2 -w file");
        assert_eq!(at("s2:s1").unwrap(), "s2 capture s1 -w file");
    }
}
