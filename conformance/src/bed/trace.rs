//! A run as one number: the same seed gives the same trace.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::events::Event;
use xoff_dataplane::units::Nanos;

#[derive(Debug, Default)]
pub struct Trace(DefaultHasher);

impl Trace {
    pub fn note(&mut self, now: Nanos, event: &Event) {
        now.hash(&mut self.0);
        event.hash(&mut self.0);
    }

    pub fn digest(&self) -> u64 {
        self.0.finish()
    }
}
