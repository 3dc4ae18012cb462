use xoff_wire::mac_control::{DESTINATION, LEN};

use super::congestion::Congestion;
use crate::bench::{Bench, ControlFrame, Void};
use crate::cases::streams::lossless;
use crate::judgement::Judgement;
use crate::setup::PortKind;

const PADDING: usize = 34;

/// Congests the device, and judges all MAC control frames that the sender receives.
fn judge_frames(
    bench: &mut Bench,
    fault: impl Fn(&Bench, &ControlFrame) -> Option<String>,
) -> Result<Judgement, Void> {
    let congestion = Congestion::begin(bench, lossless(bench))?;
    congestion.end(bench)?;
    let frames = bench.controls(congestion.sender);
    let mut judgement = Judgement::new();
    judgement.measure("MAC control frames", frames.len() as f64, "frames");
    if frames.is_empty() {
        judgement.cannot_tell("the device sent no PFC frame");
    }
    let fault = frames.iter().find_map(|frame| fault(bench, frame).map(|fault| (fault, hex(&frame.bytes))));
    if let Some((fault, bytes)) = fault {
        judgement.require(false, || format!("{fault}: {bytes}"));
    }
    Ok(judgement)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(LEN).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

pub(super) fn bytes(bench: &mut Bench) -> Result<Judgement, Void> {
    judge_frames(bench, |_, frame| {
        let bytes = &frame.bytes;
        let fault = |holds: bool, fault: &str| (!holds).then(|| fault.to_owned());
        fault(bytes.len() >= LEN, "a MAC control frame has less than 60 bytes")
            .or_else(|| fault(bytes[..6] == DESTINATION.0, "the destination is not 01:80:c2:00:00:01"))
            .or_else(|| fault(bytes[12..14] == [0x88, 0x08], "the frame has a tag"))
            .or_else(|| fault(bytes[14..16] == [1, 1], "the opcode is not 0x0101"))
            .or_else(|| fault(bytes[16] == 0, "the reserved half of the class-enable vector is not zero"))
            .or_else(|| fault(bytes[17] != 0, "the class-enable vector is empty"))
            .or_else(|| fault(bytes[PADDING..].iter().all(|byte| *byte == 0), "the padding is not zero"))
    })
}

pub(super) fn source(bench: &mut Bench) -> Result<Judgement, Void> {
    judge_frames(bench, |bench, frame| {
        let source = frame.bytes.get(6..12)?;
        let fault = |is_fault: bool, fault: &str| is_fault.then(|| fault.to_owned());
        fault(source[0] & 1 != 0, "the source is a group address")
            .or_else(|| fault(source.iter().all(|byte| *byte == 0), "the source address is zero"))
            .or_else(|| {
                let mut stations =
                    bench.ports().iter().filter(|port| port.settings.kind == PortKind::Station);
                let is_ours = stations.any(|port| port.mac().0 == source);
                fault(is_ours, "the source is the address of a test port")
            })
    })
}
