use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use xoff_flow_control::settings::{Lldp, LossyPool, PortSettings, Service};
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, Nanos, Quanta};

/// Default `low` of `spread = "adaptive"`: paths with fewer queued bytes are the first choice (CaPFC's evaluation of DeTail).
pub const SPREAD_LOW: Bytes = Bytes(16_000);
/// Default `high` of `spread = "adaptive"`: paths with `low` or more, but fewer than `high` queued bytes are the second choice.
pub const SPREAD_HIGH: Bytes = Bytes(32_000);
pub const NAME: &str = "xoff";
/// Default `switch.smallest_frame`, in bytes with FCS.
pub const SMALLEST_FRAME: u32 = 256;
/// Frame size in bytes for default frame limits: a lossy queue of such frames reaches its byte and its frame limit together.
pub const LOSSY_FRAME: u32 = 512;
pub const IDLE_AFTER: Nanos = Nanos::from_micros(20);
pub const HTTP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9464);
pub const LOG: &str = "info";
/// Sum of line rates for which `switch.workers = "auto"` starts a worker. A core forwards about 1.5 million frames/s over veth.
pub const WORKER_RATE: BitRate = BitRate::from_gbps(20);
/// Default `memory.alpha_log2`: a queue may take as much memory as is still free.
pub const ALPHA_LOG2: i8 = 0;
pub const FDB_CAPACITY: u32 = 16_384;
/// Default `fdb.ageing` (802.1Q, table 8-6).
pub const FDB_AGEING: Nanos = Nanos::from_secs(300);
/// Default `port.mtu`: bytes after the Ethernet header.
pub const MTU: u32 = 1_500;
/// Default `port.lossless`: the class that RoCE and storage use.
pub const LOSSLESS: ClassSet = ClassSet(1 << 3);
/// Default `port.pause_time`: the maximum, which needs the fewest refreshes.
pub const PAUSE_TIME: Quanta = Quanta(u16::MAX);
pub const CABLE_METRES: u64 = 10;
pub const DEFAULT_CLASS: Class = Class::ALL[0];
pub const VID: u16 = 1;
pub const LEARNING: bool = true;
pub const FLOOD: bool = true;
pub const LLDP: Lldp = Lldp::Switch;
pub const ISOLATED: bool = false;
/// Default `class.ecn_probability`, as in HPCC's simulations and many switches.
pub const ECN_PROBABILITY: f64 = 0.2;
pub const WRED: bool = false;
/// Default `class.watchdog_detect`, as in SONiC.
pub const WATCHDOG_DETECT: Nanos = Nanos::from_millis(200);
/// Default `class.watchdog_restore`, as in SONiC.
pub const WATCHDOG_RESTORE: Nanos = Nanos::from_millis(200);
pub const SERVICE: Service = Service::Weighted(10);

/// Maximum duration assumed for a round of a worker's driver loop: twice the measured 99.99th percentile.
pub const TURN: Nanos = Nanos::from_micros(200);
/// Returns the assumed usual stall of a thread: a fifth of the longest stall, `stall_budget`.
#[must_use]
pub fn away(stall_budget: Nanos) -> Nanos {
    Nanos(stall_budget.0 / AWAY_PART)
}
const AWAY_PART: u64 = 5;
/// Longest resume time of a peer for which the default XON keeps the line busy. A longer one would raise XON and queueing
/// delay.
pub const GAP_MAX: Nanos = Nanos::from_millis(1);
pub const BATCH: u64 = 32;

/// Maximum default `stall_budget`. A virtual machine stalls for 20 to 56 ms about once in 10 s, so it may need more.
pub(crate) const STALL_MAX: Nanos = Nanos::from_millis(25);
pub(crate) const COMMIT_TIME: Nanos = Nanos::from_micros(10);
const LOSSY_EGRESS_TIME: Nanos = Nanos::from_millis(8);
pub(crate) const LOSSY_EGRESS_LEAST: Bytes = Bytes(256 << 10);
pub(crate) const LOSSY_EGRESS_MOST: Bytes = Bytes(2 << 20);
const LOSSY_INGRESS_TIME: Nanos = Nanos::from_millis(1);
pub(crate) const LOSSY_INGRESS_LEAST: Bytes = Bytes(128 << 10);
pub(crate) const LOSSY_INGRESS_MOST: Bytes = Bytes(1 << 20);

/// Default of `egress_warn` and `egress_xon`, without `commit` for frames in the driver (CaPFC, Table II, 1 Gb/s).
pub(crate) const EGRESS_XON: Bytes = Bytes(20_000);
/// Default of `egress_xoff`, without `commit` for frames in the driver (CaPFC, Table II, 1 Gb/s).
pub(crate) const EGRESS_XOFF: Bytes = Bytes(25_000);

/// Returns the defaults of `class.egress_xon` and `class.egress_xoff`: `commit` (for frames in the driver) plus CaPFC's values for
/// 1 Gb/s. With `scaled`, these values grow in proportion to that speed.
#[must_use]
pub fn egress_watermarks(commit: Bytes, scaled: Option<BitRate>) -> (Bytes, Bytes) {
    let scale = |bytes: Bytes| match scaled {
        None => bytes,
        Some(speed) => speed.bytes_in(BitRate::from_gbps(1).time_of(bytes)),
    };
    (commit.saturating_add(scale(EGRESS_XON)), commit.saturating_add(scale(EGRESS_XOFF)))
}

/// Returns the default `switch.stall_budget`: 25 ms, but at most three quarters of the shortest pause time, because a stalled switch
/// refreshes no pause.
#[must_use]
pub fn stall_budget(shortest_pause: Nanos) -> Nanos {
    STALL_MAX.min(Nanos(shortest_pause.0 / 4 * 3))
}

/// Returns the default `port.burst`: the bytes that the line carries in a round of the driver loop or a usual stall, whichever is longer,
/// but at least a batch of the longest frames.
#[must_use]
pub fn burst(speed: BitRate, line_frame: Bytes, stall_budget: Nanos) -> Bytes {
    Bytes(BATCH * line_frame.0).max(speed.bytes_in(TURN.max(away(stall_budget))))
}

/// Returns the default `port.commit`: the bytes that the line carries in 10 us, but at least a batch of the longest frames.
#[must_use]
pub fn commit(speed: BitRate, line_frame: Bytes) -> Bytes {
    Bytes(BATCH * line_frame.0).max(speed.bytes_in(COMMIT_TIME))
}

/// Returns the default `class.xon`: the bytes that the line carries until the peer resumes, so that the queue does not run empty. It is
/// at least a frame plus `commit`, the maximum of bytes in the driver: these alone must not keep a peer paused.
#[must_use]
pub fn xon(until_peer_goes_on: Bytes, commit: Bytes, longest_frame: Bytes) -> Bytes {
    commit.saturating_add(longest_frame).max(until_peer_goes_on)
}

#[must_use]
pub fn xoff(xon: Bytes) -> Bytes {
    Bytes(xon.0.saturating_mul(2))
}

/// Returns the default `class.egress_max` of a lossy class: the bytes of 8 ms at line rate, but 256 KiB to 2 MiB. With a queue
/// of 1 ms, TCP with BBR would lose every seventh packet.
#[must_use]
pub fn lossy_egress_max(speed: BitRate) -> Bytes {
    speed.bytes_in(LOSSY_EGRESS_TIME).clamp(LOSSY_EGRESS_LEAST, LOSSY_EGRESS_MOST)
}

/// Returns the default `memory.lossy_pool`: a quarter of the sum of all ports' largest lossy queues, but at least four times the largest
/// one.
#[must_use]
pub fn lossy_pool_bytes(ports: &[PortSettings]) -> Bytes {
    let largest = |port: &PortSettings| {
        let lossy = port.classes.iter().filter(|class| !class.lossless);
        lossy.map(|class| class.egress_max).max().unwrap_or_default()
    };
    let largest = || ports.iter().map(largest);
    let quarter = largest().fold(Bytes::ZERO, Bytes::saturating_add).0 / 4;
    let four = largest().max().unwrap_or_default().0.saturating_mul(4);
    Bytes(quarter.max(four))
}

/// Returns a lossy pool of `bytes`. Frames smaller than [`LOSSY_FRAME`] reach the pool's limit of frames before that of bytes.
#[must_use]
pub fn lossy_pool(bytes: Bytes) -> LossyPool {
    let frames = bytes.0.div_ceil(LOSSY_FRAME.into());
    LossyPool { bytes, frames: u32::try_from(frames).unwrap_or(u32::MAX).max(1) }
}

/// Returns the default `class.ingress_max` of a lossy class: the bytes of 1 ms at line rate, but 128 KiB to 1 MiB.
#[must_use]
pub fn lossy_ingress_max(speed: BitRate) -> Bytes {
    speed.bytes_in(LOSSY_INGRESS_TIME).clamp(LOSSY_INGRESS_LEAST, LOSSY_INGRESS_MOST)
}

/// Returns the default `port.refresh`: half the pause time, or less if a stall and frames in the driver (`ahead`) would delay a
/// refresh too long. `None` if less than a sixteenth of the pause time would remain.
#[must_use]
pub fn refresh(pause: Nanos, stall_budget: Nanos, ahead: Nanos) -> Option<Nanos> {
    let latest = pause.since(stall_budget).since(ahead);
    (latest.0 >= pause.0 / 16 && latest > Nanos::ZERO).then(|| latest.min(Nanos(pause.0 / 2)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn default_stall_budget_shrinks_in_proportion_to_port_speed() {
        let budget = |gbps| {
            let rate = BitRate::from_gbps(gbps);
            stall_budget(rate.time_of_quanta(PAUSE_TIME))
        };
        assert_eq!(budget(1), Nanos::from_millis(25));
        assert_eq!(budget(10).0 / 1_000, 2_516);
        assert_eq!(budget(100).0 / 1_000, 251);
        for gbps in [2, 10, 40, 400] {
            let bytes = BitRate::from_gbps(gbps).bytes_in(budget(gbps)).0;
            assert!((3_145_000..=3_146_000).contains(&bytes), "{bytes} at {gbps}G");
        }
    }

    #[test]
    fn default_pause_refresh_is_in_time_even_after_a_stall() {
        let ms = Nanos::from_millis;
        assert_eq!(
            refresh(ms(32), ms(0), ms(0)),
            Some(ms(16)),
            "the refresh interval must be half the pause time"
        );
        assert_eq!(
            refresh(ms(32), ms(15), ms(1)),
            Some(ms(16)),
            "the interval must be half the pause time if a refresh then is just in time"
        );
        assert_eq!(refresh(ms(32), ms(16), ms(1)), Some(ms(15)));
        assert_eq!(
            refresh(ms(32), ms(29), ms(1)),
            Some(ms(2)),
            "a refresh interval of a sixteenth of the pause time must be allowed"
        );
        assert_eq!(refresh(ms(32), ms(30), ms(1)), None);
        assert_eq!(refresh(ms(32), ms(500), ms(1)), None);
    }
}
