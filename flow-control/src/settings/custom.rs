use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use xoff_wire::units::Class;

use super::SwitchSettings;
use crate::decision::CustomPolicy;

/// Factory of [`CustomPolicy`]s by class. Its `Debug` output must contain all parameters, so that changes are detected.
pub trait PolicyFactory: Debug + Send + Sync {
    /// Creates the policy of `class`, which must allocate all its memory now.
    fn policy(&self, class: Class, settings: &SwitchSettings) -> Box<dyn CustomPolicy>;

    /// Returns whether one worker must handle both ingress and egress of a frame, because a policy gets only its own
    /// worker's events.
    fn needs_one_worker(&self) -> bool {
        true
    }

    /// Returns a setting that the policy needs but `settings` lacks, such as "`accounting = ...`".
    fn misfit(&self, class: Class, settings: &SwitchSettings) -> Option<String> {
        let _ = (class, settings);
        None
    }
}

/// Shared [`PolicyFactory`].
#[derive(Clone, Debug)]
pub struct Custom(Arc<dyn PolicyFactory>);

impl Custom {
    /// Wraps a factory for use in settings.
    pub fn new(factory: impl PolicyFactory + 'static) -> Custom {
        Custom(Arc::new(factory))
    }
}

impl Deref for Custom {
    type Target = dyn PolicyFactory;
    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Custom) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
