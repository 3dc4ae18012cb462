//! Runs a network until its end: creates it, answers clients, and counts where its frames went.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitCode, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use miette::IntoDiagnostic as _;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use xoff_config::LogFormat;
use xoff_lab::config::Network;

use crate::cli;
use xoff_lab::display;
use xoff_lab::network::control::{self, Claim, Event, RestartRequest};
use xoff_lab::network::view::Description;
use xoff_lab::network::{Account, NetworkError, NetworkView, RunningNetwork, enter, leftovers};
use xoff_switch::confine::Confinement;
use xoff_switch::control::ControlHandle;
use xoff_switch::control::logging::{self, Log};

const LOG: &str = "warn";
const TERM_WITHIN: Duration = leftovers::TERM_WITHIN;
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Kept {
    // Drop the web page first, because its thread reads counters that are dropped with the network.
    _page: Option<ControlHandle>,
    up: RunningNetwork,
    events: Receiver<Event>,
    tell: mpsc::Sender<Event>,
    // Drop the claim last: until then no other network may take the name.
    _claim: Claim,
    _log: Log,
}

impl Kept {
    pub(super) fn new(network: Network) -> miette::Result<Kept> {
        let log = logging::start(LOG, LogFormat::Text, &Confinement::default()).into_diagnostic()?;
        let mut signals = Signals::new(cli::ending_signals()).into_diagnostic()?;
        let claim = Claim::of(&network.name)?;
        for name in leftovers::sweep() {
            cli::tell(format_args!("removed leftovers of lab {name}, which was killed"));
        }
        let name = network.name.clone();
        let mut is_stopped = || signals.pending().next().is_some();
        let up = RunningNetwork::new(network, &mut is_stopped)?;
        if is_stopped() {
            return Err(NetworkError::Stopped { name }.into());
        }
        let page = display::serve(up.view());
        let page = page
            .inspect_err(|error| cli::tell(format_args!("warning: this lab has no web page: {error}")))
            .ok();
        let page = page.map(|(page, url)| {
            let _ = up.view().page.set(url); // the first and only value
            page
        });
        let (tell, events) = mpsc::channel();
        claim.answer(up.view().clone(), tell.clone())?;
        let to = tell.clone();
        spawn(move || _ = signals.forever().try_for_each(|signal| to.send(Event::Signal(signal))))?;
        let watched = Arc::downgrade(up.view());
        spawn(move || report_lost_namespaces(&watched))?;
        Ok(Kept { _page: page, up, events, tell, _claim: claim, _log: log })
    }

    pub(super) fn until_down(mut self) -> Account {
        loop {
            match self.events.recv() {
                Ok(Event::Restart(client, request)) => self.restart(&client, &request),
                Ok(Event::Down(client)) => return self.end(vec![client]),
                _ => return self.end(Vec::new()),
            }
        }
    }

    fn restart(&mut self, client: &UnixStream, request: &RestartRequest) {
        let _ = control::reply(client, &self.up.restart(&request.node, request.agent_only)); // fails if the client is gone
    }

    fn end(self, mut clients: Vec<UnixStream>) -> Account {
        drop(self._page);
        let account = self.up.down();
        // Free the name before the clients get their reply, because they may then start the network again.
        drop(self._claim);
        clients.extend(self.events.try_iter().filter_map(|event| match event {
            Event::Down(stream) => Some(stream),
            _ => None,
        }));
        for stream in clients {
            let _ = control::reply(&stream, &account); // fails if the client is gone
        }
        account
    }

    fn description(&self) -> Description {
        self.up.view().description()
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), NetworkError> {
    xoff_xdp::spawn(work).map(drop).map_err(NetworkError::io("start a thread"))
}

pub(super) fn run(
    network: Network,
    node: Option<&str>,
    command: &[OsString],
    json: bool,
) -> miette::Result<ExitCode> {
    let nodes = network.nodes_of_programs();
    if let Some(node) = node.filter(|node| !nodes.iter().any(|name| name == node)) {
        let (lab, node) = (network.name, node.to_owned());
        return Err(match network.hosts.iter().any(|host| host.name == node) {
            true => NetworkError::Guest { host: node },
            false => NetworkError::NoNode { lab, node, nodes: nodes.join(", ") },
        }
        .into());
    }
    let mut kept = Kept::new(network)?;
    let Description { variables, page, .. } = kept.description();
    tell_page(page.as_deref());
    let mut child = start(node, command, json, &variables)?;
    let pid = Pid::from_raw(i32::try_from(child.id()).into_diagnostic()?);
    let tell = kept.tell.clone();
    spawn(move || {
        // Leave the ended process as a zombie (WNOWAIT), so that signals to its PID reach no other process.
        let _ = waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        let _ = tell.send(Event::Ended); // fails if the receiver is gone
    })?;
    let mut down = Vec::new();
    let mut kill_at: Option<Instant> = None;
    let mut was_signalled = false;
    loop {
        let within = kill_at.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        match kept.events.recv_timeout(within) {
            Ok(Event::Signal(SIGINT)) if terminal_sends_sigint() => {}
            Ok(Event::Signal(_)) if was_signalled => _ = kill(pid, Signal::SIGKILL),
            Ok(Event::Signal(signal)) => {
                was_signalled = true;
                let _ = kill(pid, Signal::try_from(signal).unwrap_or(Signal::SIGTERM));
            }
            Ok(Event::Restart(client, request)) => kept.restart(&client, &request),
            Ok(Event::Down(stream)) => {
                down.push(stream);
                kill_at.get_or_insert_with(|| {
                    // Continue the command: a stopped process does not handle SIGTERM.
                    [Signal::SIGTERM, Signal::SIGCONT].into_iter().for_each(|signal| _ = kill(pid, signal));
                    Instant::now() + TERM_WITHIN
                });
            }
            Err(RecvTimeoutError::Timeout) => {
                let _ = kill(pid, Signal::SIGKILL);
                kill_at = None;
            }
            Ok(Event::Ended) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let code = child.wait().map_or(1, exit_code);
    let account = kept.end(down);
    print(&account, json)?;
    let mut words = command.iter().filter_map(|word| word.to_str());
    let named = words.find(|word| node.is_none() && code != 0 && nodes.iter().any(|name| name == word));
    if let Some(named) = named {
        cli::tell(format_args!(
            "note: the command ran outside of all nodes, where the name {named} is unknown; `xoff lab run --on {}` runs it at a node",
            nodes[0]
        ));
    }
    Ok(if code == 0 { cli::exit_code(account.verdict.promise) } else { ExitCode::from(code) })
}

fn report_lost_namespaces(view: &Weak<NetworkView>) {
    let mut reported = BTreeSet::new();
    while let Some(lost) = view.upgrade().map(|view| view.lost_namespaces()) {
        for (host, reason) in lost {
            if reported.insert(host) {
                tracing::error!("{reason}; end the lab and start it again");
            }
        }
        thread::sleep(LOOK_EVERY);
    }
}

pub(super) fn tell_page(page: Option<&str>) {
    page.into_iter().for_each(|page| cli::tell(format_args!("page: {page}")));
}

pub(super) fn print(account: &Account, json: bool) -> miette::Result<()> {
    if json {
        return cli::print(serde_json::to_string(account).into_diagnostic()? + "\n");
    }
    cli::tell(account.text().trim_end());
    Ok(())
}

fn start(
    node: Option<&str>,
    command: &[OsString],
    json: bool,
    variables: &BTreeMap<String, String>,
) -> Result<Child, NetworkError> {
    let what = || NetworkError::io(format!("run {}", command[0].display()));
    let mut child = enter::child(node);
    child.args(command).envs(variables);
    if json {
        child.stdout(std::io::stderr().as_fd().try_clone_to_owned().map_err(what())?);
    }
    child.spawn().map_err(what())
}

/// Returns whether this process is in the terminal's foreground group, to which the terminal
/// sends SIGINT.
fn terminal_sends_sigint() -> bool {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields after the name are state, parent, process group, session, terminal and foreground process group.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, after)| after).split_whitespace().collect();
    matches!(fields[..], [_, _, group, _, _, foreground, ..] if group == foreground)
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
