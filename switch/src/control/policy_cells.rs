use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::Mutex;
use xoff_flow_control::settings::PolicyKind;
use xoff_wire::units::{CLASSES, Class};

pub type PolicyNames = [String; CLASSES];

/// Policy of each class, as last confirmed by all workers. Only one thread may write it.
#[derive(Debug)]
pub struct PolicyCells {
    kinds: [AtomicUsize; CLASSES],
    pub(super) changing: Mutex<()>,
}

impl PolicyCells {
    #[must_use]
    pub fn new(kinds: [PolicyKind; CLASSES]) -> PolicyCells {
        PolicyCells { kinds: kinds.map(|kind| AtomicUsize::new(kind as usize)), changing: Mutex::new(()) }
    }

    #[must_use]
    pub fn get(&self, class: Class) -> PolicyKind {
        let kind = self.kinds[class.index()].load(Relaxed);
        PolicyKind::ALL.get(kind).copied().unwrap_or(PolicyKind::Custom)
    }

    pub(super) fn set(&self, class: Class, kind: PolicyKind) {
        self.kinds[class.index()].store(kind as usize, Relaxed);
    }

    #[must_use]
    pub fn names(&self) -> PolicyNames {
        Class::ALL.map(|class| self.get(class).name().to_owned())
    }
}
