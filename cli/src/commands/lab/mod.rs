mod background;
mod check;
mod keep;
mod links;
mod look;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, ExitCode};
use std::time::Duration;

use clap::Subcommand;
use miette::{IntoDiagnostic as _, miette};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use xoff_config::written::folded;
use xoff_config::{ConfigError, Machine, OwnPolicy, Problem};
use xoff_lab::config::{Network, START};

use crate::cli;
use crate::commands::check::{print_errors, print_json};
use crate::commands::reload;
use xoff_lab::network::control::{self, Request};
use xoff_lab::network::names::Entrance;
use xoff_lab::network::view::Description;
use xoff_lab::network::{Account, NetworkError, enter};
use xoff_switch::control::reload::Reloaded;
use xoff_switch::machine;

const LIST_WAIT: Duration = Duration::from_secs(1);

/// Run a network of hosts and switches from one file.
///
/// The hosts can run any programs, and every frame is accounted for.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Write a commented network file to start from.
    Init {
        /// File to write.
        #[arg(default_value = "lab.toml")]
        file: PathBuf,
    },
    /// Check a network file and print the memory that the network needs.
    Check {
        /// Network file (TOML) [default: two hosts and a switch].
        file: Option<PathBuf>,
        /// Print one JSON object with every setting of the switches.
        #[arg(long)]
        json: bool,
    },
    /// Run a command in a temporary network.
    ///
    /// Example: xoff lab run --on h1 -- ping -c 3 h2
    ///
    /// Creates the network, runs the command, takes the network down, and prints the outcome of every frame. Exits
    /// with 2 if the network cannot be created, with the command's code if the command fails, with 1 if a lossless
    /// frame was lost, and with 3 if that is unknown.
    Run {
        /// Network file (TOML) [default: two hosts and a switch].
        file: Option<PathBuf>,
        /// Run the command at this host or switch [default: outside of all nodes].
        #[arg(long, value_name = "NODE")]
        on: Option<String>,
        /// Print where all frames went, as one JSON object.
        ///
        /// The object goes to standard output, and the command's output to standard error.
        #[arg(long)]
        json: bool,
        /// Command and its arguments.
        ///
        /// Without --on, the command can run further commands at nodes by `xoff lab exec`.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Start a network in the background and print its name.
    ///
    /// The network runs until `xoff lab down`.
    Up {
        /// Network file (TOML) [default: two hosts and a switch].
        file: Option<PathBuf>,
    },
    /// Run a command at a node.
    ///
    /// The command has this terminal, directory and environment, without XOFF_URL; its exit code is returned.
    Exec {
        #[command(flatten)]
        which: LabArgs,
        /// Host or switch where the command runs.
        node: String,
        /// Command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Take a network down and print where all frames went.
    ///
    /// Ends the network's programs, switches and devices. Exits with 0 if no lossless frame was lost, with 1 if one
    /// was, and with 3 if that is unknown.
    Down {
        #[command(flatten)]
        which: LabArgs,
        /// Print where all frames went, as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Reload the settings of all switches from the network's file.
    ///
    /// Hosts and links must not change. If one switch refuses, no switch changes, and the exit code is 2.
    Reload {
        #[command(flatten)]
        which: LabArgs,
        /// Change nothing: print the changes, or why they are impossible.
        #[arg(long)]
        dry_run: bool,
    },
    /// Show all nodes: traffic, pauses and their causes, drops.
    Status {
        #[command(flatten)]
        which: LabArgs,
        /// Refresh with rates every PERIOD, such as 500ms [default: 1s].
        #[arg(long, value_name = "PERIOD", num_args = 0..=1, require_equals = true, default_missing_value = "1s", value_parser = super::status::period)]
        watch: Option<Duration>,
        /// Print everything as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Draw a network as SVG: rates over one second, pauses and causes.
    Graph {
        #[command(flatten)]
        which: LabArgs,
        /// Output file [default: standard output].
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Capture the frames of a link, both directions, with pauses.
    ///
    /// Example: xoff lab capture h1 -w - | tshark -r -
    ///
    /// Runs tcpdump at a host, or `xoff capture` at a switch if a switch port is named or both ends are switches.
    Capture {
        #[command(flatten)]
        which: LabArgs,
        /// Host, switch port (s1:h1), or two nodes (h1-s1).
        link: String,
        /// Output file, or - for standard output.
        #[arg(long, short = 'w', value_name = "FILE", default_value = "-")]
        out: String,
        /// Further arguments of tcpdump or `xoff capture`, such as a filter.
        #[arg(last = true)]
        arguments: Vec<OsString>,
    },
    /// Show or change links: delay, jitter, loss; pull and plug cables.
    ///
    /// Example: xoff lab link s1-s2 --delay 5ms --loss 0.1%
    ///
    /// Delay, jitter and loss need a link to which the network's file gives one of these keys.
    Link(links::LinkArgs),
    /// Restart a switch, or the programs and agent of a host.
    Restart {
        #[command(flatten)]
        which: LabArgs,
        /// Host or switch to restart.
        node: String,
        /// Restart only the agent of a host.
        #[arg(long)]
        agent: bool,
    },
    /// List the networks that are up, with the addresses of their pages.
    List,
    /// Run a network in this process, the background process of `xoff lab up`.
    #[command(hide = true)]
    Keep { file: Option<PathBuf> },
    /// Run a program that ends with its parent.
    #[command(hide = true)]
    Child {
        #[command(flatten)]
        which: LabArgs,
        #[arg(long)]
        parent: i32,
        #[arg(long)]
        on: Option<String>,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

#[derive(Debug, clap::Args)]
struct LabArgs {
    /// Name of the network; optional if only one is up.
    #[arg(long, value_name = "NAME", env = "XOFF_LAB")]
    lab: Option<String>,
}

pub fn run(args: &Args, own: Option<&OwnPolicy>) -> miette::Result<ExitCode> {
    match &args.command {
        LabCommand::Init { file } => {
            init(file)?;
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::Check { file, json: true } => {
            let (machine, name) = (here(own), label(file.as_deref()));
            match read(file.as_deref(), &machine) {
                Ok(network) => print_json(&check::view(&name, &network, &machine))?,
                Err(error) => return print_errors(&name, &error),
            }
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::Check { file, json: false } => {
            let machine = here(own);
            let network = load(file.as_deref(), &machine)?;
            print_remarks("note", &network.notes, file.as_deref());
            cli::print(check::text(&network, &machine))?;
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::Run { file, on, json, command } => {
            keep::run(load(file.as_deref(), &here(own))?, on.as_deref(), command, *json)
        }
        LabCommand::Up { file } => {
            // Check the file in this process, which has a terminal, so that errors are printed in colour.
            let network = load(file.as_deref(), &here(own))?;
            background::start(&network, file.as_deref())?;
            let Description { page, .. } = control::ask(&network.name, Request::Describe)?;
            keep::tell_page(page.as_deref());
            cli::print(network.name + "\n")?;
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::Keep { file } => background::keep(|| load(file.as_deref(), &here(own))),
        LabCommand::Exec { which, node, command } => exec(which, node, command).map(ExitCode::from),
        LabCommand::Down { which, json } => {
            let name = control::choose(which.lab.as_deref())?;
            let account: Account = control::ask(&name, Request::Down)?;
            keep::print(&account, *json)?;
            Ok(cli::exit_code(account.verdict.promise))
        }
        LabCommand::Reload { which, dry_run } => {
            let request = Request::Reload { dry_run: *dry_run };
            let outcome: Result<Vec<(String, Reloaded)>, String> =
                control::ask(&control::choose(which.lab.as_deref())?, request)?;
            for (switch, reloaded) in outcome.map_err(|why| miette!("{why}"))? {
                cli::print(format_args!("{switch}: {}", reload::render(&reloaded)))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::Status { which, watch, json } => {
            look::status(&control::choose(which.lab.as_deref())?, *watch, *json)
        }
        LabCommand::Graph { which, out } => {
            look::graph(&control::choose(which.lab.as_deref())?, out.as_deref())
        }
        LabCommand::Capture { which, link, out, arguments } => {
            cli::refuse_terminal(out)?;
            let lab = control::choose(which.lab.as_deref())?;
            let description: Description = control::ask(&lab, Request::Describe)?;
            let (node, command) = look::capture_command(&description, link, out)?;
            let command = command.into_iter().map(OsString::from).chain(arguments.iter().cloned());
            let command: Vec<OsString> = command.collect();
            // Enter only the network namespace of the node, so that the command uses the caller's file system.
            at_node(description, &node, enter::enter_network, &command).map(ExitCode::from)
        }
        LabCommand::Link(args) => links::link(args),
        LabCommand::Restart { which, node, agent } => {
            links::restart(&control::choose(which.lab.as_deref())?, node, *agent)
        }
        LabCommand::List => {
            for name in control::all() {
                let page = match control::ask_within::<Description>(LIST_WAIT, &name, Request::Describe) {
                    Err(NetworkError::Late { .. }) => "starting, or not answering".into(),
                    Ok(description) => description.page.unwrap_or_else(|| "no page".into()),
                    Err(error) => error.to_string(),
                };
                cli::print(format!("{name}  {page}\n"))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::Child { which, parent, on, command } => {
            prctl::set_pdeathsig(Signal::SIGKILL).into_diagnostic()?;
            // Compare the parent's PID: if the parent ended before `prctl`, the kernel sends no signal.
            if getppid().as_raw() != *parent {
                return Ok(ExitCode::from(cli::EXIT_CANNOT));
            }
            let code = match on {
                Some(node) => exec(which, node, command)?,
                None => take_place(command),
            };
            Ok(ExitCode::from(code))
        }
    }
}

/// Returns this machine's limits without its devices and namespaces, because a lab creates its own.
fn here(own: Option<&OwnPolicy>) -> Machine {
    Machine { own_policy: own.cloned(), ..machine::here().without_networks() }
}

fn read(file: Option<&Path>, machine: &Machine) -> Result<Network, ConfigError> {
    file.map_or_else(|| Network::start(machine), |file| Network::load(file, machine))
}

fn label(file: Option<&Path>) -> String {
    file.map_or_else(|| "the network without a file".to_owned(), |file| file.display().to_string())
}

fn load(file: Option<&Path>, machine: &Machine) -> Result<Network, NetworkError> {
    let network = read(file, machine)?;
    print_remarks("warning", &network.warnings, file);
    Ok(network)
}

fn print_remarks(kind: &str, remarks: &[Problem], file: Option<&Path>) {
    for (first, remark) in folded(remarks.iter().map(ToString::to_string)) {
        let place = remarks[first].position;
        let place =
            place.map_or_else(String::new, |(line, column)| format!("{}:{line}:{column}: ", label(file)));
        cli::tell(format_args!("{place}{kind}: {remark}"));
    }
}

fn init(file: &Path) -> Result<(), NetworkError> {
    let mut new = File::create_new(file).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => NetworkError::Written { file: file.display().to_string() },
        _ => NetworkError::io(format!("write {}", file.display()))(error),
    })?;
    new.write_all(START.as_bytes()).map_err(NetworkError::io(format!("write {}", file.display())))?;
    let file = file.display();
    cli::tell(format_args!("{file} written; try: xoff lab run {file} --on h1 -- ping -c 3 h2"));
    Ok(())
}

fn exec(which: &LabArgs, node: &str, command: &[OsString]) -> miette::Result<u8> {
    let lab = control::choose(which.lab.as_deref())?;
    let description: Description = control::ask(&lab, Request::Describe)?;
    if description.guests.contains(node) {
        return Err(NetworkError::Guest { host: node.to_owned() }.into());
    }
    at_node(description, node, enter::enter, command)
}

fn at_node(
    description: Description,
    node: &str,
    enter: impl FnOnce(&Entrance) -> io::Result<()>,
    command: &[OsString],
) -> miette::Result<u8> {
    let lab = description.name;
    let Some(entrance) = description.entrances.get(node) else {
        let names: Vec<String> = description.entrances.into_keys().collect();
        return Err(NetworkError::NoNode { lab, node: node.to_owned(), nodes: names.join(", ") }.into());
    };
    if let Some(reason) = description.lost_namespaces.get(node) {
        return Err(NetworkError::LostNamespace { reason: reason.clone() }.into());
    }
    enter(entrance).map_err(NetworkError::io(format!("enter {node} of lab {lab}")))?;
    let (program, arguments) = command.split_first().expect("clap must refuse an empty command");
    let mut program = Program::new(program);
    program.args(arguments).envs(&description.variables).env("XOFF_NODE", node);
    program.env_remove(cli::URL_VARIABLE); // it names a switch outside of the node
    Ok(failed(&program.exec(), command))
}

fn take_place(command: &[OsString]) -> u8 {
    let (program, arguments) = command.split_first().expect("clap must refuse an empty command");
    failed(&Program::new(program).args(arguments).exec(), command)
}

fn failed(error: &std::io::Error, command: &[OsString]) -> u8 {
    cli::tell(format_args!("xoff: cannot run {}: {error}", command[0].display()));
    enter::exit_code_of(error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        lab: Args,
    }

    #[test] // proves: lab-lifecycle
    fn lab_command_accepts_arguments_that_are_not_utf8() {
        let bytes = std::ffi::OsStr::from_bytes(b"\xe9 \xff");
        for line in ["lab run --", "lab exec h1 --", "lab child --parent 1 --", "lab capture h1 --"] {
            let line = line.split(' ').map(OsString::from).chain([bytes.to_owned()]);
            let command = match Cli::try_parse_from(line).map(|cli| cli.lab.command) {
                Ok(LabCommand::Run { command, .. } | LabCommand::Exec { command, .. }) => command,
                Ok(LabCommand::Child { command, .. }) => command,
                Ok(LabCommand::Capture { arguments, .. }) => arguments,
                other => panic!("{other:?}"),
            };
            assert_eq!(command, [bytes]);
        }
    }
}
