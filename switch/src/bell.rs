//! Wakes a worker that sleeps, and costs who rings a fence while it does not.
//!
//! The worker says that it is about to sleep and then looks for messages once more; who sends leaves the message and
//! then looks whether the worker sleeps. Each has a fence between its two steps, so that one of them at
//! least sees what the other has done. `tests/bell.rs` runs this file in every order that the memory model allows.

use std::io;

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::atomics::{AtomicBool, Ordering, fence};

/// Wakes a worker that sleeps.
#[derive(Debug)]
pub struct Bell {
    asleep: AtomicBool,
    event: EventFd,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Bell { asleep: AtomicBool::new(false), event })
    }

    /// The descriptor that becomes readable when the bell rings.
    #[must_use]
    pub fn event(&self) -> &EventFd {
        &self.event
    }

    /// The worker is about to sleep: from here on a message rings. It must look for messages once
    /// more before it does sleep.
    pub fn close_eyes(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The worker is awake again.
    pub fn open_eyes(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// The worker, awake again, has seen that it rang. It must look for messages before it sleeps. As long as this is not
    /// called, a bell that rang ends every sleep at once.
    pub fn acknowledge(&self) {
        let _ = self.event.read(); // empty unless it rang
    }

    /// Wakes the worker if it sleeps. Costs a fence while it does not.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Wakes the worker, or keeps it from its next sleep: for what it does not look for once more
    /// before it sleeps.
    pub fn wake(&self) {
        let _ = self.event.write(1); // full: it has rung
    }
}
