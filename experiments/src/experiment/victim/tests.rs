use xoff_host::HostReport;
use xoff_host::report::{ReceivedStream, SentStream};
use xoff_wire::units::{BitRate, CLASSES};

use super::*;

#[test]
fn victim_experiment_fits_stream_limit_of_hosts() {
    for line in [5, 100, 130, 200, 1000].map(|mbps| Line::from(BitRate::from_mbps(mbps))) {
        for sizes in [LONG, SMALL] {
            for &percent in sizes.loads {
                let _ = plan(line).1.load(sizes, percent); // panics if a host has too many streams
            }
        }
    }
}

fn run() -> VictimRun {
    let line = Line::from(BitRate::from_mbps(100));
    let (_, scene) = plan(line);
    let (load, light) = (scene.load(LONG, LOADS[0]), scene.light[0]);
    let message = frames(LONG.light, line);
    let every = message_interval(line, message, LOADS[0]).0;
    let first = |from: Nanos| u8::try_from(from.0.div_ceil(every)).expect("a few messages");
    let congested = first(ALONE.after(RAMP));
    let mut hosts = vec![HostReport::default(); HEAVY + LIGHT + 2];
    hosts[HEAVY].sent = vec![SentStream { frames: 1, first_ns: 1_000, ..SentStream::default() }];
    let received = |number: u8, took: Nanos, lost| {
        let mut stream = ReceivedStream {
            sender: light.number(),
            stream: number,
            frames: message - lost,
            last_ns: 1_000 + u64::from(number) * every + took.0,
            ..ReceivedStream::default()
        };
        stream.settle(message);
        stream
    };
    let messages = [(0, 10, 0), (congested, 30, 0), (congested + 1, 20, 1)];
    hosts[HEAVY + LIGHT].received =
        messages.map(|(number, ms, lost)| received(number, Nanos::from_millis(ms), lost)).into();
    let samples = Observations {
        light: Series::default(),
        victim: Series::default(),
        first_xoff: vec![None; HEAVY + LIGHT],
        held: vec![None; HEAVY + LIGHT],
    };
    VictimRun { load, scene, account: Account::of_hosts(hosts, [0; CLASSES]), samples }
}

#[test]
fn victim_message_with_lost_frame_never_completes() {
    let run = run();
    let of = Delivery::of(&[&run], |run| run.scene.congested, |run| &run.samples.light);
    assert_eq!(of.broken, 1);
    assert_eq!(of.solo_completion_ms, Spread::of([10.0]));
    assert_eq!(of.completion_ms, Spread::of([30.0]));
}

#[test]
fn victim_port_without_arrivals_has_no_results() {
    let run = run();
    let of = Delivery::of(&[&run], |run| run.scene.free, |run| &run.samples.victim);
    assert_eq!((of.solo_completion_ms, of.completion_ms, of.broken), (None, None, 0));
    assert_eq!((of.solo_mbps, of.mbps), (None, None), "without samples");
}
