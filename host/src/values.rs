use xoff_config::quantity;
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, MacAddr, Nanos};

pub fn rate(text: &str) -> Result<BitRate, String> {
    quantity::parse_rate(text)
        .ok_or_else(|| "a rate is a number of bits per second such as 200M or 2.5G, at most 1.6T".into())
}

/// Maximum duration, so that sums of durations cannot overflow a clock.
const YEAR: Nanos = Nanos::from_millis(365 * 24 * 3600 * 1000);

pub fn duration(text: &str) -> Result<Nanos, String> {
    quantity::parse_time(text)
        .filter(|&span| span <= YEAR)
        .ok_or_else(|| "a time is a number and a unit: 50us, 1.5ms, 10s; at most a year".into())
}

pub fn bytes(text: &str) -> Result<Bytes, String> {
    quantity::parse_bytes(text)
        .ok_or_else(|| "an amount of data is a number and a unit: 1500B, 64KB, 64KiB".into())
}

pub fn mac(text: &str) -> Result<MacAddr, String> {
    let address = if text == "broadcast" { Some(MacAddr::BROADCAST) } else { MacAddr::parse(text) };
    address.ok_or_else(|| "an address is six bytes such as 02:00:00:00:00:01, or broadcast".into())
}

pub fn classes(text: &str) -> Result<ClassSet, String> {
    if text == "all" {
        return Ok(ClassSet::ALL);
    }
    let class = |part: &str| part.trim().parse().ok().and_then(Class::new);
    text.split(',')
        .map(class)
        .collect::<Option<ClassSet>>()
        .ok_or_else(|| "classes are numbers 0 to 7 such as 3,4, or all".into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn error_of_invalid_value_names_allowed_values() {
        assert_eq!(rate("200M"), Ok(BitRate::from_mbps(200)));
        assert_eq!(duration("50us"), Ok(Nanos::from_micros(50)));
        assert_eq!(bytes("64KB"), Ok(Bytes(64_000)));
        assert_eq!(mac("broadcast"), Ok(MacAddr::BROADCAST));
        assert_eq!(mac("02:00:00:00:00:fF"), Ok(MacAddr([2, 0, 0, 0, 0, 255])));
        assert!(rate("fast").unwrap_err().contains("200M"));
        assert!(duration("10").unwrap_err().contains("50us"));
        assert_eq!(duration("31536000s"), Ok(YEAR));
        assert!(duration("31536000001ms").unwrap_err().contains("at most a year"));
        assert!(bytes("64").unwrap_err().contains("64KB"));
        assert!(mac("1").unwrap_err().contains("02:00"));
    }

    #[test]
    fn parser_accepts_classes_0_to_7_or_all_and_nothing_else() {
        assert_eq!(classes("3,4"), Ok(ClassSet(0b1_1000)));
        assert_eq!(classes("all"), Ok(ClassSet::ALL));
        assert!(classes("8").is_err());
        assert!(classes("").is_err());
    }
}
