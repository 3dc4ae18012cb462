use std::collections::VecDeque;

use xoff_flow_control::pause::{Paused, Resumed};
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, ClassSet, Nanos, Quanta};
use xoff_wire::{FlowPause, Header, MacControl, MacControlError, Pfc, Rates};

use crate::flow_gate::FlowGate;
use crate::rate_gate::RateGate;

/// Maximum number of pause frames that wait for their delay. One more makes the oldest take effect early.
const PENDING_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Obedience {
    #[default]
    Obey,
    /// The host obeys each pause frame with this delay after its receipt.
    Late(Nanos),
    Ignore,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassPauses {
    pub xoff: u64,
    pub xon: u64,
    pub paused: Nanos,
    pub longest: Nanos,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseCounts {
    pub pfc_frames: u64,
    pub flow_frames: u64,
    pub rate_frames: u64,
    pub pause_frames: u64,
    /// Well-formed pause frames without effect: the host obeys pauses of none of their classes.
    pub ignored: u64,
    /// Malformed or unknown MAC control frames, by [`MacControlError::index`].
    pub refused: [u64; MacControlError::COUNT],
    pub classes: [ClassPauses; CLASSES],
}

/// Pause state of a host: which classes must not send.
#[derive(Debug)]
pub struct Gate {
    obedience: Obedience,
    obey_802_3x: bool,
    classes: ClassSet,
    paused: Paused,
    flows: Option<FlowGate>,
    rates: Option<RateGate>,
    pending: VecDeque<(Nanos, Pfc)>,
    counts: PauseCounts,
}

impl Gate {
    /// Creates a gate without pauses. With `obey_802_3x`, an 802.3x PAUSE frame pauses all classes.
    #[must_use]
    pub fn new(line: BitRate, obedience: Obedience, obey_802_3x: bool) -> Gate {
        let pending = match obedience {
            Obedience::Late(_) => VecDeque::with_capacity(PENDING_MAX),
            Obedience::Obey | Obedience::Ignore => VecDeque::new(),
        };
        Gate {
            obedience,
            obey_802_3x,
            classes: ClassSet::ALL,
            paused: Paused::new(line),
            flows: None,
            rates: None,
            pending,
            counts: PauseCounts::default(),
        }
    }

    #[must_use]
    pub fn obeying_classes(mut self, classes: ClassSet) -> Gate {
        self.classes = classes;
        self
    }

    /// Restricts obedience to `classes` from now on. Pauses and rate limits of other classes end.
    pub fn set_classes(&mut self, now: Nanos, classes: ClassSet) {
        self.classes = classes;
        self.release(now, ClassSet(!classes.0));
    }

    /// Makes the gate obey pauses of single flows (OFC). With [`Obedience::Late`], it pauses their whole class instead.
    #[must_use]
    pub fn obeying_flows(mut self, line: BitRate) -> Gate {
        self.flows = (self.obedience == Obedience::Obey).then(|| FlowGate::new(line));
        self
    }

    /// Makes the gate obey requested rates (GFC). Has an effect only with [`Obedience::Obey`].
    #[must_use]
    pub fn obeying_rates(mut self, line: BitRate) -> Gate {
        self.rates = (self.obedience == Obedience::Obey).then(|| RateGate::new(line));
        self
    }

    /// Returns the rate limit of a class (GFC) as of the last call of [`Gate::paused`]; `None` without limit.
    #[must_use]
    pub fn rate(&self, class: Class) -> Option<BitRate> {
        self.rates.as_ref()?.rate(class)
    }

    #[must_use]
    pub fn since(&self, class: Class) -> Option<Nanos> {
        self.paused.since(class)
    }

    #[must_use]
    pub fn until(&self, class: Class) -> Option<Nanos> {
        self.paused.until(class)
    }

    /// Counts a sent frame of `bytes`, preamble and gap included, against its class's rate limit.
    #[inline]
    pub fn sent(&mut self, now: Nanos, class: Class, bytes: Bytes) {
        if let Some(rates) = &mut self.rates {
            rates.sent(now, class, bytes);
        }
    }

    /// Returns the paused flows if they have changed since the last call.
    pub fn changed_flows(&mut self, now: Nanos) -> Option<&FlowGate> {
        let flows = self.flows.as_mut()?;
        flows.take_change(now).then_some(flows)
    }

    pub fn receive(&mut self, now: Nanos, header: &Header, head: &[u8]) {
        match MacControl::parse(header, head) {
            Ok(MacControl::Pfc(pfc)) => {
                self.counts.pfc_frames += 1;
                if self.obey_flows(now, &pfc, head) || self.obey_rates(now, &pfc, head) {
                    return;
                }
                let obeyed = Pfc { classes: ClassSet(pfc.classes.0 & self.classes.0), ..pfc };
                self.counts.ignored += u64::from(obeyed.classes.is_empty() && !pfc.classes.is_empty());
                self.answer(now, obeyed);
            }
            Ok(MacControl::Pause(time)) => {
                self.counts.pause_frames += 1;
                if self.obey_802_3x {
                    let all = Class::ALL.into_iter().fold(Pfc::default(), |pfc, class| pfc.with(class, time));
                    self.answer(now, all);
                } else {
                    self.counts.ignored += 1;
                }
            }
            Err(reason) => self.counts.refused[reason.index()] += 1,
        }
    }

    #[inline]
    pub fn paused(&mut self, now: Nanos) -> ClassSet {
        while let Some(&(at, pfc)) = self.pending.front().filter(|pending| pending.0 <= now) {
            self.pending.pop_front();
            self.obey(at, &pfc);
        }
        let resumed = self.paused.expire(now);
        self.note(&resumed);
        let slowed = self.rates.as_mut().map_or(ClassSet::NONE, |rates| rates.slowed(now));
        ClassSet(self.paused.classes().0 | slowed.0)
    }

    #[inline]
    #[must_use]
    pub fn next_change(&self) -> Nanos {
        let pending = self.pending.front().map_or(Nanos::NEVER, |pending| pending.0);
        let flows = self.flows.as_ref().map_or(Nanos::NEVER, FlowGate::next_change);
        let rates = self.rates.as_ref().map_or(Nanos::NEVER, RateGate::next_change);
        pending.min(self.paused.next_expiry()).min(flows).min(rates)
    }

    pub fn link_lost(&mut self, now: Nanos) {
        self.pending.clear();
        self.release(now, ClassSet::ALL);
    }

    fn release(&mut self, now: Nanos, classes: ClassSet) {
        let resumed = self.paused.receive(now, classes, &Default::default());
        self.note(&resumed);
        if let Some(flows) = &mut self.flows {
            classes.iter().for_each(|class| flows.resume(class));
        }
        if let Some(rates) = &mut self.rates {
            rates.obey(now, &Rates { classes, ..Rates::default() });
        }
    }

    /// Returns the counts. Durations of pauses include current pauses up to `now`.
    #[must_use]
    pub fn counts(&self, now: Nanos) -> PauseCounts {
        let mut counts = self.counts;
        for class in self.paused.classes().iter() {
            let since = self.paused.since(class).unwrap_or(now);
            let counts = &mut counts.classes[class.index()];
            counts.paused += now.since(since);
            counts.longest = counts.longest.max(now.since(since));
        }
        counts
    }

    fn answer(&mut self, now: Nanos, pfc: Pfc) {
        for (class, time) in pfc.iter() {
            let counts = &mut self.counts.classes[class.index()];
            if time == Quanta(0) {
                counts.xon += 1;
            } else {
                counts.xoff += 1;
            }
        }
        match self.obedience {
            Obedience::Obey => self.obey(now, &pfc),
            Obedience::Late(delay) => self.postpone(now.after(delay), pfc),
            Obedience::Ignore => {}
        }
    }

    fn obey_flows(&mut self, now: Nanos, pfc: &Pfc, head: &[u8]) -> bool {
        let Some(flows) = &mut self.flows else { return false };
        match FlowPause::parse(pfc, head) {
            Ok(Some(list)) => {
                self.counts.flow_frames += 1;
                flows.obey(now, &list);
                true
            }
            Ok(None) => {
                let resumed = pfc.iter().filter(|(_, time)| *time == Quanta(0));
                resumed.for_each(|(class, _)| flows.resume(class));
                false
            }
            Err(reason) => {
                self.counts.refused[reason.index()] += 1;
                true
            }
        }
    }

    fn obey_rates(&mut self, now: Nanos, pfc: &Pfc, head: &[u8]) -> bool {
        let Some(gate) = &mut self.rates else { return false };
        match Rates::parse(pfc, head) {
            Ok(Some(rates)) => {
                self.counts.rate_frames += 1;
                gate.obey(now, &rates);
                true
            }
            Ok(None) => false,
            Err(reason) => {
                self.counts.refused[reason.index()] += 1;
                true
            }
        }
    }

    fn postpone(&mut self, at: Nanos, pfc: Pfc) {
        if self.pending.len() == PENDING_MAX
            && let Some((_, oldest)) = self.pending.pop_front()
        {
            self.obey(at, &oldest);
        }
        self.pending.push_back((at, pfc));
    }

    fn obey(&mut self, now: Nanos, pfc: &Pfc) {
        let resumed = self.paused.receive(now, pfc.classes, &pfc.times);
        self.note(&resumed);
    }

    fn note(&mut self, resumed: &Resumed) {
        for class in resumed.classes.iter().map(Class::index) {
            let counts = &mut self.counts.classes[class];
            counts.paused += resumed.paused_for[class];
            counts.longest = counts.longest.max(resumed.paused_for[class]);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use xoff_wire::units::MacAddr;

    const C3: ClassSet = ClassSet(1 << 3);

    fn gate(obedience: Obedience) -> Gate {
        Gate::new(BitRate::from_gbps(1), obedience, false) // a quantum is 512 ns
    }

    fn receive(gate: &mut Gate, now: u64, bytes: &[u8]) {
        gate.receive(Nanos(now), &Header::parse(bytes).unwrap(), bytes);
    }

    fn pause(quanta: u16) -> [u8; 60] {
        let pfc = Pfc::default().with(Class::new(3).unwrap(), Quanta(quanta));
        MacControl::Pfc(pfc).encode(MacAddr([2, 0, 0, 0, 0, 1]))
    }

    #[test]
    fn host_pauses_class_until_quanta_expire_or_xon_arrives() {
        let mut gate = gate(Obedience::Obey);
        receive(&mut gate, 100, &pause(10));
        assert_eq!(gate.next_change(), Nanos(100 + 5120));
        assert_eq!(gate.paused(Nanos(100 + 5119)), C3);
        assert_eq!(gate.paused(Nanos(100 + 5120)), ClassSet::NONE);
        receive(&mut gate, 10_000, &pause(65535));
        assert_eq!(gate.paused(Nanos(11_000)), C3);
        assert_eq!(gate.counts(Nanos(11_000)).classes[3].paused, Nanos(5120 + 1000));
        receive(&mut gate, 12_000, &pause(0));
        assert_eq!(gate.paused(Nanos(12_000)), ClassSet::NONE);
        let counts = gate.counts(Nanos(20_000));
        assert_eq!(
            counts.classes[3],
            ClassPauses { xoff: 2, xon: 1, paused: Nanos(5120 + 2000), longest: Nanos(5120) }
        );
        assert_eq!(counts.pfc_frames, 3);
    }

    #[test]
    fn host_obeys_xoff_and_xon_exactly_after_configured_delay() {
        let mut gate = gate(Obedience::Late(Nanos(500)));
        receive(&mut gate, 0, &pause(65535));
        receive(&mut gate, 2000, &pause(0));
        assert_eq!(gate.next_change(), Nanos(500));
        assert_eq!(gate.paused(Nanos(499)), ClassSet::NONE);
        assert_eq!(gate.paused(Nanos(500)), C3);
        assert_eq!(gate.paused(Nanos(2499)), C3);
        assert_eq!(gate.paused(Nanos(2500)), ClassSet::NONE);
        assert_eq!(gate.counts(Nanos(3000)).classes[3].paused, Nanos(2000));
    }

    #[test] // proves: host-pauses
    fn host_counts_but_ignores_pauses_of_excluded_classes() {
        let mut gate = gate(Obedience::Obey).obeying_classes(ClassSet(1 << 4));
        receive(&mut gate, 0, &pause(65535));
        assert_eq!((gate.paused(Nanos(1)), gate.next_change()), (ClassSet::NONE, Nanos::NEVER));
        let both = Pfc::default().with(Class::ALL[3], Quanta(9)).with(Class::ALL[4], Quanta(9));
        receive(&mut gate, 2, &MacControl::Pfc(both).encode(MacAddr::default()));
        assert_eq!(gate.paused(Nanos(2)), ClassSet(1 << 4));
        let counts = gate.counts(Nanos(3));
        assert_eq!((counts.pfc_frames, counts.ignored), (2, 1));
        assert_eq!((counts.classes[3].xoff, counts.classes[4].xoff), (0, 1));
    }

    #[test]
    fn host_that_ignores_pauses_still_counts_them() {
        let mut gate = gate(Obedience::Ignore);
        receive(&mut gate, 0, &pause(65535));
        assert_eq!(gate.paused(Nanos(1)), ClassSet::NONE);
        assert_eq!(gate.counts(Nanos(1)).classes[3].xoff, 1);
    }

    #[test]
    fn obeyed_802_3x_pause_frame_pauses_all_classes() {
        let mut gate = Gate::new(BitRate::from_gbps(1), Obedience::Obey, true);
        receive(&mut gate, 0, &MacControl::Pause(Quanta(10)).encode(MacAddr::default()));
        assert_eq!(gate.paused(Nanos(5119)), ClassSet::ALL);
        assert_eq!(gate.paused(Nanos(5120)), ClassSet::NONE);
        assert_eq!(gate.counts(Nanos(6000)).pause_frames, 1);
    }

    #[test]
    fn malformed_pause_frame_is_counted_but_pauses_no_class() {
        let mut gate = gate(Obedience::Obey);
        let mut wrong = pause(65535);
        wrong[5] = 2;
        receive(&mut gate, 0, &wrong);
        receive(&mut gate, 0, &pause(65535)[..33]);
        receive(&mut gate, 0, &MacControl::Pause(Quanta(65535)).encode(MacAddr::default()));
        assert_eq!(gate.paused(Nanos(1)), ClassSet::NONE);
        let counts = gate.counts(Nanos(1));
        assert_eq!((counts.pfc_frames, counts.pause_frames), (0, 1));
        assert_eq!(counts.refused[MacControlError::WrongDestination.index()], 1);
        assert_eq!(counts.refused[MacControlError::Truncated.index()], 1);
    }
}
