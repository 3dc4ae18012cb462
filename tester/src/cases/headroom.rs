//! Group `headroom`: how many bytes does the device accept after its XOFF? Port 2 pauses the class, and port 1 ignores
//! XOFF, so that the device must buffer frames until it drops one.

use xoff_flow_control::headroom::{Headroom, Link, standard_response};
use xoff_wire::units::{Bytes, Class, Nanos};

use super::Case;
use super::buffers::{Filling, counted};
use super::complete::{share, tag_len};
use super::streams::{FROM, TO, lossless, require_held, settle_time, start_heartbeat, two_lossless};
use crate::bench::{Bench, Flow, Reaction, StreamId, Void};
use crate::judgement::Judgement;
use crate::report::{Curve, Figure, Marker};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "headroom.size",
        title: "Does the device accept all frames that a peer may send after an XOFF?",
        source: "IEEE 802.1Q annex N",
        ports: 2,
        run: size,
    },
    Case {
        id: "headroom.small-frames",
        title: "Does the device accept small frames after an XOFF, too?",
        source: "IEEE 802.1Q annex N",
        ports: 2,
        run: small_frames,
    },
    Case {
        id: "headroom.two-classes",
        title: "Does each of two lossless classes have its own headroom?",
        source: "IEEE 802.1Q 36.1.1, annex N",
        ports: 2,
        run: two_classes,
    },
];

const SIZE: u32 = 1_000;
const SMALL: u32 = 60;
const HOLD_MAX: Nanos = Nanos::from_millis(150);
const FILL_MAX: Nanos = Nanos::from_millis(100);
const BYTES_MAX: u64 = 32 << 20;
const QUIET: Nanos = Nanos::from_millis(30);

/// Fills the device with `count` frames of each class while port 2 pauses these classes. Returns the number of lost frames.
pub(super) fn overfill(bench: &mut Bench, classes: &[Class], size: u32, count: u64) -> Result<u64, Void> {
    bench.only_count(TO);
    let settle = settle_time(bench);
    let begin = bench.now();
    bench.hold(TO, classes.iter().copied().collect(), HOLD_MAX.after(Nanos(2 * settle.0)));
    bench.run_for(settle)?;
    bench.react(FROM, Reaction::Ignore);
    let mut streams: Vec<StreamId> = Vec::new();
    for class in classes {
        let rate = share(bench, 100, classes.len(), size);
        streams.push(bench.stream(Flow::new(FROM, TO, *class).size(size).rate(rate).count(count))?);
    }
    let filled =
        bench.run_until(FILL_MAX, |bench| streams.iter().all(|stream| bench.sent(*stream) >= count))?;
    bench.run_for(settle)?;
    require_held(bench, begin)?;
    let early = streams.iter().any(|stream| bench.tally(*stream).frames > 0);
    bench.release(TO);
    bench.react(FROM, Reaction::Obey);
    bench.stop_streams(&streams);
    let received = |bench: &Bench| streams.iter().map(|stream| bench.tally(*stream).frames).sum::<u64>();
    let quiet = QUIET.max(settle).max(bench.stall_limit());
    loop {
        let before = received(bench);
        bench.run_for(quiet)?;
        if received(bench) == before {
            break;
        }
    }
    if early {
        return Err(Void::Disturbed("the device sent frames of a paused class".into()));
    }
    if !filled {
        return Err(Void::Disturbed("the tester could not fill the device while it was paused".into()));
    }
    Ok(streams.iter().map(|stream| bench.missing(*stream)).sum())
}

/// Returns how many frames `overfill` lost; if the device stalled, the fewest of three runs.
fn fewest_lost(bench: &mut Bench, classes: &[Class], size: u32, count: u64) -> Result<u64, Void> {
    let mut fewest = u64::MAX;
    for _ in 0..3 {
        fewest = fewest.min(overfill(bench, classes, size, count)?);
        if fewest == 0 || bench.device_stall() <= bench.stall_limit() {
            break;
        }
    }
    Ok(fewest)
}

fn frames_max(bench: &Bench, size: u32) -> u64 {
    let bytes = share(bench, 100, 1, size).bytes_in(Nanos(FILL_MAX.0 * 3 / 4)).0.min(BYTES_MAX);
    bytes / u64::from(size + 24)
}

fn required(bench: &Bench) -> Headroom {
    let speed = bench.port(FROM).speed();
    let link = Link {
        speed,
        mtu_frame: bench.setup.device.mtu + 14,
        cable: bench.setup.device.cable,
        loop_gap: Nanos::ZERO,
        commit: Bytes::ZERO,
        peer_response: standard_response(speed),
        peer_backlog: Bytes::ZERO,
    };
    Headroom::of(&link)
}

fn size(bench: &mut Bench) -> Result<Judgement, Void> {
    search(bench, SIZE, bench.setup.device.xoff, required(bench).total())
}

/// Measures XOFF with small frames, too: the device may count in unknown cells.
fn small_frames(bench: &mut Bench) -> Result<Judgement, Void> {
    let size = SMALL + tag_len(bench, FROM);
    let Headroom { delaying_frame, cable, peer_response, .. } = required(bench);
    let delay = delaying_frame + cable + peer_response;
    // A small frame crosses XOFF, and the peer finishes another.
    let frames = delay.0.div_ceil(Bytes::on_line(size).0) + 2;
    search(bench, size, None, Bytes(frames * counted(bench, size)))
}

/// Searches for the headroom beyond `xoff`, which is measured if it is `None`.
fn search(bench: &mut Bench, size: u32, xoff: Option<Bytes>, needed: Bytes) -> Result<Judgement, Void> {
    let class = lossless(bench);
    start_heartbeat(bench)?;
    let frame = counted(bench, size);
    let xoff = match xoff {
        Some(bytes) => bytes.0,
        None => match Filling::new(bench, FROM, class, size).threshold(bench, |_| false)? {
            Some(threshold) => threshold.bytes.saturating_sub(threshold.error),
            None => {
                return Err(Void::NotPossible("the device sends no XOFF; see case send.before-loss".into()));
            }
        },
    };
    let limit = bench.setup.device.headroom.map_or(needed, |headroom| headroom.max(needed)).0;
    let expected = xoff + limit;
    let most = frames_max(bench, size);
    if expected / frame >= most {
        return Err(Void::NotPossible(format!(
            "the tester cannot send {expected} bytes while it pauses the device"
        )));
    }
    let mut points = Vec::new();
    let (mut complete, mut lossy) = (0, None);
    let mut next = (expected / frame).max(1);
    while lossy.is_none_or(|lossy| lossy - complete > (complete / 256).max(1)) && complete < most {
        let lost = fewest_lost(bench, &[class], size, next)?;
        points.push(((next * frame).saturating_sub(xoff) as f64, lost as f64));
        if lost == 0 {
            complete = next
        } else {
            lossy = Some(next)
        }
        next = lossy.map_or((complete * 2).min(most), |lossy| complete.midpoint(lossy));
    }
    let measured = (complete * frame).saturating_sub(xoff);
    let mut judgement = Judgement::new();
    judgement.limits("headroom", measured as f64, "bytes", (Some(limit.saturating_sub(frame) as f64), None));
    judgement.measure("headroom required for speed, MTU and cable", needed.0 as f64, "bytes");
    judgement.require_unless_stalled(lossy.is_none_or(|lossy| lossy * frame > expected), || {
        format!(
            "the device lost {}-byte frames after {measured} bytes beyond its XOFF of {xoff} bytes; its headroom must be {limit} \
             bytes, in units of `cell`",
            size + 4
        )
    });
    if lossy.is_none() {
        judgement.note(format!("the device lost nothing up to {measured} bytes beyond XOFF"));
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    judgement.figures.push(Figure {
        title: "Search for the headroom".to_owned(),
        x: "sent beyond XOFF (bytes)".to_owned(),
        y: "lost (frames)".to_owned(),
        curves: vec![Curve { name: format!("class {class}"), points }],
        markers: vec![Marker { x: limit as f64, label: "needed".to_owned() }],
    });
    Ok(judgement)
}

fn two_classes(bench: &mut Bench) -> Result<Judgement, Void> {
    let classes = two_lossless(bench)?;
    let device = &bench.setup.device;
    let (Some(xoff), headroom) = (device.xoff, device.headroom.unwrap_or(required(bench).total())) else {
        return Err(Void::NotPossible("the case needs `xoff` in [device] of the setup file".into()));
    };
    let count = (xoff + headroom).0 / counted(bench, SIZE);
    if count * 2 >= frames_max(bench, SIZE) {
        return Err(Void::NotPossible(
            "the tester cannot fill both classes while it pauses the device".into(),
        ));
    }
    start_heartbeat(bench)?;
    let lost = fewest_lost(bench, &classes, SIZE, count)?;
    let mut judgement = Judgement::new();
    judgement.limits("lost frames", lost as f64, "frames", (None, Some(0.0)));
    judgement.require_unless_stalled(lost == 0, || {
        format!("{lost} frames were lost although each class had at most XOFF plus headroom in bytes")
    });
    Ok(judgement)
}
