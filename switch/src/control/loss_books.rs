//! Counts losses of lossless classes across reloads. A loss counts forever, even if a reload makes its class lossy or removes its port.

use xoff_flow_control::counter::Counter;
use xoff_flow_control::counters::{ClassCounters, Counters};
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::{CLASSES, Class, ClassSet, PortId};

#[derive(Debug)]
pub struct LossBooks {
    /// Losses to subtract from the counters, by port and class: losses before the class became lossless, and losses
    /// counted in `closed`.
    before: Vec<[Counter; CLASSES]>,
    /// Losses of classes while they were lossless, before a reload made them lossy or removed their port.
    closed: Counter,
    leaving: Vec<Leaving>,
    /// Minimum free headroom of classes that a reload made lossy, in bytes plus one; 0 without such a class.
    headroom_free_min: Counter,
}

#[derive(Debug, Default)]
struct Leaving {
    /// Lossless classes of a port that is being removed, as bits of a [`ClassSet`]; empty for other ports.
    classes: Counter,
    /// Losses before the removal began, of frames that the port had to send, by class.
    before: [Counter; CLASSES],
}

impl LossBooks {
    #[must_use]
    pub fn new(ports: usize) -> LossBooks {
        LossBooks {
            before: (0..ports).map(|_| Default::default()).collect(),
            closed: Counter::default(),
            leaving: (0..ports).map(|_| Leaving::default()).collect(),
            headroom_free_min: Counter::default(),
        }
    }

    pub(super) fn of(&self, counters: &Counters, port: PortId, class: Class) -> u64 {
        counters.class(port, class).lost().saturating_sub(self.before[port.index()][class.index()].get())
    }

    pub(super) fn closed_ones(&self, counters: &Counters) -> u64 {
        let ports = (0..=u8::MAX).map(PortId).take(self.leaving.len());
        let leaving = ports.flat_map(|port| self.owed(counters, port));
        self.closed.get() + leaving.map(|(_, frames)| frames).sum::<u64>()
    }

    pub(super) fn closed(&self, counters: &Counters, old: &SwitchSettings, new: &SwitchSettings) {
        for (port, class) in differing(old, new, true) {
            self.closed.add(self.of(counters, port, class));
            self.before[port.index()][class.index()].set(counters.class(port, class).lost());
        }
    }

    pub(super) fn leaves(&self, counters: &Counters, port: PortId, lossless: ClassSet) {
        let leaving = &self.leaving[port.index()];
        for class in lossless.iter() {
            leaving.before[class.index()].set(lost_of_owed(counters.class(port, class)));
        }
        leaving.classes.set(lossless.0.into());
    }

    pub(super) fn left(&self, counters: &Counters, port: PortId) -> Vec<(Class, u64)> {
        let lost: Vec<_> = self.owed(counters, port).filter(|(_, frames)| *frames > 0).collect();
        lost.iter().for_each(|(_, frames)| self.closed.add(*frames));
        self.leaving[port.index()].classes.set(0);
        lost
    }

    pub(super) fn headroom_closed(&self, counters: &Counters, old: &SwitchSettings, new: &SwitchSettings) {
        for (port, class) in differing(old, new, true) {
            let headroom = old.ports[port.index()].classes[class.index()].headroom;
            let free = headroom.0.saturating_sub(counters.class(port, class).headroom_watermark.get());
            self.headroom_free_min.set(free.min(self.headroom_free_min().unwrap_or(u64::MAX - 1)) + 1);
        }
    }

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

    pub(super) fn opened(&self, counters: &Counters, old: &SwitchSettings, new: &SwitchSettings) {
        for (port, class) in differing(old, new, false) {
            self.before[port.index()][class.index()].set(counters.class(port, class).lost());
        }
    }
}

fn lost_of_owed(counters: &ClassCounters) -> u64 {
    let came_in = [DropReason::IngressFull, DropReason::HeadroomExhausted];
    let refused: u64 = came_in.map(|reason| counters.drops[reason.index()].get()).iter().sum();
    counters.lost().saturating_sub(refused)
}

fn differing<'a>(
    old: &'a SwitchSettings,
    new: &'a SwitchSettings,
    was_lossless: bool,
) -> impl Iterator<Item = (PortId, Class)> + 'a {
    let ports = (0..=u8::MAX).map(PortId).zip(old.ports.iter().zip(&new.ports));
    let pairs = ports.flat_map(|(id, ports)| Class::ALL.map(|class| (id, class, ports)));
    let is =
        |class: Class, port: &xoff_flow_control::settings::PortSettings| port.classes[class.index()].lossless;
    pairs
        .filter(move |(_, class, (old, new))| {
            is(*class, old) == was_lossless && is(*class, new) != was_lossless
        })
        .map(|(id, class, _)| (id, class))
}
