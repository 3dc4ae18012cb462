//! Cell for a value that is replaced as a whole.

use std::sync::{Arc, PoisonError, RwLock};

/// Value replaced as a whole; readers keep their version. May block, so not for forwarding threads.
#[derive(Debug)]
pub struct Current<T>(RwLock<Arc<T>>);

impl<T> Current<T> {
    /// Creates the cell with a value.
    pub fn new(value: T) -> Current<T> {
        Current(RwLock::new(Arc::new(value)))
    }

    /// Returns the current value.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}
