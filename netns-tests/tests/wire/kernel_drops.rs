// Tests for SPECIFICATION.md: kernel-drops

use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use xoff_netns_tests::{Exit, wait_for};
use xoff_switch::Promise;
use xoff_switch::control::status::Verdict;

use crate::{bed, frame};

const MANY: u32 = 4_000;

struct StallOutcome {
    /// Frames that hosts sent, but that neither arrived nor were reported as dropped.
    missing: u64,
    received_of_class_3: u64,
    verdict: Verdict,
    health: u16,
    exit: Exit,
}

fn stall(mode: &str, frames: &[(u8, u32)]) -> StallOutcome {
    let classes = frames.iter().flat_map(|&(class, count)| (0..count).map(move |_| (class, 64)));
    stall_of("", mode, 0, classes)
}

const SMALL_CHUNKS: &str = "receive_chunks = \"small\"";

/// Sends frames of these classes and lengths. The switch is stopped after the first `before` frames, until all are sent.
fn stall_of(
    memory: &str,
    mode: &str,
    before: usize,
    mut frames: impl Iterator<Item = (u8, usize)>,
) -> StallOutcome {
    let bed = bed(2).build();
    let memory = format!("[memory]\n{memory}\n");
    let switch = bed.start(&bed.config(&format!("speed = \"100M\"\nmode = \"{mode}\"")).more(&memory));
    let (a, b) = (bed.host(1), bed.host(2));
    b.send(frame(b, a, 0, 0));
    a.tap().numbered(0);
    let mut sent = 0;
    let mut send = |(class, len)| {
        sent += 1;
        a.send(a.to(b).tag(class, 0).numbered(sent).build_len(len));
    };
    frames.by_ref().take(before).for_each(&mut send);
    wait_for("the first frames to arrive", || (b.tap().numbers().len() >= before).then_some(()));
    switch.halt();
    frames.for_each(send);
    let sent = u64::from(sent);
    switch.signal(Signal::SIGCONT);
    let sum = |port: usize, of: fn(&xoff_switch::control::status::ClassStatus) -> u64| {
        switch.port(port).classes.iter().map(of).sum::<u64>()
    };
    wait_for("all that came to be received or lost", || {
        (sum(1, |class| class.rx_frames) + switch.port(1).unseen.total() >= sent).then_some(())
    });
    let dropped = |class: &xoff_switch::control::status::ClassStatus| class.drops.values().sum::<u64>();
    let (left, dropped) = wait_for("all that was received to leave", || {
        let (left, dropped) = (sum(2, |class| class.tx_frames), sum(1, dropped) + sum(2, dropped));
        (left + dropped >= sum(1, |class| class.rx_frames)).then_some((left, dropped))
    });
    let received = wait_for("all that left to arrive", || {
        let received = b.tap().numbers().iter().filter(|&&number| number > 0).count() as u64;
        (received >= left).then_some(received)
    });
    let received_of_class_3 = switch.class(1, 3).rx_frames;
    let (verdict, health) = (switch.status().verdict, switch.health().0);
    StallOutcome {
        missing: sent - received - dropped,
        received_of_class_3,
        verdict,
        health,
        exit: switch.stop(),
    }
}

#[test]
fn lossy_frames_dropped_by_kernel_do_not_break_losslessness() {
    for mode in ["native", "generic"] {
        let StallOutcome { missing, verdict, health, exit, .. } = stall(mode, &[(0, MANY)]);
        assert!(missing > 1_000, "{mode}: too few frames were lost beyond the rings");
        assert_eq!(
            (verdict.unseen_lossy, verdict.unseen_lost, verdict.unseen_unknown),
            (missing, 0, 0),
            "{mode}"
        );
        assert_eq!((verdict.promise, verdict.lossless_lost), (Promise::Kept, 0), "{mode}");
        assert_eq!((exit.status.code(), health), (Some(0), 200), "{mode}: {}", exit.stderr);
        let frames = xoff_config::written::grouped(missing);
        let lossy = format!(
            "{frames} frames were lost in the NIC or kernel at port p1, which carried only lossy classes in that time"
        );
        assert_eq!(verdict.unseen_lossy_at, [lossy.as_str()]);
        assert!(exit.stderr.contains(&lossy), "{}", exit.stderr);
        assert!(exit.stderr.contains("event=unseen-loss-lossy"), "{}", exit.stderr);
        assert!(!exit.stderr.contains("event=unseen-loss "), "{}", exit.stderr);
    }
}

#[test]
fn lossless_frame_dropped_by_kernel_counts_once_as_lost() {
    for mode in ["native", "generic"] {
        let StallOutcome { missing, verdict, exit, .. } = stall(mode, &[(3, MANY)]);
        assert!(missing > 1_000, "{mode}: too few frames were lost beyond the rings");
        assert_eq!(
            (verdict.unseen_lost, verdict.unseen_lossy, verdict.unseen_at_least),
            (missing, 0, false),
            "{mode}"
        );
        assert_eq!((verdict.promise, verdict.lossless_lost), (Promise::NotKept, 0), "{mode}");
        assert_eq!(exit.status.code(), Some(1), "{mode}: {}", exit.stderr);
        let message = format!("{} of classes that may be lossless", xoff_config::written::grouped(missing));
        assert!(
            exit.stderr.contains(&message) && exit.stderr.contains("event=unseen-loss "),
            "{}",
            exit.stderr
        );
    }
}

#[test]
fn losslessness_is_broken_if_stall_loses_all_frames_of_class() {
    let StallOutcome { missing, received_of_class_3, verdict, exit, .. } =
        stall("native", &[(0, MANY), (3, 50)]);
    assert_eq!(received_of_class_3, 0);
    assert_eq!((verdict.promise, verdict.unseen_lost), (Promise::NotKept, missing));
    assert_eq!(exit.status.code(), Some(1), "{}", exit.stderr);
}

/// Number of frames of 276 bytes on the line that a stall must not lose: at 100 Mb/s, 25.2 ms of stall and 5 ms of burst are 377,500 bytes.
const PROMISED: u32 = 377_500_u32.div_ceil(276);
/// Maximum number of frames without loss, with whole receive chunks (one per frame). The ring has 31 chunks beyond
/// `PROMISED`, because a worker refills it in batches of 32.
const WHOLE: u32 = PROMISED + 31;
/// Maximum number of frames without loss, with small receive chunks: long frames take several, so the ring has one more per 512 bytes.
const SMALL: u32 = WHOLE + 377_500_u32.div_ceil(512);

#[test] // proves: memory, headroom
fn stalled_switch_loses_only_frames_beyond_receive_chunks() {
    for (memory, count) in [("", WHOLE), ("model = \"shared\"", WHOLE), (SMALL_CHUNKS, SMALL)] {
        for mode in ["native", "generic"] {
            let shortest = |count| (0..count).map(|_| (3, 64));
            for beyond in 0..2 {
                let StallOutcome { missing, verdict, .. } =
                    stall_of(memory, mode, 0, shortest(count + beyond));
                assert_eq!(missing, u64::from(beyond), "{memory}, {mode}, {beyond} beyond {count}");
                let promise = if beyond == 0 { Promise::Kept } else { Promise::NotKept };
                assert_eq!(
                    (verdict.promise, verdict.unseen_lost),
                    (promise, u64::from(beyond)),
                    "{memory}, {mode}"
                );
            }
        }
    }
}

#[test] // proves: memory, headroom
fn switch_stalled_within_budget_after_traffic_loses_no_frame() {
    for before in [31, 32, 63] {
        let frames = (0..before + PROMISED).map(|_| (3, 64));
        let StallOutcome { missing, verdict, .. } = stall_of("", "native", before as usize, frames);
        assert_eq!((missing, verdict.promise), (0, Promise::Kept), "after {before} frames");
    }
}

/// The receive chunks suffice for frames of 256 bytes on average (with FCS), as in this test. A frame of 513 bytes takes two small chunks.
#[test] // proves: memory, headroom
fn switch_stalled_under_mixed_frame_lengths_loses_no_frame() {
    let two_chunks = (0..PROMISED).map(|n| (3, if n * 424 % 1000 < 424 { 513 } else { 64 }));
    let average = two_chunks.clone().map(|(_, len)| len + 4).sum::<usize>() / PROMISED as usize;
    assert!((256..262).contains(&average), "{average}");
    for memory in ["", "model = \"shared\"", SMALL_CHUNKS] {
        let StallOutcome { missing, verdict, .. } = stall_of(memory, "native", 0, two_chunks.clone());
        assert_eq!((missing, verdict.promise), (0, Promise::Kept), "{memory}");
    }
}

/// The reported stall excludes the worker's sleep. A sleep lasts at most a quarter of the stall budget, or as long as the preceding time
/// without frames.
#[test]
fn switch_reports_every_frame_lost_in_stall_after_traffic() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"100M\""));
    let (a, b) = (bed.host(1), bed.host(2));
    b.send(frame(b, a, 0, 0));
    a.tap().numbered(0);
    for number in 1..=3 {
        let sent = Instant::now();
        a.send(a.to(b).tag(0, 0).numbered(number).build_len(64));
        b.tap().numbered(number);
        switch.halt();
        let halted = Instant::now();
        thread::sleep(Duration::from_millis(200));
        let stalled = halted.elapsed();
        switch.signal(Signal::SIGCONT);
        let slept = (halted - sent).max(Duration::from_millis(25) / 4);
        let least = u64::try_from((stalled - slept).as_nanos()).unwrap();
        wait_for("the stall to be reported", || {
            let worker = &switch.status().workers[0];
            (worker.stalls >= u64::from(number) && worker.longest_gap_nanos >= least).then_some(())
        });
    }
    bed.finish(switch);
}
