//! Interface of a switch to its [driver](crate::driver). A driver changes its switch only by the calls of a [`Batch`],
//! which all have the same time.
//!
//! Decisions and their order are independent of batches ([`super::run`]).

use xoff_wire::units::{MacAddr, Nanos, PortId};

use super::Switch;
use super::policy_swap::PolicySwap;
use super::run::Run;
use crate::forward::MemberState;
use crate::frame::{Frame, FrameStore};

/// A driver's access to its switch, for calls with the same time.
#[derive(Debug)]
pub struct Batch<'switch> {
    pub(super) switch: &'switch mut Switch,
}

impl Switch {
    /// Begins a batch at `now`, no earlier than the previous one.
    #[inline]
    pub fn batch(&mut self, now: Nanos) -> Batch<'_> {
        self.now = now;
        Batch { switch: self }
    }
}

impl Drop for Batch<'_> {
    #[inline]
    fn drop(&mut self) {
        self.split();
    }
}

impl Batch<'_> {
    /// Ends the current run (frames counted together) by counting its frames; the batch remains open.
    #[inline]
    pub fn split(&mut self) {
        self.switch.end_run();
        self.switch.run = Run::NONE;
    }

    /// Receives a frame on this worker's `port`. Control frames are consumed; others wait for [`Batch::forward`].
    #[inline]
    pub fn receive<S: FrameStore>(&mut self, port: PortId, frame: Frame, store: &mut S) {
        self.switch.receive(port, frame, store);
    }

    /// Forwards the next frame, and the frames with the same header behind it (its micro-flow). Returns false if no
    /// frame can move before [`Switch::next_deadline`].
    #[inline]
    pub fn forward<S: FrameStore>(&mut self, store: &mut S) -> bool {
        !self.switch.pipeline_rests() && self.switch.forward(store)
    }

    /// Calls `send` with up to `most` frames that may leave by `port`, control frames first. Returns their number. The
    /// driver must [release](Batch::release) each after its departure.
    #[inline]
    pub fn transmit<S: FrameStore>(
        &mut self,
        port: PortId,
        store: &mut S,
        most: u32,
        send: impl FnMut(&mut S, Frame),
    ) -> u32 {
        self.switch.transmit(port, store, most, send)
    }

    /// Returns the next pause or rate frame that `port` must send. Before any data, drivers must send these frames at
    /// all ports where they are [due](Switch::announcements_due).
    #[cold]
    pub fn announce<S: FrameStore>(&mut self, port: PortId, store: &mut S) -> Option<Frame> {
        let frame = self.switch.announce(port, store)?;
        if self.switch.taps.watch(port) {
            self.switch.see_sent(port, &frame, store);
        }
        Some(frame)
    }

    /// Frees a frame that `port` has sent, and removes it from all counts.
    #[inline]
    pub fn release<S: FrameStore>(&mut self, port: PortId, frame: Frame, store: &mut S) {
        self.switch.release(port, frame, store);
    }

    /// Drops a frame that could not be sent by `port`, because the device was removed.
    #[cold]
    pub fn give_up<S: FrameStore>(&mut self, port: PortId, frame: Frame, store: &mut S) {
        self.switch.give_up(port, frame, store);
    }

    /// Handles due timers. The driver must call it at [`Switch::next_deadline`]. Returns whether any timer was due.
    #[inline]
    #[allow(clippy::must_use_candidate)]
    pub fn advance<S: FrameStore>(&mut self, store: &mut S) -> bool {
        let is_due = self.switch.now >= self.switch.ready.next_timer;
        if is_due {
            self.switch.fire(store);
        }
        is_due
    }

    /// Records a link change. A port without link drops queued frames, and forgets learned addresses and the peer's pauses and
    /// rates. When the link returns, the port sends its own pauses and rates again. Pauses received before the link is reported
    /// up are obeyed.
    pub fn set_link<S: FrameStore>(&mut self, port: PortId, up: bool, store: &mut S) {
        self.switch.set_link(port, up, store);
    }

    /// Sets which data a member of a group with LACP carries. A loss of link detaches the member.
    pub fn set_member(&mut self, port: PortId, state: MemberState) {
        self.switch.end_run();
        self.switch.bridge.set_member(port, state);
        self.switch.pipeline.try_again(self.switch.now);
    }

    /// Sets the MAC address from which `port` sends control frames.
    pub fn set_mac(&mut self, port: PortId, mac: MacAddr) {
        self.switch.ports[port.index()].settings.mac = mac;
    }

    /// Replaces the policy of a class, without allocating or freeing.
    #[must_use = "the returned old policy may be large: drop it outside the packet loop"]
    pub fn set_policy(&mut self, swap: Box<PolicySwap>) -> Box<PolicySwap> {
        self.switch.set_policy(swap)
    }

    /// Schedules XON for every class that this worker pauses at its peers, and ends requested rates, before the worker
    /// stops.
    pub fn release_peers(&mut self) {
        self.switch.release_peers();
    }
}
