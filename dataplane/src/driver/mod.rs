//! Loop that moves frames between ports (AF_XDP devices, or memory) and a switch.
//!
//! Computed headroom assumes that each loop ([`Driver::turn`]) takes these steps in this order:
//!
//! ```text
//!   advance                  due timers
//!   release, at all ports    departed frames leave the counts before any receive
//!   receive, at all ports
//!   forward                  until no frame can move
//!   exchange, serve          other workers; requests and the host path ([`Environment`])
//!   announce, at all ports   pause frames, before data of any port
//!   transmit, port by port
//! ```

mod boundary;

pub use boundary::{Boundary, Direct};

use xoff_wire::units::{Nanos, PortId};

use crate::frame::{Frame, FrameStore};
use crate::switch::{Batch, HANDOVERS_MAX, Switch};

/// Maximum descriptors received from a hardware queue in one loop.
pub const BATCH: u32 = 128;
const _: () = assert!(
    4 * BATCH <= HANDOVERS_MAX,
    "HANDOVERS_MAX must be at least 4 * BATCH: the frames that one driver loop receives from four queues"
);

/// Maximum number of times that one driver loop fills a port's transmit ring. Some devices empty the ring at once, during the
/// system call.
const SERVINGS: usize = 2;

/// Receive and transmit rings of a port. `S` is the [`FrameStore`].
pub trait Port<S> {
    /// Calls `sent` with each frame that the device has transmitted since the last call.
    fn reap(&mut self, store: &mut S, sent: impl FnMut(&mut S, Frame));

    /// Passes free packet memory to the device.
    fn refill(&mut self, _store: &mut S) {}

    /// Receives up to `budget` descriptors per hardware queue, and calls `each` with every frame. Returns the number of
    /// frames.
    fn receive(&mut self, store: &mut S, budget: u32, each: impl FnMut(&mut S, Frame)) -> u32;

    /// Returns how many data frames [`send`](Self::send) accepts now.
    fn room(&self) -> u32;

    /// Returns how many pause frames [`send`](Self::send) accepts now.
    fn control_room(&self) -> u32 {
        self.room()
    }

    /// Queues a frame for the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// Returns the frame if the rings are full.
    fn send(&mut self, store: &mut S, frame: Frame) -> Result<(), Frame>;

    /// Transmits queued frames, including those left by earlier flushes.
    fn flush(&mut self) {}

    /// Returns whether the device may still hold a sent frame that is not yet [reaped](Self::reap).
    fn in_flight(&self) -> bool;

    /// Returns whether the device was removed. The driver must then [take back](Self::take_back) unsent frames.
    fn is_removed(&self) -> bool {
        false
    }

    /// Calls `unsent` with every unsent frame of a removed device.
    fn take_back(&mut self, _store: &mut S, _unsent: impl FnMut(&mut S, Frame)) {}
}

/// A driver's connections besides ports: to other workers, control clients, and the machine's network stack (the host).
/// `()` means no connections.
#[allow(missing_docs)]
pub trait Environment<P, S> {
    fn exchange(&mut self, _now: Nanos, _switch: &mut Switch, _store: &mut S) -> Progress {
        Progress::default()
    }

    /// Answers control requests, and sends frames from the machine's network stack. Returns whether there were any.
    fn serve<B: Boundary>(&mut self, _driver: &mut Driver<'_, P, S, B>) -> bool {
        false
    }

    /// Reports that this driver loop obeyed a peer's pause frame.
    fn pause_obeyed(&mut self) {}

    /// Reports that this driver loop, which began at `now`, sent an XOFF to a peer.
    fn xoff_sent(&mut self, _now: Nanos) {}
}

impl<P, S> Environment<P, S> for () {}

/// Result of one run of the driver loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// True if a frame moved, a timer was due or a request was served.
    pub is_busy: bool,
    /// Frames received from ports and other workers.
    pub received: u32,
}

/// Driver of a switch at the time `now`: borrows the switch, its ports and its frames.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Driver<'a, P, S, B> {
    pub now: Nanos,
    pub switch: &'a mut Switch,
    pub ports: &'a mut Vec<(PortId, P)>,
    pub store: &'a mut S,
    pub boundary: &'a mut B,
}

impl<P: Port<S>, S: FrameStore, B: Boundary> Driver<'_, P, S, B> {
    /// Runs the steps of the driver loop once.
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

    fn take_in(&mut self) -> Progress {
        let Driver { now, switch, ports, store, boundary: by } = self;
        let mut batch = by.batch(switch, *now);
        let (mut is_busy, mut received) = (by.advance(&mut batch, *store), 0);
        for port in ports.iter_mut() {
            is_busy |= reap(*by, &mut batch, port, *store);
            let (id, port) = port;
            if port.is_removed() {
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

    fn transmit(&mut self, environment: &mut impl Environment<P, S>) -> bool {
        if !self.switch.announcements_due().is_empty() {
            self.announce(environment);
        }
        let Driver { now, switch, ports, store, boundary: by } = self;
        let mut is_busy = false;
        // Read the set of active ports only once: ports that become active meanwhile wait for the next loop.
        let active = switch.egress_active();
        for port in ports.iter_mut() {
            for _ in 0..SERVINGS {
                let sent_before = switch.xoffs_sent();
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
                if switch.xoffs_sent() != sent_before {
                    environment.xoff_sent(*now);
                }
                let mut batch = by.batch(switch, *now);
                if !reap(*by, &mut batch, port, *store) {
                    break;
                }
            }
        }
        is_busy
    }

    /// Sends due pause and rate frames to peers. Call it after forwarding: a drop there may make a pause needless.
    #[cold]
    fn announce(&mut self, environment: &mut impl Environment<P, S>) {
        let due = self.switch.announcements_due();
        for at in 0..self.ports.len() {
            if due.contains(self.ports[at].0) {
                let sent_before = self.switch.xoffs_sent();
                self.send_pauses(at);
                if self.switch.xoffs_sent() != sent_before {
                    environment.xoff_sent(self.now);
                }
            }
        }
    }

    fn send_pauses(&mut self, at: usize) {
        let (id, port) = &mut self.ports[at];
        let mut batch = self.boundary.batch(self.switch, self.now);
        while port.control_room() > 0
            && let Some(frame) = self.boundary.announce(&mut batch, *id, self.store)
        {
            port.send(self.store, frame).expect("a port with free slots must accept a frame");
        }
        port.flush();
    }

    /// Schedules XON for every class that this worker pauses at its peers, and ends the rates requested from them.
    /// [`Driver::part`] sends the frames.
    pub fn release_peers(&mut self) {
        let mut batch = self.boundary.batch(self.switch, self.now);
        self.boundary.release_peers(&mut batch);
    }

    /// Sends due pause and rate frames, but no data, before the switch stops. Returns whether such a frame is still due,
    /// or any frame is in flight.
    pub fn part(&mut self) -> bool {
        // Send all XONs before the driver releases any frame: a custom policy that observes a release may panic.
        (0..self.ports.len()).for_each(|at| self.send_pauses(at));
        let mut is_waiting = false;
        let Driver { now, switch, ports, store, boundary: by } = self;
        for port in ports.iter_mut() {
            let mut batch = by.batch(switch, *now);
            reap(*by, &mut batch, port, *store);
            drop(batch);
            is_waiting |= switch.announcements_due().contains(port.0) || port.1.in_flight();
        }
        is_waiting
    }
}

/// Releases all frames that the port has transmitted. Returns whether there were any.
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

/// Receives at most [`BATCH`] descriptors from each hardware queue of the port. Returns the number of frames.
pub fn receive<P: Port<S>, S: FrameStore>(
    by: &mut impl Boundary,
    batch: &mut Batch<'_>,
    (id, port): &mut (PortId, P),
    store: &mut S,
) -> u32 {
    let id = *id;
    port.receive(store, BATCH, move |store, frame| by.receive(batch, id, frame, store))
}

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
            port.send(store, frame).expect("a port with free slots must accept a frame");
        });
        any |= sent > 0;
        if sent < most {
            return any;
        }
    }
}
