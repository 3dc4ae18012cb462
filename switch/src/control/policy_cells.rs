//! Which flow-control policy each class has now: written by `/policy`, read by whoever shows it.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::Mutex;
use xoff_dataplane::settings::PolicyKind;
use xoff_dataplane::units::{CLASSES, Class};

/// What `GET /policy` and `PUT /policy` answer: the names of the policies of classes 0 to 7.
pub type PolicyNames = [String; CLASSES];

/// The policy of each class, as the workers have confirmed it. One thread writes, any reads.
#[derive(Debug)]
pub struct PolicyCells {
    kinds: [AtomicUsize; CLASSES],
    /// Held by whoever changes them.
    pub(super) changing: Mutex<()>,
}

impl PolicyCells {
    /// These.
    #[must_use]
    pub fn new(kinds: [PolicyKind; CLASSES]) -> PolicyCells {
        PolicyCells { kinds: kinds.map(|kind| AtomicUsize::new(kind as usize)), changing: Mutex::new(()) }
    }

    /// The policy of `class` now.
    #[must_use]
    pub fn get(&self, class: Class) -> PolicyKind {
        let kind = self.kinds[class.index()].load(Relaxed);
        PolicyKind::ALL.get(kind).copied().unwrap_or(PolicyKind::Custom)
    }

    pub(super) fn set(&self, class: Class, kind: PolicyKind) {
        self.kinds[class.index()].store(kind as usize, Relaxed);
    }

    /// The names of all.
    #[must_use]
    pub fn names(&self) -> PolicyNames {
        Class::ALL.map(|class| self.get(class).name().to_owned())
    }
}
