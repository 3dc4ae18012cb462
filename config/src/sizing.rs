//! Sizes for which no lossless frame of an obedient peer is lost.
//!
//! During a stall a worker takes nothing from the rings, sends no XOFF and refreshes no pause. `stall_budget`, the longest such stall,
//! determines
//!
//! * headroom ([`xoff_flow_control::headroom`]): bytes that arrive after XOFF was due;
//! * `burst`: bytes that a port may send beyond its rate, to make up for a stall of a fifth of the budget;
//! * XON: bytes that keep the line busy until a peer resumes, which may take a fifth of the budget;
//! * RX and fill rings: `speed x (stall budget + one round of the loop)` plus a software peer's burst, in frames of `smallest_frame`
//!   bytes;
//! * the refresh period: the last refresh before a stall must outlast it.
//!
//! `smallest_frame` is an *average*. Smaller lossless frames are lost only at line rate during the whole stall budget.

use xoff_dataplane::driver::BATCH;
use xoff_flow_control::headroom::{Headroom, Link, cable_delay, standard_response};
use xoff_wire::units::{BitRate, Bytes, ETHERNET_HEADER, LINE_OVERHEAD, Nanos, Quanta, TAGS};

use crate::defaults;
use crate::hardware::Hardware;
use crate::keys::{PeerResponse, PortKeys};
use crate::shell::{Chunks, Rings};

const LINE_GAP: u64 = (LINE_OVERHEAD - xoff_wire::units::FCS) as u64;
/// Minimum frame in bytes with FCS; used for classes without a frame limit.
pub(crate) const FRAME_MIN: u64 = 64;

const RX_RING_LEAST: u32 = 2_048;
const TX_RING_LEAST: u32 = 512;
/// Maximum number of entries of a ring; kernels allow fewer.
pub(crate) const RING_MOST: u32 = 1 << 20;
/// Maximum number of chunks that a worker keeps back before it refills a fill ring (`xoff_xdp`).
const UNFILLED: u64 = 31;
const NO_SPEED: BitRate = BitRate::from_gbps(1);
const TX_CONTROL: u64 = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) speed: BitRate,
    pub(crate) mtu_frame: u32,
    pub(crate) burst: Bytes,
    pub(crate) commit: Bytes,
    pub(crate) pause_time: Quanta,
    pub(crate) stall_budget: Nanos,
    hardware: Hardware,
    pub(crate) cable: Nanos,
    peer: PeerResponse,
}

impl Line {
    pub(crate) fn of(keys: &PortKeys, stall_budget: Nanos, hardware: Hardware) -> Line {
        let speed = keys.speed.as_ref().map_or(NO_SPEED, |speed| speed.value);
        let mtu_frame = keys.mtu.as_ref().map_or(defaults::MTU, |mtu| mtu.value) + ETHERNET_HEADER;
        let on_line = Bytes::on_line(mtu_frame + TAGS);
        Line {
            speed,
            mtu_frame,
            burst: keys
                .burst
                .as_ref()
                .map_or_else(|| hardware.burst(speed, on_line, stall_budget), |burst| burst.value),
            commit: keys
                .commit
                .as_ref()
                .map_or_else(|| hardware.commit(speed, on_line), |commit| commit.value),
            pause_time: keys.pause_time.as_ref().map_or(defaults::PAUSE_TIME, |time| Quanta(time.value)),
            stall_budget,
            hardware,
            cable: cable_delay(keys.cable.as_ref().map_or(defaults::CABLE_METRES, |metres| metres.value)),
            peer: keys.peer_response.as_ref().map_or(hardware.peer(), |peer| peer.value),
        }
    }

    pub(crate) fn mtu(&self) -> u32 {
        self.mtu_frame - ETHERNET_HEADER
    }

    pub(crate) fn longest(&self) -> Bytes {
        Bytes::of_frame(self.mtu_frame + TAGS)
    }

    pub(crate) fn longest_on_line(&self) -> Bytes {
        Bytes::on_line(self.mtu_frame + TAGS)
    }

    pub(crate) fn pause(&self) -> Nanos {
        self.speed.time_of_quanta(self.pause_time)
    }

    /// Returns the maximum delay of a PFC frame behind frames that the driver already has.
    pub(crate) fn ahead(&self) -> Nanos {
        self.speed.time_of(self.commit.saturating_add(self.longest_on_line()))
    }

    pub(crate) fn peer_response(&self) -> Nanos {
        match self.peer {
            PeerResponse::Software => self.stall_budget,
            PeerResponse::Standard => standard_response(self.speed),
            PeerResponse::Within(time) => time,
        }
    }

    pub(crate) fn until_peer_goes_on(&self) -> Bytes {
        let away = match self.peer {
            PeerResponse::Software => defaults::away(self.stall_budget),
            PeerResponse::Standard | PeerResponse::Within(_) => self.peer_response(),
        };
        self.speed.bytes_in(away.clamp(defaults::TURN, defaults::GAP_MAX).after(self.cable).after(self.cable))
    }

    pub(crate) fn xon(&self) -> Bytes {
        match self.hardware {
            Hardware::Software => defaults::xon(self.until_peer_goes_on(), self.commit, self.longest()),
            Hardware::Ideal => self.headroom().total(),
        }
    }

    pub(crate) fn headroom(&self) -> Headroom {
        let peer_backlog = match self.peer {
            PeerResponse::Software => self.peer_backlog(),
            PeerResponse::Standard | PeerResponse::Within(_) => Bytes::ZERO,
        };
        Headroom::of(&Link {
            speed: self.speed,
            mtu_frame: self.mtu_frame,
            cable: self.cable,
            loop_gap: self.stall_budget,
            commit: self.commit,
            peer_response: self.peer_response(),
            peer_backlog,
        })
    }

    fn peer_backlog(&self) -> Bytes {
        self.commit.saturating_add(self.burst)
    }

    pub(crate) fn stall_frames(&self, smallest_frame: u32) -> u64 {
        self.stall_bytes().0.div_ceil(u64::from(smallest_frame) + LINE_GAP).max(u64::from(RX_RING_LEAST / 2))
    }

    /// Returns the number of receive chunks for a stall: one per frame, plus, if long frames take several chunks, as many as
    /// the arriving bytes would fill.
    pub(crate) fn stall_chunks(&self, smallest_frame: u32, chunks: Chunks) -> u64 {
        let more = match chunks.frames_take_several() {
            true => self.stall_bytes().0.div_ceil(chunks.receive_room().into()),
            false => 0,
        };
        self.stall_frames(smallest_frame) + more + UNFILLED
    }

    fn stall_bytes(&self) -> Bytes {
        self.speed.bytes_in(self.stall_budget.after(defaults::TURN)).saturating_add(self.burst)
    }

    /// Returns the maximum number of frames in the driver: the control frames, plus as many frames of `smallest_frame` bytes as
    /// `commit` holds, or a batch if that is more.
    pub(crate) fn transmit_frames(&self, smallest_frame: u32) -> u32 {
        let committed = self.commit.0.div_ceil(u64::from(smallest_frame) + LINE_GAP);
        let frames = committed.max(u64::from(BATCH)) + TX_CONTROL;
        u32::try_from(frames).unwrap_or(u32::MAX)
    }

    pub(crate) fn has_transmit_ring(&self, smallest_frame: u32) -> bool {
        self.transmit_ring(smallest_frame).is_some()
    }

    fn transmit_ring(&self, smallest_frame: u32) -> Option<u32> {
        ring(self.transmit_frames(smallest_frame).into(), TX_RING_LEAST)
    }

    pub(crate) fn rings(&self, stall_chunks: u64, smallest_frame: u32) -> Option<Rings> {
        let rx = ring(stall_chunks, RX_RING_LEAST)?;
        let tx = self.transmit_ring(smallest_frame)?;
        Some(Rings { fill: rx, rx, tx, completion: tx })
    }
}

fn ring(entries: u64, least: u32) -> Option<u32> {
    let size = u32::try_from(entries).ok()?.checked_next_power_of_two()?.max(least);
    (size <= RING_MOST).then_some(size)
}

/// Returns the largest number for which `fits` returns true, from `fitting` (which fits) to below `beyond` (which does not). All
/// smaller numbers must fit.
pub(crate) fn largest(mut fitting: u64, mut beyond: u64, fits: impl Fn(u64) -> bool) -> u64 {
    while beyond - fitting > 1 {
        let middle = fitting + (beyond - fitting) / 2;
        if fits(middle) {
            fitting = middle;
        } else {
            beyond = middle;
        }
    }
    fitting
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn line(mbps: u64, stall_budget: Nanos) -> Line {
        let keys = PortKeys {
            speed: Some(toml_span::Spanned::new(BitRate::from_mbps(mbps))),
            ..PortKeys::default()
        };
        Line::of(&keys, stall_budget, Hardware::Software)
    }

    #[test]
    fn rings_hold_frames_that_arrive_in_stall_and_loop_round() {
        let line = line(1_000, Nanos::from_millis(25));
        // 3,150,000 bytes arrive in a stall and a loop round, 625,000 in a burst, in frames of 256 bytes plus 20 (preamble,
        // gap).
        assert_eq!(line.stall_frames(256), (3_150_000_u64 + 625_000).div_ceil(276));
        assert_eq!(line.rings(2_048, 256).unwrap().rx, 2_048);
        assert_eq!(line.rings(2_049, 256).unwrap().rx, 4_096);
        assert_eq!(line.rings(1, 256).unwrap().fill, 2_048);
        assert_eq!(line.rings(u64::from(RING_MOST), 256).unwrap().fill, RING_MOST);
        assert_eq!(line.rings(u64::from(RING_MOST) + 1, 256), None);
    }

    #[test]
    fn fill_ring_has_at_most_twice_the_needed_entries() {
        for millis in [0, 1, 3, 7, 25, 100] {
            let line = line(1_000, Nanos::from_millis(millis));
            let frames = line.stall_frames(256);
            assert!(u64::from(line.rings(frames, 256).unwrap().fill) <= 2 * frames);
        }
    }

    #[test]
    fn tx_ring_holds_commit_limit_in_smallest_frames() {
        let line = line(1_000, Nanos::ZERO);
        assert_eq!(
            line.transmit_frames(64),
            589 + 64,
            "the ring must hold `commit` (32 x 1546 bytes) in frames of 64 bytes"
        );
        assert_eq!(line.rings(1, 64).unwrap().tx, 1_024);
        assert_eq!(
            line.transmit_frames(256),
            180 + 64,
            "the ring must hold `commit` (32 x 1546 bytes) in frames of 256 bytes"
        );
        assert_eq!(
            line.transmit_frames(1_514),
            128 + 64,
            "the TX ring must hold a batch and the control frames"
        );
        assert_eq!(line.rings(1, 256).unwrap().tx, 512);
    }

    #[test]
    fn hardware_peer_needs_less_headroom_than_software_peer() {
        let software = line(10_000, Nanos::from_millis(1));
        let standard = Line { peer: PeerResponse::Standard, ..software };
        assert_eq!(software.headroom().peer_response, Bytes(1_250_000));
        assert_eq!(software.headroom().peer_backlog, software.commit + software.burst);
        assert_eq!(standard.headroom().peer_response, Bytes(3_840));
        assert_eq!(standard.headroom().peer_backlog, Bytes::ZERO);
    }

    #[test] // proves: pacing
    fn default_xon_covers_peer_resume_time_within_bounds() {
        let (us, ms) = (Nanos::from_micros, Nanos::from_millis);
        let cable = Bytes(125); // 2 x 50 ns at 10 Gb/s
        let until = |peer: PeerResponse, budget: Nanos| {
            let line = Line { peer, ..line(10_000, budget) };
            line.until_peer_goes_on().saturating_sub(cable)
        };
        let bytes = |time: Nanos| BitRate::from_gbps(10).bytes_in(time);
        assert_eq!(until(PeerResponse::Software, us(2_500)), bytes(us(500)));
        assert_eq!(
            until(PeerResponse::Software, ms(25)),
            bytes(ms(1)),
            "XON must keep the line busy for at most GAP_MAX"
        );
        assert_eq!(
            until(PeerResponse::Software, us(50)),
            bytes(us(200)),
            "XON must cover a round of the driver loop"
        );
        assert_eq!(until(PeerResponse::Standard, ms(25)), bytes(us(200)));
        assert_eq!(until(PeerResponse::Within(us(700)), ms(25)), bytes(us(700)));
        let long = Line { cable: ms(5), ..line(10_000, us(2_500)) };
        assert_eq!(
            long.until_peer_goes_on(),
            bytes(us(10_500)),
            "XON must cover the cable in both directions"
        );
    }

    #[test] // proves: pacing
    fn default_burst_makes_up_for_a_fifth_of_stall_budget() {
        assert_eq!(line(1_000, Nanos::from_millis(25)).burst, Bytes(625_000));
        assert_eq!(line(10_000, Nanos::from_micros(2_500)).burst, Bytes(625_000));
        assert_eq!(
            line(100_000, Nanos::from_micros(250)).burst,
            Bytes(2_500_000),
            "burst must have the bytes that leave in a round of the driver loop"
        );
        assert_eq!(
            line(1_000, Nanos::ZERO).burst,
            Bytes(32 * 1_546),
            "burst must have the bytes of a batch of longest frames"
        );
    }
}
