//! Transmission credit, by which a port that was idle may later send faster than its line.

use xoff_flow_control::settings::{PipelineSettings, PortSettings};
use xoff_wire::units::{Bytes, Nanos};

/// Returns how much sooner `frames` frames are sent if the port begins with full credit: by the line time of the credit
/// and one frame, but at most the time by which the pipeline is faster than the line.
pub(crate) fn credit(port: &PortSettings, pipeline: &PipelineSettings, frame: Bytes, frames: u64) -> Nanos {
    let saved_up = port.speed.time_of(port.commit.min(port.burst).saturating_add(frame));
    let of_line = port.speed.time_of(Bytes(frame.0.saturating_mul(frames)));
    let of_pipeline = pipeline.rate.map_or(Nanos::ZERO, |rate| rate.time_of(frames.saturating_sub(1)));
    saved_up.min(of_line.since(of_pipeline))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_config::{Config, Machine};

    use super::*;

    const FRAME: Bytes = Bytes(1_538);

    fn of(pipeline: &str, frames: u64) -> Nanos {
        let port =
            "[[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"100M\"\ncommit = \"10KB\"\nburst = \"20KB\"\n";
        let switch =
            Config::from_toml("switch", &format!("{pipeline}{port}"), Machine::default()).unwrap().switch;
        credit(&switch.ports[0], &switch.pipeline, FRAME, frames)
    }

    #[test]
    fn goodput_excludes_credit_that_sender_saved_while_idle() {
        let all = Nanos((10_000 + 1_538) * 80);
        assert_eq!(of("", 1_000), all);
        assert_eq!(
            of("", 2),
            Nanos(2 * 123_040),
            "the time that credit saves must not exceed the line time of the frames"
        );
        // At 10,000 frames/s, the pipeline takes 99.9 ms from the first to the last of 1,000 frames, the line 123.04
        // ms; of 10 frames, 0.9 ms and 1.2304 ms.
        let faster = "[pipeline]\nrate = \"10000pps\"\n";
        assert_eq!(of(faster, 1_000), all);
        assert_eq!(of(faster, 10), Nanos(1_230_400 - 900_000));
        let slower = "[pipeline]\nrate = \"8000pps\"\n";
        assert_eq!(of(slower, 1), Nanos(123_040));
        assert_eq!(of(slower, 1_000), Nanos::ZERO);
    }
}
