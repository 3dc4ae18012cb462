//! Model check of `bell.rs`, in every order that the memory model allows; loom's atomics replace the processor's.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use loom::thread;

use atomics::{AtomicBool, Ordering};
use bell::Bell;

#[path = "../src/bell.rs"]
mod bell;

mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering, fence};
}

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

    fn look(&self) -> Vec<bool> {
        self.messages.iter().map(|message| message.load(Ordering::Relaxed)).collect()
    }
}

/// Runs a worker that falls asleep while `senders` threads send; `naps` are earlier sleeps, acknowledged or not.
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
        let observed = shared.look();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        let woken = shared.bell.event().read().is_ok();
        assert!(
            woken || observed.iter().all(|observed| *observed),
            "it sleeps for good, and has seen {observed:?} only"
        );
    });
}

// proves: workers
#[test]
fn no_message_waits_for_a_worker_that_goes_to_sleep() {
    sleeps(1, &[]);
}

// proves: workers
#[test]
fn messages_of_two_senders_wake_a_worker() {
    sleeps(2, &[]);
}

// proves: workers
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
