use std::any::Any;
use std::panic::{self, AssertUnwindSafe};

use xoff_wire::units::Nanos;

use super::{CustomPolicy, Event, Intent, Margin};
use crate::buffer::Buffer;

/// Payload of a panic raised by a custom policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct CustomPanic {
    pub message: String,
}

impl CustomPanic {
    fn of(cause: &(dyn Any + Send)) -> CustomPanic {
        let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| cause.downcast_ref::<String>().cloned());
        CustomPanic { message: text.unwrap_or_else(|| "the panic has no message".to_owned()) }
    }
}

/// Calls a custom policy with a copy of the event, so that the event itself stays in registers for built-in policies.
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
    // Never continue after a panic: the policy's state may be half updated. The new payload tells the caller that a
    // policy panicked.
    panic::catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|cause| panic::resume_unwind(Box::new(CustomPanic::of(&*cause))))
}
