//! Egress filter: stops the machine's own stack from sending on a port of the switch. The filter of a killed process
//! passes every frame, because that process's sockets are gone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::{Program, TC_EGRESS, TcHook, TcHookBuilder};

/// Priority of the filter in traffic control. No other program should use this priority.
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

/// Result of attaching the egress filter.
#[derive(Debug)]
pub enum Filtered {
    /// The interface had no filter of xoff before.
    New(Filter),
    /// The filter replaced the filter of a killed xoff.
    Replaced(Filter),
    Refused(libbpf_rs::Error),
}

/// Attached egress filter. Dropping it detaches the filter.
#[derive(Debug)]
pub struct Filter {
    program: OwnedFd,
    ifindex: i32,
}

impl Filter {
    pub(crate) fn attach(program: BorrowedFd<'_>, ifindex: i32, clsact: Clsact) -> Filtered {
        let mut hook = hook(program, ifindex);
        let leftover = clsact == Clsact::Found && hook.query().is_ok();
        let filter =
            hook.attach().and_then(|_| Ok(Filter { program: program.try_clone_to_owned()?, ifindex }));
        match filter {
            Ok(filter) if leftover => Filtered::Replaced(filter),
            Ok(filter) => Filtered::New(filter),
            Err(error) => Filtered::Refused(error),
        }
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        let program = self.program.as_fd();
        let mut hook = hook(program, self.ifindex);
        let ours = Program::id_from_fd(program).ok();
        if ours.is_some() && hook.query().ok() == ours {
            let _ = hook.detach(); // the interface may be gone
        }
    }
}

fn hook(program: BorrowedFd<'_>, ifindex: i32) -> TcHook {
    let mut builder = TcHookBuilder::new(program);
    builder.ifindex(ifindex).priority(FILTER_PRIORITY.into()).handle(HANDLE).replace(true);
    builder.hook(TC_EGRESS)
}
