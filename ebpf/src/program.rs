//! Attached XDP program. Any privileged process can detach or replace it; frames then silently bypass the sockets. A
//! watcher polls [`Program::place`], and restores the program unless another one is attached.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use libbpf_rs::{Link, Xdp, XdpFlags};

use crate::filter::Filter;
use crate::{Claim, EbpfError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Native,
    /// XDP in the network stack, which is slower than in the driver.
    Generic,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Native => "native",
            Mode::Generic => "generic",
        })
    }
}

impl Mode {
    pub(crate) const fn flag(self) -> XdpFlags {
        match self {
            Mode::Native => XdpFlags::DRV_MODE,
            Mode::Generic => XdpFlags::SKB_MODE,
        }
    }
}

#[derive(Debug)]
enum Hold {
    /// Attached by a BPF link, which the kernel removes when the process ends.
    Link {
        _link: Link,
    },
    Interface,
    None,
}

/// Owner of an interface's single XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Ours,
    Empty,
    /// Another program, with this id, is attached.
    Taken(u32),
}

#[derive(Debug)]
pub struct Program {
    device: String,
    ifindex: i32,
    mode: Mode,
    fd: OwnedFd,
    id: u32,
    hold: Mutex<Hold>,
    /// `None` if the kernel refused the egress filter.
    filter: Option<Arc<Filter>>,
}

impl Program {
    pub(crate) fn new(
        claim: &Claim,
        fd: BorrowedFd<'_>,
        mode: Mode,
        link: Option<Link>,
        filter: Option<Arc<Filter>>,
    ) -> libbpf_rs::Result<Program> {
        Ok(Program {
            device: claim.device().to_owned(),
            ifindex: claim.ifindex(),
            mode,
            fd: fd.try_clone_to_owned()?,
            id: libbpf_rs::Program::id_from_fd(fd)?,
            hold: Mutex::new(link.map_or(Hold::Interface, |link| Hold::Link { _link: link })),
            filter,
        })
    }

    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the owner of the XDP program with this `id` at the interface; 0 means that none is attached.
    #[must_use]
    pub fn place(&self, id: u32) -> Place {
        match id {
            0 => Place::Empty,
            id if id == self.id => Place::Ours,
            id => Place::Taken(id),
        }
    }

    /// Attaches the program again, in the calling thread's network namespace. Does nothing after its
    /// [`Attached`](crate::Attached) was dropped.
    pub fn attach_again(&self) -> Result<(), EbpfError> {
        let mut hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*hold, Hold::None) {
            return Ok(());
        }
        let attached =
            Xdp::new(self.fd.as_fd()).attach(self.ifindex, self.mode.flag() | XdpFlags::UPDATE_IF_NOEXIST);
        attached.map_err(|source| EbpfError::Refused {
            doing: "attach the XDP program again",
            device: self.device.clone(),
            source,
        })?;
        *hold = Hold::Interface; // a broken link cannot be repaired
        Ok(())
    }

    /// Attaches the egress filter again if another program has removed it. Returns whether it was missing. Call this in the interface's
    /// network namespace.
    pub fn restore_filter(&self) -> Result<bool, EbpfError> {
        let restored = self.filter.as_ref().map_or(Ok(false), |filter| filter.restore());
        let doing = "attach the egress filter again";
        restored.map_err(|source| EbpfError::Refused { doing, device: self.device.clone(), source })
    }

    pub(crate) fn take_off(&self) {
        if let Some(filter) = &self.filter {
            filter.take_off();
        }
        let mut hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        if let Hold::Interface = std::mem::replace(&mut *hold, Hold::None) {
            let xdp = Xdp::new(self.fd.as_fd());
            if xdp.query_id(self.ifindex, XdpFlags::NONE).is_ok_and(|id| id == self.id) {
                let _ = xdp.detach(self.ifindex, self.mode.flag()); // the interface may be gone
            }
        }
    }
}

// Tests for SPECIFICATION.md: devices
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Read as _, Seek as _};
    use std::process::Command;
    use std::thread;

    use nix::sched::{CloneFlags, unshare};

    use super::*;
    use crate::{Attached, Clsact, Filtered, attach};

    fn with_devices(test: impl FnOnce([i32; 2]) + Send + 'static) {
        let test = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            ip("link add v0 index 10 type veth peer name v1 index 11");
            test([10, 11]);
        });
        test.join().unwrap();
    }

    fn ip(words: &str) {
        assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success(), "ip {words}");
    }

    fn attached(device: &str, ifindex: i32, mode: Mode) -> Attached {
        attach(&Claim::take(device, ifindex).unwrap(), &[], Some(mode), None, false, Clsact::New).unwrap()
    }

    fn found(program: &Program) -> Place {
        program.place(Xdp::new(program.fd.as_fd()).query_id(program.ifindex, XdpFlags::NONE).unwrap())
    }

    #[test]
    fn detached_xdp_program_is_reattached_unless_xoff_dropped_it() {
        with_devices(|[v0, v1]| {
            let generic = attached("v0", v0, Mode::Generic);
            ip("link set dev v0 xdpgeneric off");
            let native = attached("v1", v1, Mode::Native);
            match &mut *native.program().hold.lock().unwrap() {
                Hold::Link { _link } => _link.detach().unwrap(),
                hold => panic!("{hold:?}"),
            }
            for attached in [generic, native] {
                let program = attached.program();
                assert_eq!(found(&program), Place::Empty);
                program.attach_again().unwrap();
                assert_eq!(found(&program), Place::Ours);
                let flags = Xdp::new(program.fd.as_fd()).query(program.ifindex, XdpFlags::NONE).unwrap();
                assert_eq!(flags.skb_prog_id != 0, program.mode() == Mode::Generic);
                drop(attached);
                assert_eq!(found(&program), Place::Empty);
                program.attach_again().unwrap();
                assert_eq!(found(&program), Place::Empty, "a program that xoff dropped must stay detached");
            }
        });
    }

    fn tc(words: &str) -> String {
        let output = Command::new("tc").args(words.split(' ')).output().unwrap();
        assert!(output.status.success(), "tc {words}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test] // proves: own-stack
    fn removed_egress_filter_is_reattached_unless_xoff_dropped_it() {
        with_devices(|[v0, v1]| {
            let is_there = || tc("filter show dev v0 egress").contains("xoff_hold_back");
            let refused = attached("v1", v1, Mode::Generic);
            assert!(
                !refused.program().restore_filter().unwrap(),
                "a filter that the kernel refused must not be restored"
            );
            tc("qdisc add dev v0 clsact");
            let attached = attached("v0", v0, Mode::Generic);
            let program = attached.program();
            assert!(is_there() && !program.restore_filter().unwrap());
            for removal in ["filter del dev v0 egress", "qdisc del dev v0 clsact"] {
                tc(removal);
                assert!(!is_there());
                assert!(
                    program.restore_filter().unwrap(),
                    "the missing filter must be noticed after `{removal}`"
                );
                assert!(is_there() && !program.restore_filter().unwrap());
            }
            drop(attached);
            assert!(!is_there());
            assert!(
                !program.restore_filter().unwrap() && !is_there(),
                "a filter that xoff dropped must stay detached"
            );
        });
    }

    #[test] // proves: log
    fn libbpf_messages_are_logged_at_debug_level() {
        with_devices(|[v0, _]| {
            let mut log = tempfile::tempfile().unwrap();
            let lines = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_ansi(false);
            let lines = lines.with_writer(log.try_clone().unwrap()).finish();
            let attached = tracing::subscriber::with_default(lines, || attached("v0", v0, Mode::Generic));
            assert!(matches!(attached.filter(), Filtered::Refused(_)));
            let mut lines = String::new();
            log.rewind().unwrap();
            log.read_to_string(&mut lines).unwrap();
            assert!(lines.contains(" DEBUG xoff_ebpf::attach: libbpf: Kernel error message: "), "{lines}");
        });
    }

    #[test]
    fn next_start_replaces_reattached_program_of_killed_xoff() {
        with_devices(|[v0, _]| {
            let first = attached("v0", v0, Mode::Native);
            match &mut *first.program().hold.lock().unwrap() {
                Hold::Link { _link } => _link.detach().unwrap(),
                hold => panic!("{hold:?}"),
            }
            first.program().attach_again().unwrap();
            std::mem::forget(first); // like a killed process
            assert_eq!(found(&attached("v0", v0, Mode::Native).program()), Place::Ours);
        });
    }

    #[test]
    fn foreign_xdp_program_is_neither_replaced_nor_detached() {
        with_devices(|[v0, v1]| {
            let (ours, other) = (attached("v0", v0, Mode::Generic), attached("v1", v1, Mode::Generic));
            let (program, stranger) = (ours.program(), other.program());
            Xdp::new(stranger.fd.as_fd()).attach(v0, XdpFlags::SKB_MODE).unwrap();
            assert_eq!(found(&program), Place::Taken(stranger.id));
            let refused = program.attach_again().unwrap_err().to_string();
            assert!(refused.starts_with("cannot attach the XDP program again for v0: "), "{refused}");
            drop(ours);
            assert_eq!(found(&program), Place::Taken(stranger.id));
        });
    }
}
