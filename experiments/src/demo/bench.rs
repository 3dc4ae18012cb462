//! The demo's hosts and switch, once: built, run, and accounted for.

use std::fmt::{self, Display};
use std::thread;
use std::time::{Duration, Instant};

use xoff_flow_control::counter::Counter;
use xoff_host::Stream;
use xoff_wire::units::{BitRate, Class, Nanos};

use super::report::{Headroom, LossyTotals, Report, Victim};
use crate::namespaces;
use crate::{
    Account, Fabric, FabricError, HostId, LOSSLESS, Live, Load, Pfc, Plan, Settings, Setup, Totals, jain,
    lossless,
};

const LOSSY: Class = Class::ALL[0];

const SENDERS: usize = 4;

/// What each sender offers in the lossy class, in percent of its line: all four together more than
/// their share of the congested port.
const LOSSY_PERCENT: u64 = 20;
/// What the victim offers, in percent of its line.
const VICTIM_PERCENT: u64 = 40;

/// Hosts send so long after all are open.
const HEAD_START: Duration = Duration::from_millis(100);
/// The congested port is full so long after the first frame.
const RAMP: Duration = Duration::from_millis(200);
/// What waits in the switch has left by then.
const PATIENCE: Duration = Duration::from_secs(3);
const TICK: Duration = Duration::from_secs(1);

/// Built, not yet running.
pub struct Bench {
    rate_mbps: u64,
    senders: Vec<HostId>,
    receiver: HostId,
    victim: HostId,
    bystander: HostId,
    fabric: Fabric,
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
    pub fn build(rate_mbps: u64) -> Result<Bench, FabricError> {
        let mut plan = Plan::new(BitRate::from_mbps(rate_mbps));
        let switch = plan.switch("demo");
        let senders = (1..=SENDERS).map(|n| plan.host(&format!("sender-{n}"), switch)).collect();
        let [receiver, victim, bystander] =
            ["receiver", "victim", "bystander"].map(|name| plan.host(name, switch));
        let (settings, machine) = (Settings::default(), namespaces::machine());
        let setup = Setup { line: plan.line(), settings: &settings, machine: &machine };
        let fabric = setup.build(plan)?;
        Ok(Bench { rate_mbps, senders, receiver, victim, bystander, fabric })
    }

    /// Offers traffic for `span`.
    ///
    /// # Errors
    /// Where the switch or a host cannot start.
    pub fn run(self, span: Duration, tell: &mut dyn FnMut(&Progress)) -> Result<Report, FabricError> {
        let Bench { rate_mbps, senders, receiver, victim, bystander, fabric } = self;
        let plan = fabric.plan();
        let line = plan.line();
        let watch = Watch { line: line.rate(), receiver, bystander, span };
        let share = |percent: u64| BitRate::new(line.bits_per_second() / 100 * percent);
        let stream =
            |stream: Stream| Stream { start: nanos(HEAD_START), duration: Some(nanos(span)), ..stream };
        let mut load = Load::default();
        for &sender in &senders {
            load.send(sender, stream(lossless(receiver)));
            let lossy = Stream { dst: receiver.address(), rate: share(LOSSY_PERCENT), ..Stream::default() };
            load.send(sender, stream(lossy));
        }
        load.send(victim, stream(Stream { rate: share(VICTIM_PERCENT), ..lossless(bystander) }));
        let (goodput_ratio, account) = fabric.run(&load, PATIENCE, |live| watch.run(live, tell))?;
        let victim = account.stream(victim, bystander, 0);
        let shares: Vec<f64> = senders
            .iter()
            .map(|&sender| account.stream(sender, receiver, 0).map_or(0.0, |stream| stream.bytes as f64))
            .collect();
        Ok(Report {
            victim: Victim {
                offered_mbps: (rate_mbps * VICTIM_PERCENT) as f64 / 100.0,
                received_mbps: victim.map_or(0.0, |stream| stream.mbps),
            },
            goodput_ratio,
            fairness: jain(&shares),
            line_mbps: rate_mbps,
            seconds: span.as_secs_f64(),
            ..Report::from(&account)
        })
    }
}

impl From<&Account> for Report {
    fn from(account: &Account) -> Report {
        Report {
            lossless: Totals::of(account.received(LOSSLESS)),
            lossy: LossyTotals {
                totals: Totals::of(account.received(LOSSY)),
                dropped_by_switch: account.dropped(LOSSY),
            },
            pfc: Pfc::from(account),
            headroom: Headroom { least_free_bytes: account.least_headroom() },
            xdp_drops: account.kernel_drops(),
            ledger_balanced: account.is_balanced(),
            unproved: account.unproved(),
            longest_stall_ms: account.longest_stall_nanos() as f64 / 1e6,
            longest_host_gap_ms: account.longest_host_gap_nanos() as f64 / 1e6,
            ..Report::default()
        }
    }
}

/// Tells how it goes, and measures how much of the congested line is used while it is congested.
struct Watch {
    line: BitRate,
    receiver: HostId,
    bystander: HostId,
    span: Duration,
}

impl Watch {
    fn run(&self, live: &Live, tell: &mut dyn FnMut(&Progress)) -> f64 {
        thread::sleep(HEAD_START + RAMP);
        let bits = |host| 8 * live.received(host);
        let look = || (Instant::now(), bits(self.receiver), bits(self.bystander));
        let first = look();
        let mut before = first;
        let end = first.0 + self.span - RAMP - Duration::from_millis(100);
        for second in 1.. {
            let wake = (first.0 + TICK * second).min(end);
            thread::sleep(wake.saturating_duration_since(Instant::now()));
            let now = look();
            if now.0 >= end {
                let used = (now.1 - first.1) as f64 / (now.0 - first.0).as_secs_f64();
                return used / self.line.bits_per_second() as f64;
            }
            let mbps = |bits: u64| bits as f64 / (now.0 - before.0).as_secs_f64() / 1e6;
            tell(&Progress {
                seconds: u64::from(second),
                goodput_mbps: mbps(now.1 - before.1),
                victim_mbps: mbps(now.2 - before.2),
                xoff_sent: live.sum(LOSSLESS, |class| class.xoff_sent.get()),
                lossy_dropped: live.sum(LOSSY, |class| class.drops.iter().map(Counter::get).sum()),
            });
            before = now;
        }
        unreachable!("time passes")
    }
}

fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
