//! The filter that keeps the machine's own stack from sending on a switch's port.
//!
//! It hangs on the interface's clsact, which has to be there. It outlives a killed process, and lets everything
//! pass from then on, because the sockets are gone that it looks for; the next switch replaces it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::{Program, TC_EGRESS, TcHook, TcHookBuilder};

/// Its place among the filters of an interface: nobody else's by chance.
pub const FILTER_PRIORITY: u16 = 0x786f;
const HANDLE: u32 = 0x6666;

/// The clsact of an interface, where the filter is to hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clsact {
    /// It was made for the filter.
    New,
    /// It was there, perhaps with a filter that a killed xoff left.
    Found,
}

/// What became of the filter.
#[derive(Debug)]
pub enum Filtered {
    /// It is at work.
    New(Filter),
    /// It is at work, in the place of one that a killed xoff left.
    Replaced(Filter),
    /// The kernel takes none.
    Refused(libbpf_rs::Error),
}

/// A filter at work; dropping it takes it off.
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
