//! Atomics that workers share without a lock.
//!
//! A separate module, so that a test can replace them by a model that tracks every access.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
