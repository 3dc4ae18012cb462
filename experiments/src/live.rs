use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use xoff_flow_control::counters::ClassCounters;
use xoff_host::Progress;
use xoff_wire::units::{Class, Nanos};

use crate::counted::Counted;
use crate::line::Line;
use crate::plan::{HostId, PortOf};
use crate::running_fabric::RunningFabric;
use crate::samples::Samples;

const CALM_POLL: Duration = Duration::from_millis(2);

pub struct Live<'a> {
    switches: &'a [Counted],
    progress: Vec<(Arc<Progress>, bool)>,
    line: Line,
    running: &'a dyn RunningFabric,
    begin: Nanos,
    samples: Option<RefCell<Samples>>,
}

impl<'a> Live<'a> {
    pub(crate) fn new(
        (running, line): (&'a dyn RunningFabric, Line),
        switches: &'a [Counted],
        progress: Vec<(Arc<Progress>, bool)>,
        samples: Option<Samples>,
    ) -> Live<'a> {
        Live { switches, progress, line, running, begin: running.now(), samples: samples.map(RefCell::new) }
    }

    pub fn sample(&self) {
        if let Some(samples) = &self.samples {
            samples.borrow_mut().sample(self.switches, self.elapsed(), self.begin);
        }
    }

    pub(crate) fn into_samples(self) -> (Nanos, Option<Samples>) {
        self.sample();
        (self.begin, self.samples.map(RefCell::into_inner))
    }

    pub const fn switches(&self) -> &[Counted] {
        self.switches
    }

    pub fn class(&self, at: PortOf, class: Class) -> &ClassCounters {
        self.switches[at.switch.index()].counters.class(at.port, class)
    }

    pub fn sum(&self, class: Class, of: impl Fn(&ClassCounters) -> u64) -> u64 {
        self.switches.iter().flat_map(|switch| switch.class(class)).map(of).sum()
    }

    pub fn progress(&self, host: HostId) -> &Progress {
        &self.progress[host.index()].0
    }

    pub fn received_from(&self, from: HostId, to: HostId) -> u64 {
        let volume = self.progress(to).received_from(from.number());
        volume.expect("the receiver must count this sender's frames separately").line_bytes.get()
    }

    /// Returns the bytes that a host has received, including preambles and inter-frame gaps.
    pub fn received(&self, to: HostId) -> u64 {
        self.progress(to).received.iter().map(|volume| volume.line_bytes.get()).sum()
    }

    pub const fn begin(&self) -> Nanos {
        self.begin
    }

    pub fn elapsed(&self) -> Nanos {
        self.running.now().since(self.begin)
    }

    /// Returns whether the run is over: hosts have sent everything and switches are empty. Also true once a host has
    /// failed.
    pub fn is_calm(&self) -> bool {
        let sent = self.progress.iter().all(|(progress, sends)| !sends || progress.all_sent.get() == 1);
        (sent && self.waiting_bytes() == 0) || self.running.has_failed()
    }

    pub fn waiting_bytes(&self) -> u64 {
        let classes = self.switches.iter().flat_map(Counted::classes);
        classes.map(|(_, _, counters)| counters.egress_bytes.get()).sum()
    }

    /// Calls `observe` every `interval` until hosts and switches are done, or until `limit`. Both times are given for
    /// 100 Mb/s, and adapted to the line.
    pub fn every(&self, interval: Duration, limit: Duration, mut observe: impl FnMut(Nanos)) {
        let end = self.elapsed().after(self.span(limit));
        while !self.is_calm() && self.elapsed() < end {
            self.sample();
            observe(self.elapsed());
            self.wait(interval);
        }
    }

    pub(crate) fn wait_until_calm(&self, calm: Duration, patience: Duration) {
        let [calm, patience, poll] = [calm, patience, CALM_POLL].map(|time| self.span(time));
        let begin = self.elapsed();
        let mut calm_since = begin;
        while self.elapsed().since(calm_since) < calm && self.elapsed().since(begin) < patience {
            self.running.wait(poll);
            if !self.is_calm() {
                calm_since = self.elapsed();
            }
        }
    }

    pub(crate) fn wait(&self, at_100_mbps: Duration) {
        self.running.wait(self.span(at_100_mbps));
    }

    fn span(&self, at_100_mbps: Duration) -> Nanos {
        self.line.span(Nanos(u64::try_from(at_100_mbps.as_nanos()).unwrap_or(u64::MAX)))
    }
}
