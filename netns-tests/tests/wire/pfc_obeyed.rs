//! The switch obeys PFC: host 1 sends, host 2 pauses. A frame may leave late after a pause, but never early.

// Tests for SPECIFICATION.md: pause-timing

use std::time::Duration;

use xoff_netns_tests::{Bed, Switch, frames, now, wait_for};
use xoff_switch::control::status::PauseStatus;
use xoff_wire::units::MacAddr;

use crate::{bed, frame};

const CLASSES: std::ops::Range<u8> = 0..8;

const QUANTUM: Duration = Duration::from_nanos(51_200);

struct PauseFixture {
    bed: Bed,
    switch: Switch,
}

impl PauseFixture {
    fn new() -> PauseFixture {
        let bed = bed(2).build();
        let config = bed.config("speed = \"10M\"\npause = \"asymmetric\"\ncommit = 2000");
        let switch = bed.start(&config);
        let both = PauseFixture { bed, switch };
        both.bed.host(2).send(frame(both.bed.host(2), both.bed.host(1), 0, 0)); // learned
        both.bed.host(1).tap().numbered(0);
        both
    }

    fn send(&self, class: u8, number: u32) {
        self.bed.host(1).send(frame(self.bed.host(1), self.bed.host(2), class, number));
    }

    fn pause(&self, classes: &[(u8, u16)]) -> Duration {
        let sent = now();
        self.bed.host(2).send(frames::pfc(self.bed.host(2).mac(), classes));
        wait_for("the pause", || {
            let port = self.switch.port(2);
            classes
                .iter()
                .all(|&(class, _)| port.classes[usize::from(class)].pause_received.xoff > 0)
                .then_some(())
        });
        sent
    }

    fn arrival(&self, number: u32) -> Duration {
        self.bed.host(2).tap().numbered(number).at
    }

    /// Waits until the switch has ended the pause; returns the final duration.
    fn paused(&self, class: u8) -> Duration {
        wait_for("the end of the pause", || (!self.received(class).now).then_some(()));
        Duration::from_nanos(self.received(class).durations.sum_nanos)
    }

    fn received(&self, class: u8) -> PauseStatus {
        self.switch.class(2, class.into()).pause_received
    }

    fn finish(self) {
        self.bed.finish(self.switch);
    }
}

#[test]
fn paused_class_sends_nothing_until_expiry() {
    let it = PauseFixture::new();
    (1..=30).for_each(|number| it.send(3, number));
    let sent = it.pause(&[(3, u16::MAX)]);
    let left = it.switch.class(2, 3).tx_frames;
    (31..=33).for_each(|number| it.send(3, number));
    CLASSES.filter(|&class| class != 3).for_each(|class| it.send(class, 100 + u32::from(class)));
    CLASSES.filter(|&class| class != 3).for_each(|class| _ = it.arrival(100 + u32::from(class)));
    let after = it.switch.class(2, 3);
    assert!(after.pause_received.now, "the test took longer than the pause");
    assert!(
        after.tx_frames <= left + 2,
        "frames left although they were not committed before the XOFF: {left} -> {}",
        after.tx_frames
    );

    let resumed = it.arrival(u32::try_from(after.tx_frames).unwrap() + 1);
    assert!(resumed >= sent + QUANTUM * 65_535, "resumed {:?} after the XOFF", resumed - sent);
    it.arrival(33);
    assert_eq!(it.paused(3), QUANTUM * 65_535);
    let numbers = it.bed.host(2).tap().numbers();
    let class_3: Vec<u32> = numbers.into_iter().filter(|&number| number < 100).collect();
    assert_eq!(class_3, (1..=33).collect::<Vec<_>>());
    it.finish();
}

#[test]
fn pause_time_zero_resumes_class_at_once() {
    let it = PauseFixture::new();
    it.pause(&[(3, u16::MAX)]);
    it.send(3, 1);
    it.send(4, 2);
    it.arrival(2);
    assert_eq!(it.bed.host(2).tap().numbers(), [2]);
    it.bed.host(2).send(frames::pfc(it.bed.host(2).mac(), &[(3, 0)]));
    it.arrival(1);
    assert!(it.paused(3) < QUANTUM * 65_535, "the pause expired before the XON");
    assert_eq!(it.switch.class(2, 3).pause_received.xon, 1);
    it.finish();
}

#[test]
fn last_received_pause_time_of_a_class_replaces_earlier_one() {
    for (first, last) in [(10_000, 2_000), (2_000, 10_000)] {
        let it = PauseFixture::new();
        let pfc = |quanta| frames::pfc(it.bed.host(2).mac(), &[(3, quanta)]);
        it.bed.host(2).send(pfc(first));
        let sent = now();
        it.bed.host(2).send(pfc(last));
        wait_for("both", || (it.switch.class(2, 3).pause_received.xoff == 2).then_some(()));
        it.send(3, 1);
        let resumed = it.arrival(1);
        assert!(resumed >= sent + QUANTUM * last.into());
        let paused = it.paused(3);
        assert!(paused >= QUANTUM * last.into(), "{paused:?}");
        assert!(first < last || paused < QUANTUM * first.into(), "{paused:?}");
        assert_eq!(
            it.switch.class(2, 3).pause_received.durations.count,
            1,
            "number of pauses after a changed pause time"
        );
        it.finish();
    }
}

#[test]
fn received_pauses_of_two_classes_expire_independently() {
    let it = PauseFixture::new();
    let times: Vec<(u8, u16)> =
        CLASSES.map(|class| (class, 2_000 + 1_000 * u16::from(class * 3 % 8))).collect();
    let sent = it.pause(&times);
    CLASSES.for_each(|class| it.send(class, class.into()));
    for (class, quanta) in times {
        assert!(it.arrival(class.into()) >= sent + QUANTUM * quanta.into(), "class {class}");
        assert_eq!(it.paused(class), QUANTUM * quanta.into(), "class {class}");
    }
    it.finish();
}

#[test] // proves: pause-modes
fn port_obeys_pfc_frames_whatever_their_reserved_fields() {
    let it = PauseFixture::new();
    let source = it.bed.host(2).mac();
    let mut reserved = frames::pfc(source, &[(0, 4_000)]);
    reserved[16] = 0xff;
    let mut padding = frames::pfc(source, &[(1, 4_000)]);
    padding[34..].fill(0xff);
    let nobody = frames::pfc(MacAddr::default(), &[(2, 4_000)]);
    let mut disabled = frames::pfc(source, &[(3, 4_000)]);
    disabled[26..34].fill(0xff); // times of classes 4 to 7, which are not enabled
    for (class, frame) in [reserved, padding, nobody, disabled].into_iter().enumerate() {
        it.bed.host(2).send(frame);
        wait_for("the pause", || (it.switch.class(2, class).pause_received.xoff == 1).then_some(()));
    }
    CLASSES.for_each(|class| it.send(class, class.into()));
    CLASSES.for_each(|class| _ = it.arrival(class.into()));
    for class in CLASSES {
        let paused = if class < 4 { QUANTUM * 4_000 } else { Duration::ZERO };
        assert_eq!(it.paused(class), paused, "class {class}");
    }
    it.finish();
}

#[test]
fn received_pause_of_any_length_expires_exactly_on_time() {
    const REPEATS: u32 = 20;
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"100M\""));
    let quantum = Duration::from_nanos(5_120);
    let it = PauseFixture { bed, switch };
    let (mut number, mut total) = (0, Duration::ZERO);
    for (quanta, repeats) in [(1, REPEATS), (10, REPEATS), (100, REPEATS), (1_000, REPEATS), (65_535, 4)] {
        let mut errors: Vec<Duration> = (0..repeats)
            .map(|_| {
                number += 1;
                let sent = now();
                it.bed.host(2).send(frames::pfc(it.bed.host(2).mac(), &[(3, quanta)]));
                it.send(3, number);
                let took = it.arrival(number).saturating_sub(sent);
                total += quantum * quanta.into();
                assert_eq!(it.paused(3), total, "paused time by the switch's clock");
                took.saturating_sub(quantum * quanta.into())
            })
            .collect();
        errors.sort_unstable();
        let (p50, p99) = (errors[errors.len() / 2], errors[errors.len() * 99 / 100]);
        println!(
            "pauses of {quanta} quanta ({:?}) ended late by {p50:?} (median), {p99:?} (99th percentile)",
            quantum * quanta.into()
        );
    }
    it.finish();
}
