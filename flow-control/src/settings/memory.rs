//! Who owns the buffer memory, and what of it is shared.

use xoff_wire::units::Bytes;

/// Who owns the buffer memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Memory {
    /// Every queue has its own: `max`, `xoff` and `xon` of each class as they stand.
    #[default]
    Dedicated,
    /// Each queue has a reserve of its own; beyond it, frames take from one pool, under limits.
    Shared(SharedMemory),
}

/// What queues of classes that are lossy at every port may hold together, beside their own limits. A queue may hold as much as is free
/// of it then (a dynamic threshold with alpha = 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossyPool {
    /// Bytes, as buffers count them.
    pub bytes: Bytes,
    /// Frames.
    pub frames: u32,
}

impl LossyPool {
    /// Only the limits of each queue hold.
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

/// Limits on the common pool (CaPFC II-F, and the dynamic threshold of today's switches).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedMemory {
    /// The common pool: reserves not included, nor headroom that is reserved.
    pub pool: Bytes,
    /// Most that all ingress queues together may take of it.
    pub ingress_limit: Bytes,
    /// Most that all egress queues together may hold beyond their reserves.
    pub egress_limit: Bytes,
    /// Most that one port's ingress queues may take together.
    pub port_limit: Bytes,
    /// Most that one port's egress queues together may hold beyond their reserves.
    pub egress_port_limit: Bytes,
    /// For whose egress queues both egress limits hold.
    pub egress_limits: EgressLimits,
    /// Where the headroom of lossless ingress queues is. Of the pool: a peer whose frames find no room at an empty queue is not
    /// told to stop, since nothing that leaves there would let it go on; so their reserves should hold the longest frame.
    pub headroom: HeadroomPlace,
    /// A queue may take at most `alpha` times what is free of the pool, alpha = 2^n with n in -7..=6;
    /// `None`: fixed limits only.
    pub alpha_log2: Option<i8>,
}

impl SharedMemory {
    /// A pool without end: to start from.
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

/// For whose egress queues the egress limits of shared memory hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EgressLimits {
    /// Those of classes that are lossy at every port.
    #[default]
    Lossy,
    /// All, lossless ones too. Where frames no longer count at their ingress then, what the queues hold beyond their reserves is
    /// taken from the pool, which ingress queues then have the less of.
    All,
}

/// Where the headroom of lossless ingress queues is in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadroomPlace {
    /// Beside the pool, for each queue.
    #[default]
    Reserved,
    /// In the pool, under its limits, as far as others have left some.
    Pool,
}
