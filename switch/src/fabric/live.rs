//! A fabric while it runs, for whoever watches.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use xoff_dataplane::counters::{ClassCounters, Counters};
use xoff_dataplane::units::{Class, Nanos};
use xoff_hosts::{HostReport, Progress};

use super::record::Looks;
use super::simulation::Simulation;
use super::{HostId, Line, PortOf, SwitchId};
use crate::clock;
use crate::control::status::Status;
use crate::control::{Answer, SwitchView, snapshot};
use crate::traffic::HostError;

/// From one look to the next whether all is calm.
const CALM_LOOK: Duration = Duration::from_millis(2);

/// What `read` reads of counters that belong together and change meanwhile, as they were at one moment: whoever looks
/// may be kept from running between two loads. So it is read until twice the same was there.
pub fn settled<T: PartialEq>(mut read: impl FnMut() -> T) -> T {
    let mut before = read();
    loop {
        let now = read();
        if now == before {
            return now;
        }
        before = now;
    }
}

/// What hosts and switches are driven by.
pub(super) enum Drive<'a> {
    /// Threads, those of hosts among them: whoever watches sleeps meanwhile.
    Threads(&'a [JoinHandle<Result<HostReport, HostError>>]),
    /// Whoever watches.
    Simulator(&'a RefCell<Simulation>),
}

impl Drive<'_> {
    pub(super) fn now(&self) -> Nanos {
        match self {
            Drive::Threads(_) => clock::now(),
            Drive::Simulator(simulation) => simulation.borrow().now(),
        }
    }

    pub(super) fn wait(&self, span: Nanos) {
        match self {
            Drive::Threads(_) => thread::sleep(Duration::from_nanos(span.0)),
            Drive::Simulator(simulation) => simulation.borrow_mut().advance(span),
        }
    }

    /// Whether a host has ended before it was told to.
    fn has_failed(&self) -> bool {
        match self {
            Drive::Threads(threads) => threads.iter().any(JoinHandle::is_finished),
            Drive::Simulator(_) => false,
        }
    }
}

/// What can be seen of running hosts and switches.
pub struct Live<'a> {
    views: Vec<Arc<SwitchView>>,
    /// Of each host, and whether it has anything to send.
    progress: Vec<(Arc<Progress>, bool)>,
    line: Line,
    drive: Drive<'a>,
    begin: Nanos,
    /// What the looks saw, where that is to be kept.
    looks: Option<RefCell<Looks>>,
}

impl<'a> Live<'a> {
    pub(super) fn new(
        views: Vec<Arc<SwitchView>>,
        progress: Vec<(Arc<Progress>, bool)>,
        (line, drive): (Line, Drive<'a>),
        looks: Option<Looks>,
    ) -> Live<'a> {
        let begin = drive.now();
        Live { views, progress, line, drive, begin, looks: looks.map(RefCell::new) }
    }

    /// What queues and pauses are now, for raw data.
    pub fn look(&self) {
        if let Some(looks) = &self.looks {
            looks.borrow_mut().look(&self.views, self.elapsed(), self.begin);
        }
    }

    /// When the hosts began, and what the looks have seen.
    pub(super) fn into_looks(self) -> (Nanos, Option<Looks>) {
        self.look();
        (self.begin, self.looks.map(RefCell::into_inner))
    }

    /// A switch.
    #[must_use]
    pub fn view(&self, switch: SwitchId) -> &SwitchView {
        &self.views[switch.0]
    }

    /// Its counters.
    #[must_use]
    pub fn counters(&self, switch: SwitchId) -> &Counters {
        &self.views[switch.0].counters
    }

    /// Counters of one class at one port.
    #[must_use]
    pub fn class(&self, at: PortOf, class: Class) -> &ClassCounters {
        self.counters(at.switch).class(at.port, class)
    }

    /// What each switch says of itself, but for what only its worker knows.
    #[must_use]
    pub fn statuses(&self) -> Vec<Status> {
        let of = |view: &Arc<SwitchView>| snapshot(view, &vec![Answer::Silent; view.workers.len()]);
        self.views.iter().map(of).collect()
    }

    /// A counter, added up over all ports of all switches.
    #[must_use]
    pub fn sum(&self, class: Class, of: impl Fn(&ClassCounters) -> u64) -> u64 {
        let classes = self.views.iter().flat_map(|view| view.classes());
        classes.filter(|(_, at, _)| *at == class).map(|(_, _, counters)| of(counters)).sum()
    }

    /// What a host has sent and received.
    #[must_use]
    pub fn progress(&self, host: HostId) -> &Progress {
        &self.progress[host.0].0
    }

    /// Bytes of layer 1 that have come to a host from another.
    #[must_use]
    pub fn received_from(&self, from: HostId, to: HostId) -> u64 {
        let volume = self.progress(to).received_from(from.number());
        volume.expect("hosts of a fabric tell each other apart").line_bytes.get()
    }

    /// Bytes of layer 1 that have come to a host, from all and in all classes.
    #[must_use]
    pub fn received(&self, to: HostId) -> u64 {
        self.progress(to).received.iter().map(|volume| volume.line_bytes.get()).sum()
    }

    /// When the hosts began, by the clock of all reports.
    #[must_use]
    pub const fn begin(&self) -> Nanos {
        self.begin
    }

    /// Time since then.
    #[must_use]
    pub fn elapsed(&self) -> Nanos {
        self.drive.now().since(self.begin)
    }

    /// Whether all that was to be sent has been sent and has left the switches, or a host has failed.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        let sent = self.progress.iter().all(|(progress, sends)| !sends || progress.all_sent.get() == 1);
        (sent && self.waiting_bytes() == 0) || self.drive.has_failed()
    }

    /// Bytes that wait in egress queues, all switches and classes.
    #[must_use]
    pub fn waiting_bytes(&self) -> u64 {
        let classes = self.views.iter().flat_map(|view| view.classes());
        classes.map(|(_, _, counters)| counters.egress_bytes.get()).sum()
    }

    /// Calls `look` every `interval` until all is calm, or it has lasted `limit`: times for lines of 100 Mb/s.
    pub fn every(&self, interval: Duration, limit: Duration, mut look: impl FnMut(Nanos)) {
        let end = self.elapsed().after(self.span(limit));
        while !self.is_calm() && self.elapsed() < end {
            self.look();
            look(self.elapsed());
            self.drive.wait(self.span(interval));
        }
    }

    pub(super) fn wait_until_calm(&self, calm: Duration, patience: Duration) {
        let [calm, patience, look] = [calm, patience, CALM_LOOK].map(|time| self.span(time));
        let begin = self.elapsed();
        let mut calm_since = begin;
        while self.elapsed().since(calm_since) < calm && self.elapsed().since(begin) < patience {
            self.drive.wait(look);
            if !self.is_calm() {
                calm_since = self.elapsed();
            }
        }
    }

    fn span(&self, at_100_mbps: Duration) -> Nanos {
        self.line.span(Nanos(u64::try_from(at_100_mbps.as_nanos()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_between_two_loads_is_read_again() {
        // XOFF was read before both were told, and XON afterwards.
        let mut reads = [(0, 1), (1, 1), (2, 1), (2, 1), (2, 2)].into_iter();
        assert_eq!(settled(|| reads.next()), Some((2, 1)));
        assert_eq!(reads.len(), 1, "and no more often than it has to be");
    }
}
