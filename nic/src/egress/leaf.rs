//! The queue of one class: it keeps what is sent while it is stopped.
//!
//! Two kinds do. `plug` is made for it. Where the kernel has none, `tbf` does, a token bucket: stopped, each frame costs more
//! than the bucket holds, so that none leaves however long it waits; running, its rate is far above any line's, and the shaper
//! above it alone decides. A bucket that runs again is not looked at before something is sent: see [`Tree::wake`](super::tree::Tree::wake).
//!
//! A queueing discipline in BPF (Linux 6.16, CONFIG_NET_SCH_BPF) would be stopped by a write to a map, without netlink, but is no
//! third kind: the kernel takes one at a device's root, or below `mq`, and not below a shaper and bands. It would be the whole tree.

use std::fmt;
use std::thread;

use nix::sched::{CloneFlags, unshare};
use xoff_netlink::Conversation;
use xoff_netlink::tc::{Bucket, Handle, Place, Plug, Qdisc, Rate, TcError};

use super::error::EgressError;

/// A kind of queue that can be stopped and started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// `plug`.
    Plug,
    /// `tbf`.
    Tbf,
}

/// Far above any line: 1 Tb/s.
const OPEN: Rate = Rate { bytes_per_second: 125_000_000_000, overhead: 0, least: 0 };

impl Leaf {
    /// The better one first.
    pub(super) const ALL: [Leaf; 2] = [Leaf::Plug, Leaf::Tbf];

    /// Its name in the kernel.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Leaf::Plug => "plug",
            Leaf::Tbf => "tbf",
        }
    }

    /// The one that this kernel has, tried in a network namespace of its own that nobody sees.
    ///
    /// # Errors
    /// Where it has neither, or there can be no such namespace (it takes CAP_SYS_ADMIN).
    pub fn of_this_kernel() -> Result<Leaf, EgressError> {
        let probe = thread::spawn(|| {
            let refused = |source| EgressError::system("look what the kernel has for", "a device", source);
            unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| refused(errno.into()))?;
            let mut tc = Conversation::open().map_err(refused)?;
            const LOOPBACK: i32 = 1;
            Leaf::first(Leaf::ALL, |leaf| {
                let place = Place { ifindex: LOOPBACK, parent: Handle::ROOT, handle: Handle::new(1, 0) };
                tc.send(&mut leaf.made(1 << 16, 1 << 11, false).replace(place))
            })
        });
        probe.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
    }

    /// The first of `kinds` that can be made.
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

    /// As a new one is made that is stopped, or is not; a plug is stopped until it is told.
    pub(super) fn made(self, limit: u32, longest: u32, stopped: bool) -> Qdisc {
        match self {
            Leaf::Plug => Qdisc::Plug(Plug::Limit(limit)),
            Leaf::Tbf => self.told(limit, longest, stopped),
        }
    }

    /// As one is that is there, and stopped, or not.
    pub(super) fn told(self, limit: u32, longest: u32, stopped: bool) -> Qdisc {
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
