use std::process::ExitCode;

use miette::miette;
use xoff_config::quantity;
use xoff_config::written::{counted, grouped};
use xoff_lab::line::Carried;
use xoff_lab::line::impairment::parse_percent;
use xoff_lab::network::NetworkStatus;
use xoff_lab::network::account::table;
use xoff_lab::network::control::{self, Request, RestartRequest, ask};
use xoff_lab::network::links::{self, DirectionStatus, LinkChange, LinkStatus, Refusal};
use xoff_lab::network::view::{Restart, RestartedPart};

use xoff_wire::units::BitRate;

use super::{LabArgs, look};
use crate::cli;

#[derive(Debug, clap::Args)]
pub struct LinkArgs {
    #[command(flatten)]
    which: LabArgs,
    /// Link, by port (s1:h1), ends (h1-s1, s1:port-s2) or node with one link [default: show all].
    link: Option<String>,
    /// Line rate, such as 100M, at most the file's; adapts the ports' headroom.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    speed: Option<u64>,
    /// One-way delay, such as 5ms.
    #[arg(long, value_name = "TIME", value_parser = time)]
    delay: Option<u64>,
    /// Maximum additional delay; frames keep their order.
    #[arg(long, value_name = "TIME", value_parser = time)]
    jitter: Option<u64>,
    /// Share of lost frames, such as 0.1%.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    loss: Option<u32>,
    /// Apply delay, jitter and loss also to MAC control frames.
    #[arg(long, value_name = "BOOL")]
    mac_control: Option<bool>,
    /// Change only frames sent by this node [default: both directions].
    #[arg(long, value_name = "NODE")]
    from: Option<String>,
    /// Take the link down, as if its cable were pulled.
    #[arg(long, conflicts_with = "up")]
    down: bool,
    /// Take the link up again.
    #[arg(long)]
    up: bool,
}

fn time(text: &str) -> Result<u64, String> {
    let time = quantity::parse_time(text).map(|time| time.0);
    time.ok_or_else(|| "give a time with its unit, such as 5ms or 200us".into())
}

fn rate(text: &str) -> Result<u64, String> {
    let rate = quantity::parse_rate(text).map(|rate| rate.bits_per_second());
    rate.ok_or_else(|| "give a rate from 1M to 1.6T, such as 100M".into())
}

fn percent(text: &str) -> Result<u32, String> {
    parse_percent(text).ok_or_else(|| "give a share from 0% to 100%, such as 0.1%".into())
}

impl LinkArgs {
    fn change(&self) -> LinkChange {
        LinkChange {
            from: self.from.clone(),
            speed_bits_per_second: self.speed,
            delay_ns: self.delay,
            jitter_ns: self.jitter,
            loss_per_billion: self.loss,
            mac_control: self.mac_control,
            down: (self.down || self.up).then_some(self.down),
        }
    }
}

pub(super) fn link(args: &LinkArgs) -> miette::Result<ExitCode> {
    let lab = control::choose(args.which.lab.as_deref())?;
    let status: NetworkStatus = ask(&lab, Request::Status)?;
    let link = args.link.as_deref().map(|link| look::find(&lab, &status.links, link)).transpose()?;
    let change = args.change();
    if change == LinkChange::default() {
        cli::print(text(&status.links, link))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(link) = link else {
        return Err(miette!(help = "`xoff lab link` lists the links", "no link was given"));
    };
    let warnings: Result<Vec<String>, Refusal> = ask(&lab, Request::Link(link, change))?;
    for warning in warnings.map_err(report)? {
        cli::tell(format_args!("warning: {warning}"));
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn restart(lab: &str, node: &str, agent_only: bool) -> miette::Result<ExitCode> {
    let request = RestartRequest { node: node.to_owned(), agent_only };
    let restart: Result<Restart, Refusal> = ask(lab, Request::Restart(request))?;
    let Restart { part, queued, arrived_meanwhile, programs, queue_dropped, failed, .. } =
        restart.map_err(report)?;
    let lost = [(queued, "queued"), (queue_dropped, "dropped by full queues before the restart")];
    let lost = lost.into_iter().filter(|(count, _)| *count > 0);
    let lost: String = lost.map(|(count, how)| format!("; lost: {} frames {how}", grouped(count))).collect();
    cli::print(match part {
        RestartedPart::Switch => format!(
            "{node} runs again; lost: {} frames queued in it, {} frames that arrived meanwhile\n",
            grouped(queued),
            grouped(arrived_meanwhile)
        ),
        RestartedPart::Host => {
            let ended = counted(programs, "program", "programs");
            format!("{node} runs again; ended: {ended}{lost}\n")
        }
        RestartedPart::Agent => format!("the agent of {node} runs again{lost}\n"),
    })?;
    failed.iter().for_each(|failed| cli::tell(format_args!("FAILED: {failed}")));
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(cli::EXIT_CANNOT) })
}

fn report(refusal: Refusal) -> miette::Report {
    match refusal.help {
        Some(help) => miette!(help = help, "{}", refusal.message),
        None => miette!("{}", refusal.message),
    }
}

fn text(links: &[LinkStatus], shown: Option<usize>) -> String {
    let links = links.iter().zip(links::names(links)).enumerate();
    let links = links.filter(|(index, _)| shown.is_none_or(|shown| shown == *index));
    let (mut rows, mut failures) = (Vec::new(), String::new());
    for (_, (link, name)) in links {
        let name = |end: usize| if end == 0 { name.clone() } else { String::new() };
        let state = |end: usize| if end == 0 && link.downs.is_down { "DOWN, " } else { "" };
        let row = move |end: usize, direction: Option<&DirectionStatus>| {
            let mut row = vec![name(end), link.ends[end].node.clone()];
            let settings = direction.map_or("no delay line".into(), |it| it.impairment.text());
            let rate = link.sending_bits_per_second.and_then(|rates| BitRate::new(rates[end]));
            let rate = rate.map_or(String::new(), |rate| format!("speed {}, ", quantity::rate(rate)));
            row.push(format!("{}{rate}{settings}", state(end)));
            row.extend(direction.map_or(Default::default(), |direction| counts(&direction.carried)));
            row
        };
        match &link.line {
            None if link.sending_bits_per_second.is_some() => rows.extend([row(0, None), row(1, None)]),
            None => rows.push(row(0, None)),
            Some(line) => rows.extend([row(0, Some(&line[0])), row(1, Some(&line[1]))]),
        }
        if let Some(failure) = link.failure_text() {
            failures += &format!("FAILED: {failure}; end the lab and start it again\n");
        }
    }
    let table = table(
        &["link", "frames from", "settings", "frames sent", "queued", "lost", "late, mean and maximum"],
        rows.into_iter(),
    );
    table + &failures
}

fn counts(carried: &Carried) -> [String; 4] {
    let lost = [
        ("on purpose", carried.lost_on_purpose.total()),
        ("taken down", carried.lost_taken_down.total()),
        ("link down", carried.lost_link_down.total()),
        ("line full", carried.lost_line_full.total()),
        ("unseen", carried.lost_unseen),
    ];
    let lost = lost.into_iter().filter(|(_, count)| *count > 0);
    let lost: Vec<String> = lost.map(|(why, count)| format!("{why} {}", grouped(count))).collect();
    let micros = |ns: u64| format!("{} us", grouped(ns / 1_000));
    let mean = carried.late_ns_total / carried.frames.max(1);
    [
        grouped(carried.frames),
        grouped(carried.waiting),
        if lost.is_empty() { "0".into() } else { lost.join(", ") },
        format!("{}, {}", micros(mean), micros(carried.late_ns_max)),
    ]
}
