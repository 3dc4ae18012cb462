//! The loop that drives a switch, without I/O: a worker thread runs it over AF_XDP ports, simulators and tests over memory.
//!
//! A [`Driver`] is a switch with its ports at one instant. [`Driver::turn`] is the order that headroom, thresholds and the
//! longest reaction to a pause are derived from:
//!
//! ```text
//!   advance                  timers that are due
//!   release, at all ports    frames that have left count no more when the first one is received
//!   receive, at all ports
//!   forward                  until nothing moves
//!   exchange, serve          other workers; requests and the host path ([`Environment`])
//!   announce, at all ports   pause frames, before data of any port
//!   transmit, port by port
//! ```
//!
//! Every call of the dataplane passes a [`Boundary`], so that a recorder can note it.

mod boundary;

pub use boundary::{Boundary, Direct};

use xoff_wire::units::{Nanos, PortId};

use crate::frame::{Frame, FrameStore};
use crate::switch::{Batch, HANDOVERS_MAX, Switch};

/// Maximum number of descriptors received from one queue of a port in a turn. Sending brings much of the kernel into the
/// core's caches, receiving much of the switch: the more frames share that, the less it costs each.
pub const BATCH: u32 = 128;
const _: () =
    assert!(4 * BATCH <= HANDOVERS_MAX, "what a turn receives from four queues of a port fits its outboxes");

/// How often one port is served in a turn. A device that sends while it is kicked has room again at once: with a second
/// serving as many long frames can leave as come in.
const SERVINGS: usize = 2;

/// One port of a driver: its receive and transmit rings. `S` is the store of frames.
pub trait Port<S> {
    /// Calls `sent` with every frame that has left since the last call.
    fn reap(&mut self, store: &mut S, sent: impl FnMut(&mut S, Frame));

    /// Offers free chunks to receive into.
    fn refill(&mut self, _store: &mut S) {}

    /// Calls `each` with received frames, of up to `budget` descriptors for each queue, and returns how many descriptors
    /// there were.
    fn receive(&mut self, store: &mut S, budget: u32, each: impl FnMut(&mut S, Frame)) -> u32;

    /// How many frames of data [`send`](Self::send) takes, however long they are.
    fn room(&self) -> u32;

    /// The same for pause frames.
    fn control_room(&self) -> u32 {
        self.room()
    }

    /// Takes a frame to be sent by the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// Gives the frame back where the rings have no room: reap, and try again.
    fn send(&mut self, store: &mut S, frame: Frame) -> Result<(), Frame>;

    /// Sends what was taken, and what an earlier flush could not send.
    fn flush(&mut self) {}

    /// Whether frames were sent and have not been [reaped](Self::reap).
    fn in_flight(&self) -> bool;

    /// Whether the device is gone: frames to be sent are to be [taken back](Self::take_back).
    fn is_gone(&self) -> bool {
        false
    }

    /// Calls `unsent` with every frame that a device which is gone has not sent.
    fn take_back(&mut self, _store: &mut S, _unsent: impl FnMut(&mut S, Frame)) {}
}

/// Connections of a driver other than its ports: workers, requests, measurements. `()` has none.
pub trait Environment<P, S> {
    /// Exchanges frames with other workers.
    fn exchange(&mut self, _now: Nanos, _switch: &mut Switch, _store: &mut S) -> Progress {
        Progress::default()
    }

    /// Answers requests and takes frames from the host path. True where there were any.
    fn serve<B: Boundary>(&mut self, _driver: &mut Driver<'_, P, S, B>) -> bool {
        false
    }

    /// A pause frame was received in this turn, and is obeyed.
    fn pause_obeyed(&mut self) {}

    /// A peer was sent XOFF in the turn that began at `now`.
    fn stop_told(&mut self, _now: Nanos) {}
}

impl<P, S> Environment<P, S> for () {}

/// Result of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Something moved, was due, or was asked for.
    pub is_busy: bool,
    /// Frames received, from ports or from other workers.
    pub received: u32,
}

/// A switch with its ports and its store of frames at one instant.
#[derive(Debug)]
pub struct Driver<'a, P, S, B> {
    /// The time.
    pub now: Nanos,
    /// The dataplane.
    pub switch: &'a mut Switch,
    /// Its ports, by ascending number.
    pub ports: &'a mut Vec<(PortId, P)>,
    /// The store of its frames.
    pub store: &'a mut S,
    /// What every call of the dataplane passes.
    pub boundary: &'a mut B,
}

impl<P: Port<S>, S: FrameStore, B: Boundary> Driver<'_, P, S, B> {
    /// One turn of the loop.
    pub fn turn(&mut self, environment: &mut impl Environment<P, S>) -> Progress {
        let obeyed_before = self.switch.pauses_obeyed();
        let own = self.take_in();
        if self.switch.pauses_obeyed() != obeyed_before {
            environment.pause_obeyed();
        }
        let mut batch = self.boundary.batch(self.switch, self.now);
        self.boundary.forward_all(&mut batch, self.store);
        drop(batch);
        let others = environment.exchange(self.now, self.switch, self.store);
        let received = own.received + others.received;
        let is_served = environment.serve(self);
        let is_sent = self.transmit(environment);
        Progress { is_busy: own.is_busy || others.is_busy || is_served || is_sent || received > 0, received }
    }

    /// Takes what has left, then what has come in.
    fn take_in(&mut self) -> Progress {
        let Driver { now, switch, ports, store, boundary: by } = self;
        let mut batch = by.batch(switch, *now);
        let (mut is_busy, mut received) = (by.advance(&mut batch, *store), 0);
        for port in ports.iter_mut() {
            is_busy |= reap(*by, &mut batch, port, *store);
            let (id, port) = port;
            if port.is_gone() {
                port.take_back(store, |store, frame| {
                    by.give_up(&mut batch, *id, frame, store);
                    is_busy = true;
                });
            }
        }
        for port in ports.iter_mut() {
            port.1.refill(store);
            received += receive(*by, &mut batch, port, *store);
        }
        Progress { is_busy, received }
    }

    /// Sends what may leave now. True where something did.
    fn transmit(&mut self, environment: &mut impl Environment<P, S>) -> bool {
        if !self.switch.untold().is_empty() {
            self.announce(environment);
        }
        let Driver { now, switch, ports, store, boundary: by } = self;
        let mut is_busy = false;
        // Ports that become active by what leaves now wait for the next turn, whatever their place.
        let active = switch.egress_active();
        for port in ports.iter_mut() {
            for _ in 0..SERVINGS {
                let told_before = switch.stops_told();
                let mut is_sent = false;
                if active.contains(port.0) {
                    let mut batch = by.batch(switch, *now);
                    is_sent = send(*by, &mut batch, port, *store);
                }
                port.1.flush();
                if !is_sent {
                    break;
                }
                is_busy = true;
                if switch.stops_told() != told_before {
                    environment.stop_told(*now);
                }
                let mut batch = by.batch(switch, *now);
                if !reap(*by, &mut batch, port, *store) {
                    break;
                }
            }
        }
        is_busy
    }

    /// Sends pause frames to peers that need one, before any port sends data. Not before frames were forwarded: what is
    /// dropped or no longer counts behind the pipeline needs no pause. What cannot leave now is left to `transmit`.
    #[cold]
    fn announce(&mut self, environment: &mut impl Environment<P, S>) {
        let untold = self.switch.untold();
        for at in 0..self.ports.len() {
            if untold.contains(self.ports[at].0) {
                let told_before = self.switch.stops_told();
                self.tell(at);
                if self.switch.stops_told() != told_before {
                    environment.stop_told(self.now);
                }
            }
        }
    }

    /// Sends the pause frames of the port at this place, and nothing else.
    fn tell(&mut self, at: usize) {
        let (id, port) = &mut self.ports[at];
        let mut batch = self.boundary.batch(self.switch, self.now);
        while port.control_room() > 0
            && let Some(frame) = self.boundary.announce(&mut batch, *id, self.store)
        {
            port.send(self.store, frame).expect("a port with room takes a frame");
        }
        port.flush();
    }

    /// Makes XON due for every held class, and ends the rates that peers were asked for. The frames leave by
    /// [`Driver::part`].
    pub fn let_peers_go(&mut self) {
        let mut batch = self.boundary.batch(self.switch, self.now);
        self.boundary.let_peers_go(&mut batch);
    }

    /// Before a stop: sends pause frames and rates that are due, and no data any more. True while one is not with its peer.
    pub fn part(&mut self) -> bool {
        // All peers are told before anything else: a policy that panics at what has left stops nobody's XON.
        (0..self.ports.len()).for_each(|at| self.tell(at));
        let mut is_waiting = false;
        let Driver { now, switch, ports, store, boundary: by } = self;
        for port in ports.iter_mut() {
            let mut batch = by.batch(switch, *now);
            reap(*by, &mut batch, port, *store);
            drop(batch);
            is_waiting |= switch.untold().contains(port.0) || port.1.in_flight();
        }
        is_waiting
    }
}

/// Releases the frames that have left by a port. True where there were some.
pub fn reap<P: Port<S>, S: FrameStore>(
    by: &mut impl Boundary,
    batch: &mut Batch<'_>,
    (id, port): &mut (PortId, P),
    store: &mut S,
) -> bool {
    let (id, mut any) = (*id, false);
    port.reap(store, |store, frame| {
        by.release(batch, id, frame, store);
        any = true;
    });
    any
}

/// Receives what has come in by a port, a [`BATCH`] of each queue at most. Returns how many descriptors that were.
pub fn receive<P: Port<S>, S: FrameStore>(
    by: &mut impl Boundary,
    batch: &mut Batch<'_>,
    (id, port): &mut (PortId, P),
    store: &mut S,
) -> u32 {
    let id = *id;
    port.receive(store, BATCH, move |store, frame| by.receive(batch, id, frame, store))
}

/// Gives a port what may leave by it, as far as it has room. True where something did.
fn send<P: Port<S>, S: FrameStore>(
    by: &mut impl Boundary,
    batch: &mut Batch<'_>,
    (id, port): &mut (PortId, P),
    store: &mut S,
) -> bool {
    let mut any = false;
    loop {
        let most = port.room();
        if most == 0 {
            return any;
        }
        let sent = by.transmit(batch, *id, store, most, |store, frame| {
            port.send(store, frame).expect("a port with room takes a frame");
        });
        any |= sent > 0;
        if sent < most {
            return any;
        }
    }
}
