// Tests for SPECIFICATION.md: group-changes

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{Spread, WatchdogAction, WatchdogSettings, WhenFull};
use xoff_wire::units::{BitRate, Bytes, Nanos, PortId};

use super::{EACH_FRAME, SIZE, beyond, fan, shares, waiting};
use crate::bed::{Star, Stream};
use crate::{C3, resume, stop};

const DETECT: Nanos = Nanos::from_millis(5);
const STORMED: usize = 5;
/// Owner of each port, in four cases: one worker; a second worker for all members, for the last two, or for the middle
/// two.
const OWNERS: [&[u8]; 4] = [&[], &[0, 0, 1, 1, 1, 1], &[0, 0, 0, 0, 1, 1], &[0, 0, 0, 1, 1, 0]];

fn stormed(
    (spread, when_full, owners): (Spread, WhenFull, &[u8]),
    paused: std::ops::Range<usize>,
    frames: u64,
) -> Star {
    let mut plan = fan(spread);
    (plan.settings.when_full, plan.owners, plan.may_lose) = (when_full, owners.to_vec(), true);
    if when_full == WhenFull::Stop {
        plan.each_lossless(|class| class.egress_max = Bytes(2 * SIZE + 1));
    }
    plan.settings.ports[STORMED].classes[C3.index()].watchdog =
        Some(WatchdogSettings { action: WatchdogAction::Drop, detect: DETECT, restore: DETECT, share: 100 });
    let mut star = Star::new(plan);
    paused.for_each(|port| star.pause(port, stop(C3, 0xffff)));
    star.run_for(Nanos::from_micros(200));
    send(&mut star, frames);
    assert_eq!(discarded(&star), 0);
    star.run_for(DETECT);
    assert!(discarded(&star) > 0);
    assert!(star.switch().worker(PortId(5)).stormed(PortId(5)).contains(C3));
    star
}

fn send(star: &mut Star, frames: u64) -> u32 {
    let rate = Some(BitRate::from_mbps(400));
    let id = star.start_to_all(0, Stream { from: star.now(), rate, ..beyond(C3, frames) });
    star.run_for(Nanos::from_millis(2));
    id
}

fn discarded(star: &Star) -> u64 {
    star.switch().counters.class(PortId(5), C3).drops[DropReason::PausedDiscard.index()].get()
}

#[test]
fn group_member_in_storm_is_excluded_by_all_workers() {
    let dropping = OWNERS.map(|owners| (WhenFull::Drop, owners));
    let modes = dropping.into_iter().chain([(WhenFull::Stop, &[][..])]);
    for (spread, (when_full, owners)) in modes.flat_map(|mode| EACH_FRAME.map(|spread| (spread, mode))) {
        let case = (spread, when_full, owners);
        let mut star = stormed(case, STORMED..6, 40);
        let before = discarded(&star);
        let id = send(&mut star, 40);
        let shares = shares(&star, id);
        assert_eq!((shares.iter().sum::<u64>(), shares[3]), (40, 0), "{case:?}");
        assert_eq!(discarded(&star), before);
        star.pause(STORMED, resume(C3));
        star.run_to_rest();
        let id = send(&mut star, 40);
        star.run_to_rest();
        assert!(super::shares(&star, id)[3] > 0, "the member got no frame after its storm, {case:?}");
    }
}

#[test]
fn frame_waiting_at_full_queue_avoids_group_member_in_storm() {
    for spread in EACH_FRAME {
        let mut star = stormed((spread, WhenFull::Stop, &[]), 2..6, 8);
        assert_eq!(
            (waiting(&star, C3), discarded(&star)),
            ([2 * SIZE, 2 * SIZE, 2 * SIZE, 0], 2),
            "{spread:?}"
        );
        let id = send(&mut star, 8);
        assert_eq!((shares(&star, id), discarded(&star)), ([0; 4], 2), "{spread:?}");
        (2..5).for_each(|port| star.pause(port, resume(C3)));
        star.run_for(Nanos::from_millis(1));
        let shares = shares(&star, id);
        assert_eq!((shares.iter().sum::<u64>(), shares[3], discarded(&star)), (8, 0, 2), "{spread:?}");
        star.pause(STORMED, resume(C3));
        star.run_to_rest();
    }
}

#[test]
fn waiting_frames_use_group_member_again_after_its_storm() {
    for spread in EACH_FRAME {
        let mut star = stormed((spread, WhenFull::Stop, &[]), 2..6, 8);
        let id = send(&mut star, 8);
        assert_eq!(shares(&star, id), [0; 4]);
        star.pause(STORMED, resume(C3));
        star.run_for(Nanos::from_millis(14));
        assert!(!star.switch().worker(PortId(5)).stormed(PortId(5)).contains(C3));
        assert_eq!(shares(&star, id), [0, 0, 0, 8], "{spread:?}");
        (2..5).for_each(|port| star.pause(port, resume(C3)));
        star.run_to_rest();
    }
}
