//! Lock-free atomics of workers. `tests/bell.rs` replaces them by a model that tracks every access.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
