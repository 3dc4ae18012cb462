// Tests for SPECIFICATION.md: host-pauses

use xoff_nic::egress::{Egress, EgressSettings, Leaf};
use xoff_xdp::PacketSender;

use crate::bed::{
    Bed, DEVICE, DSCP_LOSSLESS, DSCP_LOSSY, FRAME, LOSSLESS, LOSSY, nic, nothing, of, peer_ipv4, peer_ipv6,
    received, settings, settings_at, wait_for,
};
use xoff_wire::units::{BitRate, ClassSet};

fn leafs() -> Vec<EgressSettings> {
    let best = Leaf::of_this_kernel().unwrap();
    println!("this kernel's leaf is {best}");
    let kinds = if best == Leaf::Plug { vec![Leaf::Plug, Leaf::Tbf] } else { vec![Leaf::Tbf] };
    kinds.into_iter().map(|leaf| EgressSettings { leaf: Some(leaf), ..settings() }).collect()
}

#[test]
fn stopped_class_blocks_its_sender_and_loses_no_frame() {
    const COUNT: usize = 2000;
    for settings in leafs() {
        let bed = Bed::new();
        let mut egress = bed.install(&settings);
        assert_eq!(Some(egress.leaf()), settings.leaf);
        for peer in [peer_ipv4(), peer_ipv6()] {
            let (lossless, lossy) = (bed.receive(DSCP_LOSSLESS, peer), bed.receive(DSCP_LOSSY, peer));
            let before = of(egress.counts().unwrap(), LOSSLESS).frames;
            egress.stop(LOSSLESS).unwrap();
            let stopped = bed.send(DSCP_LOSSLESS, peer, COUNT);
            stopped.await_sleep();
            let waiting = of(egress.counts().unwrap(), LOSSLESS);
            assert_eq!(waiting.waiting_frames, stopped.sent() as u64);
            assert_eq!((waiting.frames, waiting.dropped), (before, 0));
            assert!((1..COUNT).contains(&stopped.sent()), "{}", stopped.sent());

            bed.send(DSCP_LOSSY, peer, COUNT).join();
            assert_eq!(
                received(&lossy, COUNT),
                (0..COUNT).collect::<Vec<_>>(),
                "a class that is not stopped lost frames"
            );
            nothing(&lossless);
            assert_eq!(of(egress.counts().unwrap(), LOSSLESS), waiting, "a frame of the stopped class left");

            egress.start(LOSSLESS).unwrap();
            assert_eq!(received(&lossless, COUNT), (0..COUNT).collect::<Vec<_>>());
            stopped.join();
            let counts = of(egress.counts().unwrap(), LOSSLESS);
            assert_eq!((counts.frames - before, counts.dropped, counts.waiting_frames), (COUNT as u64, 0, 0));
        }
        assert_eq!(egress.remove().lost, [0; 8]);
    }
}

fn short_frame(dscp: u8) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..6].fill(2);
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, dscp << 2]);
    frame
}

#[test]
fn stopping_a_class_repeatedly_lets_no_frame_through() {
    for settings in leafs() {
        let bed = Bed::new();
        let mut egress = bed.install(&settings);
        let sender = bed.namespace().run(|| PacketSender::open(egress.ifindex()).unwrap());
        for round in 1..=100 {
            egress.stop(LOSSLESS).unwrap();
            sender.send(&short_frame(DSCP_LOSSLESS)).unwrap();
            sender.send(&short_frame(DSCP_LOSSY)).unwrap(); // makes the kernel poll all queues
            let counts = egress.counts().unwrap();
            assert_eq!((of(counts, LOSSLESS).frames, of(counts, LOSSLESS).waiting_frames), (0, round));
            assert_eq!(of(counts, LOSSY).frames, round);
        }
        egress.start(LOSSLESS).unwrap();
        wait_for("the departure of all frames", || {
            (of(egress.counts().unwrap(), LOSSLESS).frames == 100).then_some(())
        });
    }
}

#[test]
fn frames_beyond_limit_of_class_queue_are_dropped_and_counted() {
    for settings in leafs() {
        let bed = Bed::new();
        let mut egress = bed.install(&EgressSettings { limit_lossless: 600, limit_lossy: 300, ..settings });
        let sender = bed.namespace().run(|| PacketSender::open(egress.ifindex()).unwrap());
        for (class, dscp, room) in [(LOSSLESS, DSCP_LOSSLESS, 10), (LOSSY, DSCP_LOSSY, 5)] {
            egress.stop(class).unwrap();
            for _ in 0..17 {
                let _ = sender.send(&short_frame(dscp)); // fails if the queue is full
            }
            let counts = of(egress.counts().unwrap(), class);
            assert_eq!(
                (counts.waiting_frames, counts.waiting_bytes, counts.dropped),
                (room, room * 60, 17 - room)
            );
            egress.start(class).unwrap();
        }
    }
}

#[test]
fn rate_limit_slows_only_its_class_until_limit_is_removed() {
    const COUNT: usize = 60;
    for settings in leafs() {
        let bed = Bed::new();
        let mut egress = bed.install(&settings);
        let (lossless, lossy) =
            (bed.receive(DSCP_LOSSLESS, peer_ipv4()), bed.receive(DSCP_LOSSY, peer_ipv4()));
        egress.limit(LOSSLESS, BitRate::new(20_000).unwrap()).unwrap();
        bed.send(DSCP_LOSSLESS, peer_ipv4(), COUNT).join();
        bed.send(DSCP_LOSSY, peer_ipv4(), 500).join();
        assert_eq!(received(&lossy, 500).len(), 500);
        let waiting = of(egress.counts().unwrap(), LOSSLESS).waiting_frames;
        // Allow for the shaper's burst, which may leave before the rate limit takes effect.
        let burst = settings.burst.0.div_ceil(FRAME) + 3;
        assert!((COUNT as u64 - burst..COUNT as u64).contains(&waiting), "{waiting}");
        egress.limit(LOSSLESS, settings.nic.speed).unwrap();
        assert_eq!(received(&lossless, COUNT), (0..COUNT).collect::<Vec<_>>());
    }
}

#[test]
fn frames_of_higher_classes_leave_the_host_first() {
    let bed = Bed::new();
    let mut egress = bed.install(&settings_at(BitRate::from_mbps(10)));
    let index = egress.ifindex();
    let classes = xoff_wire::units::Class::ALL;
    classes.iter().for_each(|&class| egress.stop(class).unwrap());
    for class in classes {
        let sender = bed.namespace().run(|| PacketSender::open(index).unwrap()); // a send buffer for each class
        (0..50).for_each(|_| sender.send(&long_frame(class.get() << 3)).unwrap());
    }
    classes.iter().for_each(|&class| egress.start(class).unwrap());
    // While a class has queued frames, each lower class may send one frame, which HTB guarantees it. Frames that left before higher classes
    // were started do not count.
    let early = |egress: &mut Egress| egress.counts().unwrap().map(|counts| counts.frames);
    let at_start = early(&mut egress);
    wait_for("the departure of all frames", || {
        let counts = egress.counts().unwrap();
        let waiting = egress.counts().unwrap().map(|counts| counts.waiting_frames);
        let highest = waiting.iter().rposition(|&frames| frames > 0).unwrap_or(0);
        for (class, lower) in counts[..highest].iter().enumerate() {
            assert!(
                lower.frames <= at_start[class] + 1,
                "class {class} left before class {highest}: {counts:?}"
            );
        }
        (waiting == [0; 8]).then_some(())
    });
}

fn long_frame(dscp: u8) -> Vec<u8> {
    let mut frame = short_frame(dscp).to_vec();
    frame.resize(1514, 0);
    frame
}

#[test]
fn raised_mtu_applies_to_stopped_and_running_classes() {
    let jumbo = |dscp| {
        let mut frame = short_frame(dscp).to_vec();
        frame.resize(9014, 0);
        frame
    };
    for settings in leafs() {
        let bed = Bed::new();
        let mut egress = bed.install(&settings);
        let mut another =
            bed.namespace().run(|| Egress::find(i32::try_from(nic(DEVICE)).unwrap())).unwrap().unwrap(); // a second handle, as the guard's
        assert_eq!(egress.overrun(), settings.overrun(1500));
        egress.stop(LOSSLESS).unwrap();
        bed.run("ip", "link set nic0 mtu 9000");
        egress.follow_mtu().unwrap();
        assert_eq!(egress.overrun(), settings.overrun(9000));
        let queues = egress.dump().unwrap();
        assert!(
            egress.repair(&queues, ClassSet::NONE, true).found.is_empty(),
            "a change of the agent counts as a defect"
        );
        let sender = bed.namespace().run(|| PacketSender::open(egress.ifindex()).unwrap());
        sender.send(&jumbo(DSCP_LOSSLESS)).unwrap();
        sender.send(&jumbo(DSCP_LOSSY)).unwrap();
        wait_for("a frame of the other class", || {
            (of(egress.counts().unwrap(), LOSSY).frames == 1).then_some(())
        });
        let waiting = of(egress.counts().unwrap(), LOSSLESS);
        assert_eq!((waiting.frames, waiting.waiting_frames, waiting.dropped), (0, 1, 0));
        assert!(another.fit().unwrap());
        another.start(LOSSLESS).unwrap();
        sender.send(&jumbo(DSCP_LOSSLESS)).unwrap();
        wait_for("the departure of all frames", || {
            (of(egress.counts().unwrap(), LOSSLESS).frames == 2).then_some(())
        });
        assert_eq!(of(egress.counts().unwrap(), LOSSLESS).dropped, 0);
    }
}
