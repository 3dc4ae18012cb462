//! What became of every frame of a fabric that has run.

use std::ops::Add;
use std::sync::Arc;

use serde::Serialize;
use xoff_dataplane::counter::Counter;
use xoff_dataplane::counters::{ClassCounters, Counters};
#[cfg(test)]
use xoff_dataplane::units::Nanos;
use xoff_dataplane::units::{CLASSES, Class, PortId};
use xoff_hosts::HostReport;
use xoff_hosts::report::ReceivedStream;

use super::{HostId, LOSSLESS, PortOf};
use crate::control::status::Status;
use crate::control::{SwitchView, WorkerFacts};

/// Frames of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Sent by all senders.
    pub sent: u64,
    /// Received for the first time.
    pub received: u64,
    /// Sent and never received.
    pub lost: u64,
    /// Received again.
    pub duplicated: u64,
    /// Received after a later one of their stream.
    pub reordered: u64,
}

impl Add for Totals {
    type Output = Totals;
    fn add(self, other: Totals) -> Totals {
        Totals {
            sent: self.sent + other.sent,
            received: self.received + other.received,
            lost: self.lost + other.lost,
            duplicated: self.duplicated + other.duplicated,
            reordered: self.reordered + other.reordered,
        }
    }
}

impl Totals {
    /// Of these streams.
    pub fn of<'a>(streams: impl Iterator<Item = &'a ReceivedStream>) -> Totals {
        let of_one = |stream: &ReceivedStream| Totals {
            sent: stream.sent,
            received: stream.frames - stream.duplicated,
            lost: stream.lost,
            duplicated: stream.duplicated,
            reordered: stream.reordered + stream.beyond_window,
        };
        streams.map(of_one).fold(Totals::default(), Add::add)
    }

    /// Nothing lost, duplicated or reordered, and something received.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.received > 0 && self.lost == 0 && self.duplicated == 0 && self.reordered == 0
    }
}

/// Pause frames sent by the switches for the lossless class, all ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Pfc {
    /// Times that a sender was told to stop.
    pub xoff_sent: u64,
    /// Times that it was told to resume.
    pub xon_sent: u64,
    /// How long they were held, ms, all ports added up.
    pub paused_ms: f64,
}

impl Add for Pfc {
    type Output = Pfc;
    fn add(self, other: Pfc) -> Pfc {
        Pfc {
            xoff_sent: self.xoff_sent + other.xoff_sent,
            xon_sent: self.xon_sent + other.xon_sent,
            paused_ms: self.paused_ms + other.paused_ms,
        }
    }
}

impl From<&Account> for Pfc {
    fn from(account: &Account) -> Pfc {
        Pfc {
            xoff_sent: account.sum(LOSSLESS, |class| &class.xoff_sent),
            xon_sent: account.sum(LOSSLESS, |class| &class.xon_sent),
            paused_ms: account.sum(LOSSLESS, |class| &class.held_nanos) as f64 / 1e6,
        }
    }
}

/// All that hosts and switches say when they have ended.
#[derive(Debug)]
pub struct Account {
    /// One for each host, senders and sinks settled with each other. Those of the kernel say what was
    /// dropped, and no more.
    pub hosts: Vec<HostReport>,
    /// One for each switch.
    pub switches: Vec<Status>,
    /// Frames by class that still waited in a switch when the hosts had ended, before the first switch was
    /// stopped. A switch that stops lets its peers go, and these may be on their way to one that is no more.
    pub held: [u64; CLASSES],
    counted: Vec<Counted>,
    longest_stall_nanos: u64,
}

/// What stays of a switch that has stopped: what it counted. Its view has its sockets, and with them its packet memory,
/// which an experiment of many fabrics would add up.
#[derive(Debug)]
struct Counted {
    counters: Arc<Counters>,
    ports: usize,
}

impl Counted {
    fn of(view: &SwitchView) -> Counted {
        Counted { counters: Arc::clone(&view.counters), ports: view.ports.len() }
    }

    fn class(&self, class: Class) -> impl Iterator<Item = &ClassCounters> {
        (0..=u8::MAX).map(PortId).take(self.ports).map(move |port| self.counters.class(port, class))
    }
}

impl Account {
    pub(super) fn new(
        hosts: Vec<HostReport>,
        switches: Vec<Status>,
        views: &[Arc<SwitchView>],
        (held, longest_stall_nanos): ([u64; CLASSES], u64),
    ) -> Account {
        let counted = views.iter().map(|view| Counted::of(view)).collect();
        Account { hosts, switches, held, counted, longest_stall_nanos }
    }

    /// What these hosts said; there was no switch in which so many frames could wait.
    #[cfg(test)]
    pub(crate) fn of_hosts(hosts: Vec<HostReport>, held: [u64; CLASSES]) -> Account {
        Account::new(hosts, Vec::new(), &[], (held, 0))
    }

    /// The same, where a switch stood still for so long.
    #[cfg(test)]
    pub(crate) fn after_a_stall(self, stall: Nanos) -> Account {
        Account { longest_stall_nanos: stall.0, ..self }
    }

    /// What one host said.
    #[must_use]
    pub fn host(&self, host: HostId) -> &HostReport {
        &self.hosts[host.0]
    }

    /// Counters of one class at one port.
    #[must_use]
    pub fn class(&self, at: PortOf, class: Class) -> &ClassCounters {
        self.counted[at.switch.0].counters.class(at.port, class)
    }

    /// Streams of a class as they were received, by all hosts.
    pub fn received(&self, class: Class) -> impl Iterator<Item = &ReceivedStream> {
        self.hosts.iter().flat_map(|host| &host.received).filter(move |stream| stream.class == class.get())
    }

    /// One stream as it was received.
    #[must_use]
    pub fn stream(&self, from: HostId, to: HostId, stream: u8) -> Option<&ReceivedStream> {
        self.host(to).received.iter().find(|got| got.sender == from.number() && got.stream == stream)
    }

    /// A counter, added up over all ports of all switches.
    #[must_use]
    pub fn sum(&self, class: Class, of: fn(&ClassCounters) -> &Counter) -> u64 {
        self.classes(class).map(|counters| of(counters).get()).sum()
    }

    /// Frames dropped by the switches for a named reason.
    #[must_use]
    pub fn dropped(&self, class: Class) -> u64 {
        self.classes(class).flat_map(|counters| &counters.drops).map(Counter::get).sum()
    }

    /// Every XDP and veth drop counter of every port and host, added up.
    #[must_use]
    pub fn kernel_drops(&self) -> u64 {
        let at_switches: u64 = self.switches.iter().map(|status| status.verdict.unseen_lost).sum();
        at_switches + self.hosts.iter().map(|host| host.drops.total).sum::<u64>()
    }

    /// Whether every frame is delivered, queued or dropped for a named reason, in each switch.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.switches.iter().all(|status| status.verdict.ledger_balanced == Some(true))
    }

    /// What could tell of a loss and cannot be read, at a switch or a host.
    #[must_use]
    pub fn unproved(&self) -> Vec<String> {
        let gaps = |status: &Status| {
            status.verdict.unproved.iter().map(|gap| format!("{}: {gap}", status.name)).collect::<Vec<_>>()
        };
        let unread = |host: &HostReport| {
            host.drops
                .unread
                .iter()
                .map(|what| format!("host at {}: {what}", host.device))
                .collect::<Vec<_>>()
        };
        let switches = self.switches.iter().flat_map(gaps);
        switches.chain(self.hosts.iter().flat_map(unread)).collect()
    }

    /// Least headroom that any lossless class had left, bytes; `None` where there is no such class.
    #[must_use]
    pub fn least_headroom(&self) -> Option<u64> {
        self.switches.iter().filter_map(|status| status.verdict.headroom_free_min_bytes).min()
    }

    /// Longest time that the machine kept a switch from running while there were hosts, ns; an eighth too much at most.
    #[must_use]
    pub const fn longest_stall_nanos(&self) -> u64 {
        self.longest_stall_nanos
    }

    /// Longest time that the machine kept a host from running, ns.
    #[must_use]
    pub fn longest_host_gap_nanos(&self) -> u64 {
        self.hosts.iter().map(|host| host.longest_gap_ns).max().unwrap_or(0)
    }

    fn classes(&self, class: Class) -> impl Iterator<Item = &ClassCounters> {
        self.counted.iter().flat_map(move |of| of.class(class))
    }
}

/// How often workers were kept from running for how long, until a moment.
pub(super) struct Gaps(Vec<Vec<u64>>);

impl Gaps {
    /// Until now.
    pub(super) fn of(views: &[Arc<SwitchView>]) -> Gaps {
        let counts = |facts: &WorkerFacts| facts.gaps.buckets().map(|(_, count)| count).collect();
        Gaps(workers(views).map(counts).collect())
    }

    /// The longest since then, ns; an eighth too much at most.
    pub(super) fn longest_since(&self, views: &[Arc<SwitchView>]) -> u64 {
        let longest = |(facts, before): (&WorkerFacts, &Vec<u64>)| {
            let grown = facts.gaps.buckets().zip(before).filter(|((_, count), before)| count > before);
            let bound = grown.last().map(|((bound, _), _)| bound.unwrap_or(u64::MAX));
            bound.unwrap_or(0).min(facts.longest_gap.get())
        };
        workers(views).zip(&self.0).map(longest).max().unwrap_or(0)
    }
}

fn workers(views: &[Arc<SwitchView>]) -> impl Iterator<Item = &WorkerFacts> {
    views.iter().flat_map(|view| &view.workers).map(|worker| &*worker.facts)
}

/// A frame has no fewer bytes.
const FRAME_MIN: u64 = 64;

/// Frames by class that came into these switches and have neither left nor been dropped, as far as counters
/// tell while nothing moves: of those that nobody counts any more, such as what a kernel was to forward and did not, no
/// more than there are bytes of in queues.
pub(super) fn held(views: &[Arc<SwitchView>]) -> [u64; CLASSES] {
    Class::ALL.map(|class| {
        let counted: Vec<Counted> = views.iter().map(|view| Counted::of(view)).collect();
        let counters = || counted.iter().flat_map(|of| of.class(class));
        let (came, gone) = counters().fold((0, 0), |(came, gone), of| {
            let dropped: u64 = of.drops.iter().map(Counter::get).sum();
            (came + of.rx_frames.get(), gone + of.tx_frames.get() + dropped)
        });
        let waiting: u64 = counters().map(|of| of.ingress_bytes.get() + of.egress_bytes.get()).sum();
        came.saturating_sub(gone).min(waiting.div_ceil(FRAME_MIN))
    })
}

/// Jain's fairness index of `shares`: 1 where all are equal, 1/n where one has everything; `None` where nobody
/// has anything.
#[must_use]
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use xoff_dataplane::units::Nanos;

    use super::*;

    /// In which the view's switch has seen nothing.
    const CLASS: Class = Class::ALL[5];

    #[test]
    fn an_account_keeps_what_a_switch_counted_and_lets_go_of_its_sockets() {
        let (view, _) = crate::control::tests::view();
        let [left, right] = [0, 1].map(|port| view.counters.class(PortId(port), LOSSLESS).rx_frames.get());
        let account = Account::new(Vec::new(), Vec::new(), &[Arc::clone(&view)], ([0; CLASSES], 0));
        let is_there = Arc::downgrade(&view);
        drop(view);
        assert!(is_there.upgrade().is_none(), "the view has the packet memory");
        assert_eq!((account.sum(LOSSLESS, |class| &class.rx_frames), left > 0), (left + right, true));
    }

    #[test]
    fn a_stall_before_the_hosts_began_is_none_of_theirs() {
        let (view, _) = crate::control::tests::view();
        let views = [view];
        let (facts, budget) = (&views[0].workers[0].facts, Nanos::from_millis(25));
        facts.looped(Nanos::from_millis(80), budget);
        let before = Gaps::of(&views);
        assert_eq!(before.longest_since(&views), 0);
        facts.looped(Nanos::from_millis(4), budget);
        let longest = before.longest_since(&views);
        assert!((4_000_000..4_500_001).contains(&longest), "{longest}");
        facts.looped(Nanos::from_millis(90), budget);
        assert_eq!(before.longest_since(&views), 90_000_000, "the longest of all is known exactly");
    }

    #[test]
    fn what_a_kernel_was_to_forward_and_did_not_waits_nowhere() {
        let (view, _) = crate::control::tests::view();
        let counters = Arc::clone(&view.counters);
        let class = counters.class(PortId(0), CLASS);
        let held = || held(&[Arc::clone(&view)])[CLASS.index()];
        // Two came; one of them went to the kernel, which counts nothing here, and one waits.
        class.rx_frames.add(2);
        class.ingress_bytes.add(64);
        assert_eq!(held(), 1);
        class.ingress_bytes.sub(64);
        class.tx_frames.add(1);
        assert_eq!(held(), 0);
    }

    #[test]
    fn jain_is_one_for_equal_shares_and_a_quarter_for_one_of_four() {
        assert_eq!(jain(&[5.0; 4]), Some(1.0));
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
    }

    #[test]
    fn nothing_is_not_shared_at_all() {
        assert_eq!([jain(&[]), jain(&[0.0, 0.0])], [None, None]);
    }

    #[test]
    fn of_streams_every_loss_and_no_duplicate_counts() {
        let stream = |frames, duplicated| {
            let mut stream = ReceivedStream { frames, duplicated, ..ReceivedStream::default() };
            stream.settle(10);
            stream
        };
        let totals = Totals::of([stream(8, 0), stream(11, 2), stream(10, 0)].iter());
        assert_eq!(totals, Totals { sent: 30, received: 27, lost: 3, duplicated: 2, reordered: 0 });
    }

    #[test]
    fn one_lost_duplicated_or_reordered_frame_breaks_the_promise() {
        let clean = Totals { sent: 9, received: 9, ..Totals::default() };
        assert!(clean.is_clean());
        assert!(!Totals { lost: 1, ..clean }.is_clean());
        assert!(!Totals { duplicated: 1, ..clean }.is_clean());
        assert!(!Totals { reordered: 1, ..clean }.is_clean());
        assert!(!Totals::default().is_clean(), "nothing received proves nothing");
    }
}
