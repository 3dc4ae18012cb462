//! Atomics of workers, which `tests/bell.rs` replaces by a model that tracks every access.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
