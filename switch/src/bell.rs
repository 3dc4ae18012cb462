//! Bell that wakes a sleeping worker; ringing an awake worker costs a sender only one fence.
//!
//! The worker announces its sleep, then checks for messages once more; a sender stores its message, then checks
//! whether the worker sleeps. A fence between the two steps makes at least one of them see the other's store.
//! `tests/bell.rs` runs this file in every order that the memory model allows.

use std::io;

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::atomics::{AtomicBool, Ordering, fence};

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

    #[must_use]
    pub fn event(&self) -> &EventFd {
        &self.event
    }

    /// Announces the worker's sleep; the worker must then check for messages once more.
    pub fn close_eyes(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub fn open_eyes(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Clears the bell. The worker must then check for messages before it sleeps.
    pub fn acknowledge(&self) {
        let _ = self.event.read(); // fails if it did not ring
    }

    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Wakes the worker for an event other than a message. If the worker is awake, its next sleep ends at once.
    pub fn wake(&self) {
        let _ = self.event.write(1); // fails if full: it has rung
    }
}
