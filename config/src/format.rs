/// Formats a number with a decimal prefix, such as `1.23 M`.
#[must_use]
pub fn scaled(number: f64, unit: &str) -> String {
    let steps = ["", "k", "M", "G", "T"];
    let mut value = number;
    let mut step = 0;
    while value >= 999.5 && step + 1 < steps.len() {
        value /= 1000.0;
        step += 1;
    }
    let decimals = match value {
        _ if step == 0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}{unit}", steps[step]).trim_end().into()
}

#[must_use]
pub fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, "B")
}

#[must_use]
pub fn span(nanos: u64) -> String {
    let (value, unit) = match nanos {
        0 => return "0".into(),
        1..1_000 => return format!("{nanos} ns"),
        1_000..1_000_000 => (nanos as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (nanos as f64 / 1e6, "ms"),
        1_000_000_000..120_000_000_000 => (nanos as f64 / 1e9, "s"),
        _ => return long_span(nanos / 1_000_000_000),
    };
    let decimals = if value < 10.0 { 2 } else { 1 };
    format!("{value:.decimals$} {unit}")
}

fn long_span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes} min {} s", seconds % 60),
        (0, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_value_is_printed_with_three_digits_and_prefix() {
        let texts =
            [0.0, 999.0, 999.6, 1000.0, 12_345.0, 999_600.0, 2.5e9].map(|number| scaled(number, "b/s"));
        assert_eq!(
            texts,
            ["0 b/s", "999 b/s", "1.00 kb/s", "1.00 kb/s", "12.3 kb/s", "1.00 Mb/s", "2.50 Gb/s"]
        );
    }

    #[test]
    fn time_is_printed_in_unit_of_its_magnitude() {
        let nanos = [0, 999, 1000, 250_000_000, 119_000_000_000, 120_000_000_000, 90_000_000_000_000];
        let texts = nanos.map(span);
        assert_eq!(texts, ["0", "999 ns", "1.00 us", "250.0 ms", "119.0 s", "2 min 0 s", "1 d 1 h"]);
    }
}
