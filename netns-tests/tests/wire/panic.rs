//! A worker that panics sends XON for classes that it pauses. No known frame causes a panic, so the test sends the
//! worker an event of a port that does not exist.

use xoff_config::{Config, Machine};
use xoff_netns_tests::{frames, wait_for};
use xoff_switch::control::mailbox::Request;
use xoff_switch::run::{self, Privileges};
use xoff_wire::units::{Class, PortId};

use crate::{bed, frame};

#[test]
fn panicking_worker_sends_xon_for_paused_classes() {
    let bed = bed(2).build();
    let (a, b) = (bed.host(1), bed.host(2));
    let text = bed.config("speed = \"10M\"").more("[class.3]\nxoff = 2000").to_string();
    let config = Config::from_toml("switch.toml", &text, Machine::default()).unwrap();
    let running = bed.namespace().run(|| run::start(&config, &Privileges::Keep)).unwrap();
    let xons = || a.tap().count(|frame| frames::pfc_time(frame, 3) == Some(0));

    b.send(frame(b, a, 0, 0)); // learned
    b.send(frames::pfc(b.mac(), &[(3, 65535)]));
    let paused = running.view().counters.class(PortId(1), Class::ALL[3]);
    wait_for("the pause", || (paused.paused_since.get() > 0).then_some(()));
    (1..=3).for_each(|number| a.send(a.to(b).tag(3, 0).numbered(number).build_len(1000)));
    a.tap().wait(1, |frame| frames::pfc_time(frame, 3) == Some(65535));
    assert_eq!(xons(), 0);

    let nowhere = Request::Link { port: PortId(u8::MAX), up: true };
    running.view().workers[0].mailbox.send(nowhere).unwrap();
    running.wait();
    wait_for("an XON", || (xons() == 1).then_some(()));
    let error = bed.namespace().run(|| running.stop()).unwrap_err();
    assert!(error.to_string().contains("panic"), "{error}");
    bed.assert_no_drops();
}
