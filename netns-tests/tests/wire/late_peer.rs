//! A peer that obeys late, by as much as headroom allows for, and by more.

use xoff_dataplane::units::{BitRate, Quanta};
use xoff_hosts::Obedience;
use xoff_netns_tests::{Bed, Exit, Reports, Switch, Traffic, frames, stream, unstalled, wait_for};

use crate::bed;

/// A quantum is 5.12 us here: 20 ms.
const RESPONSE_QUANTA: u16 = 3906;
/// A frame of a stream, FCS included.
const FRAME: u64 = 1518;

/// A sender that obeys so late fills a switch whose other side is paused until the sender has obeyed. Answers how
/// many frames it had sent by then, too.
fn run(bed: &Bed, switch: &Switch, late: u16) -> (Reports, u64) {
    let (a, b) = (bed.host(1), bed.host(2));
    let late = BitRate::from_mbps(100).time_of_quanta(Quanta(late));
    let pause = |quanta| b.send(frames::pfc(b.mac(), &[(3, quanta)]));
    pause(65535);
    let talk = Traffic::at_mbps(100)
        .sink(b)
        .source_that(a, &[stream(b, 3, "line", 3_000)], Obedience::Late(late))
        .start();
    let mut last = 0;
    let mut unchanged = 0;
    wait_for("the sender to obey", || {
        pause(65535);
        let sent = talk.sent();
        unchanged = if sent > 0 && sent == last { unchanged + 1 } else { 0 };
        last = sent;
        (unchanged == 20).then_some(())
    });
    assert!(last < 3_000 && switch.class(1, 3).pause_sent.now, "it never obeyed");
    assert_eq!(talk.received(), 0);
    pause(0);
    (talk.finish(), last)
}

fn config(bed: &Bed) -> xoff_netns_tests::Config {
    bed.config("speed = \"100M\"\npeer_response = \"20ms\"").switch("stall_budget = \"60ms\"")
}

#[test]
fn nothing_is_lost_up_to_the_computed_limit() {
    unstalled(|| {
        let bed = bed(2).build();
        let switch = bed.start(&config(&bed));
        let (reports, sent) = run(&bed, &switch, RESPONSE_QUANTA);
        reports.assert_lossless(&[3]);
        let said = bed.finish(switch);
        let ingress = said.ports[0].classes[3].ingress;
        // All of it was held: up to XOFF in the queue, and what was sent from there on in the headroom.
        assert_eq!(ingress.bytes_max, sent * FRAME, "{ingress:?}");
        assert!(ingress.bytes_max > ingress.xoff_bytes, "{ingress:?}");
        assert_eq!(ingress.headroom_used_max_bytes, ingress.bytes_max - ingress.xoff_bytes, "{ingress:?}");
    });
}

#[test]
fn beyond_the_limit_every_loss_is_counted() {
    unstalled(|| {
        let bed = bed(2).build();
        let switch = bed.start(&config(&bed));
        let headroom = switch.class(1, 3).ingress.headroom_bytes;
        // Twice the time that the headroom lasts: 64 bytes in a quantum.
        let late = u16::try_from(headroom / 64 * 2).unwrap();
        let (reports, _) = run(&bed, &switch, late);
        let got = reports.received(bed.host(1), 0, bed.host(2));
        assert!(got.lost > 0, "twice the headroom was enough");
        assert_eq!((got.duplicated, got.reordered), (0, 0));
        let said = switch.status();
        assert_eq!(said.ports[0].classes[3].drops["headroom_exhausted"], got.lost);
        assert_eq!((said.verdict.lossless, said.verdict.lossless_lost), (false, got.lost));
        assert_eq!((said.verdict.unseen_lost, said.verdict.ledger_balanced), (0, Some(true)));
        let Exit { status, stderr, .. } = switch.stop();
        assert_eq!(status.code(), Some(1), "{stderr}");
        bed.assert_no_drops();
    });
}
