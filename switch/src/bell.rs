//! Bell that wakes a sleeping worker; if the worker is awake, ringing costs only one fence.
//!
//! The worker announces its sleep, then checks for messages. A sender stores its message, then checks whether
//! the worker sleeps. A fence between the two steps of each side makes at least one side see the other's store.

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

    /// Announces that the worker will sleep. The worker must then check for messages once more.
    pub fn close_eyes(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub fn open_eyes(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Resets the eventfd. Before its next sleep, the worker must check for messages.
    pub fn acknowledge(&self) {
        let _ = self.event.read(); // fails if it did not ring
    }

    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Wakes the worker for an event without a message. If the worker is awake, its next sleep ends at once.
    pub fn wake(&self) {
        let _ = self.event.write(1); // fails if full: it has rung
    }
}
