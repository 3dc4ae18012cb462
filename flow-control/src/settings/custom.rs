//! A policy that is not built in, as settings carry it: who makes it, and what it needs.

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use xoff_wire::units::Class;

use super::SwitchSettings;
use crate::decision::CustomPolicy;

/// Makes a [`CustomPolicy`] for each class that gets one, with the parameters that it was made with itself. How it is printed for
/// debugging tells these: by that a change of them is noticed.
pub trait PolicyFactory: Debug + Send + Sync {
    /// The policy of `class`, in a switch of these settings. All that it will ever need is to be allocated here.
    fn policy(&self, class: Class, settings: &SwitchSettings) -> Box<dyn CustomPolicy>;

    /// Whether it needs to see ingress and egress in one worker. With several it sees what happens at the ports of its
    /// own worker: frames received and released there wherever they go, enqueued and dequeued there wherever they came in.
    fn needs_one_worker(&self) -> bool {
        true
    }

    /// What it needs in `settings`, and they do not have, to decide about `class`: "`accounting = ...`".
    fn misfit(&self, class: Class, settings: &SwitchSettings) -> Option<String> {
        let _ = (class, settings);
        None
    }
}

/// A [`PolicyFactory`] that settings share with their copies; equal to those.
#[derive(Clone, Debug)]
pub struct Custom(Arc<dyn PolicyFactory>);

impl Custom {
    /// That.
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
