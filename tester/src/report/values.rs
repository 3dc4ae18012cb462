use xoff_config::format::{scaled, span};

use super::Measurement;
use super::runs::Values;

/// Formats a value with its unit: `336.4 us`, `98,304 bytes`.
pub(super) fn value(value: f64, unit: &str) -> String {
    if value.is_nan() {
        return "not measured".into();
    }
    if let Some(nanos) = nanos(value, unit) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates, and has no sign
        let text = span(nanos.abs().round() as u64);
        return if nanos < 0.0 { format!("-{text}") } else { text };
    }
    match unit {
        "b/s" | "bit/s" => scaled(value, "b/s"),
        unit => format!("{} {unit}", number(value)).trim_end().to_owned(),
    }
}

pub(super) fn nanos(value: f64, unit: &str) -> Option<f64> {
    let factor = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    Some(value * factor)
}

fn number(value: f64) -> String {
    let decimals = match value.abs() {
        _ if value.fract() == 0.0 => 0,
        size if size >= 1000.0 => 0,
        size if size >= 10.0 => 1,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').map_or((digits, String::new()), |(whole, fraction)| {
        (whole, format!(".{}", fraction.trim_end_matches('0')))
    });
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{}", fraction.trim_end_matches('.'))
}

pub(super) fn range(values: &Values<'_>) -> String {
    let unit = &values.first().unit;
    let Some((low, high)) = values.range() else { return value(f64::NAN, unit) };
    let [low, high] = [low, high].map(|end| value(end, unit));
    if low == high { low } else { format!("{low} to {high}") }
}

pub(super) fn limits(of: &Measurement) -> String {
    let text = |limit| value(limit, &of.unit);
    match (of.at_least, of.at_most) {
        (None, None) => String::new(),
        (Some(low), None) => format!("at least {}", text(low)),
        (None, Some(high)) => format!("at most {}", text(high)),
        (Some(low), Some(high)) if text(low) == text(high) => text(low),
        (Some(low), Some(high)) => format!("{} to {}", text(low), text(high)),
    }
}

/// Formats seconds since 1970: `2026-11-29 18:53:20 UTC`.
pub(super) fn date(seconds: u64) -> String {
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut day) = (1970, days % DAYS_OF_400_YEARS);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    let year = year + 400 * (days / DAYS_OF_400_YEARS);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02}:{second:02} UTC", day + 1)
}

/// Days after which the Gregorian calendar repeats; subtracting them keeps the loop over years short.
const DAYS_OF_400_YEARS: u64 = 146_097;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_shows_value_in_unit_of_fitting_size() {
        let cases = [
            (336_400.0, "ns", "336.4 us"),
            (1.2, "ms", "1.20 ms"),
            (-250.0, "ns", "-250 ns"),
            (98_304.0, "bytes", "98,304 bytes"),
            (-1_234_567.0, "frames", "-1,234,567 frames"),
            (9.412e8, "b/s", "941 Mb/s"),
            (0.25, "", "0.25"),
            (12.34, "%", "12.3 %"),
            (0.000_01, "", "0"),
            (f64::NAN, "ns", "not measured"),
            (f64::INFINITY, "frames", "inf frames"),
        ];
        for (number, unit, text) in cases {
            assert_eq!(value(number, unit), text);
        }
    }

    #[test]
    fn report_date_is_correct_in_leap_years() {
        let cases = [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_795_978_400, "2026-11-29 18:53:20 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ];
        for (seconds, text) in cases {
            assert_eq!(date(seconds), text);
        }
        assert!(date(u64::MAX).starts_with("584554051223-"));
    }
}
