use xoff_flow_control::settings::{WatchdogAction, WatchdogSettings};

use super::*;

const DETECT: Nanos = Nanos::from_millis(5);

/// Next hops: port 1 is full and paused, port 2 is in a pause storm, and port 3 has no link.
#[test] // proves: group-changes
fn waiting_frame_takes_next_hop_whose_pause_storm_ended() {
    let pause = |quanta| MacControl::Pfc(Pfc::default().with(C3, Quanta(quanta)));
    let mut settings = settings();
    settings.when_full = WhenFull::Stop;
    for port in &mut settings.ports {
        port.classes[C3.index()].egress_max = Bytes(250);
    }
    settings.ports[P2.index()].classes[C3.index()].watchdog =
        Some(WatchdogSettings { action: WatchdogAction::Drop, detect: DETECT, restore: DETECT, share: 100 });
    let mut bench = RouterBench::of(&settings, Spread::Frame(Turns::Random));
    bench.switch.batch(bench.now).set_link(P3, false, &mut bench.store);
    for port in [P1, P2] {
        bench.receive(port, &pause(u16::MAX).encode(station(port.0)));
    }
    (0..6).for_each(|_| bench.receive(P0, &packet(P0, [10, 8, 0, 1], 64, 100)));
    assert_eq!([P1, P2].map(|port| bench.switch.buffer().egress(port, C3)), [Bytes(236); 2]);
    let dropped =
        |bench: &RouterBench| bench.counters.class(P2, C3).drops[DropReason::PausedDiscard.index()].get();
    bench.pass(DETECT);
    assert!(bench.switch.stormed(P2).contains(C3));
    assert_eq!((dropped(&bench), bench.switch.buffer().egress(P2, C3)), (2, Bytes::ZERO));
    bench.receive(P2, &pause(0).encode(station(2)));
    bench.pass(DETECT);
    assert!(!bench.switch.stormed(P2).contains(C3));
    assert_eq!((bench.sent(P2).len(), dropped(&bench)), (2, 2));
}

impl RouterBench {
    fn pass(&mut self, span: Nanos) {
        self.now += span;
        self.switch.batch(self.now).advance(&mut self.store);
        while self.switch.batch(self.now).forward(&mut self.store) {}
    }
}
