//! Atomics that workers share without a lock. `tests/bell.rs` replaces this module by a model that tracks every access.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
