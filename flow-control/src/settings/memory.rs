//! Ownership of the buffer memory: dedicated or shared.

use xoff_wire::units::Bytes;

/// Ownership of the buffer memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Memory {
    /// Each queue has its own memory, bounded by `max`, `xoff` and `xon` of its class.
    #[default]
    Dedicated,
    /// Each queue has a reserve; beyond it, frames use a common pool under limits.
    Shared(SharedMemory),
}

/// Pool shared by the queues of classes that are lossy at every port, beside their own limits. A queue may hold at
/// most what is then free (a dynamic threshold with alpha = 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossyPool {
    /// Bytes, as buffers count them.
    pub bytes: Bytes,
    /// Frames.
    pub frames: u32,
}

impl LossyPool {
    /// No shared limit; only the limits of each queue apply.
    pub const UNLIMITED: LossyPool = LossyPool { bytes: Bytes::MAX, frames: u32::MAX };

    /// Returns the part of the pool for `own` of `all` ports.
    #[must_use]
    pub fn part(self, own: usize, all: usize) -> LossyPool {
        if self == LossyPool::UNLIMITED || own >= all {
            return self;
        }
        let part = |of: u64| u64::try_from(u128::from(of) * own as u128 / all as u128).unwrap_or(of);
        LossyPool {
            bytes: Bytes(part(self.bytes.0)),
            frames: u32::try_from(part(self.frames.into())).unwrap_or(self.frames).max(1),
        }
    }
}

impl Default for LossyPool {
    fn default() -> LossyPool {
        LossyPool::UNLIMITED
    }
}

/// Limits on the common pool (CaPFC II-F, and the dynamic threshold of current switches).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedMemory {
    /// Size of the common pool, without reserves and reserved headroom.
    pub pool: Bytes,
    /// Maximum bytes that all ingress queues together take from it.
    pub ingress_limit: Bytes,
    /// Maximum bytes of all egress queues together beyond their reserves.
    pub egress_limit: Bytes,
    /// Maximum bytes that the ingress queues of one port take from it.
    pub port_limit: Bytes,
    /// Maximum bytes of one port's egress queues together beyond their reserves.
    pub egress_port_limit: Bytes,
    /// Egress queues to which both egress limits apply.
    pub egress_limits: EgressLimits,
    /// Location of the headroom of lossless ingress queues. With [`HeadroomPlace::Pool`], reserves should hold the
    /// longest frame: an empty queue without room sends no XOFF, since no departure could resume the peer.
    pub headroom: HeadroomPlace,
    /// Dynamic threshold: a queue takes at most `alpha` times the free pool, alpha = 2^n with n in -7..=6. `None`:
    /// fixed limits only.
    pub alpha_log2: Option<i8>,
}

impl SharedMemory {
    /// Unlimited pool, as a base for settings.
    pub const UNLIMITED: SharedMemory = SharedMemory {
        pool: Bytes::MAX,
        ingress_limit: Bytes::MAX,
        egress_limit: Bytes::MAX,
        port_limit: Bytes::MAX,
        egress_port_limit: Bytes::MAX,
        egress_limits: EgressLimits::Lossy,
        headroom: HeadroomPlace::Reserved,
        alpha_log2: None,
    };
}

/// Egress queues to which the egress limits of shared memory apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EgressLimits {
    /// Queues of classes that are lossy at every port.
    #[default]
    Lossy,
    /// All queues. If queued frames no longer count at their ingress, the bytes beyond the reserves are taken from
    /// the pool.
    All,
}

/// Location of the headroom of lossless ingress queues in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadroomPlace {
    /// Reserved for each queue, beside the pool.
    #[default]
    Reserved,
    /// Part of the pool and its limits, as far as room is left.
    Pool,
}
