use std::sync::Arc;

use xoff_wire::units::{MacAddr, Nanos, PortId, Site};

use crate::forward::{MemberState, MulticastTable};
use crate::frame::{Frame, FrameStore};
use crate::routing::Fib;
use crate::switch::{Batch, PolicySwap, Revision, Switch};

/// Interface from a driver to its dataplane. Default methods only call the dataplane; a recorder also logs.
pub trait Boundary {
    /// Begins a batch at `now`.
    #[inline(always)]
    fn batch<'switch>(&mut self, switch: &'switch mut Switch, now: Nanos) -> Batch<'switch> {
        switch.batch(now)
    }

    /// Calls [`Batch::advance`], which must come first in a batch.
    #[inline(always)]
    fn advance<S: FrameStore>(&mut self, batch: &mut Batch<'_>, store: &mut S) -> bool {
        batch.advance(store)
    }

    /// Calls [`Batch::receive`].
    #[inline(always)]
    fn receive<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        batch.receive(port, frame, store);
    }

    /// Calls [`Batch::forward`] until nothing can move.
    #[inline(always)]
    fn forward_all<S: FrameStore>(&mut self, batch: &mut Batch<'_>, store: &mut S) {
        while batch.forward(store) {}
    }

    /// Calls [`Batch::transmit`].
    #[inline(always)]
    fn transmit<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        store: &mut S,
        most: u32,
        send: impl FnMut(&mut S, Frame),
    ) -> u32 {
        batch.transmit(port, store, most, send)
    }

    /// Calls [`Batch::announce`].
    #[inline(always)]
    fn announce<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        store: &mut S,
    ) -> Option<Frame> {
        batch.announce(port, store)
    }

    /// Calls [`Batch::release`].
    #[inline(always)]
    fn release<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        batch.release(port, frame, store);
    }

    /// Calls [`Batch::give_up`].
    #[inline(always)]
    fn give_up<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        batch.give_up(port, frame, store);
    }

    /// Calls [`Batch::set_link`].
    #[inline(always)]
    fn set_link<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, up: bool, store: &mut S) {
        batch.set_link(port, up, store);
    }

    /// Calls [`Batch::set_member`].
    #[inline(always)]
    fn set_member(&mut self, batch: &mut Batch<'_>, port: PortId, state: MemberState) {
        batch.set_member(port, state);
    }

    /// Calls [`Batch::set_mac`].
    #[inline(always)]
    fn set_mac(&mut self, batch: &mut Batch<'_>, port: PortId, mac: MacAddr) {
        batch.set_mac(port, mac);
    }

    /// Calls [`Batch::release_peers`].
    #[inline(always)]
    fn release_peers(&mut self, batch: &mut Batch<'_>) {
        batch.release_peers();
    }

    /// Calls [`Batch::inject`].
    #[inline(always)]
    fn inject<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        bytes: &[u8],
        store: &mut S,
    ) -> bool {
        batch.inject(port, bytes, store)
    }

    /// Calls [`Batch::send_of_host`].
    #[inline(always)]
    fn send_of_host<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        (site, port): (Site, PortId),
        bytes: &[u8],
        store: &mut S,
    ) {
        batch.send_of_host(site, port, bytes, store);
    }

    /// Calls [`Batch::set_policy`].
    #[inline(always)]
    #[must_use = "the returned old policy may be large: drop it outside the packet loop"]
    fn set_policy(&mut self, batch: &mut Batch<'_>, swap: Box<PolicySwap>) -> Box<PolicySwap> {
        batch.set_policy(swap)
    }

    /// Calls [`Batch::revise`].
    #[inline(always)]
    #[must_use = "the returned old settings are large: drop them outside the packet loop"]
    fn revise(&mut self, batch: &mut Batch<'_>, revision: Box<Revision>) -> Box<Revision> {
        batch.revise(revision)
    }

    /// Calls [`Batch::set_fib`].
    #[inline(always)]
    #[must_use = "the returned old routing table may be large: drop it outside the packet loop"]
    fn set_fib(&mut self, batch: &mut Batch<'_>, fib: Arc<Fib>) -> Arc<Fib> {
        batch.set_fib(fib)
    }

    /// Calls [`Batch::set_multicast`].
    #[inline(always)]
    #[must_use = "the returned old table may be large: drop it outside the packet loop"]
    fn set_multicast(&mut self, batch: &mut Batch<'_>, table: Arc<MulticastTable>) -> Arc<MulticastTable> {
        batch.set_multicast(table)
    }

    /// Calls [`Switch::was_away`].
    #[inline(always)]
    fn was_away(&mut self, switch: &mut Switch, now: Nanos) {
        switch.was_away(now);
    }
}

/// [`Boundary`] that records no calls.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

impl Boundary for Direct {}
