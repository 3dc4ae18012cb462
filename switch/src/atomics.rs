//! What workers share without a lock and order by themselves.
//!
//! A module of its own so that a test can put another in its place, one that knows of every access.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
