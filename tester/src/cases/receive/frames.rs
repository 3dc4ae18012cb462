use xoff_wire::units::{Nanos, Quanta};
use xoff_wire::{MacControl, mac_control};

use crate::bench::{Bench, Void};
use crate::cases::streams::{Expected, QUANTA_MAX, Streams, TO, has_no_effect, lossless, markable, obeying};
use crate::judgement::Judgement;

const OPCODE: usize = 14;
const RESERVED: usize = 16;
const VECTOR: usize = 17;
const TIMES: usize = 18;
const PADDING: usize = 34;
const SHORT: u16 = QUANTA_MAX / 3;

type Variant<'a> = (&'a str, &'a dyn Fn(&mut Vec<u8>));

/// Changes a PFC frame by each of `variants`, and fails the case if a changed frame pauses the class.
fn without_effect(bench: &mut Bench, variants: &[Variant<'_>]) -> Result<Judgement, Void> {
    let streams = Streams::obeying(bench)?;
    let (class, _) = streams.first();
    let mut judgement = Judgement::new();
    for (what, change) in variants {
        let mut bytes = bench.pfc(TO, &[(class, QUANTA_MAX)]);
        change(&mut bytes);
        has_no_effect(bench, &mut judgement, &streams, &bytes, what)?;
    }
    Ok(judgement)
}

/// Fails the case unless a changed PFC frame pauses a class that obeys PFC.
fn with_effect(bench: &mut Bench, what: &str, change: impl Fn(&mut Vec<u8>)) -> Result<Judgement, Void> {
    let (class, stream) = Streams::obeying(bench)?.first();
    let mut judgement = Judgement::new();
    let mut bytes = bench.pfc(TO, &[(class, SHORT)]);
    change(&mut bytes);
    let sent = bench.send_now(TO, &bytes);
    let time = bench.pause_time(TO, SHORT);
    Expected { class, stream, sent, time, queued: Nanos::ZERO }.judge(bench, &mut judgement, what)?;
    Ok(judgement)
}

pub(super) fn other_destination(bench: &mut Bench) -> Result<Judgement, Void> {
    without_effect(
        bench,
        &[
            ("PFC to 01:80:c2:00:00:0f", &|bytes| bytes[5] = 0x0f),
            ("PFC to 01:80:c2:00:00:21", &|bytes| bytes[5] = 0x21),
        ],
    )
}

pub(super) fn other_opcode(bench: &mut Bench) -> Result<Judgement, Void> {
    without_effect(
        bench,
        &[
            ("opcode 0x0102", &|bytes| bytes[OPCODE + 1] = 0x02),
            ("opcode 0x1001", &|bytes| bytes[OPCODE] = 0x10),
        ],
    )
}

pub(super) fn other_ether_type(bench: &mut Bench) -> Result<Judgement, Void> {
    without_effect(bench, &[("PFC with EtherType 0x8807", &|bytes| bytes[13] = 0x07)])
}

pub(super) fn tagged(bench: &mut Bench) -> Result<Judgement, Void> {
    without_effect(
        bench,
        &[("PFC with a VLAN tag", &|bytes| {
            bytes.splice(12..12, [0x81, 0, 0x60, 0]);
        })],
    )
}

pub(super) fn truncated(bench: &mut Bench) -> Result<Judgement, Void> {
    // Cut the frame before the class's pause time. On the line, zeros pad the frame: they are a pause time of zero, so the frame must
    // pause nothing.
    let class = obeying(bench)?;
    let end = TIMES + 2 * class.index();
    without_effect(bench, &[("truncated PFC", &|bytes| bytes.truncate(end))])
}

pub(super) fn empty_vector(bench: &mut Bench) -> Result<Judgement, Void> {
    without_effect(
        bench,
        &[("PFC with an empty class-enable vector", &|bytes| {
            bytes[VECTOR] = 0;
            bytes[TIMES..PADDING].fill(0xff);
        })],
    )
}

pub(super) fn lossy_class(bench: &mut Bench) -> Result<Judgement, Void> {
    let obeys = bench.setup.device.obeys;
    let times: Vec<_> = markable(bench)
        .iter()
        .filter(|class| !obeys.contains(*class))
        .map(|class| (class, QUANTA_MAX))
        .collect();
    if times.is_empty() {
        return Err(Void::NotPossible(
            "by the setup file, all frames have classes that obey PFC (`obeys`); the case needs another class".into(),
        ));
    }
    let streams = Streams::start(bench, times.iter().map(|(class, _)| *class))?;
    let mut judgement = Judgement::new();
    let bytes = bench.pfc(TO, &times);
    has_no_effect(bench, &mut judgement, &streams, &bytes, "PFC for classes without PFC")?;
    Ok(judgement)
}

pub(super) fn pause_802_3x(bench: &mut Bench) -> Result<Judgement, Void> {
    let streams = Streams::obeying(bench)?;
    let bytes = MacControl::Pause(Quanta(QUANTA_MAX)).encode(bench.port(TO).mac());
    let mut judgement = Judgement::new();
    has_no_effect(bench, &mut judgement, &streams, &bytes, "an 802.3x PAUSE")?;
    Ok(judgement)
}

pub(super) fn reserved_byte(bench: &mut Bench) -> Result<Judgement, Void> {
    with_effect(bench, "PFC with a reserved byte of 0xff", |bytes| bytes[RESERVED] = 0xff)
}

pub(super) fn zero_source(bench: &mut Bench) -> Result<Judgement, Void> {
    with_effect(bench, "PFC with a source address of zero", |bytes| bytes[6..12].fill(0))
}

pub(super) fn dirty_padding(bench: &mut Bench) -> Result<Judgement, Void> {
    with_effect(bench, "PFC with padding of 0xff", |bytes| bytes[PADDING..].fill(0xff))
}

pub(super) fn not_relayed(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let mac = bench.port(TO).mac();
    let pause = MacControl::Pause(Quanta(1)).encode(mac).to_vec();
    let pfc = bench.pfc(TO, &[(class, 1)]);
    let mut unknown = pfc.clone();
    unknown[OPCODE + 1] = 0x7f;
    for bytes in [&pfc, &pause, &unknown] {
        for _ in 0..10 {
            bench.send_now(TO, bytes);
            bench.run_for(Nanos::from_millis(2))?;
        }
    }
    bench.run_for(Nanos::from_millis(50))?;
    let mut judgement = Judgement::new();
    for port in (0..bench.ports().len()).filter(|port| *port != TO) {
        let relayed = bench.controls(port).iter().filter(|frame| frame.bytes[6..12] == mac.0);
        let count = relayed.filter(|frame| frame.bytes[..6] == mac_control::DESTINATION.0).count();
        judgement.require(count == 0, || {
            format!("port {} received {count} MAC control frames of port 2", port + 1)
        });
    }
    Ok(judgement)
}
