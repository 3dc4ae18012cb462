//! Queue of one class (a leaf of the agent's tree), which keeps its frames while stopped.
//!
//! Without the queueing discipline `plug`, a token bucket (`tbf`) is used: while stopped, it holds fewer tokens than any frame costs.

use std::fmt;
use std::thread;

use nix::sched::{CloneFlags, unshare};
use xoff_netlink::Conversation;
use xoff_netlink::tc::{Bucket, Handle, Place, Plug, Qdisc, Rate, TcError};

use super::error::EgressError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    Plug,
    Tbf,
}

/// Token bucket's rate for a class that may send: 1 Tb/s, far above any line's.
const OPEN: Rate = Rate { bytes_per_second: 125_000_000_000, overhead: 0, least: 0 };

impl Leaf {
    pub(super) const ALL: [Leaf; 2] = [Leaf::Plug, Leaf::Tbf];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Leaf::Plug => "plug",
            Leaf::Tbf => "tbf",
        }
    }

    /// Returns `Plug` if this kernel supports it, otherwise `Tbf`. Tries them in a new network namespace.
    ///
    /// # Errors
    /// Fails if the kernel supports neither kind, or CAP_SYS_ADMIN is missing.
    pub fn of_this_kernel() -> Result<Leaf, EgressError> {
        let probe = thread::spawn(|| {
            let refused = |source| {
                EgressError::system("cannot try the kernel's queueing disciplines", "test device", source)
            };
            unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| refused(errno.into()))?;
            let mut tc = Conversation::open().map_err(refused)?;
            const LOOPBACK: i32 = 1;
            Leaf::first(Leaf::ALL, |leaf| {
                let place = Place { ifindex: LOOPBACK, parent: Handle::ROOT, handle: Handle::new(1, 0) };
                tc.send(&mut leaf.creation(1 << 16, 1 << 11, false).replace(place))
            })
        });
        probe.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
    }

    pub(super) fn first(
        kinds: impl IntoIterator<Item = Leaf>,
        mut make: impl FnMut(Leaf) -> Result<(), TcError>,
    ) -> Result<Leaf, EgressError> {
        let mut tried = Vec::new();
        for leaf in kinds {
            match make(leaf) {
                Ok(()) => return Ok(leaf),
                Err(error) if error.is_not_found() => tried.push(format!("{leaf}: {}", error.source)),
                Err(source) => return Err(EgressError::Tree { source }),
            }
        }
        Err(EgressError::NoLeaf { tried: tried.join(", ") })
    }

    /// Returns the queueing discipline to create. `stopped` is for `tbf`: a new `plug` is always stopped.
    pub(super) fn creation(self, limit: u32, longest: u32, stopped: bool) -> Qdisc {
        match self {
            Leaf::Plug => Qdisc::Plug(Plug::Limit(limit)),
            Leaf::Tbf => self.update(limit, longest, stopped),
        }
    }

    pub(super) fn update(self, limit: u32, longest: u32, stopped: bool) -> Qdisc {
        match (self, stopped) {
            (Leaf::Plug, true) => Qdisc::Plug(Plug::Block),
            (Leaf::Plug, false) => Qdisc::Plug(Plug::Release),
            (Leaf::Tbf, true) => Qdisc::Tbf { bucket: Bucket::Shut { burst: longest }, limit },
            (Leaf::Tbf, false) => Qdisc::Tbf { bucket: Bucket::Open { rate: OPEN, burst: longest }, limit },
        }
    }
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
