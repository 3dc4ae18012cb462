use xoff_wire::units::Bytes;

/// Division of the buffer memory among queues.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Memory {
    /// Each queue has its own memory, limited by `max`, `xoff` and `xon`.
    #[default]
    Dedicated,
    /// Each queue has a reserve, then uses a common pool.
    Shared(SharedMemory),
}

/// Memory pool of the classes that are lossy at every port. A queue may be as long as the pool's free part (dynamic
/// threshold with alpha = 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct LossyPool {
    pub bytes: Bytes,
    pub frames: u32,
}

impl LossyPool {
    /// Lossy pool without a limit.
    pub const UNLIMITED: LossyPool = LossyPool { bytes: Bytes::MAX, frames: u32::MAX };

    /// Returns the part of the pool for a worker that owns `own` of `all` ports.
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

/// Limits of the common pool (CaPFC paper, section II-F; dynamic threshold).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedMemory {
    /// Bytes of the pool, without reserves and reserved headroom.
    pub pool: Bytes,
    /// Maximum pool bytes of all ingress queues together.
    pub ingress_limit: Bytes,
    /// Maximum bytes of all egress queues together, beyond their reserves.
    pub egress_limit: Bytes,
    /// Maximum pool bytes of a port's ingress queues together.
    pub port_limit: Bytes,
    /// Maximum bytes of a port's egress queues together, beyond their reserves.
    pub egress_port_limit: Bytes,
    /// Egress queues to which `egress_limit` and `egress_port_limit` apply.
    pub egress_limits: EgressLimits,
    /// Memory from which lossless queues take headroom. With [`HeadroomPlace::Pool`], reserves should hold the longest
    /// frame. With less, an empty queue drops frames while the pool is full, because only queued frames cause XOFF.
    pub headroom: HeadroomPlace,
    /// Exponent n of alpha = 2^n, -7..=6: a queue takes at most `alpha` times the free pool. `None` means fixed limits.
    pub alpha_log2: Option<i8>,
}

impl SharedMemory {
    /// Shared pool without limits.
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

/// Egress queues to which the shared egress limits apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EgressLimits {
    /// Queues of classes that are lossy at every port.
    #[default]
    Lossy,
    /// All queues. With `Accounting::UntilForwarded`, their bytes beyond reserves also take pool memory.
    All,
}

/// Memory from which lossless headroom comes, if memory is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum HeadroomPlace {
    #[default]
    Reserved,
    Pool,
}
