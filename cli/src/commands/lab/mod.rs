//! `xoff lab`: a network from one file.

mod background;
mod check;
mod graph;
mod keep;
mod look;
mod screen;

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command as Program, ExitCode};
use std::time::Duration;

use clap::Subcommand;
use miette::IntoDiagnostic as _;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use xoff_config::{Machine, OwnPolicy};
use xoff_lab::config::Network;

use crate::cli;
use xoff_lab::network::control::{self, Request};
use xoff_lab::network::names::Entrance;
use xoff_lab::network::seen::Description;
use xoff_lab::network::{Account, NetworkError, enter};
use xoff_switch::machine;

/// A network of hosts and switches from one file: any programs run on its hosts, and every frame is accounted for.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the file of a network, and print the memory that it takes.
    Check {
        /// The network, a TOML file.
        file: PathBuf,
    },
    /// Make a network, run a command, take the network down, and print the account of every frame. Exits as the command does
    /// where that fails, else with 0 where nothing lossless was lost, with 1 where something was, and with 3 where that is not proved;
    /// with 2 where the network cannot be made.
    Run {
        /// The network, a TOML file.
        file: PathBuf,
        /// Print the account as one JSON object on standard output; what the command writes there goes to standard error.
        #[arg(long)]
        json: bool,
        /// The command and its arguments. It runs where this command does; `xoff lab exec` takes it to a node.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Make a network that stays until `xoff lab down`, in the background, and print its name.
    Up {
        /// The network, a TOML file.
        file: PathBuf,
    },
    /// Run a command at a node: with this terminal, directory and environment, and with its exit code.
    Exec {
        #[command(flatten)]
        which: Which,
        /// A host or a switch.
        node: String,
        /// The command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// End a network: its programs, switches, devices; and print the account, with exit codes as for `run`.
    Down {
        /// Its name; not needed where only one is up.
        #[arg(env = "XOFF_LAB")]
        name: Option<String>,
        /// Print the account as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show all nodes of a network on one screen: traffic, pauses, drops, and who holds whom.
    Status {
        #[command(flatten)]
        which: Which,
        /// Show again and again, with rates, every second or as often as given (2s, 500ms).
        #[arg(long, value_name = "PERIOD", num_args = 0..=1, require_equals = true, default_missing_value = "1s", value_parser = super::status::period)]
        watch: Option<Duration>,
        /// Print everything as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Draw a network as SVG, with rates of a second, pauses, and who holds whom.
    Graph {
        #[command(flatten)]
        which: Which,
        /// Where to; standard output where nothing is said.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Capture the frames of a link, both ways and pauses too: `xoff lab pcap h1 -w - | tshark -r -`. At a host by tcpdump; at a
    /// switch, where its port is named or both ends are switches, by `xoff capture`.
    Pcap {
        #[command(flatten)]
        which: Which,
        /// A host, a port of a switch (s1:h1), or two nodes (h1-s1).
        link: String,
        /// The file to write, or - for standard output.
        #[arg(short, value_name = "FILE", default_value = "-")]
        write: String,
        /// What else tcpdump or `xoff capture` is told: a filter, for example, or `--class 3`.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Show the networks that are up.
    List,
    /// Hold a network in the background.
    #[command(hide = true)]
    Keep { file: PathBuf },
    /// Become a program that ends with its parent.
    #[command(hide = true)]
    Child {
        #[arg(long)]
        parent: i32,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}

/// Which network is meant.
#[derive(Debug, clap::Args)]
struct Which {
    /// The network's name; not needed where only one is up.
    #[arg(long, value_name = "NAME", env = "XOFF_LAB")]
    lab: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// What kept it from that.
pub fn run(args: &Args, own: Option<&OwnPolicy>) -> miette::Result<ExitCode> {
    match &args.command {
        Command::Check { file } => {
            let machine = here(own);
            cli::print(check::text(&load(file, &machine)?, &machine))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Run { file, json, command } => keep::run(load(file, &here(own))?, command, *json),
        Command::Up { file } => {
            // What is wrong with the file is said here, where colours are.
            let network = load(file, &here(own))?;
            background::start(&network, file)?;
            cli::print(network.name + "\n")?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Keep { file } => background::keep(|| load(file, &here(own))),
        Command::Exec { which, node, command } => exec(which, node, command).map(ExitCode::from),
        Command::Down { name, json } => {
            let name = control::choose(name.as_deref())?;
            let account: Account = control::ask(&name, Request::Down)?;
            keep::print(&account, *json)?;
            Ok(cli::exit_code(account.verdict.promise))
        }
        Command::Status { which, watch, json } => {
            look::status(&control::choose(which.lab.as_deref())?, *watch, *json)
        }
        Command::Graph { which, output } => {
            look::graph(&control::choose(which.lab.as_deref())?, output.as_deref())
        }
        Command::Pcap { which, link, write, arguments } => {
            let lab = control::choose(which.lab.as_deref())?;
            let description: Description = control::ask(&lab, Request::Describe)?;
            let (node, mut command) = look::seen_at(&description, link, write)?;
            command.extend(arguments.iter().cloned());
            // The file is to be written where the command is given.
            at_node(description, &node, enter::enter_network, &command).map(ExitCode::from)
        }
        Command::List => {
            control::all().into_iter().try_for_each(|name| cli::print(name + "\n"))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Child { parent, command } => {
            prctl::set_pdeathsig(Signal::SIGKILL).into_diagnostic()?;
            // Who had ended before that sends no signal.
            if getppid().as_raw() != *parent {
                return Ok(ExitCode::from(cli::EXIT_CANNOT));
            }
            Ok(ExitCode::from(take_place(command)))
        }
    }
}

/// This machine with the memory that other programs leave. Devices of the network's names outside of it are others.
fn here(own: Option<&OwnPolicy>) -> Machine {
    let memory = machine::available_memory();
    Machine { memory, own_policy: own.cloned(), ..machine::here().without_networks() }
}

fn load(file: &std::path::Path, machine: &Machine) -> Result<Network, NetworkError> {
    let network = Network::load(file, machine)?;
    for warning in &network.warnings {
        cli::tell(format_args!("warning: {warning}"));
    }
    Ok(network)
}

/// Becomes the command at the node.
fn exec(which: &Which, node: &str, command: &[String]) -> miette::Result<u8> {
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
    command: &[String],
) -> miette::Result<u8> {
    let lab = description.name;
    let Some(entrance) = description.entrances.get(node) else {
        let known: Vec<String> = description.entrances.into_keys().collect();
        return Err(NetworkError::NoNode { lab, node: node.to_owned(), known: known.join(", ") }.into());
    };
    enter(entrance).map_err(NetworkError::io(format!("enter {node} of lab {lab}")))?;
    let (program, arguments) = command.split_first().expect("clap requires one");
    let mut program = Program::new(program);
    program.args(arguments).envs(&description.variables).env("XOFF_NODE", node);
    Ok(failed(&program.exec(), command))
}

/// Becomes `command`.
fn take_place(command: &[String]) -> u8 {
    let (program, arguments) = command.split_first().expect("clap requires one");
    failed(&Program::new(program).args(arguments).exec(), command)
}

fn failed(error: &std::io::Error, command: &[String]) -> u8 {
    cli::tell(format_args!("xoff: cannot run {}: {error}", command[0]));
    enter::exit_code_of(error)
}
