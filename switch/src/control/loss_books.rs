//! What the lossless classes have lost, where a class may have been lossy before, or be so later.
//!
//! A class counts what it loses whatever it is called. What it lost while it was lossy breaks no promise, and what it lost
//! while it was lossless does for ever. A port that is about to go is lossless to the end in what it owes; what comes in there finds
//! it gone.

use xoff_dataplane::counter::Counter;
use xoff_dataplane::counters::{ClassCounters, Counters};
use xoff_dataplane::drop_reason::DropReason;
use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::units::{CLASSES, Class, ClassSet, PortId};

/// One thread writes, any reads.
#[derive(Debug)]
pub struct LossBooks {
    /// By port and class, what it had lost when it became lossless.
    before: Vec<[Counter; CLASSES]>,
    /// What classes have lost that are no longer lossless.
    closed: Counter,
    /// By port.
    leaving: Vec<Leaving>,
    /// Least headroom that was left in lossless classes that are none any more, in bytes, and one; 0: there were none.
    headroom_free_min: Counter,
}

/// A port that is about to go.
#[derive(Debug, Default)]
struct Leaving {
    /// The classes that were lossless, as a [`ClassSet`]; none of a port that stays.
    classes: Counter,
    /// By class, what it had lost of what it owed.
    before: [Counter; CLASSES],
}

impl LossBooks {
    /// Of so many ports, at the start.
    #[must_use]
    pub fn new(ports: usize) -> LossBooks {
        LossBooks {
            before: (0..ports).map(|_| Default::default()).collect(),
            closed: Counter::default(),
            leaving: (0..ports).map(|_| Leaving::default()).collect(),
            headroom_free_min: Counter::default(),
        }
    }

    /// What a class that is lossless now has lost since it is.
    pub(super) fn of(&self, counters: &Counters, port: PortId, class: Class) -> u64 {
        counters.class(port, class).lost().saturating_sub(self.before[port.index()][class.index()].get())
    }

    /// What classes have lost that are no longer lossless.
    pub(super) fn closed_ones(&self, counters: &Counters) -> u64 {
        let ports = (0..=u8::MAX).map(PortId).take(self.leaving.len());
        let leaving = ports.flat_map(|port| self.owed(counters, port));
        self.closed.get() + leaving.map(|(_, frames)| frames).sum::<u64>()
    }

    /// Classes are about to become lossy.
    pub(super) fn closed(&self, counters: &Counters, old: &SwitchSettings, new: &SwitchSettings) {
        for (port, class) in differing(old, new, true) {
            self.closed.add(self.of(counters, port, class));
            self.before[port.index()][class.index()].set(counters.class(port, class).lost());
        }
    }

    /// The port is about to go; these classes were lossless there until now.
    pub(super) fn leaves(&self, counters: &Counters, port: PortId, lossless: ClassSet) {
        let leaving = &self.leaving[port.index()];
        for class in lossless.iter() {
            leaving.before[class.index()].set(lost_of_owed(counters.class(port, class)));
        }
        leaving.classes.set(lossless.0.into());
    }

    /// The port is there no more: what it has lost since it was about to go, by class.
    pub(super) fn left(&self, counters: &Counters, port: PortId) -> Vec<(Class, u64)> {
        let lost: Vec<_> = self.owed(counters, port).filter(|(_, frames)| *frames > 0).collect();
        lost.iter().for_each(|(_, frames)| self.closed.add(*frames));
        self.leaving[port.index()].classes.set(0);
        lost
    }

    /// Classes have become lossy, or have gone with their port: what they left of their headroom is not forgotten.
    pub(super) fn headroom_closed(&self, counters: &Counters, old: &SwitchSettings, new: &SwitchSettings) {
        for (port, class) in differing(old, new, true) {
            let headroom = old.ports[port.index()].classes[class.index()].headroom;
            let free = headroom.0.saturating_sub(counters.class(port, class).headroom_watermark.get());
            self.headroom_free_min.set(free.min(self.headroom_free_min().unwrap_or(u64::MAX - 1)) + 1);
        }
    }

    /// Least headroom that was left in lossless classes that are none any more, in bytes.
    pub(super) fn headroom_free_min(&self) -> Option<u64> {
        self.headroom_free_min.get().checked_sub(1)
    }

    fn owed(&self, counters: &Counters, port: PortId) -> impl Iterator<Item = (Class, u64)> {
        let leaving = &self.leaving[port.index()];
        let classes = ClassSet(u8::try_from(leaving.classes.get()).unwrap_or(0));
        let lost = move |class: Class| {
            let now = lost_of_owed(counters.class(port, class));
            (class, now.saturating_sub(leaving.before[class.index()].get()))
        };
        Class::ALL.into_iter().filter(move |class| classes.contains(*class)).map(lost)
    }

    /// Classes have become lossless.
    pub(super) fn opened(&self, counters: &Counters, old: &SwitchSettings, new: &SwitchSettings) {
        for (port, class) in differing(old, new, false) {
            self.before[port.index()][class.index()].set(counters.class(port, class).lost());
        }
    }
}

/// What was lost, but for what found no room as it came in.
fn lost_of_owed(counters: &ClassCounters) -> u64 {
    let came_in = [DropReason::IngressFull, DropReason::HeadroomExhausted];
    let refused: u64 = came_in.map(|reason| counters.drops[reason.index()].get()).iter().sum();
    counters.lost().saturating_sub(refused)
}

/// Where a class was lossless (or was not) and is no longer.
fn differing<'a>(
    old: &'a SwitchSettings,
    new: &'a SwitchSettings,
    was_lossless: bool,
) -> impl Iterator<Item = (PortId, Class)> + 'a {
    let ports = (0..=u8::MAX).map(PortId).zip(old.ports.iter().zip(&new.ports));
    let pairs = ports.flat_map(|(id, ports)| Class::ALL.map(|class| (id, class, ports)));
    let is =
        |class: Class, port: &xoff_dataplane::settings::PortSettings| port.classes[class.index()].lossless;
    pairs
        .filter(move |(_, class, (old, new))| {
            is(*class, old) == was_lossless && is(*class, new) != was_lossless
        })
        .map(|(id, class, _)| (id, class))
}
