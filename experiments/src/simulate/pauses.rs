//! Pauses as they are asked for, with their causes: a [`Tap`] on every switch sees what leaves, and writes down PFC. A pause ends with
//! its link; the peer is told anew when that is back. Lists of flows (OFC) and rates (GFC) pause no class.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::tap::{Seen, Sighting, Tap};
use xoff_flow_control::cause::Cause;
use xoff_flow_control::counters::Counters;
use xoff_wire::ofc::FlowPause;
use xoff_wire::units::{Class, Nanos, PortId, PortSet, Quanta};
use xoff_wire::{Header, MacControl};

#[derive(Clone, Copy, Debug)]
pub struct Pause {
    /// When its XOFF began to leave.
    pub start: Nanos,
    /// When its XON did, or the link was lost.
    pub end: Option<Nanos>,
    /// By which port it left.
    pub port: PortId,
    /// The class that is to stop.
    pub class: Class,
    pub cause: Option<Cause>,
    /// How often the XOFF was repeated.
    pub refreshes: u64,
}

#[derive(Debug, Default)]
struct Kept {
    pauses: Vec<Pause>,
    /// By port and class, the pause that has not ended.
    open: BTreeMap<(u8, u8), usize>,
}

impl Kept {
    fn end(&mut self, at: Nanos, port: PortId, class: Class) {
        if let Some(open) = self.open.remove(&(port.0, class.get())) {
            self.pauses[open].end = Some(at);
        }
    }
}

/// The pauses of one switch, in the order of their starts.
#[derive(Clone, Debug, Default)]
pub struct Pauses(Arc<Mutex<Kept>>);

impl Pauses {
    /// What writes them down at a switch of so many ports.
    pub fn tap(&self, ports: usize, counters: Arc<Counters>) -> Box<dyn Tap> {
        let ports = (0..=u8::MAX).map(PortId).take(ports).collect();
        Box::new(Watch { ports, counters, pauses: self.clone() })
    }

    pub fn all(&self) -> Vec<Pause> {
        self.kept().pauses.clone()
    }

    /// A port has lost its link, and with it what its peer was told.
    pub fn link_lost(&self, at: Nanos, port: PortId) {
        let kept = &mut *self.kept();
        Class::ALL.into_iter().for_each(|class| kept.end(at, port, class));
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Watch {
    ports: PortSet,
    counters: Arc<Counters>,
    pauses: Pauses,
}

impl Tap for Watch {
    fn ports(&self) -> PortSet {
        self.ports
    }

    fn see(&mut self, sighting: &Sighting, frame: &Frame, store: &dyn FrameStore) {
        if !sighting.is_control || !matches!(sighting.what, Seen::Sent { .. }) {
            return;
        }
        let head = store.head(frame);
        let Ok(header) = Header::parse(head) else { return };
        let Ok(MacControl::Pfc(pfc)) = MacControl::parse(&header, head) else { return };
        // Flows that are to stop one by one are no pause of their class.
        if !matches!(FlowPause::parse(&pfc, head), Ok(None)) {
            return;
        }
        let (at, port) = (sighting.at, sighting.port);
        let kept = &mut *self.pauses.kept();
        for (class, time) in pfc.iter() {
            let key = (port.0, class.get());
            if time == Quanta(0) {
                kept.end(at, port, class);
            } else if let Some(open) = kept.open.get(&key) {
                kept.pauses[*open].refreshes += 1;
            } else {
                let cause = Cause::unpack(self.counters.class(port, class).held_cause.get());
                kept.open.insert(key, kept.pauses.len());
                kept.pauses.push(Pause { start: at, end: None, port, class, cause, refreshes: 0 });
            }
        }
    }
}
