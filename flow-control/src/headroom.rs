//! Headroom: memory beyond XOFF for frames that arrive after the decision to pause.
//!
//! Headroom is the sum of an upper bound for each delay, in chronological order (802.1Q annex on PFC headroom, plus
//! software):
//!
//! * `crossing_frame`: the frame that crosses XOFF counts whole
//! * `loop_gap`: the port is polled once per loop, at worst after a stall
//! * `tx_backlog`: the PFC frame waits behind frames in the driver
//! * `delaying_frame`: the port finishes the frame on the wire, then sends the PFC frame
//! * `cable`: the PFC frame travels to the peer, the peer's last bits travel back
//! * `peer_response`: the peer may take this long to stop
//! * `peer_backlog`: a software peer has frames in its driver, and may run ahead of its rate
//! * `peer_frame`: the peer finishes the frame that it has begun

use xoff_wire::units::{BitRate, Bytes, Nanos, QUANTUM_BITS, TAGS};

const PFC_FRAME: u32 = 60;
/// Delay of fibre and copper cables per metre, rounded up from 4.9 ns.
const CABLE_NANOS_PER_METRE: u64 = 5;

/// Maximum response time by line rate, as (Mb/s, quanta): from the end of a pause frame to the start of the peer's last
/// frame (802.3 31B.3.7). A rate between two rows uses the higher rate's row.
const RESPONSE_QUANTA: [(u64, u64); 8] = [
    (100, 1),
    (1_000, 2),
    (10_000, 60),
    (25_000, 80),
    (40_000, 118),
    (100_000, 394),
    (200_000, 720),
    (1_600_000, 905),
];

/// Link properties that determine headroom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Link {
    pub speed: BitRate,
    /// Longest frame in bytes, without FCS and tags (at most [`TAGS`] bytes).
    pub mtu_frame: u32,
    /// One-way delay of the cable.
    pub cable: Nanos,
    pub loop_gap: Nanos,
    /// Maximum layer-1 bytes in the driver ahead of a PFC frame.
    pub commit: Bytes,
    /// Maximum time until the peer stops; see [`standard_response`].
    pub peer_response: Nanos,
    /// Bytes in a software peer's driver, plus its maximum burst above its rate; zero for hardware peers.
    pub peer_backlog: Bytes,
}

/// Headroom of a class on a port in bytes, one field per delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // explained by the module's list
pub struct Headroom {
    pub crossing_frame: Bytes,
    pub loop_gap: Bytes,
    pub tx_backlog: Bytes,
    pub delaying_frame: Bytes,
    pub cable: Bytes,
    pub peer_response: Bytes,
    pub peer_backlog: Bytes,
    pub peer_frame: Bytes,
}

impl Headroom {
    /// Computes the headroom of `link`.
    #[must_use]
    pub fn of(link: &Link) -> Headroom {
        let frame_longest = link.mtu_frame + TAGS;
        Headroom {
            crossing_frame: Bytes::of_frame(frame_longest),
            loop_gap: link.speed.bytes_in(link.loop_gap),
            tx_backlog: link.commit,
            delaying_frame: Bytes::on_line(frame_longest) + Bytes::on_line(PFC_FRAME),
            cable: link.speed.bytes_in(Nanos(link.cable.0.saturating_mul(2))),
            peer_response: link.speed.bytes_in(link.peer_response),
            peer_backlog: link.peer_backlog,
            peer_frame: Bytes::of_frame(frame_longest),
        }
    }

    /// Returns the terms of the headroom with their names, in chronological order.
    #[must_use]
    pub const fn terms(&self) -> [(&'static str, Bytes); 8] {
        [
            ("crossing frame", self.crossing_frame),
            ("loop gap", self.loop_gap),
            ("tx backlog", self.tx_backlog),
            ("delaying frame", self.delaying_frame),
            ("cable", self.cable),
            ("peer response", self.peer_response),
            ("peer backlog", self.peer_backlog),
            ("peer frame", self.peer_frame),
        ]
    }

    /// Returns the sum of all terms.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.terms().into_iter().fold(Bytes::ZERO, |sum, (_, term)| sum.saturating_add(term))
    }
}

/// Returns the maximum response time of a standard peer at line rate `speed`.
#[must_use]
pub fn standard_response(speed: BitRate) -> Nanos {
    speed.time_of(Bytes(response_quanta(speed) * QUANTUM_BITS / 8))
}

fn response_quanta(speed: BitRate) -> u64 {
    let row = RESPONSE_QUANTA.iter().find(|(mbps, _)| speed.bits_per_second() <= mbps * 1_000_000);
    row.unwrap_or(&RESPONSE_QUANTA[RESPONSE_QUANTA.len() - 1]).1
}

/// Returns the one-way delay of a cable of `metres`.
#[must_use]
pub const fn cable_delay(metres: u64) -> Nanos {
    Nanos(metres.saturating_mul(CABLE_NANOS_PER_METRE))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use xoff_explore::explore;

    fn link() -> Link {
        Link {
            speed: BitRate::from_gbps(10),
            mtu_frame: 1514,
            cable: cable_delay(100),
            loop_gap: Nanos::from_micros(10),
            commit: Bytes(3000),
            peer_response: standard_response(BitRate::from_gbps(10)),
            peer_backlog: Bytes::ZERO,
        }
    }

    #[test]
    fn response_times_match_standard_table() {
        let bits = |gbps| response_quanta(BitRate::from_gbps(gbps)) * QUANTUM_BITS;
        assert_eq!((bits(10), bits(25), bits(40), bits(100)), (30_720, 40_960, 60_416, 201_728));
    }

    #[test]
    fn speed_between_table_rows_takes_row_of_faster_line() {
        let quanta = |mbps| response_quanta(BitRate::from_mbps(mbps));
        assert_eq!((quanta(100), quanta(101), quanta(1_000)), (1, 2, 2));
        assert_eq!((quanta(2_500), quanta(50_000)), (60, 394));
        assert_eq!(quanta(1_600_000), 905);
    }

    #[test]
    fn headroom_terms_match_hand_calculation() {
        let headroom = Headroom::of(&link());
        assert_eq!(headroom.crossing_frame, Bytes(1526));
        assert_eq!(headroom.loop_gap, Bytes(12_500));
        assert_eq!(headroom.tx_backlog, Bytes(3000));
        assert_eq!(headroom.delaying_frame, Bytes(1546 + 84));
        assert_eq!(headroom.cable, Bytes(1250)); // 2 x 500 ns
        assert_eq!(headroom.peer_response, Bytes(3840));
        assert_eq!(headroom.peer_frame, Bytes(1526));
        assert_eq!(headroom.total(), Bytes(1526 + 12_500 + 3000 + 1630 + 1250 + 3840 + 1526));
    }

    #[test]
    fn headroom_is_sum_of_terms() {
        let base = Headroom::of(&link()).total();
        let slower_peer = Link { peer_response: Nanos::from_millis(1), ..link() };
        let backlog = Link { peer_backlog: Bytes(1), ..link() };
        assert_eq!(Headroom::of(&slower_peer).total(), base + Bytes(1_250_000 - 3840));
        assert_eq!(Headroom::of(&backlog).total(), base + Bytes(1));
    }

    fn held_at_worst(link: &Link, xoff: Bytes, frame_len: u32) -> u64 {
        let bit_ps = 1_000_000_000_000 / u128::from(link.speed.bits_per_second());
        let on_line = |len: u32| u128::from(Bytes::on_line(len).0) * 8 * bit_ps;
        let nanos = |span: Nanos| u128::from(span.0) * 1_000;
        let frame = on_line(frame_len);
        let crossing = xoff.0.div_ceil(Bytes::of_frame(frame_len).0);
        let over_xoff = u128::from(crossing) * frame + nanos(link.cable);
        let noticed = over_xoff + nanos(link.loop_gap);
        let ahead = u128::from(link.commit.0) * 8 * bit_ps + on_line(link.mtu_frame + TAGS);
        let received = noticed + ahead + on_line(PFC_FRAME) + nanos(link.cable);
        let stops = received + nanos(link.peer_response);
        let sent = stops / frame + 1; // the last frame begins when the peer stops
        u64::try_from(sent).unwrap() * Bytes::of_frame(frame_len).0
    }

    explore! {
        #[test]
        fn obedient_peer_fills_but_never_exceeds_headroom(
            gbps in prop::sample::select(vec![1, 10, 25, 40, 100]),
            mtu_frame in prop::sample::select(vec![256_u32, 1514, 9014]),
            small in any::<bool>(),
            gap_us in 0_u64..5_000,
            commit in 0_u64..200_000,
            response_us in 0_u64..5_000,
            metres in 0_u64..20_000,
            xoff in 1_u64..1_000_000,
        ) {
            let link = Link {
                speed: BitRate::from_gbps(gbps),
                mtu_frame,
                cable: cable_delay(metres),
                loop_gap: Nanos::from_micros(gap_us),
                commit: Bytes(commit),
                peer_response: Nanos::from_micros(response_us),
                peer_backlog: Bytes::ZERO,
            };
            let frame_len = if small { 60 } else { mtu_frame + TAGS };
            let room = xoff + Headroom::of(&link).total().0;
            let held = held_at_worst(&link, Bytes(xoff), frame_len);
            prop_assert!(held <= room, "the peer sent {} bytes, more than the {} that XOFF and headroom allow", held, room);
            if !small {
                let frame = Bytes::of_frame(frame_len).0;
                let counted = room * frame / Bytes::on_line(frame_len).0; // buffers count no preambles and gaps
                prop_assert!(held + 3 * frame >= counted, "headroom is too large: the peer filled only {} of {} bytes", held, counted);
            }
        }
    }
}
