//! What the lossless classes have lost, where a class may have been lossy before, or be so later.
//!
//! A class counts what it loses whatever it is called. What it lost while it was lossy breaks no promise, and what it lost
//! while it was lossless does for ever.

use xoff_dataplane::counter::Counter;
use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::units::{CLASSES, Class, ClassSet, PortId};

use super::SwitchView;
use super::snapshot::lost;

/// One thread writes, any reads.
#[derive(Debug)]
pub struct LossBooks {
    /// By port and class, what it had lost when it became lossless.
    before: Vec<[Counter; CLASSES]>,
    /// What classes have lost that are no longer lossless.
    closed: Counter,
}

impl LossBooks {
    /// Of so many ports, at the start.
    #[must_use]
    pub fn new(ports: usize) -> LossBooks {
        LossBooks { before: (0..ports).map(|_| Default::default()).collect(), closed: Counter::default() }
    }

    /// What a class that is lossless now has lost since it is.
    pub(super) fn of(&self, view: &SwitchView, port: PortId, class: Class) -> u64 {
        lost(view.counters.class(port, class)).saturating_sub(self.before[port.index()][class.index()].get())
    }

    /// What classes have lost that are no longer lossless.
    pub(super) fn closed_ones(&self) -> u64 {
        self.closed.get()
    }

    /// Classes are about to become lossy.
    pub(super) fn closed(&self, view: &SwitchView, old: &SwitchSettings, new: &SwitchSettings) {
        for (port, class) in differing(old, new, true) {
            self.closed.add(self.of(view, port, class));
            self.before[port.index()][class.index()].set(lost(view.counters.class(port, class)));
        }
    }

    /// The port is there no more: what these classes, lossless until it was to go, have lost since counts, too, and is answered.
    pub(super) fn left(&self, view: &SwitchView, port: PortId, lossless: ClassSet) -> Vec<(Class, u64)> {
        let lost = lossless.iter().map(|class| (class, self.of(view, port, class)));
        let lost: Vec<_> = lost.filter(|(_, frames)| *frames > 0).collect();
        lost.iter().for_each(|(_, frames)| self.closed.add(*frames));
        lost
    }

    /// Classes have become lossless.
    pub(super) fn opened(&self, view: &SwitchView, old: &SwitchSettings, new: &SwitchSettings) {
        for (port, class) in differing(old, new, false) {
            self.before[port.index()][class.index()].set(lost(view.counters.class(port, class)));
        }
    }
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
