use xoff_wire::mac_control::{DESTINATION, LEN};
use xoff_wire::units::CLASSES;

use super::congestion::Congestion;
use crate::bench::{Bench, Void};
use crate::cases::streams::lossless;
use crate::judgement::Judgement;
use crate::setup::PortKind;

const VECTOR: usize = 17;
const TIMES: usize = 18;
const PADDING: usize = 34;

/// Congests the device, and returns the frames sent as MAC control.
fn congest(bench: &mut Bench) -> Result<Vec<Vec<u8>>, Void> {
    let congestion = Congestion::begin(bench, lossless(bench))?;
    congestion.end(bench)?;
    let others = bench.others(congestion.sender).iter().map(|frame| &frame.bytes);
    let others = others.filter(|bytes| bytes.starts_with(&DESTINATION.0));
    let controls = bench.controls(congestion.sender).iter().map(|frame| &frame.bytes);
    Ok(controls.chain(others).cloned().collect())
}

fn judge(frames: &[Vec<u8>], fault: impl Fn(&[u8]) -> Option<&'static str>) -> Judgement {
    let mut judgement = Judgement::new();
    judgement.measure("MAC control frames", frames.len() as f64, "frames");
    if frames.is_empty() {
        judgement.cannot_tell("the device sent no PFC frame");
    }
    if let Some((fault, bytes)) = frames.iter().find_map(|bytes| Some((fault(bytes)?, hex(bytes)))) {
        judgement.require(false, || format!("{fault}: {bytes}"));
    }
    judgement
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(LEN).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// Returns whether an enabled (or disabled) class has a pause time.
fn has_time(bytes: &[u8], enabled: bool) -> bool {
    let is_of = |class: &usize| (bytes[VECTOR] & 1 << class != 0) == enabled;
    (0..CLASSES).filter(is_of).any(|class| bytes[TIMES + 2 * class..][..2] != [0, 0])
}

pub(super) fn bytes(bench: &mut Bench) -> Result<Judgement, Void> {
    let frames = congest(bench)?;
    Ok(judge(&frames, |bytes| byte_fault(bytes, &frames)))
}

/// Times of disabled classes are a fault only if no frame pauses an enabled class.
fn byte_fault(bytes: &[u8], frames: &[Vec<u8>]) -> Option<&'static str> {
    let has_xoff = || frames.iter().any(|bytes| bytes.len() >= PADDING && has_time(bytes, true));
    let fault = |holds: bool, fault: &'static str| (!holds).then_some(fault);
    fault(bytes.len() >= LEN, "a MAC control frame has less than 60 bytes")
        .or_else(|| fault(bytes[..6] == DESTINATION.0, "the destination is not 01:80:c2:00:00:01"))
        .or_else(|| {
            fault(bytes[12..14] == [0x88, 0x08], "the frame has a tag, or an EtherType other than 0x8808")
        })
        .or_else(|| fault(bytes.len() == LEN, "a MAC control frame has more than 60 bytes"))
        .or_else(|| fault(bytes[14..16] == [1, 1], "the opcode is not 0x0101"))
        .or_else(|| fault(bytes[16] == 0, "the reserved half of the class-enable vector is not zero"))
        .or_else(|| fault(bytes[VECTOR] != 0, "the class-enable vector is empty"))
        .or_else(|| fault(!has_time(bytes, false) || has_xoff(), "only disabled classes have pause times"))
        .or_else(|| fault(bytes[PADDING..].iter().all(|byte| *byte == 0), "the padding is not zero"))
}

pub(super) fn source(bench: &mut Bench) -> Result<Judgement, Void> {
    let frames = congest(bench)?;
    let of = |bytes: &[u8]| bytes.get(6..12).map(<[u8]>::to_vec);
    let first = frames.first().and_then(|bytes| of(bytes));
    Ok(judge(&frames, |bytes| {
        let source = of(bytes)?;
        let fault = |is_fault: bool, fault: &'static str| is_fault.then_some(fault);
        fault(source[0] & 1 != 0, "the source is a group address")
            .or_else(|| fault(source.iter().all(|byte| *byte == 0), "the source address is zero"))
            .or_else(|| fault(Some(&source) != first.as_ref(), "the source differs from the first frame's"))
            .or_else(|| {
                let mut stations =
                    bench.ports().iter().filter(|port| port.settings.kind == PortKind::Station);
                fault(
                    stations.any(|port| port.mac().0 == source[..]),
                    "the source is the address of a test port",
                )
            })
    }))
}

#[cfg(test)]
mod tests {
    use xoff_wire::units::{Class, MacAddr, Quanta};
    use xoff_wire::{MacControl, Pfc};

    use super::*;

    #[test]
    fn pause_time_in_slot_of_disabled_class_is_a_fault() {
        let frame = |time| {
            let pfc = Pfc::default().with(Class::ALL[3], Quanta(time));
            MacControl::Pfc(pfc).encode(MacAddr([2, 0, 0, 0, 0, 9])).to_vec()
        };
        let mut shifted = frame(0);
        shifted[TIMES + 2 * 4] = 0xff;
        let fault = |frames: &[Vec<u8>]| byte_fault(&frames[0], frames);
        assert_eq!(fault(&[frame(9)]), None);
        assert_eq!(fault(&[shifted.clone()]), Some("only disabled classes have pause times"));
        assert_eq!(fault(&[shifted, frame(9)]), None, "an XON may keep times of disabled classes");
    }
}
