//! A value that is replaced as a whole while others read it: what they have in their hands stays as it was.

use std::sync::{Arc, PoisonError, RwLock};

/// One thread writes, any reads. Not for a thread that forwards frames: it may have to wait for a moment.
#[derive(Debug)]
pub struct Current<T>(RwLock<Arc<T>>);

impl<T> Current<T> {
    /// It, to begin with.
    pub fn new(value: T) -> Current<T> {
        Current(RwLock::new(Arc::new(value)))
    }

    /// What it is now.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// It is this from now on.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}
