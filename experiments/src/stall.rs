//! Stalls of programs on a simulated machine: `--stall LENGTH/EVERY/WAKE`, such as `2ms/500ms/30us`, sets maximum
//! length, mean gap, and delay of a wakeup.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::{Serialize, Serializer};
use xoff_config::quantity;
use xoff_host::values;
use xoff_sim::Stalls;
use xoff_wire::units::Nanos;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// Maximum duration of a stall; durations are uniform from zero to it. Zero means no stalls.
    pub longest: Nanos,
    pub every: Nanos,
    pub wake: Nanos,
}

const EVERY: Nanos = Nanos::from_secs(1);
const EVERY_LEAST: Nanos = Nanos::from_micros(10);
/// Maximum of `wake`; a longer delay is a stall.
const WAKE_MOST: Nanos = Nanos::from_millis(1);

impl Stall {
    #[must_use]
    pub fn drawn(self) -> Option<Stalls> {
        let length = Nanos::ZERO..=self.longest;
        (self.longest > Nanos::ZERO).then_some(Stalls { gap: self.every, length, until: Nanos::NEVER })
    }
}

impl FromStr for Stall {
    type Err = String;

    fn from_str(text: &str) -> Result<Stall, String> {
        let span = |text: &str| if text == "0" { Ok(Nanos::ZERO) } else { values::duration(text) };
        let form = || {
            "stalls have the form LENGTH[/EVERY[/WAKE]], with times such as 2ms, 5ms/500ms or 5ms/1s/30us; 0 means no stalls".to_owned()
        };
        let spans = text.split('/').map(span).collect::<Result<Vec<_>, _>>().map_err(|_| form())?;
        let (longest, every, wake) = match spans[..] {
            [longest] => (longest, EVERY, Nanos::ZERO),
            [longest, every] => (longest, every, Nanos::ZERO),
            [longest, every, wake] => (longest, every, wake),
            _ => return Err(form()),
        };
        if longest > every {
            return Err(
                "LENGTH has to be at most EVERY, so that programs run for longer than they are stalled"
                    .to_owned(),
            );
        }
        if every < EVERY_LEAST {
            return Err(format!("EVERY has to be at least {}", quantity::time(EVERY_LEAST)));
        }
        if wake > WAKE_MOST {
            return Err(format!("WAKE has to be at most {}", quantity::time(WAKE_MOST)));
        }
        Ok(Stall { longest, every, wake })
    }
}

impl Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", quantity::time(self.longest), quantity::time(self.every))?;
        if self.wake > Nanos::ZERO {
            write!(f, "/{}", quantity::time(self.wake))?;
        }
        Ok(())
    }
}

impl Serialize for Stall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test] // proves: experiment-parity
    fn stall_option_parses_into_times() {
        let of = |text: &str| text.parse::<Stall>();
        let [ms, s] = [Nanos::from_millis(2), Nanos::from_secs(1)];
        let stall = Stall { longest: ms, every: s, wake: Nanos::ZERO };
        assert_eq!(of("2ms"), Ok(stall));
        assert_eq!(of("2ms/20ms"), Ok(Stall { every: Nanos::from_millis(20), ..stall }));
        assert_eq!(of("2ms/1s/1ms"), Ok(Stall { wake: WAKE_MOST, ..stall }));
        assert_eq!(of("2ms/2ms").unwrap().drawn().unwrap().length, Nanos::ZERO..=ms);
        assert_eq!(of("0").unwrap().drawn(), None);
        for text in ["2ms/20ms", "0ns/1s/30us"] {
            assert_eq!(of(text).unwrap().to_string(), text);
        }
        for bad in ["", "2", "2ms/", "/1s", "2ms/1s/", "2ms/1s/1us/1us", "-1ms"] {
            assert!(of(bad).unwrap_err().contains("LENGTH[/EVERY[/WAKE]]"), "{bad}");
        }
        assert!(of("2ms/1s/1000001ns").unwrap_err().contains("at most 1ms"));
        assert!(of("2ms/1ms").unwrap_err().contains("at most EVERY"));
        assert!(of("1ns/9999ns").unwrap_err().contains("at least 10us"));
        assert_eq!(of("1ns/10us").unwrap().every, EVERY_LEAST);
    }
}
