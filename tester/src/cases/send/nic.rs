//! Cases of a NIC, which must pause its peer before it drops a frame: port 2 floods port 1, the NIC, while the program that should read the
//! frames reads nothing.

use xoff_wire::units::{Bytes, Class, ClassSet, Nanos};

use super::congestion::{await_pause, flood};
use super::silence::{CONGESTED, require_only};
use super::{PFC, case, format, silence, timing};
use crate::bench::{Bench, Flow, StreamId, Void};
use crate::cases::Case;
use crate::cases::complete::full_size;
use crate::cases::streams::{FROM, TO, markable, marked};
use crate::judgement::Judgement;

pub(in crate::cases) const CASES: &[Case] = &[
    case("send.before-loss", "Does the NIC pause its peer before it drops a frame?", PFC, 2, before_loss),
    case(
        "send.format",
        "Are the PFC frames of the NIC correct in each byte?",
        "IEEE 802.3 31D.2",
        2,
        format::bytes,
    ),
    case("send.source", "Is the source address that of a station?", "IEEE 802.3 31B.1", 2, format::source),
    case("send.refresh", "Does the NIC refresh a pause before it expires?", PFC, 2, timing::refresh),
    case("send.xon", "Does the NIC end a pause after the host read its frames?", PFC, 2, timing::xon),
    case("send.only-lossless", "Does the NIC pause lossless classes only?", PFC, 2, only_lossless),
    case("send.only-held", "Does the NIC pause the congested class only?", PFC, 2, silence::only_held),
    case("send.spurious", "Does the NIC pause nothing while the host reads?", PFC, 2, spurious),
];

/// Time after a flood within which the NIC ends its pauses.
const QUIET: Nanos = Nanos::from_millis(50);
const SMALL: u32 = 60;

#[derive(Clone, Copy, Debug)]
struct Flood {
    class: Class,
    /// Length of a frame, without FCS.
    size: u32,
    /// Speed of the line. `rate` is the rate of the sent frames. Both are in bits per second.
    line: u64,
    rate: u64,
    is_paused: bool,
    /// Frames that the NIC has dropped, read from its counters; `None` if they cannot be read.
    dropped: Option<u64>,
}

impl Flood {
    fn run(bench: &mut Bench, class: Class, size: u32) -> Result<Flood, Void> {
        let (drops, controls, begin) = (bench.receive_drops(FROM), bench.controls(TO).len(), bench.now());
        let stream = flood(bench, class, size)?;
        let is_paused = await_pause(bench, class, controls)?;
        let bits = bench.sent(stream) * Bytes::on_line(size).0 * 8;
        let rate = u128::from(bits) * 1_000_000_000 / u128::from(bench.now().since(begin).0.max(1));
        if is_paused {
            bench.run_for(CONGESTED)?;
        }
        bench.stop(stream);
        bench.read_host_socket();
        bench.run_for(QUIET)?;
        require_read(bench, stream)?;
        let dropped =
            bench.receive_drops(FROM).zip(drops).map(|(after, before)| after.saturating_sub(before));
        let line = bench.port(TO).speed().bits_per_second();
        Ok(Flood { class, size, line, rate: u64::try_from(rate).unwrap_or(u64::MAX), is_paused, dropped })
    }

    fn judge(self, judgement: &mut Judgement) {
        let what = format!("class {} frames of {} bytes", self.class, self.size + 4);
        let rate = self.rate as f64 / 1e6;
        judgement.measure(&format!("rate of {what}"), rate, "Mb/s");
        match self.dropped {
            None => judgement.cannot_tell("the kernel reports no counters of the NIC"),
            Some(dropped) => {
                let name = format!("{what} that the NIC dropped");
                judgement.limits(&name, dropped as f64, "frames", (None, Some(0.0)));
                let pause = if self.is_paused { "although it sent XOFF" } else { "and sent no XOFF" };
                judgement.require_in_time(dropped == 0, || {
                    format!("the NIC dropped {dropped} {what} by its counters {pause}")
                });
            }
        }
        match self.is_paused {
            true => judgement.note(format!("the NIC paused {what}")),
            false => judgement.note(format!("the NIC took {rate:.0} Mb/s of {what} without a pause")),
        }
        if self.size > SMALL {
            self.require_full_line(judgement);
        }
    }

    /// Requires that the flood filled three quarters of the line, unless the NIC paused it.
    fn require_full_line(self, judgement: &mut Judgement) {
        if !self.is_paused && self.rate < self.line / 4 * 3 {
            let [rate, line] = [self.rate, self.line].map(|rate| rate / 1_000_000);
            judgement.cannot_tell(format!("the tester sent only {rate} Mb/s to a line of {line} Mb/s"));
        }
    }
}

/// Voids the run if the host read no frame, because the NIC or a filter discarded all.
fn require_read(bench: &Bench, stream: StreamId) -> Result<(), Void> {
    match bench.tally(stream).frames {
        0 => {
            Err(Void::Disturbed(format!("the host received no frame of class {}", bench.flow(stream).class)))
        }
        _ => Ok(()),
    }
}

fn before_loss(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    for class in marked(bench, bench.setup.device.lossless)? {
        for size in [SMALL, full_size(bench, TO)] {
            Flood::run(bench, class, size)?.judge(&mut judgement);
        }
    }
    Ok(judgement)
}

fn only_lossless(bench: &mut Bench) -> Result<Judgement, Void> {
    let allowed = bench.setup.device.lossless;
    let mut judgement = Judgement::new();
    for class in marked(bench, ClassSet(!allowed.0))? {
        let flood = Flood::run(bench, class, full_size(bench, TO))?;
        flood.require_full_line(&mut judgement);
    }
    require_only(bench, &mut judgement, TO, 0, allowed);
    Ok(judgement)
}

fn spurious(bench: &mut Bench) -> Result<Judgement, Void> {
    let (socket, rate) = (bench.host_socket(FROM)?, silence::slow(bench));
    bench.read_host_socket();
    let mut streams = Vec::new();
    for class in markable(bench).iter() {
        streams.push(bench.stream(Flow::new(TO, FROM, class).size(SMALL).rate(rate).to_socket(socket))?);
    }
    bench.run_for(CONGESTED)?;
    streams.iter().try_for_each(|stream| require_read(bench, *stream))?;
    let mut judgement = Judgement::new();
    require_only(bench, &mut judgement, TO, 0, ClassSet::NONE);
    Ok(judgement)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    #[test]
    fn nic_flood_verdict_depends_on_drops_pauses_and_rate() {
        let line = 1_000_000_000;
        let class = Class::ALL[3];
        let full = Flood { class, size: 1_514, line, rate: line, is_paused: false, dropped: Some(0) };
        let small = Flood { size: SMALL, rate: line / 10, ..full };
        for (flood, verdict, reason) in [
            (full, Verdict::Pass, "the NIC took 1000 Mb/s of class 3 frames of 1518 bytes without a pause"),
            (small, Verdict::Pass, "the NIC took 100 Mb/s of class 3 frames of 64 bytes without a pause"),
            (Flood { rate: line / 10, ..full }, Verdict::CannotTell, "only 100 Mb/s to a line of 1000 Mb/s"),
            (
                Flood { is_paused: true, rate: 0, ..full },
                Verdict::Pass,
                "the NIC paused class 3 frames of 1518 bytes",
            ),
            (
                Flood { dropped: Some(1), ..full },
                Verdict::Fail,
                "dropped 1 class 3 frames of 1518 bytes by its counters and sent no",
            ),
            (Flood { dropped: Some(9), is_paused: true, ..full }, Verdict::Fail, "although it sent XOFF"),
            (Flood { dropped: None, ..full }, Verdict::CannotTell, "no counters"),
        ] {
            let mut judgement = Judgement::new();
            flood.judge(&mut judgement);
            assert_eq!(judgement.verdict(), verdict, "{flood:?}");
            assert!(judgement.reason().contains(reason), "{}", judgement.reason());
        }
    }
}
