//! Measures competition for the processors of this machine, which can stall a device that is a program on it, such as a
//! switch behind veth.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::setup::PortSettings;

/// Share of a run, in percent, during which programs may wait for a processor. Above it, a failure of the device proves
/// nothing.
const LIMIT_PERCENT: u128 = 50;

#[derive(Clone, Copy, Debug)]
pub struct Pressure {
    begin: Instant,
    waited: Option<Duration>,
}

impl Pressure {
    #[must_use]
    pub fn begin() -> Pressure {
        Pressure { begin: Instant::now(), waited: waited() }
    }

    /// Returns the percentage of time since `begin` during which programs waited for a processor; `None` up to 50 %.
    #[must_use]
    pub fn excess_percent(self) -> Option<u128> {
        excess(waited()?.saturating_sub(self.waited?), self.begin.elapsed())
    }
}

fn excess(waited: Duration, run: Duration) -> Option<u128> {
    let percent = waited.as_micros() * 100 / run.as_micros().max(1);
    (percent > LIMIT_PERCENT).then_some(percent)
}

/// Returns true if a port is a virtual interface, so that the device may be a program on this machine.
#[must_use]
pub fn is_local(ports: &[PortSettings]) -> bool {
    ports.iter().any(|port| !Path::new("/sys/class/net").join(&port.device).join("device").exists())
}

/// Returns how long at least one program has waited for a processor since boot; `None` if the kernel does not count it.
fn waited() -> Option<Duration> {
    parse(&fs::read_to_string("/proc/pressure/cpu").ok()?)
}

fn parse(text: &str) -> Option<Duration> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let total = some.split(' ').find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_waiting_above_half_of_a_run_is_reported_as_excess() {
        let of_a_second = |millis| excess(Duration::from_millis(millis), Duration::from_secs(1));
        assert_eq!([500, 509, 510].map(of_a_second), [None, None, Some(51)]);
    }

    #[test]
    fn total_cpu_waiting_time_is_read_from_pressure_file() {
        let text = "some avg10=9.50 avg60=8.00 avg300=7.00 total=1200\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse(text), Some(Duration::from_micros(1_200)));
        assert_eq!(parse("full total=7\n"), None);
    }
}
