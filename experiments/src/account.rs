use derive_more::{Add, Sum};
use serde::Serialize;
use xoff_flow_control::counter::Counter;
use xoff_flow_control::counters::ClassCounters;
use xoff_host::HostReport;
use xoff_host::report::ReceivedStream;
use xoff_wire::units::{CLASSES, Class, Nanos};

use crate::counted::{Counted, dropped};
use crate::plan::{HostId, LOSSLESS, PortOf};
use crate::running_fabric::{FinalReports, Proof};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Add, Sum, Serialize)]
pub struct Totals {
    pub sent: u64,
    pub received: u64,
    pub lost: u64,
    pub duplicated: u64,
    pub reordered: u64,
}

impl Totals {
    pub fn of<'a>(streams: impl Iterator<Item = &'a ReceivedStream>) -> Totals {
        let of_one = |stream: &ReceivedStream| Totals {
            sent: stream.sent,
            received: stream.frames - stream.duplicated,
            lost: stream.lost,
            duplicated: stream.duplicated,
            reordered: stream.reordered + stream.beyond_window,
        };
        streams.map(of_one).sum()
    }

    pub(crate) const fn numbers(&self) -> [u64; 5] {
        [self.sent, self.received, self.lost, self.duplicated, self.reordered]
    }

    pub const fn is_clean(&self) -> bool {
        self.received > 0 && self.lost == 0 && self.duplicated == 0 && self.reordered == 0
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Add, Serialize)]
pub struct Pfc {
    pub xoff_sent: u64,
    pub xon_sent: u64,
    pub paused_ms: f64,
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

#[derive(Debug)]
pub struct Account {
    pub hosts: Vec<HostReport>,
    pub switches: Vec<Counted>,
    /// Frames still queued at the run's end, by class; counted before switches stop, because their final XON lets peers
    /// send.
    pub held: [u64; CLASSES],
    proofs: Vec<Proof>,
    longest_stall_nanos: u64,
    end: Nanos,
}

impl Account {
    pub(crate) fn new(
        ended: FinalReports,
        switches: Vec<Counted>,
        held: [u64; CLASSES],
        end: Nanos,
    ) -> Account {
        let FinalReports { hosts, proofs, longest_stall_nanos } = ended;
        Account { hosts, switches, held, proofs, longest_stall_nanos, end }
    }

    #[cfg(test)]
    pub(crate) fn of_hosts(hosts: Vec<HostReport>, held: [u64; CLASSES]) -> Account {
        Account::new(FinalReports { hosts, ..FinalReports::default() }, Vec::new(), held, Nanos::ZERO)
    }

    #[cfg(test)]
    pub(crate) fn with_stall(self, stall: Nanos) -> Account {
        Account { longest_stall_nanos: stall.0, ..self }
    }

    pub fn host(&self, host: HostId) -> &HostReport {
        &self.hosts[host.index()]
    }

    pub fn class(&self, at: PortOf, class: Class) -> &ClassCounters {
        self.switches[at.switch.index()].counters.class(at.port, class)
    }

    pub fn received(&self, class: Class) -> impl Iterator<Item = &ReceivedStream> {
        self.hosts.iter().flat_map(|host| &host.received).filter(move |stream| stream.class == class.get())
    }

    pub fn stream(&self, from: HostId, to: HostId, stream: u8) -> Option<&ReceivedStream> {
        self.host(to).received.iter().find(|got| got.sender == from.number() && got.stream == stream)
    }

    pub fn sum(&self, class: Class, of: fn(&ClassCounters) -> &Counter) -> u64 {
        self.classes(class).map(|counters| of(counters).get()).sum()
    }

    pub fn dropped(&self, class: Class) -> u64 {
        self.classes(class).map(dropped).sum()
    }

    pub fn kernel_drops(&self) -> u64 {
        let at_switches: u64 = self.proofs.iter().map(|proof| proof.unseen_lost).sum();
        at_switches + self.hosts.iter().map(|host| host.drops.total).sum::<u64>()
    }

    pub fn is_balanced(&self) -> bool {
        self.proofs.iter().all(|proof| proof.is_balanced)
    }

    pub fn unproved(&self) -> Vec<String> {
        let gaps = |(switch, proof): (&Counted, &Proof)| {
            proof.unproved.iter().map(|gap| format!("{}: {gap}", switch.name)).collect::<Vec<_>>()
        };
        let unread = |host: &HostReport| {
            host.drops
                .unread
                .iter()
                .map(|what| format!("host at device {}: {what}", host.device))
                .collect::<Vec<_>>()
        };
        let switches = self.switches.iter().zip(&self.proofs).flat_map(gaps);
        switches.chain(self.hosts.iter().flat_map(unread)).collect()
    }

    pub fn least_headroom(&self) -> Option<u64> {
        self.switches.iter().filter_map(Counted::least_headroom).min()
    }

    pub(crate) fn halted_nanos(&self, queue: &ClassCounters) -> u64 {
        let lasts = match queue.halted_since.get() {
            0 => 0,
            since => self.end.since(Nanos(since)).0,
        };
        queue.halted_nanos.get() + lasts
    }

    /// Returns the longest time (ns) for which a switch was not scheduled while hosts ran; may be 1/8 too long.
    pub const fn longest_stall_nanos(&self) -> u64 {
        self.longest_stall_nanos
    }

    pub fn longest_host_gap_nanos(&self) -> u64 {
        self.hosts.iter().map(|host| host.longest_gap_ns).max().unwrap_or(0)
    }

    pub fn usual_host_gaps_nanos(&self) -> impl Iterator<Item = u64> {
        self.hosts.iter().map(|host| host.usual_gap_ns).filter(|gap| *gap > 0)
    }

    fn classes(&self, class: Class) -> impl Iterator<Item = &ClassCounters> {
        self.switches.iter().flat_map(move |switch| switch.class(class))
    }
}

const FRAME_MIN: u64 = 64;

/// Returns how many frames of each class are still queued: received minus departed ones, at most as many minimum frames
/// as the queued bytes hold, because the kernel may lose received frames uncounted.
pub(crate) fn held(switches: &[Counted]) -> [u64; CLASSES] {
    Class::ALL.map(|class| {
        let counters = || switches.iter().flat_map(|switch| switch.class(class));
        let (received, departed) = counters().fold((0, 0), |(received, departed), of| {
            (received + of.rx_frames.get(), departed + of.tx_frames.get() + dropped(of))
        });
        let waiting: u64 = counters().map(|of| of.ingress_bytes.get() + of.egress_bytes.get()).sum();
        received.saturating_sub(departed).min(waiting.div_ceil(FRAME_MIN))
    })
}

pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use xoff_wire::units::PortId;

    use super::*;

    const CLASS: Class = Class::ALL[5];

    #[test] // proves: cascade
    fn frames_lost_in_kernel_do_not_count_as_queued() {
        let switches = [Counted::nothing("switch")];
        let class = switches[0].counters.class(PortId(0), CLASS);
        let held = || held(&switches)[CLASS.index()];
        class.rx_frames.add(2);
        class.ingress_bytes.add(64);
        assert_eq!(held(), 1);
        class.ingress_bytes.sub(64);
        class.tx_frames.add(1);
        assert_eq!(held(), 0);
    }

    #[test]
    fn jain_index_of_equal_shares_is_one() {
        assert_eq!(jain(&[5.0; 4]), Some(1.0));
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
    }

    #[test] // proves: experiments
    fn jain_index_without_shares_is_none() {
        assert_eq!([jain(&[]), jain(&[0.0, 0.0])], [None, None]);
    }

    #[test]
    fn totals_count_each_frame_once_as_received_or_lost() {
        let stream = |frames, duplicated| {
            let mut stream = ReceivedStream { frames, duplicated, ..ReceivedStream::default() };
            stream.settle(10);
            stream
        };
        let totals = Totals::of([stream(8, 0), stream(11, 2), stream(10, 0)].iter());
        assert_eq!(totals, Totals { sent: 30, received: 27, lost: 3, duplicated: 2, reordered: 0 });
    }

    #[test]
    fn single_lost_duplicate_or_reordered_frame_is_detected() {
        let clean = Totals { sent: 9, received: 9, ..Totals::default() };
        assert!(clean.is_clean());
        assert!(!Totals { lost: 1, ..clean }.is_clean());
        assert!(!Totals { duplicated: 1, ..clean }.is_clean());
        assert!(!Totals { reordered: 1, ..clean }.is_clean());
        assert!(!Totals::default().is_clean(), "a run in which no frame arrived must not count as clean");
    }

    #[test]
    fn halt_that_lasts_at_end_of_run_counts_up_to_that_time() {
        let account = Account { end: Nanos(500), ..Account::of_hosts(Vec::new(), [0; CLASSES]) };
        let switch = Counted::nothing("a");
        let queue = switch.counters.class(PortId(0), LOSSLESS);
        queue.halted_nanos.set(30);
        assert_eq!(account.halted_nanos(queue), 30);
        queue.halted_since.set(400);
        assert_eq!(account.halted_nanos(queue), 130);
    }
}
