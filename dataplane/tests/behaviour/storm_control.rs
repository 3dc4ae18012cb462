// Tests for SPECIFICATION.md: floods

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{Flooded, StormLimit};
use xoff_wire::units::{BitRate, Bytes, MacAddr, Nanos, PortId};

use crate::bed::plan::{self, LINK};
use crate::bed::{Star, Stream};
use crate::{C0, C3};

const GROUP: MacAddr = MacAddr([1, 0, 0x5e, 0, 0, 1]);
const NOBODY: MacAddr = MacAddr([2, 0, 0, 0, 0xee, 0xee]);
/// Bytes of the shortest frame on the line: 60 bytes, FCS, preamble and gap.
const SMALL: u64 = 84;

fn star(kind: Flooded, rate: BitRate) -> Star {
    let mut plan = plan::switch(&[LINK; 3]);
    plan.settings.ports[0].storm_limit = plan.settings.ports[0].storm_limit.with(kind, rate);
    Star::new(plan)
}

fn dropped(star: &Star) -> u64 {
    let reason = DropReason::StormLimit.index();
    [C0, C3].iter().map(|&class| star.switch().counters.class(PortId(0), class).drops[reason].get()).sum()
}

fn flood(star: &mut Star, to: MacAddr, frames: u64) -> u64 {
    let stream = Stream { class: C0, len: 60, ..Stream::new(to, frames, Nanos::ZERO) };
    let id = star.start_to_all(0, stream);
    star.run_to_rest();
    star.at(1).received(id).frames
}

/// The burst is 10 ms at 100 Mb/s, or 125,000 bytes. The flood may then send a tenth of the gigabit line, and one frame
/// that starts at zero credit.
#[test]
fn storm_control_passes_burst_then_frames_at_limited_rate() {
    const FRAMES: u64 = 4_000;
    let mut star = star(Flooded::Broadcast, BitRate::from_mbps(100));
    let came = flood(&mut star, MacAddr::BROADCAST, FRAMES);
    let expected = (125_000 + FRAMES * SMALL / 10) / SMALL + 1;
    assert!(came.abs_diff(expected) <= 1, "{came} frames passed instead of {expected}");
    assert_eq!(dropped(&star), FRAMES - came, "dropped frames were not counted as storm_limit");
}

#[test]
fn storm_control_passes_floods_within_burst() {
    let mut star = star(Flooded::Broadcast, BitRate::from_mbps(100));
    let frames = 125_000 / SMALL;
    assert_eq!(flood(&mut star, MacAddr::BROADCAST, frames), frames);
    assert_eq!(dropped(&star), 0);
}

#[test]
fn storm_control_limits_each_flood_kind_separately() {
    let kinds =
        [(Flooded::Broadcast, MacAddr::BROADCAST), (Flooded::Multicast, GROUP), (Flooded::Unknown, NOBODY)];
    for (limited, _) in kinds {
        for (kind, to) in kinds {
            let mut star = star(limited, BitRate::from_mbps(1));
            let came = flood(&mut star, to, 1_000);
            assert_eq!(
                came < 1_000,
                kind == limited,
                "{came} of 1,000 floods {kind:?} passed, limited kind: {limited:?}"
            );
            assert_eq!(dropped(&star), 1_000 - came);
        }
    }
}

#[test]
fn storm_control_never_drops_unicast_or_floods_of_other_ports() {
    let mut plan = plan::switch(&[LINK; 3]);
    let limit = Flooded::ALL
        .into_iter()
        .fold(StormLimit::default(), |limit, kind| limit.with(kind, BitRate::from_mbps(1)));
    plan.settings.ports[0].storm_limit = limit;
    let mut star = Star::new(plan);
    for from in [1, 0] {
        let hello = star.start(from, 1 - from, star.stream(1 - from, C3, 1));
        star.run_to_rest();
        star.assert_whole(hello, 1);
    }
    let unicast = star.start(0, 1, star.stream(1, C3, 500));
    let stream = Stream { class: C0, len: 60, ..Stream::new(MacAddr::BROADCAST, 1_000, Nanos::ZERO) };
    let other_port = star.start_to_all(2, stream);
    star.run_to_rest();
    star.assert_whole(unicast, 500);
    assert_eq!(star.at(1).received(other_port).frames, 1_000);
    assert_eq!(dropped(&star), 0);
    assert_eq!(Bytes::on_line(60), Bytes(SMALL), "SMALL is not the line's share of a 60-byte frame");
}
