mod ask;
mod groups;
mod headroom;
pub(super) mod layout;
mod multicast;
mod neighbors;
mod pipeline;
mod policies;
mod routes;
#[cfg(feature = "screen")]
mod screen;
mod selection;
mod summary;
pub(super) mod tables;
mod views;

use std::collections::BTreeMap;
#[cfg(feature = "screen")]
use std::io::IsTerminal as _;
use std::io::{self, Write as _};
use std::thread::sleep;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Value, json};
use xoff_config::quantity;

pub use self::ask::StatusError;
pub(super) use self::ask::fetch;
use self::ask::{SwitchReply, ask};
#[cfg(feature = "screen")]
use self::screen::Look;
use self::selection::Selection;
use crate::cli::{URL_VARIABLE, number};
use xoff_switch::causes::Causes;
use xoff_switch::client::{DEFAULT_URL, url};
use xoff_switch::control::schema::schema;
use xoff_switch::control::status::{ClassStatus, Status};

const EXAMPLES: &str = "\
Examples:
  xoff status
  xoff status --watch --congested
  xoff status pauses --port p1 --port p2 --class 3
  xoff status drops --json | jq '.[].classes[] | {class, lost}'
  xoff status causes --url http://10.0.0.1:9464 --url http://10.0.0.2:9464";

/// Show a running switch: ports, classes, pauses, drops.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// View [default: a summary of everything].
    #[arg(value_enum)]
    what: Option<What>,
    /// Address of the switch. May be repeated.
    ///
    /// A URL or unix:PATH. [default: http://127.0.0.1:9464]
    #[arg(long, value_name = "URL", env = URL_VARIABLE, value_parser = url)]
    url: Vec<String>,
    /// Show all switches with a socket in /run/xoff, in any namespace.
    #[arg(long)]
    all: bool,
    /// Refresh with rates every PERIOD, such as 500ms [default: 1s].
    #[arg(long, value_name = "PERIOD", num_args = 0..=1, require_equals = true, default_missing_value = "1s", value_parser = period)]
    watch: Option<Duration>,
    /// Print JSON: the whole status, or its part that belongs to the view.
    #[arg(long)]
    json: bool,
    /// Print the graph of `causes` for Graphviz.
    #[arg(long, conflicts_with = "json")]
    dot: bool,
    /// Show only this port. May be repeated.
    #[arg(long, value_name = "NAME")]
    port: Vec<String>,
    /// Show only this class, 0 to 7. May be repeated.
    #[arg(long, value_name = "N", value_parser = number(0..=7_u8))]
    class: Vec<u8>,
    /// Show only congested, paused or recently paused classes.
    ///
    /// Recently means since the previous refresh.
    #[arg(long)]
    congested: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Ports: link, rates, pause frames, losses.
    Ports,
    /// Classes with traffic: rates, queues, pauses, headroom and drops.
    Classes,
    /// Pauses sent and received: number, duration, cause.
    Pauses,
    /// Frames dropped by the switch and by the kernel, by reason.
    Drops,
    /// Headroom of lossless classes: calculated need and observed use.
    Headroom,
    /// Neighbors (LLDP), their classes (DCBX), and mismatches with the port.
    Neighbors,
    /// Groups of ports: how they spread frames, and frames of each member.
    Groups,
    /// Multicast groups with their ports, queriers and router ports.
    Multicast,
    /// All MAC addresses, with their ports.
    Mac,
    /// Routes of the kernel, by which a routed switch forwards.
    Routes,
    /// Single-flow pauses (OFC): requested from peers, obeyed, and wanted by shadow policies.
    Flows,
    /// Causes of pauses across all queried switches, and cycles of pauses (deadlocks if they last).
    Causes,
    /// JSON Schema of /status and of `--json`; queries no switch.
    Schema,
}

impl What {
    fn is_of_ports(self) -> bool {
        !matches!(self, What::Routes | What::Multicast | What::Causes | What::Schema)
    }
}

pub fn run(args: &Args) -> Result<(), StatusError> {
    args.check()?;
    match show(args) {
        Err(StatusError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

#[cfg(feature = "screen")]
fn show(args: &Args) -> Result<(), StatusError> {
    match args.watch {
        Some(period) if io::stdout().is_terminal() && !args.json && !args.dot => screen::run(args, period),
        _ => print(args),
    }
}

#[cfg(not(feature = "screen"))]
fn show(args: &Args) -> Result<(), StatusError> {
    print(args)
}

fn print(args: &Args) -> Result<(), StatusError> {
    let mut past = Past::new();
    loop {
        let text = args.answer(&mut past)?;
        let mut out = io::stdout().lock();
        writeln!(out, "{}", text.trim_end())?;
        out.flush()?;
        let Some(period) = args.watch else { return Ok(()) };
        sleep(period);
    }
}

type Past = BTreeMap<String, Status>;

type Picked = (Status, Option<Status>);

impl Args {
    fn check(&self) -> Result<(), StatusError> {
        let of_classes =
            !matches!(self.what, Some(What::Mac | What::Groups)) && self.what.is_none_or(What::is_of_ports);
        let of_ports = self.what.is_none_or(What::is_of_ports);
        let of_switches = self.what != Some(What::Schema);
        let given = [
            ("--dot", self.dot, self.what == Some(What::Causes), "only `xoff status causes` is a graph"),
            ("--all", self.all, of_switches, "this view queries no switch"),
            ("--watch", self.watch.is_some(), of_switches, "this view never changes"),
            ("--port", !self.port.is_empty(), of_ports, "this view is not divided by ports"),
            ("--class", !self.class.is_empty(), of_classes, "this view is not divided by classes"),
            ("--congested", self.congested, of_classes, "this view is not divided by classes"),
        ];
        let meaningless = given.into_iter().find(|(_, is_given, has_meaning, _)| *is_given && !has_meaning);
        meaningless.map_or(Ok(()), |(option, _, _, why)| {
            let of = self.what.and_then(|what| what.to_possible_value());
            let of = of.map_or(String::new(), |what| format!(" {}", what.get_name()));
            Err(StatusError::Meaningless { option, of, why })
        })
    }

    fn answer(&self, past: &mut Past) -> Result<String, StatusError> {
        let selection = self.selection();
        if let (Some(url), None, true, true) = (self.only(), self.what, self.json, selection.is_everything())
        {
            return fetch(url); // unparsed
        }
        if self.what == Some(What::Schema) {
            return Ok(format!("{:#}", schema().as_value()));
        }
        let replies = self.ask()?;
        match self.what {
            Some(What::Causes) => self.causes(replies),
            _ if self.json => self.as_json(replies, past),
            _ => self.as_text(replies, past),
        }
    }

    #[cfg(feature = "screen")]
    fn look(&self, past: &mut Past) -> Result<Look, StatusError> {
        if self.what.is_some() {
            return Ok(Look::Text(self.answer(past)?));
        }
        // Select only ports here, because the screen itself selects classes and congested ports.
        let selection = Selection { ports: self.port.clone(), ..Selection::default() };
        let mut switches = Vec::new();
        for reply in self.ask()? {
            match (pick(reply, &selection, past), self.only()) {
                ((_, Err(error)), Some(_)) => return Err(error),
                (switch, _) => switches.push(switch),
            }
        }
        Ok(Look::Switches(switches))
    }

    fn ask(&self) -> Result<Vec<SwitchReply>, StatusError> {
        match self.only() {
            Some(url) => ask(&[url.to_owned()], false, self.what),
            None => ask(&self.url, self.all, self.what),
        }
    }

    fn only(&self) -> Option<&str> {
        match &self.url[..] {
            [] if !self.all => Some(DEFAULT_URL),
            [url] if !self.all => Some(url),
            _ => None,
        }
    }

    fn selection(&self) -> Selection {
        Selection { ports: self.port.clone(), classes: self.class.clone(), congested: self.congested }
    }

    fn as_text(&self, replies: Vec<SwitchReply>, past: &mut Past) -> Result<String, StatusError> {
        let text = |(status, before): Picked| match self.what {
            None => tables::render(&status, before.as_ref()),
            Some(what) => views::text(what, &status, before.as_ref()),
        };
        let mut texts = Vec::new();
        for reply in replies {
            let (url, picked) = pick(reply, &self.selection(), past);
            texts.push(match (picked, self.only()) {
                (picked, Some(_)) => text(picked?),
                (Ok(picked), None) => format!("{url}\n{}\n", text(picked).trim_end()),
                (Err(error), None) => format!("{error}\n"),
            });
        }
        Ok(texts.join("\n"))
    }

    fn as_json(&self, replies: Vec<SwitchReply>, past: &mut Past) -> Result<String, StatusError> {
        let value = |(status, _): Picked| match self.what {
            None => json!(status),
            Some(what) => views::json(what, &status),
        };
        let mut values = Vec::new();
        for reply in replies {
            values.push(match (pick(reply, &self.selection(), past), self.only()) {
                ((_, picked), Some(_)) => return Ok(value(picked?).to_string()),
                ((url, Ok(picked)), None) => json!({ "url": url, "status": value(picked) }),
                ((url, Err(error)), None) => json!({ "url": url, "error": error.to_string() }),
            });
        }
        Ok(Value::from(values).to_string())
    }

    fn causes(&self, replies: Vec<SwitchReply>) -> Result<String, StatusError> {
        let (mut switches, mut silent) = (Vec::new(), Vec::new());
        for reply in replies {
            match reply.status {
                Ok(status) => switches.push(status),
                Err(error) => silent.push(error),
            }
        }
        if switches.is_empty() {
            return Err(silent.swap_remove(0)); // at least one address is queried, so `silent` is not empty
        }
        let causes = Causes::of(&switches);
        let unseen: Vec<String> = silent.iter().map(ToString::to_string).collect();
        Ok(match (self.dot, self.json) {
            (true, _) => {
                unseen.iter().map(|why| format!("// switch without reply: {why}\n")).collect::<String>()
                    + &causes.dot()
            }
            (_, true) => {
                let mut json = causes.json();
                json["unseen"] = unseen.into();
                json.to_string()
            }
            _ => {
                let unanswered = unseen.iter().map(|why| format!("NOT SEEN: {why}\n"));
                cause_text(&causes, &switches) + &unanswered.collect::<String>()
            }
        })
    }
}

fn cause_text(causes: &Causes, switches: &[Status]) -> String {
    let sends_lists = |class: &ClassStatus| class.flows.is_some_and(|flows| flows.pause_frames_sent > 0);
    let senders = switches.iter().filter(|switch| {
        let mut classes = switch.ports.iter().flat_map(|port| &port.classes);
        classes.any(sends_lists)
    });
    let lists = senders.map(|switch| {
        format!(
            "{} has sent lists of paused flows (OFC) since its start: see `xoff status flows`\n",
            switch.name
        )
    });
    match lists.collect::<String>() {
        lists if causes.is_empty() && !lists.is_empty() => format!("no peer is paused by XOFF\n{lists}"),
        lists => causes.text() + &lists,
    }
}

fn pick(reply: SwitchReply, selection: &Selection, past: &mut Past) -> (String, Result<Picked, StatusError>) {
    let SwitchReply { url, status } = reply;
    let picked = status.and_then(|status| {
        // Ignore a status from before a restart, which set the counters to zero.
        let before = past.insert(url.clone(), status.clone());
        let before = before.filter(|before| before.uptime_nanos < status.uptime_nanos);
        Ok((selection.of(&status, before.as_ref())?, before))
    });
    (url, picked)
}

pub(super) fn period(text: &str) -> Result<Duration, String> {
    let period = quantity::parse_time(text).map(|time| Duration::from_nanos(time.0));
    period
        .filter(|&period| period >= Duration::from_millis(100))
        .ok_or_else(|| "the period must be a time of at least 100ms, such as 2s or 500ms".into())
}

#[cfg(test)]
mod tests {
    use xoff_switch::control::status::FlowStatus;

    use super::*;

    #[test]
    fn causes_view_shows_switch_that_sent_flow_lists() {
        let mut status = tables::tests::status();
        for class in status.ports.iter_mut().flat_map(|port| &mut port.classes) {
            (class.pause_sent.now, class.pause_received.now, class.flows) = (false, false, None);
        }
        let text = |status: &Status| cause_text(&Causes::of([status]), std::slice::from_ref(status));
        assert_eq!(text(&status), "no peer is paused\n");
        let flows = FlowStatus { pause_frames_sent: 1, ..FlowStatus::default() };
        status.ports[0].classes[3].flows = Some(flows);
        let lists = "s1 has sent lists of paused flows (OFC) since its start: see `xoff status flows`\n";
        assert_eq!(text(&status), format!("no peer is paused by XOFF\n{lists}"));
        status.ports[0].classes[3].pause_sent.now = true;
        let text = text(&status);
        assert!(text.starts_with("s1 pauses the peer of left, class 3\n") && text.ends_with(lists), "{text}");
    }

    #[test]
    fn refresh_period_needs_a_unit_and_is_at_least_100_ms() {
        assert_eq!(period("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(period("100ms"), Ok(Duration::from_millis(100)));
        for bad in ["99ms", "0", "3", "", "s", "-1s", "1m", "99999999999999999999s"] {
            assert!(period(bad).is_err(), "{bad}");
        }
    }

    #[test] // proves: status
    fn status_refuses_inapplicable_options_with_hint() {
        let args = |what, port: &[&str], dot| Args {
            what,
            url: Vec::new(),
            all: false,
            watch: None,
            json: false,
            dot,
            port: port.iter().map(|&port| port.to_owned()).collect(),
            class: Vec::new(),
            congested: false,
        };
        let refused = |args: Args| args.check().map_err(|error| error.to_string()).err();
        assert_eq!(refused(args(Some(What::Causes), &[], true)), None);
        assert_eq!(refused(args(Some(What::Mac), &["p1"], false)), None);
        let refusal = refused(args(None, &[], true));
        assert_eq!(
            refusal.as_deref(),
            Some("--dot does not apply to `xoff status`: only `xoff status causes` is a graph")
        );
        let refusal = refused(args(Some(What::Causes), &["p1"], false));
        let expected = "--port does not apply to `xoff status causes`: this view is not divided by ports";
        assert_eq!(refusal.as_deref(), Some(expected));
        let classes = Args { class: vec![3], ..args(Some(What::Mac), &[], false) };
        assert!(refused(classes).is_some_and(|refusal| refusal.starts_with("--class does not apply to")));
    }
}
