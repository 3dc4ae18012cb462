//! Messages from the control thread to a worker.
//!
//! The worker looks once per loop ([`Inbox::take`]: two loads while there is none). A worker that
//! sleeps has [`Inbox::fd`] among the descriptors that wake it, and calls [`Inbox::acknowledge`] when
//! it was that one. Answers go back through the message itself; a worker never waits for a reader, and
//! finds one question at most, however many readers wait for it.
//! A worker that has ended has dropped its inbox, and then [`Mailbox::send`] says so: that is how the
//! control thread knows.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crossbeam::channel::{Receiver, Sender, unbounded};
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, timeout_at};
use xoff_dataplane::ledger::Ledger;
use xoff_dataplane::switch::Successor;
use xoff_dataplane::units::{MacAddr, PortId};

use super::snapshot::Answer;

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
    /// Give a class another policy, and say when that is done.
    SetPolicy {
        /// The policy and its class; made where memory may be allocated.
        successor: Box<Successor>,
        /// Given what the policy before has left, when the worker has the new one.
        done: oneshot::Sender<Box<Successor>>,
    },
    /// Tell what only the worker knows.
    Report(ReportRequest),
}

/// A question for a [`Report`].
#[derive(Debug)]
pub struct ReportRequest {
    fdb: Option<Vec<Address>>,
    answer: oneshot::Sender<Report>,
}

impl ReportRequest {
    /// A question, and where its answer arrives. With `addresses`, the forwarding database is asked
    /// for too; memory for that many is set aside here, so that the worker need not.
    fn new(addresses: Option<usize>) -> (ReportRequest, oneshot::Receiver<Report>) {
        let (answer, report) = oneshot::channel();
        (ReportRequest { fdb: addresses.map(Vec::with_capacity), answer }, report)
    }

    /// Answers. `fdb` is looked at only where it was asked for.
    pub fn answer(self, ledger: Ledger, fdb: impl Iterator<Item = Address>) {
        let mut addresses = self.fdb;
        if let Some(addresses) = &mut addresses {
            addresses.extend(fdb);
        }
        // Whoever asked may have given up waiting.
        let _ = self.answer.send(Report { ledger, fdb: addresses.unwrap_or_default() });
    }
}

/// What only a worker knows, all at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Its ledger.
    pub ledger: Ledger,
    /// Its forwarding database, where it was asked for.
    pub fdb: Vec<Address>,
}

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

/// The control thread's end.
#[derive(Debug)]
pub struct Mailbox {
    requests: Sender<Request>,
    wake: Arc<EventFd>,
    /// The question that is on its way; with whoever asked it gone, an earlier one may be.
    asked: Mutex<Option<oneshot::Receiver<Report>>>,
}

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
        let mailbox = Mailbox { requests: sender, wake: Arc::clone(&wake), asked: Mutex::new(None) };
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

    /// Asks for a report, with that many addresses of the forwarding database where given. Waits its
    /// turn: no question is sent while an earlier one, whose asker may have given up, is unanswered.
    pub(super) async fn ask(&self, addresses: Option<usize>, deadline: Instant) -> Answer {
        let answer = timeout_at(deadline, self.ask_in_turn(addresses)).await;
        answer.unwrap_or(Answer::Silent)
    }

    async fn ask_in_turn(&self, addresses: Option<usize>) -> Answer {
        let mut asked = self.asked.lock().await;
        if let Some(earlier) = asked.as_mut() {
            let _ = earlier.await; // as old as its question
            *asked = None;
        }
        let (request, report) = ReportRequest::new(addresses);
        if self.send(Request::Report(request)).is_err() {
            return Answer::Ended;
        }
        let report = asked.insert(report).await;
        *asked = None;
        report.map_or(Answer::Ended, Answer::Report)
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
    fn a_report_carries_the_fdb_only_where_asked() {
        let address = Address { vid: 1, mac: MacAddr([2; 6]), port: PortId(0), fixed: false };
        let ledger = Ledger { received: 7, ..Ledger::default() };
        for (asked, expected) in [(None, vec![]), (Some(1), vec![address])] {
            let (request, mut report) = ReportRequest::new(asked);
            request.answer(ledger, [address].into_iter());
            assert_eq!(report.try_recv().unwrap(), Report { ledger, fdb: expected });
        }
    }

    #[test]
    fn a_silent_worker_finds_one_question_however_often_it_was_asked() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (mailbox, inbox) = Mailbox::new().unwrap();
        let question = || match inbox.take() {
            Some(Request::Report(question)) => Some(question),
            _ => None,
        };
        for _ in 0..3 {
            assert_eq!(runtime.block_on(mailbox.ask(None, Instant::now())), Answer::Silent);
        }
        let first = question().unwrap();
        assert!(question().is_none());
        first.answer(Ledger::default(), [].into_iter());
        // Whoever asks next is told what holds then, not that.
        let ledger = Ledger { received: 7, ..Ledger::default() };
        let asker = mailbox.ask(None, Instant::now() + std::time::Duration::from_secs(20));
        let worker = async { question().unwrap().answer(ledger, [].into_iter()) };
        let (answer, ()) = runtime.block_on(async { tokio::join!(asker, worker) });
        assert_eq!(answer, Answer::Report(Report { ledger, fdb: vec![] }));
    }

    #[test]
    fn a_worker_that_ended_is_noticed() {
        let (mailbox, inbox) = Mailbox::new().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        assert_eq!(runtime.block_on(mailbox.ask(None, Instant::now())), Answer::Silent);
        drop(inbox);
        assert_eq!(runtime.block_on(mailbox.ask(None, Instant::now())), Answer::Ended);
        assert_eq!(mailbox.send(Request::Link { port: PortId(0), up: true }), Err(Ended));
    }
}
