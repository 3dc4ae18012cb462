//! Calls of a policy that is not built in. Where it panics that is said: what unwinds from there is a [`CustomPanic`].

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};

use xoff_wire::units::Nanos;

use super::{CustomPolicy, Event, Intent, Margin};
use crate::buffer::Buffer;

/// The payload of a panic: a policy that is not built in has panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomPanic {
    /// What it said.
    pub said: String,
}

impl CustomPanic {
    fn of(cause: &(dyn Any + Send)) -> CustomPanic {
        let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| cause.downcast_ref::<String>().cloned());
        CustomPanic { said: text.unwrap_or_else(|| "for no reason that it told".to_owned()) }
    }
}

/// Shows it an event. It is given a copy of it: were the event itself lent to a call, its kind would no longer be a
/// constant for those that are built in.
#[cold]
#[inline(never)]
pub(super) fn observe(
    policy: &mut dyn CustomPolicy,
    now: Nanos,
    event: &Event,
    buffer: &Buffer,
    intents: &mut Vec<Intent>,
) {
    called(|| policy.observe(now, *event, buffer, intents));
}

pub(super) fn margin(policy: &dyn CustomPolicy, event: Event, buffer: &Buffer) -> Margin {
    called(|| policy.margin(event, buffer))
}

pub(super) fn adopt(policy: &mut dyn CustomPolicy, buffer: &Buffer, intents: &mut Vec<Intent>) {
    called(|| policy.adopt(buffer, intents));
}

fn called<T>(call: impl FnOnce() -> T) -> T {
    // What it may have left half done is not used any more: the panic goes on.
    panic::catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|cause| panic::resume_unwind(Box::new(CustomPanic::of(&*cause))))
}
