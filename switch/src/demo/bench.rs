//! The demo's hosts and switch, once: built, run, and accounted for.

use std::fmt::{self, Display};
use std::panic;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use xoff_config::{Config, Machine};
use xoff_dataplane::counter::Counter;
use xoff_dataplane::ledger::{ClassCounters, Counters};
use xoff_dataplane::units::{BitRate, Class, MacAddr, Nanos, PortId};

use super::DemoError;
use super::report::{Headroom, LossyTotals, Pfc, Report, Totals, Victim, jain};
use crate::control::SwitchView;
use crate::control::status::Status;
use crate::lab::{Lab, Namespace, VethOptions};
use crate::run::{self, Privileges, Running};
use crate::traffic::report::ReceivedStream;
use crate::traffic::{Host, HostError, HostOptions, HostReport, Progress as HostProgress, Stream, settle};

const LOSSLESS: Class = Class::ALL[3];
const LOSSY: Class = Class::ALL[0];
/// DSCP of the lossless class (CS3).
const LOSSLESS_DSCP: u8 = 24;

/// Ports in the order of the configuration; a host's address ends with its number.
const HOSTS: [&str; 7] = ["sender-1", "sender-2", "sender-3", "sender-4", "receiver", "victim", "bystander"];
const SENDERS: usize = 4;
const RECEIVER: u8 = 5;
const VICTIM: u8 = 6;
const BYSTANDER: u8 = 7;

/// What each sender offers in the lossy class, in percent of its line: all four together more than
/// their share of the congested port.
const LOSSY_PERCENT: u64 = 20;
/// What the victim offers, in percent of its line.
const VICTIM_PERCENT: u64 = 40;

/// Thresholds of each sender's lossless class, as time that the line takes for as many bytes.
const XOFF: Nanos = Nanos::from_millis(4);
const XON: Nanos = Nanos::from_millis(2);

/// Hosts send so long after all are open.
const HEAD_START: Duration = Duration::from_millis(100);
/// The congested port is full so long after the first frame.
const RAMP: Duration = Duration::from_millis(200);
/// Sinks wait so long after the last frame.
const LINGER: Nanos = Nanos::from_millis(700);
const TICK: Duration = Duration::from_secs(1);

/// Built, not yet running.
pub struct Bench {
    rate_mbps: u64,
    switch: Namespace,
    hosts: Vec<Namespace>,
    config: Config,
    _lab: Lab,
}

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    seconds: u64,
    goodput_mbps: f64,
    victim_mbps: f64,
    xoff_sent: u64,
    lossy_dropped: u64,
}

impl Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>3} s   congested port {:6.1} Mb/s   victim {:6.1} Mb/s   XOFF sent {:>6}   lossy dropped {:>8}",
            self.seconds, self.goodput_mbps, self.victim_mbps, self.xoff_sent, self.lossy_dropped
        )
    }
}

impl Bench {
    /// Namespaces, wires and configuration for lines of `rate_mbps`.
    ///
    /// # Errors
    /// Where the machine refuses namespaces, or has too little memory.
    pub fn build(rate_mbps: u64) -> Result<Bench, DemoError> {
        let line_takes = |span: Nanos| format!("{}B", BitRate::from_mbps(rate_mbps).bytes_in(span).0);
        let text = include_str!("demo.toml")
            .replace("{rate}", &format!("{rate_mbps}M"))
            .replace("{xoff}", &line_takes(XOFF))
            .replace("{xon}", &line_takes(XON));
        let config = Config::from_toml("built-in configuration", &text, Machine::here())?;
        let mut lab = Lab::new();
        let switch = lab.namespace("switch")?;
        let mut hosts = Vec::new();
        for (number, name) in (1..).zip(HOSTS) {
            let host = lab.namespace(name)?;
            let end = host.end("eth0").mac(address(number));
            lab.veth(switch.end(name), end, &VethOptions::default())?;
            hosts.push(host);
        }
        Ok(Bench { rate_mbps, switch, hosts, config, _lab: lab })
    }

    /// Offers traffic for `span`.
    ///
    /// # Errors
    /// Where the switch or a host cannot start.
    pub fn run(self, span: Duration, tell: &mut dyn FnMut(&Progress)) -> Result<Report, DemoError> {
        let running = self.switch.run(|| run::start(&self.config, Privileges::Keep))?;
        let mut threads = Vec::new();
        let start = Arc::new(Barrier::new(self.hosts.len() + 1));
        for (number, host) in (1..).zip(&self.hosts) {
            threads.push(start_host(host, number, self.line(), self.streams(number, span), &start));
        }
        start.wait();
        let goodput = self.watch(&running, span, tell);
        let join = |thread: JoinHandle<_>| thread.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
        let reports: Result<Vec<HostReport>, HostError> = threads.into_iter().map(join).collect();
        let view = Arc::clone(running.view());
        let status = self.switch.run(|| running.stop())?; // where its programs were attached
        let mut reports = reports?;
        settle(&mut reports);
        Ok(self.report(&reports, &status, &view, goodput, span))
    }

    fn line(&self) -> BitRate {
        BitRate::from_mbps(self.rate_mbps)
    }

    fn streams(&self, number: u8, span: Duration) -> Vec<Stream> {
        let nanos = |span: Duration| Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
        let stream = |class, dscp, to, rate| Stream {
            class,
            dscp,
            dst: address(to),
            rate,
            start: nanos(HEAD_START),
            duration: Some(nanos(span)),
            ..Stream::default()
        };
        let share = |percent: u64| BitRate::new(self.line().bits_per_second() / 100 * percent);
        match number {
            1..=4 => vec![
                stream(LOSSLESS, LOSSLESS_DSCP, RECEIVER, None),
                stream(LOSSY, 0, RECEIVER, share(LOSSY_PERCENT)),
            ],
            VICTIM => vec![stream(LOSSLESS, LOSSLESS_DSCP, BYSTANDER, share(VICTIM_PERCENT))],
            _ => Vec::new(),
        }
    }

    /// Tells how it goes, and measures how much of the congested line is used while it is congested.
    fn watch(&self, running: &Running, span: Duration, tell: &mut dyn FnMut(&Progress)) -> f64 {
        let counters = &running.view().counters;
        thread::sleep(HEAD_START + RAMP);
        let begin = Instant::now();
        let first = line_bits(counters, port(RECEIVER));
        let mut before = (begin, first, line_bits(counters, port(BYSTANDER)));
        let end = begin + span - RAMP - Duration::from_millis(100);
        for second in 1.. {
            let wake = (begin + TICK * second).min(end);
            thread::sleep(wake.saturating_duration_since(Instant::now()));
            let now =
                (Instant::now(), line_bits(counters, port(RECEIVER)), line_bits(counters, port(BYSTANDER)));
            let elapsed = (now.0 - before.0).as_secs_f64();
            if now.0 >= end {
                return (now.1 - first) as f64
                    / (now.0 - begin).as_secs_f64()
                    / self.line().bits_per_second() as f64;
            }
            let mbps = |bits: u64| bits as f64 / elapsed / 1e6;
            tell(&Progress {
                seconds: u64::from(second),
                goodput_mbps: mbps(now.1 - before.1),
                victim_mbps: mbps(now.2 - before.2),
                xoff_sent: sum(counters, LOSSLESS, |class| &class.xoff_sent),
                lossy_dropped: dropped(counters, LOSSY),
            });
            before = now;
        }
        unreachable!("time passes")
    }

    fn report(
        &self,
        reports: &[HostReport],
        status: &Status,
        view: &SwitchView,
        goodput_ratio: f64,
        span: Duration,
    ) -> Report {
        let counters = &view.counters;
        let longest_stall =
            view.workers.iter().map(|worker| worker.facts.longest_gap.get()).max().unwrap_or(0);
        let received = || reports.iter().flat_map(|report| &report.received);
        let of_class = |class: Class| received().filter(move |stream| stream.class == class.get());
        let victim = of_class(LOSSLESS).find(|stream| stream.sender == u16::from(VICTIM));
        let shares: Vec<f64> = of_class(LOSSLESS)
            .filter(|stream| usize::from(stream.sender) <= SENDERS)
            .map(|stream| stream.bytes as f64)
            .collect();
        let at_hosts: u64 = reports.iter().map(|report| report.drops.total).sum();
        Report {
            lossless: totals(of_class(LOSSLESS)),
            lossy: LossyTotals {
                totals: totals(of_class(LOSSY)),
                dropped_by_switch: dropped(counters, LOSSY),
            },
            victim: Victim {
                offered_mbps: (self.rate_mbps * VICTIM_PERCENT) as f64 / 100.0,
                received_mbps: victim.map_or(0.0, |stream| stream.mbps),
            },
            goodput_ratio,
            fairness: jain(&shares),
            pfc: Pfc {
                xoff_sent: sum(counters, LOSSLESS, |class| &class.xoff_sent),
                xon_sent: sum(counters, LOSSLESS, |class| &class.xon_sent),
                paused_ms: sum(counters, LOSSLESS, |class| &class.pausing_nanos) as f64 / 1e6,
            },
            headroom: Headroom { least_free_bytes: status.verdict.headroom_free_min_bytes.unwrap_or(0) },
            xdp_drops: status.verdict.unseen_lost + at_hosts,
            ledger_balanced: status.verdict.ledger_balanced == Some(true),
            longest_stall_ms: longest_stall as f64 / 1e6,
            line_mbps: self.rate_mbps,
            seconds: span.as_secs_f64(),
        }
    }
}

fn start_host(
    namespace: &Namespace,
    number: u8,
    line: BitRate,
    streams: Vec<Stream>,
    start: &Arc<Barrier>,
) -> JoinHandle<Result<HostReport, HostError>> {
    let start = Arc::clone(start);
    let mut options = HostOptions::new("eth0");
    options.line = line;
    options.id = Some(number.into());
    options.linger = Some(LINGER);
    options.announce = false;
    options.end_markers = false;
    namespace.spawn_thread(move || {
        let host = Host::open(options);
        start.wait(); // also where it failed: the others wait for all
        host?.run(&streams, &AtomicBool::new(false), &Arc::new(HostProgress::default()))
    })
}

fn address(number: u8) -> MacAddr {
    MacAddr([0x02, 0, 0, 0, 0, number])
}

fn port(host: u8) -> PortId {
    PortId(host - 1)
}

/// Bits that have left by a port, preamble and gap included.
fn line_bits(counters: &Counters, port: PortId) -> u64 {
    let preamble_and_gap = 20;
    let bytes = |class: &ClassCounters| class.tx_bytes.get() + preamble_and_gap * class.tx_frames.get();
    8 * Class::ALL.into_iter().map(|class| bytes(counters.class(port, class))).sum::<u64>()
}

fn sum(counters: &Counters, class: Class, of: fn(&ClassCounters) -> &Counter) -> u64 {
    (1..=7).map(|host| of(counters.class(port(host), class)).get()).sum()
}

fn dropped(counters: &Counters, class: Class) -> u64 {
    let at = |host| counters.class(port(host), class).drops.iter().map(Counter::get).sum::<u64>();
    (1..=7).map(at).sum()
}

fn totals<'a>(streams: impl Iterator<Item = &'a ReceivedStream>) -> Totals {
    streams.fold(Totals::default(), |sum, stream| Totals {
        sent: sum.sent + stream.sent,
        received: sum.received + stream.frames - stream.duplicated,
        lost: sum.lost + stream.lost,
        duplicated: sum.duplicated + stream.duplicated,
        reordered: sum.reordered + stream.reordered + stream.beyond_window,
    })
}
