use std::sync::Arc;

use xoff_wire::units::{MacAddr, Nanos, PortId, Site};

use crate::forward::{MemberState, MulticastTable};
use crate::frame::{Frame, FrameStore};
use crate::routing::Fib;
use crate::switch::{Batch, PolicySwap, Revision, Switch};

/// Calls of a driver to its switch. The default methods only make the call; an implementation may record it, too.
#[allow(missing_docs)]
pub trait Boundary {
    #[inline(always)]
    fn batch<'switch>(&mut self, switch: &'switch mut Switch, now: Nanos) -> Batch<'switch> {
        switch.batch(now)
    }

    /// Calls [`Batch::advance`], which must come first in a batch.
    #[inline(always)]
    fn advance<S: FrameStore>(&mut self, batch: &mut Batch<'_>, store: &mut S) -> bool {
        batch.advance(store)
    }

    #[inline(always)]
    fn receive<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        batch.receive(port, frame, store);
    }

    #[inline(always)]
    fn forward_all<S: FrameStore>(&mut self, batch: &mut Batch<'_>, store: &mut S) {
        while batch.forward(store) {}
    }

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

    #[inline(always)]
    fn announce<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        store: &mut S,
    ) -> Option<Frame> {
        batch.announce(port, store)
    }

    #[inline(always)]
    fn release<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        batch.release(port, frame, store);
    }

    #[inline(always)]
    fn give_up<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        batch.give_up(port, frame, store);
    }

    #[inline(always)]
    fn set_link<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, up: bool, store: &mut S) {
        batch.set_link(port, up, store);
    }

    #[inline(always)]
    fn set_member(&mut self, batch: &mut Batch<'_>, port: PortId, state: MemberState) {
        batch.set_member(port, state);
    }

    #[inline(always)]
    fn set_mac(&mut self, batch: &mut Batch<'_>, port: PortId, mac: MacAddr) {
        batch.set_mac(port, mac);
    }

    #[inline(always)]
    fn release_peers(&mut self, batch: &mut Batch<'_>) {
        batch.release_peers();
    }

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

    #[inline(always)]
    #[must_use = "the returned old policy may be large: drop it outside the packet loop"]
    fn set_policy(&mut self, batch: &mut Batch<'_>, swap: Box<PolicySwap>) -> Box<PolicySwap> {
        batch.set_policy(swap)
    }

    #[inline(always)]
    #[must_use = "the returned old settings are large: drop them outside the packet loop"]
    fn revise(&mut self, batch: &mut Batch<'_>, revision: Box<Revision>) -> Box<Revision> {
        batch.revise(revision)
    }

    #[inline(always)]
    #[must_use = "the returned old routing table may be large: drop it outside the packet loop"]
    fn set_fib(&mut self, batch: &mut Batch<'_>, fib: Arc<Fib>) -> Arc<Fib> {
        batch.set_fib(fib)
    }

    #[inline(always)]
    #[must_use = "the returned old multicast table may be large: drop it outside the packet loop"]
    fn set_multicast(&mut self, batch: &mut Batch<'_>, table: Arc<MulticastTable>) -> Arc<MulticastTable> {
        batch.set_multicast(table)
    }

    #[inline(always)]
    fn was_away(&mut self, switch: &mut Switch, now: Nanos) {
        switch.was_away(now);
    }
}

/// [`Boundary`] that makes calls and records none.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

impl Boundary for Direct {}
