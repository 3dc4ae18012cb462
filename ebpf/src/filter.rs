//! Egress filter: stops the machine's own stack from sending on a port of the switch while xoff has a socket there. A
//! filter left by a killed xoff passes every frame.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use libbpf_rs::{Program, TC_EGRESS, TcHook, TcHookBuilder};

/// Priority of the filter in traffic control (tc). No other program should use this priority.
pub const FILTER_PRIORITY: u16 = 0x786f;
const HANDLE: u32 = 0x6666;

/// Origin of the interface's clsact qdisc, to which the filter is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clsact {
    /// The qdisc was created for the filter.
    New,
    /// The qdisc existed before, possibly with the filter of a killed xoff.
    Found,
}

#[derive(Debug)]
pub enum Filtered {
    /// The interface had no filter of xoff before.
    New(Arc<Filter>),
    /// The filter replaced that of a killed xoff.
    Replaced(Arc<Filter>),
    Refused(libbpf_rs::Error),
}

/// Attached egress filter. Dropping it detaches the filter.
#[derive(Debug)]
pub struct Filter {
    program: OwnedFd,
    ifindex: i32,
    is_attached: Mutex<bool>,
}

impl Filter {
    pub(crate) fn attach(program: BorrowedFd<'_>, ifindex: i32, clsact: Clsact) -> Filtered {
        let mut hook = hook(program, ifindex);
        let leftover = clsact == Clsact::Found && hook.query().is_ok();
        let filter = hook.attach().and_then(|_| {
            let (program, is_attached) = (program.try_clone_to_owned()?, Mutex::new(true));
            Ok(Arc::new(Filter { program, ifindex, is_attached }))
        });
        match filter {
            Ok(filter) if leftover => Filtered::Replaced(filter),
            Ok(filter) => Filtered::New(filter),
            Err(error) => Filtered::Refused(error),
        }
    }

    pub(crate) fn restore(&self) -> libbpf_rs::Result<bool> {
        let is_attached = self.is_attached.lock().unwrap_or_else(PoisonError::into_inner);
        let mut hook = hook(self.program.as_fd(), self.ifindex);
        if !*is_attached || self.is_at(&mut hook) {
            return Ok(false);
        }
        let _ = hook.create(); // fails if the qdisc exists
        hook.attach().map(|_| true)
    }

    pub(crate) fn take_off(&self) {
        let mut is_attached = self.is_attached.lock().unwrap_or_else(PoisonError::into_inner);
        let mut hook = hook(self.program.as_fd(), self.ifindex);
        if std::mem::replace(&mut *is_attached, false) && self.is_at(&mut hook) {
            let _ = hook.detach(); // the interface may be gone
        }
    }

    fn is_at(&self, hook: &mut TcHook) -> bool {
        let ours = Program::id_from_fd(self.program.as_fd()).ok();
        ours.is_some() && hook.query().ok() == ours
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        self.take_off();
    }
}

impl Filtered {
    pub(crate) fn filter(&self) -> Option<Arc<Filter>> {
        match self {
            Filtered::New(filter) | Filtered::Replaced(filter) => Some(Arc::clone(filter)),
            Filtered::Refused(_) => None,
        }
    }
}

fn hook(program: BorrowedFd<'_>, ifindex: i32) -> TcHook {
    let mut builder = TcHookBuilder::new(program);
    builder.ifindex(ifindex).priority(FILTER_PRIORITY.into()).handle(HANDLE).replace(true);
    builder.hook(TC_EGRESS)
}
