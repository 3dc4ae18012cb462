//! Quantities with units: `"100KB"`, `"64KiB"`, `"25Gb/s"`, `"20ms"`, `"3m"`.
//!
//! Decimals are allowed, `_` is ignored, and fractions of the smallest unit are rounded up.

use std::num::NonZeroU32;

use xoff_flow_control::settings::FrameRate;
use xoff_wire::units::{BitRate, Bytes, Nanos};

type Units = [(&'static str, u64)];

const BYTES: &Units = &[
    ("B", 1),
    ("KB", 1_000),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
const TIMES: &Units = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const RATES: &Units =
    &[("", 1), ("K", 1_000), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("T", 1_000_000_000_000)];
const RATE_ENDINGS: [&str; 5] = ["b/s", "bit/s", "bps", "bit", "b"];
const FRAME_RATES: &Units = &[("pps", 1), ("kpps", 1_000), ("Kpps", 1_000), ("Mpps", 1_000_000)];
const LENGTHS: &Units = &[("m", 1), ("km", 1_000)];

#[must_use]
pub fn byte_units() -> String {
    let names: Vec<&str> = BYTES.iter().map(|(name, _)| *name).collect();
    let (last, others) = names.split_last().expect("sizes must have units");
    format!("{} or {last}", others.join(", "))
}

#[must_use]
pub fn parse_bytes(text: &str) -> Option<Bytes> {
    parse(text, BYTES).map(Bytes)
}

#[must_use]
pub fn parse_time(text: &str) -> Option<Nanos> {
    parse(text, TIMES).map(Nanos)
}

#[must_use]
pub fn parse_rate(text: &str) -> Option<BitRate> {
    let text = text.trim();
    let stem = RATE_ENDINGS.iter().find_map(|ending| text.strip_suffix(ending)).unwrap_or(text);
    parse(stem, RATES).and_then(BitRate::new)
}

/// Parses a frame rate of at least one per second.
#[must_use]
pub fn parse_frame_rate(text: &str) -> Option<FrameRate> {
    let frames = parse(text, FRAME_RATES).filter(|frames| *frames <= 4_000_000_000)?;
    NonZeroU32::new(u32::try_from(frames).ok()?).map(FrameRate)
}

pub(crate) fn parse_metres(text: &str) -> Option<u64> {
    parse(text, LENGTHS)
}

fn parse(text: &str, units: &Units) -> Option<u64> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, unit) = (&text[..unit_at], text[unit_at..].trim());
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() || whole.len() > 20 || fraction.len() > 9 || fraction.contains('.') {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    u64::try_from(digits.checked_mul(u128::from(*factor))?.div_ceil(scale)).ok()
}

/// Formats a size in the largest unit without a fraction, such as `64KiB`, `100KB` or `1522B`.
#[must_use]
pub fn bytes(bytes: Bytes) -> String {
    exact(
        bytes.0,
        &[
            ("GiB", 1 << 30),
            ("GB", 1_000_000_000),
            ("MiB", 1 << 20),
            ("MB", 1_000_000),
            ("KiB", 1 << 10),
            ("KB", 1_000),
        ],
        "B",
    )
}

#[must_use]
pub fn time(time: Nanos) -> String {
    exact(time.0, &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)], "ns")
}

#[must_use]
pub fn rate(rate: BitRate) -> String {
    exact(rate.bits_per_second(), &[("Gb/s", 1_000_000_000), ("Mb/s", 1_000_000), ("kb/s", 1_000)], "b/s")
}

#[must_use]
pub fn frame_rate(rate: FrameRate) -> String {
    exact(rate.0.get().into(), &[("Mpps", 1_000_000), ("kpps", 1_000)], "pps")
}

fn exact(value: u64, units: &Units, smallest: &str) -> String {
    match units.iter().find(|(_, factor)| value >= *factor && value.is_multiple_of(*factor)) {
        Some((unit, factor)) => format!("{}{unit}", value / factor),
        None => format!("{value}{smallest}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use xoff_explore::explore;

    #[test]
    fn quantities_accept_common_units() {
        assert_eq!(parse_bytes("100KB"), Some(Bytes(100_000)));
        assert_eq!(parse_bytes("64KiB"), Some(Bytes(65_536)));
        assert_eq!(parse_bytes("1.5 MB"), Some(Bytes(1_500_000)));
        assert_eq!(parse_time("20ms"), Some(Nanos::from_millis(20)));
        assert_eq!(parse_time("0.25us"), Some(Nanos(250)));
        for text in ["25G", "25Gb/s", "25 Gbit/s", "25Gbps", "25_000M", "25000000000"] {
            assert_eq!(parse_rate(text), Some(BitRate::from_gbps(25)), "{text}");
        }
        assert_eq!(parse_rate("400M"), Some(BitRate::from_mbps(400)));
        assert_eq!(parse_metres("2km"), Some(2_000));
        for (text, frames) in [("1Mpps", 1_000_000), ("0.5 Mpps", 500_000), ("500kpps", 500_000), ("1pps", 1)]
        {
            assert_eq!(parse_frame_rate(text).map(|rate| rate.0.get()), Some(frames), "{text}");
        }
        assert_eq!(
            (parse_frame_rate("0pps"), parse_frame_rate("1M"), parse_frame_rate("4001Mpps")),
            (None, None, None)
        );
    }

    #[test]
    fn invalid_quantity_is_refused() {
        for text in [
            "",
            "KB",
            ".5KB",
            "1..5KB",
            "-1KB",
            "10 furlongs",
            "99999999999999999999.999999999GB",
            "1e3B",
            "1",
            "１KB",
        ] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
        assert_eq!((parse_rate("0G"), parse_rate("1.7T"), parse_rate("1GB/s")), (None, None, None));
        assert_eq!(parse_time("20"), None);
    }

    #[test]
    fn fraction_of_smallest_unit_is_rounded_up() {
        assert_eq!(parse_bytes("0.1B"), Some(Bytes(1)));
        assert_eq!(parse_time("1.0000001us"), Some(Nanos(1_001)));
    }

    explore! {
        #[test]
        fn printed_quantity_parses_to_same_value(value in any::<u64>(), zeros in 0_u32..12) {
            let value = value / 10_u64.pow(zeros) * 10_u64.pow(zeros);
            prop_assert_eq!(parse_bytes(&bytes(Bytes(value))), Some(Bytes(value)));
            prop_assert_eq!(parse_time(&time(Nanos(value))), Some(Nanos(value)));
            if let Some(frames) = u32::try_from(value).ok().and_then(NonZeroU32::new).map(FrameRate) {
                let most = frames.0.get() > 4_000_000_000;
                prop_assert_eq!(parse_frame_rate(&frame_rate(frames)), (!most).then_some(frames));
            }
            if let Some(bits) = BitRate::new(value % 1_600_000_000_000) {
                prop_assert_eq!(parse_rate(&rate(bits)), Some(bits));
            }
        }

        #[test]
        fn quantity_parser_does_not_panic_on_arbitrary_text(text in "\\PC{0,30}") {
            let _ = (parse_bytes(&text), parse_time(&text), parse_rate(&text), parse_metres(&text));
        }
    }
}
