use std::fmt::{self, Display, Formatter};

use schemars::{JsonSchema, Schema};
use serde_json::Value;

use super::exposition::{Exposition, Kind, seconds};
use super::schema::schema_of;

pub struct Series<T> {
    pub metric: &'static str,
    pub kind: Kind,
    /// Path of the field in `/status`, such as `ingress.bytes`; its suffix is the unit.
    pub field: &'static str,
    pub value: fn(&T) -> Option<u64>,
    /// Help of the metric; if `None`, the documentation of the field is used.
    pub help: Option<&'static str>,
}

/// Makes a [`Table`] from lines such as `"sent_frames_total" Counter tx_frames;`.
#[macro_export]
macro_rules! series {
    ($($metric:literal $kind:ident $field:ident $(.$of:ident)* $(= $help:literal)?;)+) => {
        $crate::control::series::Table::new(&[$($crate::control::series::Series {
            metric: $metric,
            kind: $crate::control::exposition::Kind::$kind,
            field: concat!(stringify!($field) $(, ".", stringify!($of))*),
            value: |part| $crate::control::series::Number::number(part.$field $(.$of)*),
            help: [$(Some($help),)? None][0],
        }),+])
    };
}
pub use series;

pub trait Number {
    fn number(self) -> Option<u64>;
}

impl Number for u64 {
    fn number(self) -> Option<u64> {
        Some(self)
    }
}

impl Number for bool {
    fn number(self) -> Option<u64> {
        Some(self.into())
    }
}

impl Number for Option<u64> {
    fn number(self) -> Option<u64> {
        self
    }
}

pub type Part<'a, T> = (Vec<(&'static str, &'a str)>, &'a T);

#[derive(Clone, Copy)]
pub struct Prefix {
    pub name: &'static str,
    pub help: &'static str,
}

pub struct Table<T: 'static> {
    series: &'static [Series<T>],
    schema: Schema,
}

impl<T: JsonSchema> Table<T> {
    #[must_use]
    pub fn new(series: &'static [Series<T>]) -> Table<T> {
        Table { series, schema: schema_of::<T>() }
    }

    pub fn write(&self, text: &mut Exposition, prefix: Prefix, parts: &[Part<'_, T>]) {
        for Series { metric, kind, field, value, help } in self.series {
            let unit = Unit::of(field);
            let mut samples = parts.iter().filter_map(|(labels, part)| {
                let value = value(part).or(unit.missing())?;
                Some((labels, Quantity { value, unit }))
            });
            let Some((labels, first)) = samples.next() else { continue };
            let name = format!("{}{metric}", prefix.name);
            let help = prefix.help.to_owned() + &help.map_or_else(|| self.help(field), str::to_owned);
            let mut family = text.family(&name, *kind, &help);
            family.sample(labels, first);
            samples.for_each(|(labels, quantity)| family.sample(labels, quantity));
        }
    }

    /// Returns the documentation of a field, without its remark about `null`.
    #[must_use]
    pub fn help(&self, field: &str) -> String {
        let root = self.schema.as_value();
        let mut at = root;
        let mut described = root;
        for name in field.split('.') {
            described = &at["properties"][name];
            at = resolved(root, described);
        }
        let text = described["description"].as_str().unwrap_or_default();
        text.split_once("; `null`").map_or(text.to_owned(), |(text, _)| format!("{text}."))
    }
}

fn resolved<'a>(root: &'a Value, of: &'a Value) -> &'a Value {
    if let Some(path) = of["$ref"].as_str() {
        return &root["$defs"][path.trim_start_matches("#/$defs/")];
    }
    of["anyOf"].as_array().map_or(of, |variants| resolved(root, &variants[0]))
}

#[derive(Clone, Copy)]
enum Unit {
    Nanoseconds,
    BitsPerSecond,
    Other,
}

impl Unit {
    fn of(field: &str) -> Unit {
        match field {
            _ if field.ends_with("nanos") => Unit::Nanoseconds,
            _ if field.ends_with("bits_per_second") => Unit::BitsPerSecond,
            _ => Unit::Other,
        }
    }

    /// Returns what the metric of a field shows for `None`: 0 for a rate (no limit), nothing for other units.
    const fn missing(self) -> Option<u64> {
        match self {
            Unit::BitsPerSecond => Some(0),
            Unit::Nanoseconds | Unit::Other => None,
        }
    }
}

struct Quantity {
    value: u64,
    unit: Unit,
}

impl Display for Quantity {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.unit {
            Unit::Nanoseconds => seconds(self.value).fmt(f),
            Unit::BitsPerSecond => (self.value as f64 / 8.0).fmt(f),
            Unit::Other => self.value.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::exposition::Format;

    const PREFIX: Prefix = Prefix { name: "x_", help: "" };

    #[derive(JsonSchema)]
    struct Inner {
        nanos: u64,
    }

    #[derive(JsonSchema)]
    struct Outer {
        /// Frames
        /// sent; `None` before the first.
        frames: Option<u64>,
        /// Rate limit of the peer; `None`: no limit.
        rate_bits_per_second: Option<u64>,
        /// True if the port is paused.
        paused: bool,
        inner: Inner,
    }

    #[test]
    fn metric_has_help_unit_and_value_of_its_field() {
        let table: Table<Outer> = series! {
            "frames_total" Counter frames;
            "rate_bytes_per_second" Gauge rate_bits_per_second;
            "paused" Gauge paused;
            "pause_seconds_total" Counter inner.nanos = "Total duration of sent pauses.";
        };
        let some = Outer {
            frames: Some(u64::MAX),
            rate_bits_per_second: Some(8_000),
            paused: true,
            inner: Inner { nanos: 1_500_000_000 },
        };
        let none =
            Outer { frames: None, rate_bits_per_second: None, paused: false, inner: Inner { nanos: 0 } };
        let mut text = Exposition::new(Format::Prometheus, &[("switch", "s")]);
        table.write(&mut text, PREFIX, &[(vec![("port", "a")], &some), (vec![("port", "b")], &none)]);
        let text = text.finish();
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        let expected = [
            "# HELP x_frames_total Frames sent.",
            "# TYPE x_frames_total counter",
            r#"x_frames_total{switch="s",port="a"} 18446744073709551615"#,
            "# HELP x_rate_bytes_per_second Rate limit of the peer.",
            "# TYPE x_rate_bytes_per_second gauge",
            r#"x_rate_bytes_per_second{switch="s",port="a"} 1000"#,
            r#"x_rate_bytes_per_second{switch="s",port="b"} 0"#,
            "# HELP x_paused True if the port is paused.",
            "# TYPE x_paused gauge",
            r#"x_paused{switch="s",port="a"} 1"#,
            r#"x_paused{switch="s",port="b"} 0"#,
            "# HELP x_pause_seconds_total Total duration of sent pauses.",
            "# TYPE x_pause_seconds_total counter",
            r#"x_pause_seconds_total{switch="s",port="a"} 1.5"#,
            r#"x_pause_seconds_total{switch="s",port="b"} 0"#,
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn metric_family_without_samples_is_not_written() {
        let table: Table<Inner> = series! { "seconds" Gauge nanos; };
        let mut text = Exposition::new(Format::Prometheus, &[]);
        table.write(&mut text, PREFIX, &[]);
        assert_eq!(text.finish(), "");
    }
}
