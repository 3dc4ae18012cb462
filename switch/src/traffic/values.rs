//! Values as people write them on a command line: `200M`, `64K`, `50us`, `02:00:00:00:00:01`.
//!
//! Each function's error says what is allowed; the caller says where the value stood.

use xoff_dataplane::units::{BitRate, Bytes, Class, ClassSet, MacAddr, Nanos};

/// A rate of layer 1: bits per second with a decimal suffix K, M, G or T, fractions allowed.
///
/// # Errors
/// What is allowed.
pub fn rate(text: &str) -> Result<BitRate, String> {
    let number = text.trim_end_matches("bit/s").trim_end_matches("b/s");
    scaled(number, &[("K", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("", 1.0)])
        .and_then(BitRate::new)
        .ok_or_else(|| "a rate is bits per second such as 200M or 2.5G, at most 1.6T".to_owned())
}

/// A span of time: a number and `ns`, `us`, `ms` or `s`.
///
/// # Errors
/// What is allowed.
pub fn duration(text: &str) -> Result<Nanos, String> {
    scaled(text, &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)])
        .map(Nanos)
        .ok_or_else(|| "a time is a number and a unit: 50us, 1.5ms, 10s".to_owned())
}

/// An amount of data: bytes, or with a suffix K, M (powers of 1000) or Ki, Mi (of 1024).
///
/// # Errors
/// What is allowed.
pub fn bytes(text: &str) -> Result<Bytes, String> {
    let number = text.trim_end_matches('B');
    let units = [("Ki", 1024.0), ("Mi", 1_048_576.0), ("K", 1e3), ("M", 1e6), ("G", 1e9), ("", 1.0)];
    scaled(number, &units)
        .map(Bytes)
        .ok_or_else(|| "an amount is bytes such as 1500, 64K or 64KiB".to_owned())
}

/// An Ethernet address; `broadcast` for all ones.
///
/// # Errors
/// What is allowed.
pub fn mac(text: &str) -> Result<MacAddr, String> {
    if text == "broadcast" {
        return Ok(MacAddr::BROADCAST);
    }
    let mut address = [0; 6];
    let mut parts = text.split(':');
    let complete = address.iter_mut().all(|byte| {
        parts
            .next()
            .filter(|part| part.len() == 2)
            .and_then(|part| u8::from_str_radix(part, 16).ok())
            .map(|value| *byte = value)
            .is_some()
    });
    if complete && parts.next().is_none() {
        return Ok(MacAddr(address));
    }
    Err("an address is six bytes such as 02:00:00:00:00:01, or broadcast".to_owned())
}

/// Classes: `3`, `3,4`, or `all`.
///
/// # Errors
/// What is allowed.
pub fn classes(text: &str) -> Result<ClassSet, String> {
    if text == "all" {
        return Ok(ClassSet::ALL);
    }
    let class = |part: &str| part.trim().parse().ok().and_then(Class::new);
    text.split(',')
        .map(class)
        .collect::<Option<ClassSet>>()
        .ok_or_else(|| "classes are numbers 0 to 7 such as 3,4, or all".to_owned())
}

/// A number without sign times the unit that it ends with; the first unit that fits is meant.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a float cast saturates
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<u64> {
    let (number, factor) =
        units.iter().find_map(|&(unit, factor)| text.strip_suffix(unit).map(|number| (number, factor)))?;
    if !number.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let value = number.parse::<f64>().ok()? * factor;
    (value.is_finite() && value < 1e19).then_some(value.round() as u64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!(rate("200M").unwrap(), BitRate::from_mbps(200));
        assert_eq!(rate("2.5G").unwrap(), BitRate::from_mbps(2500));
        assert_eq!(rate("1000").unwrap(), BitRate::new(1000).unwrap());
        assert_eq!(rate("1Gbit/s").unwrap(), BitRate::from_gbps(1));
        for wrong in ["", "fast", "0", "-1G", "2T", "1 G", "infG", "1e400"] {
            assert!(rate(wrong).unwrap_err().contains("200M"), "{wrong}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(duration("50us").unwrap(), Nanos::from_micros(50));
        assert_eq!(duration("1.5ms").unwrap(), Nanos::from_micros(1500));
        assert_eq!(duration("10s").unwrap(), Nanos::from_secs(10));
        for wrong in ["10", "s", "-1s", "1m", "1e99s"] {
            assert!(duration(wrong).unwrap_err().contains("50us"), "{wrong}");
        }
    }

    #[test]
    fn amounts() {
        for (text, value) in [("1500", 1500), ("64K", 64_000), ("64KiB", 65_536), ("1MB", 1_000_000)] {
            assert_eq!(bytes(text).unwrap(), Bytes(value), "{text}");
        }
        assert!(bytes("64X").is_err());
    }

    #[test]
    fn addresses() {
        assert_eq!(mac("02:00:00:00:00:fF").unwrap(), MacAddr([2, 0, 0, 0, 0, 255]));
        assert_eq!(mac("broadcast").unwrap(), MacAddr::BROADCAST);
        for wrong in ["", "02:00:00:00:00", "02:00:00:00:00:01:02", "2:0:0:0:0:1", "02-00-00-00-00-01"] {
            assert!(mac(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn class_lists() {
        assert_eq!(classes("3,4").unwrap(), ClassSet(0b1_1000));
        assert_eq!(classes("all").unwrap(), ClassSet::ALL);
        assert!(classes("8").is_err());
        assert!(classes("").is_err());
    }
}
