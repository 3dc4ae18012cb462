//! `bell.rs` between workers that send and one that is about to sleep, in every order of their steps that the
//! memory model allows. The file is the one that the binary is built of; loom's atomics are in the place of the
//! processor's.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use loom::thread;

use atomics::{AtomicBool, Ordering};
use bell::Bell;

#[path = "../src/bell.rs"]
mod bell;

/// In place of the crate's module of this name.
mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering, fence};
}

/// What workers share: the bell of the one that sleeps, and a message from each of the others.
struct Shared {
    bell: Bell,
    messages: Vec<AtomicBool>,
}

impl Shared {
    fn new(senders: usize) -> Arc<Shared> {
        let messages = (0..senders).map(|_| AtomicBool::new(false)).collect();
        Arc::new(Shared { bell: Bell::new().unwrap(), messages })
    }

    fn send(&self, from: usize) {
        self.messages[from].store(true, Ordering::Relaxed);
        self.bell.ring();
    }

    /// Which messages the worker sees.
    fn look(&self) -> Vec<bool> {
        self.messages.iter().map(|message| message.load(Ordering::Relaxed)).collect()
    }
}

/// After naps from which it wakes up by itself a worker goes to sleep, while so many others send. After each nap it
/// acknowledges, or does not, because it did not see that the bell rang.
fn sleeps(senders: usize, naps: &'static [bool]) {
    loom::model(move || {
        let shared = Shared::new(senders);
        let sender = |from| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.send(from))
        };
        let senders: Vec<_> = (0..senders).map(sender).collect();
        for acknowledges in naps {
            shared.bell.close_eyes();
            if *acknowledges {
                shared.bell.acknowledge();
            }
            shared.bell.open_eyes();
        }
        shared.bell.close_eyes();
        let seen = shared.look();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        let woken = shared.bell.event().read().is_ok();
        assert!(woken || seen.iter().all(|seen| *seen), "it sleeps for good, and has seen {seen:?} only");
    });
}

#[test]
fn no_message_waits_for_a_worker_that_goes_to_sleep() {
    sleeps(1, &[]);
}

#[test]
fn no_message_of_two_senders_waits_for_a_worker_that_goes_to_sleep() {
    sleeps(2, &[]);
}

#[test]
fn no_message_waits_for_a_worker_that_was_just_awake() {
    sleeps(1, &[true]);
    sleeps(1, &[false]);
}

#[test]
fn a_worker_that_is_awake_is_not_woken() {
    loom::model(|| {
        let shared = Shared::new(1);
        shared.send(0);
        assert!(shared.bell.event().read().is_err());
        shared.bell.wake();
        assert!(shared.bell.event().read().is_ok(), "it is woken all the same");
    });
}
