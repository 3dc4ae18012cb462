//! Share of an egress line that an obedient sender gets beside a sender that ignores pauses.
//!
//! The frames of the ignoring sender keep the queue above XON, so that the obedient sender, once paused, is never
//! resumed.

use xoff_flow_control::headroom::Link;
use xoff_flow_control::settings::PolicyKind;
use xoff_wire::units::{BitRate, Bytes, Nanos};

use crate::C3;
use crate::bed::plan::{self, LINK};
use crate::bed::{Obeys, Star, Stream};

const SETTLED: Nanos = Nanos::from_millis(500);
const LOOK: Nanos = Nanos::from_millis(1_000);

fn share(kind: PolicyKind, cut: f64) -> u64 {
    let mut plan = plan::switch(&[Link { speed: BitRate::from_mbps(200), ..LINK }; 3]);
    plan.may_lose = true;
    plan.settings.policies = [kind; 8];
    plan.settings.policy.capfc_cut = cut;
    plan.each_lossless(|class| {
        (class.xoff, class.xon) = (Bytes(100_000), Bytes(80_000));
        class.headroom = Bytes(625_000); // for stalls of 25 ms
        (class.egress_xoff, class.egress_warn, class.egress_xon) =
            (Bytes(50_000), Bytes(40_000), Bytes(40_000));
        class.egress_max = Bytes(2_000_000);
    });
    let mut star = Star::with(plan, |port| if port == 0 { Obeys::AtOnce } else { Obeys::Never });
    let most = star.stream(2, C3, 100_000);
    let obeying = star.start(0, 2, Stream { rate: Some(BitRate::from_mbps(150)), ..most });
    let ignoring = star.start(1, 2, most);
    let received = |star: &Star| [obeying, ignoring].map(|flow| star.received(flow).frames);
    star.run_for(SETTLED);
    let before = received(&star);
    star.run_for(LOOK);
    let after = received(&star);
    let [his, the_others] = [0, 1].map(|of| after[of] - before[of]);
    his * 1_000 / (his + the_others)
}

#[test] // proves: capfc
fn capfc_stop_calibrate_starves_only_sender_that_obeys_pauses() {
    let shares = [
        share(PolicyKind::Pfc, 0.8),
        share(PolicyKind::CaPfcStopMax, 0.8),
        share(PolicyKind::CaPfcStopCalibrate, 0.5), // the share that the ignoring sender has alone
        share(PolicyKind::CaPfcStopCalibrate, 0.8),
    ];
    assert_eq!(shares, [121, 121, 121, 0]);
}
