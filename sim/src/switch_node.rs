mod driver_backlog;
mod port_rings;
mod restart;

use std::sync::Arc;

use xoff_dataplane::frame::Frame;
use xoff_dataplane::routing::Fib;
use xoff_dataplane::switch::{Batch, Switch, Workers};
use xoff_dataplane::tap::{Tap, TapId};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::prefetch::prefetch;
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::{Nanos, PortId, PortSet};

use crate::node::{Net, Node, Place};
use crate::pool::Packet;
use crate::slots::{Slots, View};
use crate::time::Picos;

use driver_backlog::DriverBacklog;
pub use driver_backlog::ImpairmentCounts;
pub(crate) use driver_backlog::Request;

/// Simulated switch: the real dataplane with a simulated driver, which handles events at once unless
/// [impaired](SwitchNode::stall).
#[derive(Debug)]
pub struct SwitchNode {
    pub(crate) place: Place,
    pub(crate) backlog: Option<Box<DriverBacklog>>,
    due: Nanos,
    pub(crate) free: PortSet,
    pub(crate) sending: Box<[Option<(u32, u32)>]>,
    pub(crate) slots: Slots,
    pub(crate) switch: Switch,
    pub(crate) counters: Arc<Counters>,
    pub(crate) taps: Vec<TapId>,
    pub(crate) fib: Option<Arc<Fib>>,
    pub(crate) rings: Arc<[u32]>,
    pub(crate) impairment_counts: ImpairmentCounts,
}

/// Numbers of frames for which a switch has packet memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct SlotCounts {
    pub data: u32,
    pub control: u32,
    /// Receive ring size of each port: maximum number of frames that wait while the driver is blocked. Without entry,
    /// no limit.
    pub rings: Arc<[u32]>,
}

impl SwitchNode {
    /// Creates a switch.
    #[must_use]
    pub fn new(place: Place, settings: &SwitchSettings, slots: SlotCounts) -> SwitchNode {
        let ports = settings.ports.len();
        let counters = Counters::with_shadows(ports, settings.shadows.len());
        let workers = Workers::single(ports);
        SwitchNode {
            place,
            backlog: None,
            due: Nanos::NEVER,
            free: (0..=u8::MAX).map(PortId).take(ports).collect(),
            sending: vec![None; ports].into_boxed_slice(),
            slots: Slots::new(slots.data, slots.control),
            switch: Switch::new(settings, slots.data + slots.control, workers, Arc::clone(&counters)),
            counters,
            taps: Vec::new(),
            fib: None,
            rings: slots.rings,
            impairment_counts: ImpairmentCounts::default(),
        }
    }

    /// Returns the switch's counters.
    #[must_use]
    pub const fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Adds a tap, an observer of the switch's frames.
    ///
    /// # Errors
    /// Returns the tap if the switch has its maximum of taps.
    pub fn put_tap(&mut self, id: TapId, tap: Box<dyn Tap>, net: &Net) -> Result<(), Box<dyn Tap>> {
        self.switch.batch(net.now().floor()).put_tap(id, tap)?;
        self.taps.push(id);
        Ok(())
    }

    /// Returns the dataplane of the switch.
    #[must_use]
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// Returns how many arriving frames were lost because the packet slots or the receive ring were full.
    #[must_use]
    pub fn receive_drops(&self) -> u64 {
        self.impairment_counts.receive_drops
    }

    pub(crate) fn request(&mut self, request: Request, net: &mut Net) {
        if self.backlog.is_some() { self.queue_request(request, net) } else { self.perform(request, net) }
    }

    pub(crate) fn perform(&mut self, request: Request, net: &mut Net) {
        if let Request::Restart(settings, begins) = request {
            return self.restart(&settings, begins, net);
        }
        let view = &mut View { pool: &mut net.pool, slots: &mut self.slots };
        request.perform(&mut self.switch.batch(net.links.now.floor()), view, &mut self.fib);
        self.step(net, |_, _| ());
    }

    /// Installs a routing table; it takes effect at the driver's next poll.
    pub fn set_fib(&mut self, fib: Arc<Fib>, net: &mut Net) {
        self.request(Request::Route(fib), net);
    }

    #[inline]
    pub(crate) fn step(&mut self, net: &mut Net, happens: impl FnOnce(&mut Batch, &mut View)) {
        let now = net.now().floor();
        let view = &mut View { pool: &mut net.pool, slots: &mut self.slots };
        let mut batch = self.switch.batch(now);
        batch.advance(view);
        happens(&mut batch, view);
        drop(batch);
        self.follow_up(net);
    }

    #[inline(never)]
    fn follow_up(&mut self, net: &mut Net) {
        let now = net.now().floor();
        let view = &mut View { pool: &mut net.pool, slots: &mut self.slots };
        let mut batch = self.switch.batch(now);
        while batch.forward(view) {}
        drop(batch);
        let mut next = Nanos::NEVER;
        let ready = self.switch.egress_active().and(&self.free);
        for port in ready.iter() {
            let mut sent = None;
            let view = &mut View { pool: &mut net.pool, slots: &mut self.slots };
            self.switch.batch(now).transmit(port, view, 1, |_, frame| sent = Some(frame));
            if let Some(frame) = sent {
                self.start(port, frame, net);
            } else if let Some(ready_at) = self.switch.ready_at(port).filter(|ready_at| *ready_at > now) {
                next = next.min(ready_at);
            }
        }
        next = next.min(self.switch.next_timer());
        if next < self.due {
            self.due = next;
            net.wake(self.place, Picos::from(next));
        }
    }

    #[inline]
    fn start(&mut self, port: PortId, frame: Frame, net: &mut Net) {
        net.start(self.place, port, self.slots.send(&frame));
        self.sending[port.index()] = Some(frame.into_parts());
        self.free.remove(port);
    }

    /// Returns how many frames are in the switch and on its outgoing lines.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.switch.ledger().held
    }
}

impl Node for SwitchNode {
    #[inline]
    fn arrived(&mut self, port: PortId, packet: Packet, net: &mut Net) {
        if self.backlog.is_some() {
            return self.queue_arrival(port, packet, net);
        }
        let Some(frame) = self.slots.fill(packet) else {
            self.impairment_counts.receive_drops += 1;
            return net.pool.free(packet);
        };
        self.step(net, |batch, view| batch.receive(port, frame, view));
    }

    #[inline]
    fn left(&mut self, port: PortId, net: &mut Net) {
        if self.backlog.is_some() {
            return self.queue_completion(port, net);
        }
        self.free.insert(port);
        if let Some((slot, len)) = self.sending[port.index()].take() {
            self.step(net, |batch, view| batch.release(port, Frame::new(slot, len), view));
        }
    }

    fn due(&mut self, net: &mut Net) {
        let is_timer = self.due <= net.now().floor();
        if is_timer {
            self.due = Nanos::NEVER;
        }
        if self.backlog.is_some() { self.poll_due(is_timer, net) } else { self.step(net, |_, _| ()) }
    }

    fn linked(&mut self, port: PortId, is_up: bool, net: &mut Net) {
        self.request(Request::Link(port, is_up), net);
    }

    fn prefetch(&self, step: usize, net: &Net) -> bool {
        self.switch.prefetch(step);
        // Prefetch a pointer one step before the data behind it.
        let port = |ago| {
            let port = u8::try_from(step.checked_sub(ago)?).ok().map(PortId)?;
            (port.index() < self.sending.len()).then_some(port)
        };
        if let Some(port) = port(0) {
            net.prefetch_out(self.place, port);
            prefetch(&self.sending[port.index()]);
        }
        if let Some(port) = port(1) {
            net.going(self.place, port).prefetch_last(&net.pool);
            net.prefetch_in(self.place, port);
        }
        let sent = port(1).and_then(|port| self.sending[port.index()]).map(|(slot, _)| slot);
        for slot in [self.slots.filled_soon(step), sent].into_iter().flatten() {
            self.switch.prefetch_frame(slot);
            self.slots.prefetch(slot);
        }
        if let Some(port) = port(2) {
            net.coming(self.place, port).prefetch_first(&net.pool);
        }
        if let Some(port) = port(3)
            && let Some(first) = net.coming(self.place, port).packets(&net.pool).next()
        {
            self.switch.prefetch_coming(port, net.pool.head(first));
        }
        step < self.sending.len() + 2
    }

    fn holds(&self) -> u64 {
        let backlog = self.backlog.as_ref().map_or(0, |backlog| backlog.holds());
        let on_lines = self.sending.iter().flatten().count() as u64;
        (self.frames() - on_lines).saturating_add_signed(backlog)
    }
}
