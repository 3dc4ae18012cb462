//! A switch of the fabric: the dataplane, and the driver of ideal hardware around it. That looks at once, hands one frame at a
//! time to each line, and hears at once that its last bit has left.

use std::sync::Arc;

use xoff_dataplane::counters::Counters;
use xoff_dataplane::frame::Frame;
use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::switch::{Batch, Switch, Workers};
use xoff_dataplane::units::{Nanos, PortId, PortSet};

use crate::ends::{LinkId, NodeId};
use crate::event::Event;
use crate::link::Links;
use crate::pool::{Packet, Pool};
use crate::slots::{Slots, View};
use crate::time::Picos;

/// A switch.
#[derive(Debug)]
pub struct SwitchNode {
    id: NodeId,
    /// Of its port 0; those of the others follow.
    first_link: u32,
    /// When it is to be looked at without anything else happening, at the soonest.
    due: Nanos,
    /// Ports whose line is free.
    free: PortSet,
    /// By port, the frame on the line: its slot and length.
    sending: Box<[Option<(u32, u32)>]>,
    /// Frames that came when no slot was free.
    never_seen: u64,
    slots: Slots,
    switch: Switch,
    counters: Arc<Counters>,
}

/// Slots of a switch's packet memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotCounts {
    /// For data.
    pub data: u32,
    /// For control frames.
    pub control: u32,
}

impl SwitchNode {
    pub(crate) fn new(
        id: NodeId,
        first_link: u32,
        settings: &SwitchSettings,
        slots: SlotCounts,
    ) -> SwitchNode {
        let ports = settings.ports.len();
        let counters = Counters::with_shadows(ports, settings.shadows.len());
        let workers = Workers::single(ports);
        SwitchNode {
            id,
            first_link,
            due: Nanos::NEVER,
            free: (0..=u8::MAX).map(PortId).take(ports).collect(),
            sending: vec![None; ports].into_boxed_slice(),
            never_seen: 0,
            slots: Slots::new(slots.data, slots.control),
            switch: Switch::new(settings, slots.data + slots.control, workers, Arc::clone(&counters)),
            counters,
        }
    }

    /// What users see of it.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The dataplane.
    #[must_use]
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// Frames that came when no slot was free: a driver's empty fill ring.
    #[must_use]
    pub fn never_seen(&self) -> u64 {
        self.never_seen
    }

    /// A frame has come in.
    #[inline]
    pub(crate) fn arrived(
        &mut self,
        port: PortId,
        packet: Packet,
        len: u32,
        pool: &mut Pool,
        links: &mut Links,
    ) {
        let Some(frame) = self.slots.fill(packet, len) else {
            self.never_seen += 1;
            return pool.free(packet);
        };
        self.step(pool, links, |batch, view| batch.receive(port, frame, view));
    }

    /// The last bit of the frame on the line of `port` has left.
    #[inline]
    pub(crate) fn left(&mut self, port: PortId, pool: &mut Pool, links: &mut Links) {
        self.free.insert(port);
        if let Some((slot, len)) = self.sending[port.index()].take() {
            self.step(pool, links, |batch, view| batch.release(port, Frame::new(slot, len), view));
        }
    }

    /// The time that it waited for.
    pub(crate) fn due(&mut self, pool: &mut Pool, links: &mut Links) {
        if self.due <= links.now.floor() {
            self.due = Nanos::NEVER;
        }
        self.step(pool, links, |_, _| ());
    }

    /// Something happens; what follows from it at once is done.
    #[inline]
    fn step(&mut self, pool: &mut Pool, links: &mut Links, happens: impl FnOnce(&mut Batch, &mut View)) {
        let now = links.now.floor();
        let view = &mut View { pool, slots: &mut self.slots };
        let mut batch = self.switch.batch(now);
        batch.advance(view);
        happens(&mut batch, view);
        while batch.forward(view) {}
        drop(batch);
        let mut next = Nanos::NEVER;
        let ready = self.switch.egress_active().and(&self.free);
        for port in ready.iter() {
            let mut sent = None;
            self.switch.batch(now).transmit(port, view, 1, |store, frame| {
                let packet = store.slots.send(&frame);
                sent = Some((packet, frame.into_parts()));
            });
            if let Some((packet, (slot, len))) = sent {
                links.start(LinkId(self.first_link + u32::from(port.0)), packet, len);
                self.sending[port.index()] = Some((slot, len));
                self.free.remove(port);
            } else if let Some(ready_at) = self.switch.ready_at(port).filter(|ready_at| *ready_at > now) {
                next = next.min(ready_at);
            }
        }
        next = next.min(self.switch.next_timer());
        if next < self.due {
            self.due = next;
            links.calendar.put(Picos::from(next).max(links.now), Event::Due(self.id).subject());
        }
    }

    /// Frames that are its own, those on its lines included.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.switch.ledger().held
    }

    /// Frames on its lines: their last bits have yet to leave.
    pub(crate) fn sending(&self) -> usize {
        self.sending.iter().flatten().count()
    }
}
