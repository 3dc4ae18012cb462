//! Messages from the control thread to a worker.
//!
//! The worker looks once per loop ([`Inbox::take`]: two loads while there is none). A worker that
//! sleeps has [`Inbox::fd`] among the descriptors that wake it, and calls [`Inbox::acknowledge`] when
//! it was that one. Answers go back through the message itself; a worker never waits for a reader, and
//! finds one question of each kind at most, however many readers wait for it. None takes it long: it is
//! asked for a part of its addresses at a time.
//! A worker that has ended has dropped its inbox, and then [`Mailbox::send`] says so: that is how the
//! control thread knows.

use std::io;
use std::ops::{Bound, Range, RangeBounds as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crossbeam::channel::{Receiver, Sender, unbounded};
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, timeout_at};
use xoff_dataplane::ledger::Ledger;
use xoff_dataplane::routing::Fib;
use xoff_dataplane::switch::{Revision, Successor};
use xoff_dataplane::tap::{Tap, TapId};
use xoff_dataplane::units::{MacAddr, Nanos, PortId};
use xoff_xdp::Port;

/// Places of its forwarding database that a worker looks at for one question: some microseconds.
const PLACES_AT_ONCE: usize = 4_096;

/// What happens to the frames in a port's egress queues when its worker gives the port away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backlog {
    /// They are sent first.
    Sent,
    /// They stay queued for the port that is adopted in its place.
    Kept {
        /// Gives the port away although the kernel has not taken some of its frames yet: those are dropped.
        even_unsent: bool,
    },
}

/// What a worker is told or asked.
#[derive(Debug)]
pub enum Request {
    /// The link of a port changed.
    Link {
        /// The port; not necessarily one of the worker's own.
        port: PortId,
        /// Whether frames can pass now.
        up: bool,
    },
    /// Gives away one of the worker's ports, with nothing left in the rings.
    GiveUp {
        /// The port.
        port: PortId,
        /// What happens to its queued frames.
        backlog: Backlog,
        /// Receives the port; `None` as long as its device is there and something is to be sent. Dropped where the worker has no such port.
        done: oneshot::Sender<Option<Box<Port>>>,
    },
    /// One of its ports is open, or open again: give it chunks to receive into, and have it.
    Adopt {
        /// Which.
        port: PortId,
        /// It.
        opened: Box<Port>,
        /// Told when that is done.
        done: oneshot::Sender<()>,
    },
    /// Give a class another policy, and say when that is done.
    SetPolicy {
        /// The policy and its class; made where memory may be allocated.
        successor: Box<Successor>,
        /// Given what the policy before has left, when the worker has the new one.
        done: oneshot::Sender<Box<Successor>>,
    },
    /// Other settings hold from now on; say when that is done.
    Revise {
        /// They, made where memory may be allocated.
        revision: Box<Revision>,
        /// See [`crate::worker::Connections::commit_time`].
        commit_time: Nanos,
        /// Given what those before have left.
        done: oneshot::Sender<Box<Revision>>,
    },
    /// Route by another table from now on, and say when that is done.
    SetFib {
        /// It, made where memory may be allocated.
        fib: Arc<Fib>,
        /// Given the one before.
        done: oneshot::Sender<Arc<Fib>>,
    },
    /// Show frames to a tap; it comes back where there are too many.
    PutTap {
        /// By which it is taken off.
        id: TapId,
        /// Made where memory may be allocated.
        tap: Box<dyn Tap>,
        /// Told when it is on.
        done: oneshot::Sender<Result<(), Box<dyn Tap>>>,
    },
    /// Take a tap off.
    TakeTap {
        /// Which.
        id: TapId,
        /// Given the tap, to be dropped.
        done: oneshot::Sender<Option<Box<dyn Tap>>>,
    },
    /// Tell the ledger.
    Ledger(oneshot::Sender<Ledger>),
    /// Tell some of the addresses.
    Addresses(AddressesRequest),
}

/// What came of asking a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// It answered.
    Given(T),
    /// It did not, in time.
    Silent,
    /// It has ended.
    Ended,
}

impl<T> Answer<T> {
    /// What is wrong with the worker of that number, in words.
    pub(super) fn fault(&self, worker: usize) -> Option<String> {
        match self {
            Answer::Given(_) => None,
            Answer::Silent => Some(format!("worker {worker} does not answer")),
            Answer::Ended => Some(format!("worker {worker} has ended")),
        }
    }
}

/// A question for a part of the addresses.
#[derive(Debug)]
pub struct AddressesRequest {
    from: usize,
    wanted: AddressRange,
    /// Set aside by whoever asks, so that the worker need not.
    room: Vec<Address>,
    answer: oneshot::Sender<AddressPart>,
}

impl AddressesRequest {
    /// Answers from a table of so many places, given the addresses at some of them.
    pub fn answer<I>(self, places: usize, at: impl FnOnce(Range<usize>) -> I)
    where
        I: Iterator<Item = Address>,
    {
        let AddressesRequest { from, wanted, room: mut addresses, answer } = self;
        let end = (from + PLACES_AT_ONCE).min(places);
        addresses.extend(at(from.min(end)..end).filter(|address| wanted.contains(&address.key())));
        // Whoever asked may have given up waiting.
        let _ = answer.send(AddressPart { addresses, next: (end < places).then_some(end) });
    }
}

/// The addresses at some places of a worker's table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPart {
    /// Those that were wanted, in no order.
    pub addresses: Vec<Address>,
    /// The place from which to go on; `None`: this was the end of the table.
    pub next: Option<usize>,
}

/// What addresses are ordered by: VLAN and address.
pub type AddressKey = (u16, MacAddr);

type AddressRange = (Bound<AddressKey>, Bound<AddressKey>);

/// An address that a worker knows the port of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// VLAN.
    pub vid: u16,
    /// The address.
    pub mac: MacAddr,
    /// Where it is.
    pub port: PortId,
    /// From the configuration; else learned.
    pub fixed: bool,
}

impl Address {
    /// What it is ordered by.
    #[must_use]
    pub fn key(&self) -> AddressKey {
        (self.vid, self.mac)
    }
}

/// The control thread's end.
#[derive(Debug)]
pub struct Mailbox {
    requests: Sender<Request>,
    wake: Arc<EventFd>,
    ledgers: Asked<Ledger>,
    addresses: Asked<AddressPart>,
}

/// The question of one kind that is on its way; with whoever asked it gone, an earlier one may be.
type Asked<T> = Mutex<Option<oneshot::Receiver<T>>>;

/// The worker has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

impl Mailbox {
    /// Both ends.
    ///
    /// # Errors
    /// Where the system has no more file descriptors.
    pub fn new() -> io::Result<(Mailbox, Inbox)> {
        let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
        let (sender, receiver) = unbounded();
        let wakes = Arc::clone(&wake);
        let mailbox =
            Mailbox { requests: sender, wake: wakes, ledgers: Asked::default(), addresses: Asked::default() };
        Ok((mailbox, Inbox { requests: receiver, wake }))
    }

    /// Sends, and wakes the worker if it sleeps.
    ///
    /// # Errors
    /// Where the worker has ended.
    pub fn send(&self, request: Request) -> Result<(), Ended> {
        self.requests.send(request).map_err(|_| Ended)?;
        match self.wake.write(1) {
            Ok(_) | Err(Errno::EAGAIN) => Ok(()), // EAGAIN: 2^64 wakes that nobody acknowledged
            Err(error) => unreachable!("an eventfd takes a 1: {error}"),
        }
    }

    /// Asks for the ledger.
    pub(super) async fn ledger(&self, deadline: Instant) -> Answer<Ledger> {
        self.ask(&self.ledgers, deadline, Request::Ledger).await
    }

    /// Asks for the addresses from that place of the table on, as far as they come behind `after` and not
    /// behind `last`.
    pub(super) async fn addresses(
        &self,
        from: usize,
        (after, last): (Option<AddressKey>, Option<AddressKey>),
        deadline: Instant,
    ) -> Answer<AddressPart> {
        let wanted =
            (after.map_or(Bound::Unbounded, Bound::Excluded), last.map_or(Bound::Unbounded, Bound::Included));
        let room = Vec::with_capacity(PLACES_AT_ONCE);
        let request = |answer| Request::Addresses(AddressesRequest { from, wanted, room, answer });
        self.ask(&self.addresses, deadline, request).await
    }

    /// Waits its turn: no question is sent while an earlier one of its kind, whose asker may have given up, is
    /// unanswered.
    async fn ask<T>(
        &self,
        asked: &Asked<T>,
        deadline: Instant,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Answer<T> {
        timeout_at(deadline, self.ask_in_turn(asked, request)).await.unwrap_or(Answer::Silent)
    }

    async fn ask_in_turn<T>(
        &self,
        asked: &Asked<T>,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Answer<T> {
        let mut asked = asked.lock().await;
        if let Some(earlier) = asked.as_mut() {
            let _ = earlier.await; // as old as its question
            *asked = None;
        }
        let (sender, answer) = oneshot::channel();
        if self.send(request(sender)).is_err() {
            return Answer::Ended;
        }
        let answer = asked.insert(answer).await;
        *asked = None;
        answer.map_or(Answer::Ended, Answer::Given)
    }
}

/// The worker's end.
#[derive(Debug)]
pub struct Inbox {
    requests: Receiver<Request>,
    wake: Arc<EventFd>,
}

impl Inbox {
    /// The next message, if any.
    #[inline]
    #[must_use]
    pub fn take(&self) -> Option<Request> {
        if self.requests.is_empty() { None } else { self.requests.try_recv().ok() }
    }

    /// Readable when a message has come since the last [`Inbox::acknowledge`].
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// To be called when [`Inbox::fd`] was readable, before [`Inbox::take`].
    pub fn acknowledge(&self) {
        // EAGAIN: there was nothing to acknowledge.
        let _ = self.wake.read();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    fn readable(inbox: &Inbox) -> bool {
        poll(&mut [PollFd::new(inbox.fd(), PollFlags::POLLIN)], PollTimeout::ZERO).unwrap() == 1
    }

    #[test]
    fn a_message_wakes_once_and_arrives_in_order() {
        let (mailbox, inbox) = Mailbox::new().unwrap();
        assert!(inbox.take().is_none() && !readable(&inbox));
        for up in [false, true] {
            mailbox.send(Request::Link { port: PortId(3), up }).unwrap();
        }
        assert!(readable(&inbox));
        inbox.acknowledge();
        assert!(!readable(&inbox));
        assert!(matches!(inbox.take(), Some(Request::Link { port: PortId(3), up: false })));
        assert!(matches!(inbox.take(), Some(Request::Link { up: true, .. })));
        assert!(inbox.take().is_none());
    }

    #[test]
    fn a_worker_looks_at_a_bounded_part_of_its_table_for_one_question() {
        let address = |place: usize| {
            let [.., c, d] = place.to_be_bytes();
            Address { vid: 1, mac: MacAddr([2, 0, 0, 0, c, d]), port: PortId(0), fixed: false }
        };
        let ask = |from, wanted| {
            let (answer, mut part) = oneshot::channel();
            let request = AddressesRequest { from, wanted, room: Vec::new(), answer };
            request.answer(PLACES_AT_ONCE + 2, |places| places.map(address));
            part.try_recv().unwrap()
        };
        let all = (Bound::Unbounded, Bound::Unbounded);
        let first = ask(0, all);
        assert_eq!((first.addresses.len(), first.next), (PLACES_AT_ONCE, Some(PLACES_AT_ONCE)));
        let rest = ask(PLACES_AT_ONCE, all);
        assert_eq!(
            rest,
            AddressPart { addresses: [0, 1].map(|it| address(PLACES_AT_ONCE + it)).into(), next: None }
        );
        assert_eq!(ask(PLACES_AT_ONCE + 2, all), AddressPart::default());
        let some = ask(0, (Bound::Excluded(address(3).key()), Bound::Included(address(5).key())));
        assert_eq!(some.addresses, [address(4), address(5)]);
    }

    #[test]
    fn a_silent_worker_finds_one_question_however_often_it_was_asked() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (mailbox, inbox) = Mailbox::new().unwrap();
        let question = || match inbox.take() {
            Some(Request::Ledger(question)) => Some(question),
            _ => None,
        };
        for _ in 0..3 {
            assert_eq!(runtime.block_on(mailbox.ledger(Instant::now())), Answer::Silent);
        }
        let first = question().unwrap();
        assert!(question().is_none());
        first.send(Ledger::default()).unwrap();
        // Whoever asks next is told what holds then, not that.
        let ledger = Ledger { received: 7, ..Ledger::default() };
        let asker = mailbox.ledger(Instant::now() + std::time::Duration::from_secs(20));
        let worker = async { question().unwrap().send(ledger).unwrap() };
        let (answer, ()) = runtime.block_on(async { tokio::join!(asker, worker) });
        assert_eq!(answer, Answer::Given(ledger));
    }

    #[test]
    fn a_worker_that_ended_is_noticed() {
        let (mailbox, inbox) = Mailbox::new().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        assert_eq!(runtime.block_on(mailbox.ledger(Instant::now())), Answer::Silent);
        drop(inbox);
        assert_eq!(runtime.block_on(mailbox.ledger(Instant::now())), Answer::Ended);
        assert_eq!(mailbox.send(Request::Link { port: PortId(0), up: true }), Err(Ended));
    }
}
