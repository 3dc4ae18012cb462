//! Contract with a [driver](crate::driver), which uses a switch in batches only.
//!
//! All changes of a switch are made in a [`Batch`], including the four steps of a frame's journey:
//!
//! ```text
//!   receive -> forward -> transmit -> release      a frame's journey
//!              announce                            control frames that overtake data
//!              advance                             due timers
//!              set_link, set_mac, give_up          changes of links and devices
//!              set_policy, revise                  changes of policies and settings
//!              release_peers                       shutdown
//!              put_tap, take_tap                   observers ([`super::taps`])
//!              put_punt_sink, inject               slow path and injected frames ([`super::punts`])
//!   hand_over, take_over, give_back, take_back, next_learned, apply_learned    other workers ([`super::workers`])
//! ```
//!
//! Decisions and their order do not depend on batches ([`super::run`]).

use xoff_wire::units::{MacAddr, Nanos, PortId};

use super::Switch;
use super::policy_swap::PolicySwap;
use super::run::Run;
use crate::frame::{Frame, FrameStore};

/// Switch at one instant, used by its driver.
#[derive(Debug)]
pub struct Batch<'switch> {
    pub(super) switch: &'switch mut Switch,
}

impl Switch {
    /// Returns the switch at `now`, which must not be before that of an earlier batch.
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
    /// Counts pending runs, as if another batch began at the same instant.
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

    /// Moves a frame and its followers of the same micro-flow through the pipeline. Returns false if nothing can move
    /// before [`Switch::next_deadline`].
    #[inline]
    pub fn forward<S: FrameStore>(&mut self, store: &mut S) -> bool {
        !self.switch.pipeline_rests() && self.switch.forward(store)
    }

    /// Passes `send` up to `most` frames that may leave by `port`, control frames first. Returns their number. The
    /// driver reports each by [`Batch::release`].
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

    /// Returns a due announcement of a pause or rate, or of its end. A driver calls this for all
    /// [pending](Switch::announcements_due) ports before it sends data of any.
    #[cold]
    pub fn announce<S: FrameStore>(&mut self, port: PortId, store: &mut S) -> Option<Frame> {
        let frame = self.switch.announce(port, store)?;
        if self.switch.taps.watch(port) {
            self.switch.see_sent(port, &frame, store);
        }
        Some(frame)
    }

    /// Releases a frame passed out for `port` that has left.
    #[inline]
    pub fn release<S: FrameStore>(&mut self, port: PortId, frame: Frame, store: &mut S) {
        self.switch.release(port, frame, store);
    }

    /// Gives up a frame passed out for `port` whose device is gone.
    #[cold]
    pub fn give_up<S: FrameStore>(&mut self, port: PortId, frame: Frame, store: &mut S) {
        self.switch.give_up(port, frame, store);
    }

    /// Handles all due timers, at [`Switch::next_deadline`]. Returns whether anything was due.
    #[inline]
    #[allow(clippy::must_use_candidate)]
    pub fn advance<S: FrameStore>(&mut self, store: &mut S) -> bool {
        let is_due = self.switch.now >= self.switch.ready.next_timer;
        if is_due {
            self.switch.fire(store);
        }
        is_due
    }

    /// Records a link change. A port without link forgets learned addresses and its peer's requests, and drops its
    /// queued frames. When the link returns, pauses are announced anew. Pauses from the peer are always obeyed: they
    /// may arrive before the link is reported as up.
    pub fn set_link<S: FrameStore>(&mut self, port: PortId, up: bool, store: &mut S) {
        self.switch.set_link(port, up, store);
    }

    /// Sets the source address of control frames of `port`.
    pub fn set_mac(&mut self, port: PortId, mac: MacAddr) {
        self.switch.ports[port.index()].settings.mac = mac;
    }

    /// Replaces the policy of a class. Peers that both policies hold stay held. Neither allocates nor frees: the caller
    /// drops the returned value.
    #[must_use = "it may be large, and is to be dropped where there is time"]
    pub fn set_policy(&mut self, swap: Box<PolicySwap>) -> Box<PolicySwap> {
        self.switch.set_policy(swap)
    }

    /// Ends every hold of this worker before a stop: the XONs are due at once.
    pub fn release_peers(&mut self) {
        self.switch.release_peers();
    }
}
