//! Requests from the control thread to a worker; at most one query of each kind is pending.

use std::io;
use std::ops::{Bound, Range, RangeBounds as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crossbeam::channel::{Receiver, Sender, unbounded};
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, timeout_at};
use xoff_dataplane::forward::{MemberState, MulticastTable};
use xoff_dataplane::ledger::Ledger;
use xoff_dataplane::routing::Fib;
use xoff_dataplane::switch::{PolicySwap, Revision};
use xoff_dataplane::tap::{Tap, TapId};
use xoff_wire::units::{MacAddr, Nanos, PortId};
use xoff_xdp::Port;

const PLACES_AT_ONCE: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backlog {
    Sent,
    /// Keep queued frames, because the port will be opened again.
    Kept {
        /// True to drop even the frames in the transmit ring that the kernel has not sent.
        even_unsent: bool,
    },
}

#[derive(Debug)]
pub enum Request {
    Link {
        /// Port whose link changed, of this worker or another.
        port: PortId,
        up: bool,
    },
    Member {
        /// Port of a group with LACP, of this worker or another.
        port: PortId,
        state: MemberState,
    },
    GiveUp {
        port: PortId,
        backlog: Backlog,
        /// Channel that receives the port, or `None` while its device still has frames to send. Workers that do
        /// not own the port drop the channel.
        done: oneshot::Sender<Option<Box<Port>>>,
    },
    Adopt {
        port: PortId,
        opened: Box<Port>,
        done: oneshot::Sender<()>,
    },
    SetPolicy {
        swap: Box<PolicySwap>,
        done: oneshot::Sender<Box<PolicySwap>>,
    },
    Revise {
        revision: Box<Revision>,
        commit_time: Nanos,
        done: oneshot::Sender<Box<Revision>>,
    },
    SetFib {
        fib: Arc<Fib>,
        done: oneshot::Sender<Arc<Fib>>,
    },
    SetMulticast {
        table: Arc<MulticastTable>,
        done: oneshot::Sender<Arc<MulticastTable>>,
    },
    PutTap {
        id: TapId,
        tap: Box<dyn Tap>,
        done: oneshot::Sender<Result<(), Box<dyn Tap>>>,
    },
    TakeTap {
        id: TapId,
        done: oneshot::Sender<Option<Box<dyn Tap>>>,
    },
    Ledger(oneshot::Sender<Ledger>),
    Addresses(AddressesRequest),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    Given(T),
    Silent,
    Ended,
}

impl<T> Answer<T> {
    pub(super) fn fault(&self, worker: usize) -> Option<String> {
        match self {
            Answer::Given(_) => None,
            Answer::Silent => Some(format!("worker {worker} does not answer")),
            Answer::Ended => Some(format!("worker {worker} has ended")),
        }
    }
}

#[derive(Debug)]
pub struct AddressesRequest {
    from: usize,
    wanted: AddressRange,
    room: Vec<Address>,
    answer: oneshot::Sender<AddressPart>,
}

impl AddressesRequest {
    pub fn answer<I>(self, places: usize, at: impl FnOnce(Range<usize>) -> I)
    where
        I: Iterator<Item = Address>,
    {
        let AddressesRequest { from, wanted, room: mut addresses, answer } = self;
        let end = (from + PLACES_AT_ONCE).min(places);
        addresses.extend(at(from.min(end)..end).filter(|address| wanted.contains(&address.key())));
        let _ = answer.send(AddressPart { addresses, next: (end < places).then_some(end) }); // fails if the client has left
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPart {
    pub addresses: Vec<Address>,
    pub next: Option<usize>,
}

pub type AddressKey = (u16, MacAddr);

type AddressRange = (Bound<AddressKey>, Bound<AddressKey>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub vid: u16,
    pub mac: MacAddr,
    pub port: PortId,
    pub fixed: bool,
}

impl Address {
    #[must_use]
    pub fn key(&self) -> AddressKey {
        (self.vid, self.mac)
    }
}

#[derive(Debug)]
pub struct Mailbox {
    requests: Sender<Request>,
    wake: Arc<EventFd>,
    ledgers: PendingQuery<Ledger>,
    addresses: PendingQuery<AddressPart>,
}

type PendingQuery<T> = Mutex<Option<oneshot::Receiver<T>>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

impl Mailbox {
    pub fn new() -> io::Result<(Mailbox, Inbox)> {
        let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
        let (sender, receiver) = unbounded();
        let wakes = Arc::clone(&wake);
        let mailbox = Mailbox {
            requests: sender,
            wake: wakes,
            ledgers: PendingQuery::default(),
            addresses: PendingQuery::default(),
        };
        Ok((mailbox, Inbox { requests: receiver, wake }))
    }

    pub fn send(&self, request: Request) -> Result<(), Ended> {
        self.requests.send(request).map_err(|_| Ended)?;
        match self.wake.write(1) {
            Ok(_) | Err(Errno::EAGAIN) => Ok(()), // EAGAIN: 2^64 unacknowledged wake-ups
            Err(error) => unreachable!("cannot write 1 to the eventfd of a worker: {error}"),
        }
    }

    pub(super) async fn ledger(&self, deadline: Instant) -> Answer<Ledger> {
        self.ask(&self.ledgers, deadline, Request::Ledger).await
    }

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

    async fn ask<T>(
        &self,
        pending: &PendingQuery<T>,
        deadline: Instant,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Answer<T> {
        timeout_at(deadline, self.ask_in_turn(pending, request)).await.unwrap_or(Answer::Silent)
    }

    async fn ask_in_turn<T>(
        &self,
        pending: &PendingQuery<T>,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Answer<T> {
        let mut pending = pending.lock().await;
        if let Some(earlier) = pending.as_mut() {
            let _ = earlier.await;
            *pending = None;
        }
        let (sender, answer) = oneshot::channel();
        if self.send(request(sender)).is_err() {
            return Answer::Ended;
        }
        let answer = pending.insert(answer).await;
        *pending = None;
        answer.map_or(Answer::Ended, Answer::Given)
    }
}

#[derive(Debug)]
pub struct Inbox {
    requests: Receiver<Request>,
    wake: Arc<EventFd>,
}

impl Inbox {
    #[inline]
    #[must_use]
    pub fn take(&self) -> Option<Request> {
        if self.requests.is_empty() { None } else { self.requests.try_recv().ok() }
    }

    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Resets [`Inbox::fd`]. Must precede [`Inbox::take`], so that no request is missed.
    pub fn acknowledge(&self) {
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
    fn two_requests_reach_worker_in_order_after_one_wakeup() {
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

    #[test] // proves: http
    fn worker_answers_address_query_in_bounded_parts() {
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
    fn silent_worker_gets_one_query_at_a_time() {
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
        let ledger = Ledger { received: 7, ..Ledger::default() };
        let query = mailbox.ledger(Instant::now() + std::time::Duration::from_secs(20));
        let worker = async { question().unwrap().send(ledger).unwrap() };
        let (answer, ()) = runtime.block_on(async { tokio::join!(query, worker) });
        assert_eq!(answer, Answer::Given(ledger));
    }

    #[test]
    fn query_to_ended_worker_fails_at_once() {
        let (mailbox, inbox) = Mailbox::new().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        assert_eq!(runtime.block_on(mailbox.ledger(Instant::now())), Answer::Silent);
        drop(inbox);
        assert_eq!(runtime.block_on(mailbox.ledger(Instant::now())), Answer::Ended);
        assert_eq!(mailbox.send(Request::Link { port: PortId(0), up: true }), Err(Ended));
    }
}
