//! Model check of `bell.rs` in every order that the memory model allows, with Loom's atomics.
#![allow(clippy::unwrap_used)]

// Tests for SPECIFICATION.md: workers

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

/// Checks that a worker that falls asleep notices the messages of `senders` threads. `naps` lists its earlier sleeps:
/// true if it then called [`Bell::acknowledge`].
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
            "worker sleeps forever, with these messages noticed: {observed:?}"
        );
    });
}

#[test]
fn message_wakes_a_worker_that_falls_asleep() {
    sleeps(1, &[]);
}

#[test]
fn messages_of_two_senders_wake_a_worker_that_falls_asleep() {
    sleeps(2, &[]);
}

#[test]
fn message_wakes_a_worker_that_falls_asleep_a_second_time() {
    sleeps(1, &[true]);
    sleeps(1, &[false]);
}

#[test]
fn message_to_awake_worker_does_not_ring_its_bell() {
    loom::model(|| {
        let shared = Shared::new(1);
        shared.send(0);
        assert!(shared.bell.event().read().is_err());
        shared.bell.wake();
        assert!(shared.bell.event().read().is_ok(), "wake does not ring the bell of an awake worker");
    });
}
