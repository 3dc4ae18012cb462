//! Atomic types of `bell.rs`; the model check `tests/bell.rs` replaces them by types that track every access.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
