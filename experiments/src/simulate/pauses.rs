//! Records the pauses that switches request, with their causes. A pause ends when its link fails. Pauses of flows (OFC)
//! and rate limits (GFC) are not recorded, because they pause no class.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::tap::{FrameEvent, Sighting, Tap};
use xoff_flow_control::cause::Cause;
use xoff_flow_control::counters::Counters;
use xoff_wire::ofc::FlowPause;
use xoff_wire::units::{Class, Nanos, PortId, PortSet, Quanta};
use xoff_wire::{Header, MacControl};

#[derive(Clone, Copy, Debug)]
pub struct Pause {
    pub start: Nanos,
    /// Time at which the XON's transmission began, or the link failed.
    pub end: Option<Nanos>,
    pub port: PortId,
    pub class: Class,
    pub cause: Option<Cause>,
    pub refreshes: u64,
}

#[derive(Debug, Default)]
struct PauseList {
    pauses: Vec<Pause>,
    open: BTreeMap<(u8, u8), usize>,
}

impl PauseList {
    fn end(&mut self, at: Nanos, port: PortId, class: Class) {
        if let Some(open) = self.open.remove(&(port.0, class.get())) {
            self.pauses[open].end = Some(at);
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Pauses(Arc<Mutex<PauseList>>);

impl Pauses {
    pub fn tap(&self, ports: usize, counters: Arc<Counters>) -> Box<dyn Tap> {
        let ports = (0..=u8::MAX).map(PortId).take(ports).collect();
        Box::new(PauseTap { ports, counters, pauses: self.clone() })
    }

    pub fn all(&self) -> Vec<Pause> {
        self.list().pauses.clone()
    }

    pub fn link_lost(&self, at: Nanos, port: PortId) {
        let list = &mut *self.list();
        Class::ALL.into_iter().for_each(|class| list.end(at, port, class));
    }

    fn list(&self) -> MutexGuard<'_, PauseList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct PauseTap {
    ports: PortSet,
    counters: Arc<Counters>,
    pauses: Pauses,
}

impl Tap for PauseTap {
    fn ports(&self) -> PortSet {
        self.ports
    }

    fn see(&mut self, sighting: &Sighting, frame: &Frame, store: &dyn FrameStore) {
        if !sighting.is_control || !matches!(sighting.event, FrameEvent::Sent { .. }) {
            return;
        }
        let head = store.head(frame);
        let Ok(header) = Header::parse(head) else { return };
        let Ok(MacControl::Pfc(pfc)) = MacControl::parse(&header, head) else { return };
        if !matches!(FlowPause::parse(&pfc, head), Ok(None)) {
            return;
        }
        let (at, port) = (sighting.at, sighting.port);
        let list = &mut *self.pauses.list();
        for (class, time) in pfc.iter() {
            let key = (port.0, class.get());
            if time == Quanta(0) {
                list.end(at, port, class);
            } else if let Some(open) = list.open.get(&key) {
                list.pauses[*open].refreshes += 1;
            } else {
                let cause = Cause::unpack(self.counters.class(port, class).held_cause.get());
                list.open.insert(key, list.pauses.len());
                list.pauses.push(Pause { start: at, end: None, port, class, cause, refreshes: 0 });
            }
        }
    }
}
