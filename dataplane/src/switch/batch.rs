//! The contract with a [driver](crate::driver): all that it does with a switch it does in batches.
//!
//! A [`Batch`] is the switch at one instant. The four steps of a frame's journey are taken in it, for many frames or
//! for one; so is everything else that changes a switch. Between batches it can only be looked at.
//!
//! ```text
//!   receive -> forward -> transmit -> release      a frame's journey
//!              announce                            control frames that need not wait for data
//!              advance                             what is due by time alone
//!              set_link, set_mac, give_up          links and devices that go and come
//!              set_policy, revise                  another policy takes over; other settings hold
//!              let_peers_go                        before a stop
//!              put_tap, take_tap                   who looks on ([`super::taps`])
//!              put_punt_sink, tell                 what leaves for who runs it, what comes from there ([`super::punts`])
//!   hand_over, take_over, give_back, take_back, next_learned, hear_learned    between workers ([`super::workers`])
//! ```
//!
//! A worker takes as many frames as there are; ideal simulated hardware takes each step when its model says so. What a
//! switch decides, and in which order, does not depend on that: [`super::run`] says why.

use xoff_wire::units::{MacAddr, Nanos, PortId};

use super::Switch;
use super::run::Run;
use super::succession::Successor;
use crate::frame::{Frame, FrameStore};

/// A switch at one instant, in the hands of its driver.
#[derive(Debug)]
pub struct Batch<'switch> {
    pub(super) switch: &'switch mut Switch,
}

impl Switch {
    /// The switch at `now`, which is never before that of an earlier batch.
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
    /// Counts what is counted together so far, as if this batch ended and another one began at the same instant.
    #[inline]
    pub fn split(&mut self) {
        self.switch.end_run();
        self.switch.run = Run::NONE;
    }

    /// A frame has come in by `port`, which this worker owns. Control frames are obeyed and consumed;
    /// every other is counted and waits for [`Batch::forward`].
    #[inline]
    pub fn receive<S: FrameStore>(&mut self, port: PortId, frame: Frame, store: &mut S) {
        self.switch.receive(port, frame, store);
    }

    /// Moves a frame, and what follows it in its train, through the pipeline: of the next port in turn the one that is next
    /// there. Where the pipeline has each frame for a while, it is moved in, or out. False where nothing can move now; what
    /// will move later is of [`Switch::next_deadline`].
    #[inline]
    pub fn forward<S: FrameStore>(&mut self, store: &mut S) -> bool {
        !self.switch.pipeline_rests() && self.switch.forward(store)
    }

    /// Gives `send` the frames that may leave by `port` now, rewritten as that port sends them, `most` at most; control
    /// frames that are due go first. Says how many there were. The driver sends each, and says so by
    /// [`Batch::release`].
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

    /// The frame that tells the peer of `port` of a pause, of a rate, or of the end of one, where it does not know;
    /// never data. [`Batch::transmit`] gives it out before anything else; a driver with several ports asks
    /// for those of all [untold](Switch::untold) peers before it sends data of any.
    #[cold]
    pub fn announce<S: FrameStore>(&mut self, port: PortId, store: &mut S) -> Option<Frame> {
        let frame = self.switch.announce(port, store)?;
        if self.switch.taps.watch(port) {
            self.switch.see_sent(port, &frame, store);
        }
        Some(frame)
    }

    /// A frame given out for `port` has left.
    #[inline]
    pub fn release<S: FrameStore>(&mut self, port: PortId, frame: Frame, store: &mut S) {
        self.switch.release(port, frame, store);
    }

    /// A frame given out for `port` will never leave, because its device is gone.
    #[cold]
    pub fn give_up<S: FrameStore>(&mut self, port: PortId, frame: Frame, store: &mut S) {
        self.switch.give_up(port, frame, store);
    }

    /// Fires everything that is due: refreshes of held pauses, ends of obeyed ones, the watchdog, ageing.
    /// Costs a comparison while nothing is. [`Switch::next_deadline`] says when it must be called. True where something
    /// was due.
    #[inline]
    #[allow(clippy::must_use_candidate)]
    pub fn advance<S: FrameStore>(&mut self, store: &mut S) -> bool {
        let is_due = self.switch.now >= self.switch.agenda.next_timer;
        if is_due {
            self.switch.fire(store);
        }
        is_due
    }

    /// The link of `port` came up or went down. A port without link forgets what it had learned and
    /// what its peer had asked, and drops what was queued; when it comes up again, pauses that still
    /// hold are announced anew. What a peer asks is obeyed whatever the link is said to be: it may come in before
    /// the driver hears that the link is up, and who ignored it would send what the peer cannot take.
    pub fn set_link<S: FrameStore>(&mut self, port: PortId, up: bool, store: &mut S) {
        self.switch.set_link(port, up, store);
    }

    /// The device of `port` is another one, of this address: frames made here come from it.
    pub fn set_mac(&mut self, port: PortId, mac: MacAddr) {
        self.switch.ports[port.index()].settings.mac = mac;
    }

    /// Gives a class another policy. Peers that both the old and the new one want held stay held; no frame
    /// is touched. Nothing is allocated, and nothing freed: that is for whoever drops what comes back.
    #[must_use = "it may be large, and is to be dropped where there is time"]
    pub fn set_policy(&mut self, successor: Box<Successor>) -> Box<Successor> {
        self.switch.set_policy(successor)
    }

    /// Lets every peer go that this worker holds: the XONs are due at once. Before a stop.
    pub fn let_peers_go(&mut self) {
        self.switch.let_peers_go();
    }
}
