//! Occupancy of ingress and egress queues by (port, class).
//!
//! Every byte counts at an ingress queue, which decides about pauses, and at an egress queue, which decides about
//! congestion. With [`Memory::Dedicated`], a lossless queue fills up to XOFF, then its headroom. With
//! [`Memory::Shared`], a queue fills its reserve, then takes bytes from the pool within its limits, then its
//! headroom.

mod egress;
mod ingress;
mod lossy;

use std::sync::Arc;

use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, PortId, TAGS};

use crate::counters::Counters;
use crate::decision::Occupancies;
use crate::drop_reason::DropReason;
pub use crate::load::Load;
pub use crate::load::Margin;
use crate::occupancy::Occupancy;
use crate::prefetch::prefetch;
use crate::settings::{
    Accounting, EgressLimits, HeadroomPlace, Memory, PortSettings, SharedMemory, SwitchSettings,
};
use egress::EgressQueue;
use ingress::IngressQueue;
use lossy::LossyUse;

/// Occupancies of all queues in one worker.
#[derive(Debug)]
pub struct Buffer {
    memory: Memory,
    ingress: Box<[[IngressQueue; CLASSES]]>,
    egress: Box<[[EgressQueue; CLASSES]]>,
    pool_used: Bytes,
    port_used: Box<[Bytes]>,
    egress_used: Bytes,
    egress_port_used: Box<[Bytes]>,
    egress_is_pooled: bool,
    lossless: ClassSet,
    lossy: LossyUse,
    occupancy: Arc<Occupancy>,
    counters: Arc<Counters>,
}

impl Buffer {
    /// Creates the buffer of a worker that owns `own_ports` ports.
    pub fn new(settings: &SwitchSettings, own_ports: usize, counters: Arc<Counters>) -> Buffer {
        let per_port = |port: usize| settings.ports[port].classes;
        let ports = settings.ports.len();
        let limits_all = limits_all_egress(settings);
        let (exempt, lossless) = (exempt(settings), settings.lossless_anywhere());
        Buffer {
            memory: settings.memory,
            ingress: (0..ports)
                .map(|port| {
                    let longest = longest_frame(&settings.ports[port]);
                    per_port(port).map(|class| IngressQueue::new(&class, settings.memory, longest))
                })
                .collect(),
            egress: (0..ports)
                .map(|port| {
                    let classes = per_port(port);
                    let queue = |class: Class| {
                        let settings = &classes[class.index()];
                        EgressQueue::new(settings, exempt.contains(class), !lossless.contains(class))
                    };
                    Class::ALL.map(queue)
                })
                .collect(),
            pool_used: Bytes::ZERO,
            port_used: vec![Bytes::ZERO; ports].into_boxed_slice(),
            egress_used: Bytes::ZERO,
            egress_port_used: vec![Bytes::ZERO; ports].into_boxed_slice(),
            egress_is_pooled: limits_all && settings.accounting == Accounting::UntilForwarded,
            lossless,
            lossy: LossyUse::new(settings.lossy_pool, own_ports, ports),
            occupancy: Arc::clone(counters.occupancy()),
            counters,
        }
    }

    /// Applies new limits to all queues; queued frames stay counted.
    pub fn revise(&mut self, settings: &SwitchSettings) {
        let (exempt, lossless) = (exempt(settings), settings.lossless_anywhere());
        let is_shared = matches!(settings.memory, Memory::Shared(_));
        let counts_at_ingress = settings.accounting == Accounting::UntilTransmitted;
        self.memory = settings.memory;
        self.egress_is_pooled =
            limits_all_egress(settings) && settings.accounting == Accounting::UntilForwarded;
        (self.pool_used, self.egress_used) = (Bytes::ZERO, Bytes::ZERO);
        self.lossless = lossless;
        self.lossy.revise(settings.lossy_pool);
        for (index, port) in settings.ports.iter().enumerate() {
            let (mut pooled, mut beyond_reserves) = (Bytes::ZERO, Bytes::ZERO);
            for class in Class::ALL {
                let of_class = &port.classes[class.index()];
                let ingress = &mut self.ingress[index][class.index()];
                ingress.revise(of_class, settings.memory, longest_frame(port));
                pooled += ingress.pooled();
                let egress = &mut self.egress[index][class.index()];
                let keeps_room =
                    lossless.contains(class) && (counts_at_ingress || egress.bytes > Bytes::ZERO);
                egress.revise(of_class, exempt.contains(class), !lossless.contains(class), keeps_room);
                self.lossy.enter(egress.pooled());
                if !egress.exempt {
                    beyond_reserves += egress.bytes.saturating_sub(egress.reserve);
                }
            }
            if is_shared {
                (self.port_used[index], self.egress_port_used[index]) = (pooled, beyond_reserves);
                self.pool_used += pooled;
                self.egress_used += beyond_reserves;
            }
        }
    }

    /// Prefetches the occupancy of `class` at `port`.
    #[inline]
    pub fn prefetch(&self, port: PortId, class: Class) {
        prefetch(&self.ingress[port.index()][class.index()]);
        prefetch(&self.egress[port.index()][class.index()]);
    }

    /// Adds frames to the occupancy of their ingress queue.
    ///
    /// # Errors
    /// Returns the drop reason if memory is exhausted.
    #[inline]
    pub fn enter_ingress(
        &mut self,
        port: PortId,
        class: Class,
        load: impl Into<Load>,
    ) -> Result<(), DropReason> {
        let threshold = self.ingress_threshold(port, class);
        let left = self.left_for_headroom(port).unwrap_or(Bytes::MAX);
        let queue = &mut self.ingress[port.index()][class.index()];
        let from_pool = queue.enter(load.into(), threshold, left)?;
        if let Memory::Shared(_) = self.memory {
            self.pool_used += from_pool;
            self.port_used[port.index()] += from_pool;
        }
        self.show_ingress(port, class);
        Ok(())
    }

    /// Returns how many frames and bytes the ingress queue can take without an XOFF or a drop.
    #[inline]
    #[must_use]
    pub fn margin_below_xoff(&self, port: PortId, class: Class) -> Margin {
        self.below_xoff(port, class).unwrap_or(Margin::NONE)
    }

    #[inline]
    fn below_xoff(&self, port: PortId, class: Class) -> Option<Margin> {
        let queue = &self.ingress[port.index()][class.index()];
        let mut fixed = queue.below_xoff(self.fixed_threshold(port, class))?;
        if let Some(left) = self.left_for_headroom(port) {
            if queue.lacks_room(left) {
                return None;
            }
            fixed.bytes = fixed.bytes.min(queue.until_room_lacks(left));
        }
        match self.memory {
            Memory::Shared(SharedMemory { alpha_log2: Some(n), pool, .. }) => {
                let mut dynamic = queue.below_xoff(self.dynamic_threshold(pool, n))?;
                // Divide the margin by at least 1 + alpha (alpha = 2^n): each queued byte also lowers the threshold by
                // alpha bytes.
                dynamic.bytes.0 >>= u32::from(n.max(0).unsigned_abs()) + 1;
                Some(fixed.min(dynamic))
            }
            Memory::Shared(_) | Memory::Dedicated => Some(fixed),
        }
    }

    /// Subtracts frames from the occupancy of their ingress queue.
    #[inline]
    pub fn leave_ingress(&mut self, port: PortId, class: Class, load: impl Into<Load>) {
        let queue = &mut self.ingress[port.index()][class.index()];
        let to_pool = queue.leave(load.into());
        if let Memory::Shared(_) = self.memory {
            self.pool_used -= to_pool;
            self.port_used[port.index()] -= to_pool;
        }
        let counters = self.counters.class(port, class);
        counters.ingress_bytes.set(queue.bytes().0);
        counters.headroom_bytes.set(queue.headroom_used().0);
    }

    /// Returns whether the ingress queue is at XOFF, or its next frame might find no headroom in the pool.
    #[inline]
    #[must_use]
    pub fn at_xoff(&self, port: PortId, class: Class) -> bool {
        self.below_xoff(port, class).is_none()
    }

    /// Returns whether the ingress queue is below XON.
    #[inline]
    #[must_use]
    pub fn below_xon(&self, port: PortId, class: Class) -> bool {
        let queue = &self.ingress[port.index()][class.index()];
        let lacks_room = || self.left_for_headroom(port).is_some_and(|left| queue.lacks_room(left));
        queue.below_xon(self.ingress_threshold(port, class)) && !lacks_room()
    }

    /// Returns the ingress queue's XOFF threshold.
    #[inline]
    #[must_use]
    pub fn xoff(&self, port: PortId, class: Class) -> Bytes {
        self.ingress[port.index()][class.index()].xoff(self.ingress_threshold(port, class))
    }

    /// Returns the ingress queue's XON threshold.
    #[inline]
    #[must_use]
    pub fn xon(&self, port: PortId, class: Class) -> Bytes {
        self.ingress[port.index()][class.index()].xon(self.ingress_threshold(port, class))
    }

    /// Returns the ingress queue's XON thresholds in frames and in bytes, each divided by `parts`.
    #[inline]
    pub fn part_of_xon(&self, port: PortId, class: Class, parts: u32) -> Load {
        let frames = self.ingress[port.index()][class.index()].xon_in_frames() / parts;
        Load { frames, bytes: Bytes(self.xon(port, class).0 / u64::from(parts)) }
    }

    /// Returns bytes of `class` received on `port` that still count at ingress.
    #[inline]
    #[must_use]
    pub fn ingress(&self, port: PortId, class: Class) -> Bytes {
        self.ingress[port.index()][class.index()].bytes()
    }

    /// Returns how many bytes of the ingress queue's headroom are in use.
    #[inline]
    #[must_use]
    pub fn headroom_used(&self, port: PortId, class: Class) -> Bytes {
        self.ingress[port.index()][class.index()].headroom_used()
    }

    /// Returns the bytes of `class` at egress `port`, queued or in the driver.
    #[inline]
    #[must_use]
    pub fn egress(&self, port: PortId, class: Class) -> Bytes {
        self.egress[port.index()][class.index()].bytes
    }

    /// Returns the bytes of `class` at port `egress`, queued or in the driver, that port `ingress` (of any worker)
    /// received.
    #[inline]
    #[must_use]
    pub fn between(&self, ingress: PortId, egress: PortId, class: Class) -> Bytes {
        Bytes(self.occupancy.between(ingress, egress, class).get())
    }

    /// Returns the egress port with most bytes of `class` from `ingress`. Too slow to call per frame.
    #[must_use]
    pub fn fullest_behind(&self, ingress: PortId, class: Class) -> Option<PortId> {
        let ports = (0..=u8::MAX).map(PortId).take(self.ingress.len());
        let held = |egress: &PortId| self.between(ingress, *egress, class);
        ports.rev().max_by_key(held).filter(|egress| held(egress) > Bytes::ZERO)
    }

    /// Returns the fullest egress queue. Too slow to call per frame.
    #[must_use]
    pub fn fullest(&self) -> Option<(PortId, Class)> {
        let ports = (0..=u8::MAX).map(PortId).take(self.egress.len());
        let queues = ports.flat_map(|port| Class::ALL.map(|class| (port, class)));
        let held = |queue: &(PortId, Class)| self.egress(queue.0, queue.1);
        queues.max_by_key(held).filter(|queue| held(queue) > Bytes::ZERO)
    }

    /// Returns whether the ingress queue is at XOFF only because other queues fill the shared pool.
    #[must_use]
    pub fn lacks_pool(&self, port: PortId, class: Class) -> bool {
        let is_shared = matches!(self.memory, Memory::Shared(_));
        let is_at_own = self.ingress[port.index()][class.index()].is_at_own_xoff();
        is_shared && !is_at_own && self.at_xoff(port, class)
    }

    /// Returns whether `class` is lossy at every port.
    #[inline]
    pub fn is_lossy(&self, class: Class) -> bool {
        !self.lossless.contains(class)
    }

    /// Returns whether a frame of `size` bytes fits into the egress queue.
    #[inline]
    #[must_use]
    pub fn egress_has_room(&self, port: PortId, class: Class, size: Bytes) -> bool {
        self.egress_room(port, class).allows(Load::from(size))
    }

    /// Returns how many frames and bytes still fit into the egress queue.
    #[inline]
    #[must_use]
    pub fn egress_room(&self, port: PortId, class: Class) -> Margin {
        let queue = &self.egress[port.index()][class.index()];
        let own = Margin {
            frames: queue.frames_max.saturating_sub(queue.frames),
            bytes: queue.max.saturating_sub(queue.bytes.saturating_add(Bytes(1))),
        };
        let own = if queue.is_lossy { own.min(self.lossy.room(queue.bytes)) } else { own };
        match self.memory {
            Memory::Shared(shared) if !queue.exempt => {
                let in_reserve = queue.reserve.saturating_sub(queue.bytes);
                let of_port = shared.egress_port_limit.saturating_sub(self.egress_port_used[port.index()]);
                let in_pool = shared.egress_limit.saturating_sub(self.egress_used).min(of_port);
                own.min(Margin::of(in_reserve.saturating_add(in_pool)))
            }
            Memory::Shared(_) | Memory::Dedicated => own,
        }
    }

    /// Returns whether a frame's copies for `ports` fit into the shared egress limit. Also true while no queued byte
    /// counts against the limit, because waiting would free nothing.
    #[inline]
    pub fn egresses_have_room(&self, ports: impl Iterator<Item = PortId>, class: Class, size: Bytes) -> bool {
        let Memory::Shared(shared) = self.memory else { return true };
        let taken = ports
            .map(|port| self.egress_beyond_reserve(port, class, size))
            .fold(Bytes::ZERO, Bytes::saturating_add);
        let makes_room = taken > Bytes::ZERO && self.egress_used > Bytes::ZERO;
        !makes_room || self.egress_used.saturating_add(taken) <= shared.egress_limit
    }

    /// Returns how many of `size` additional bytes would exceed the egress queue's reserve.
    #[inline]
    pub fn egress_beyond_reserve(&self, port: PortId, class: Class, size: Bytes) -> Bytes {
        self.egress[port.index()][class.index()].beyond_reserve_with(size)
    }

    /// Adds frames from `ingress` to the occupancy of an egress queue.
    #[inline]
    pub fn enter_egress(&mut self, ingress: PortId, port: PortId, class: Class, load: impl Into<Load>) {
        let load = load.into();
        self.occupancy.between(ingress, port, class).add(load.bytes.0);
        let queue = &mut self.egress[port.index()][class.index()];
        if let Memory::Shared(_) = self.memory {
            let beyond = queue.beyond_reserve_with(load.bytes);
            self.egress_used += beyond;
            self.egress_port_used[port.index()] += beyond;
        }
        self.lossy.enter(queue.enter(load));
        self.occupancy.queue(port, class).egress_bytes.set(queue.bytes.0);
        let counters = self.counters.class(port, class);
        counters.egress_bytes.set(queue.bytes.0);
        counters.egress_watermark.raise(queue.bytes.0);
    }

    /// Subtracts frames received on `ingress` from the occupancy of an egress queue.
    #[inline]
    pub fn leave_egress(&mut self, ingress: PortId, port: PortId, class: Class, load: impl Into<Load>) {
        let load = load.into();
        self.occupancy.between(ingress, port, class).sub(load.bytes.0);
        let queue = &mut self.egress[port.index()][class.index()];
        self.lossy.leave(queue.leave(load));
        if let Memory::Shared(_) = self.memory {
            let beyond = queue.beyond_reserve_with(load.bytes);
            self.egress_used -= beyond;
            self.egress_port_used[port.index()] -= beyond;
        }
        self.occupancy.queue(port, class).egress_bytes.set(queue.bytes.0);
        self.counters.class(port, class).egress_bytes.set(queue.bytes.0);
    }

    #[inline]
    fn ingress_threshold(&self, port: PortId, class: Class) -> Bytes {
        let fixed = self.fixed_threshold(port, class);
        match self.memory {
            Memory::Shared(SharedMemory { alpha_log2: Some(n), pool, .. }) => {
                fixed.min(self.dynamic_threshold(pool, n))
            }
            Memory::Shared(_) | Memory::Dedicated => fixed,
        }
    }

    #[inline]
    fn fixed_threshold(&self, port: PortId, class: Class) -> Bytes {
        let queue = &self.ingress[port.index()][class.index()];
        let own = queue.limit();
        match self.memory {
            Memory::Dedicated => own,
            Memory::Shared(shared) => {
                // Pool bytes that the queue may hold: those it has, plus those that `limit` leaves free.
                let left = |limit: Bytes, used: Bytes| {
                    queue.pooled_below_xoff().saturating_add(limit.saturating_sub(used))
                };
                own.min(left(shared.pool, self.all_pool_used()))
                    .min(left(shared.ingress_limit, self.pool_used))
                    .min(left(shared.port_limit, self.port_used[port.index()]))
            }
        }
    }

    #[inline]
    fn pool_left(&self, pool: Bytes) -> Bytes {
        pool.saturating_sub(self.all_pool_used())
    }

    #[inline]
    fn all_pool_used(&self) -> Bytes {
        match self.egress_is_pooled {
            true => self.pool_used.saturating_add(self.egress_used),
            false => self.pool_used,
        }
    }

    #[inline]
    fn left_for_headroom(&self, port: PortId) -> Option<Bytes> {
        match self.memory {
            Memory::Shared(shared) if shared.headroom == HeadroomPlace::Pool => {
                let left = self.pool_left(shared.pool);
                let of_ingress = shared.ingress_limit.saturating_sub(self.pool_used);
                Some(left.min(of_ingress).min(shared.port_limit.saturating_sub(self.port_used[port.index()])))
            }
            Memory::Shared(_) | Memory::Dedicated => None,
        }
    }

    #[inline]
    fn dynamic_threshold(&self, pool: Bytes, n: i8) -> Bytes {
        let free = self.pool_left(pool);
        match n {
            0.. => Bytes(free.0.saturating_mul(1 << n)),
            _ => Bytes(free.0 >> n.unsigned_abs()),
        }
    }

    /// Updates the occupancy gauges of `port` after its limits have changed.
    pub fn show_port(&self, port: PortId) {
        Class::ALL.into_iter().for_each(|class| self.show_ingress(port, class));
    }

    #[inline]
    fn show_ingress(&self, port: PortId, class: Class) {
        let queue = &self.ingress[port.index()][class.index()];
        let counters = self.counters.class(port, class);
        counters.ingress_bytes.set(queue.bytes().0);
        counters.ingress_watermark.raise(queue.bytes().0);
        counters.headroom_bytes.set(queue.headroom_used().0);
        counters.headroom_watermark.raise(queue.headroom_used().0);
    }
}

fn limits_all_egress(settings: &SwitchSettings) -> bool {
    match settings.memory {
        Memory::Shared(shared) => shared.egress_limits == EgressLimits::All,
        Memory::Dedicated => false,
    }
}

fn exempt(settings: &SwitchSettings) -> ClassSet {
    if limits_all_egress(settings) { ClassSet::NONE } else { settings.lossless_anywhere() }
}

fn longest_frame(port: &PortSettings) -> Bytes {
    Bytes::of_frame(port.mtu_frame + TAGS)
}

impl Occupancies for Buffer {
    fn ingress(&self, port: PortId, class: Class) -> Bytes {
        Buffer::ingress(self, port, class)
    }

    fn egress(&self, port: PortId, class: Class) -> Bytes {
        Buffer::egress(self, port, class)
    }

    fn between(&self, ingress: PortId, egress: PortId, class: Class) -> Bytes {
        Buffer::between(self, ingress, egress, class)
    }

    fn xoff(&self, port: PortId, class: Class) -> Bytes {
        Buffer::xoff(self, port, class)
    }

    fn xon(&self, port: PortId, class: Class) -> Bytes {
        Buffer::xon(self, port, class)
    }

    fn at_xoff(&self, port: PortId, class: Class) -> bool {
        Buffer::at_xoff(self, port, class)
    }

    fn below_xon(&self, port: PortId, class: Class) -> bool {
        Buffer::below_xon(self, port, class)
    }
}

#[cfg(test)]
mod tests;
