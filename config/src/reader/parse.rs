use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use toml_span::Value;
use toml_span::value::ValueInner;
use xoff_flow_control::settings::{Flooded, FrameRate, StormLimit};
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, ClassSet, MacAddr, Nanos};

use super::table::{Parsed, closest, found};
use crate::quantity;
use crate::shell::HttpAt;

/// Usable VLAN identifiers; 0 means "no VLAN", and 4095 is reserved (802.1Q table 9-2).
const VIDS: RangeInclusive<u16> = 1..=4094;
/// Maximum length of interface names (IFNAMSIZ less the final zero).
const DEVICE_LEN_MAX: usize = 15;
const NAMESPACES: &str = "/run/netns";
const NAME_LEN_MAX: usize = 32;
const HOST_LEN_MAX: usize = 253;

/// Value, or a key's word for "none", such as `"off"`.
#[derive(Clone, Debug, PartialEq)]
pub enum OrOff<T> {
    Is(T),
    Off,
}

impl<T> OrOff<T> {
    pub fn into_option(self) -> Option<T> {
        match self {
            OrOff::Is(value) => Some(value),
            OrOff::Off => None,
        }
    }
}

/// Returns a parser that reads `word` as [`OrOff::Off`], and other values by `parse`. If `word` is "off", `false` means
/// the same.
pub fn or_word<T>(
    word: &'static str,
    parse: impl FnOnce(&Value<'_>) -> Parsed<T>,
) -> impl FnOnce(&Value<'_>) -> Parsed<OrOff<T>> {
    move |value| {
        if value.as_str() == Some(word) || (word == "off" && value.as_bool() == Some(false)) {
            return Ok(OrOff::Off);
        }
        parse(value).map(OrOff::Is).map_err(|allowed| format!("{allowed}, or \"{word}\""))
    }
}

pub fn integer<T>(range: RangeInclusive<T>) -> impl Fn(&Value<'_>) -> Parsed<T>
where
    T: TryFrom<i64> + PartialOrd + Display,
{
    move |value| {
        let number = value.as_integer().and_then(|number| T::try_from(number).ok());
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| format!("a whole number from {} to {}", range.start(), range.end()))
    }
}

pub fn choice<T: Copy>(words: &[(&'static str, T)]) -> impl Fn(&Value<'_>) -> Parsed<T> {
    move |value| {
        let word = value.as_str().unwrap_or_default();
        if let Some((_, meaning)) = words.iter().find(|(name, _)| *name == word) {
            return Ok(*meaning);
        }
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let guess = closest(word, &names).map(|close| format!(" (did you mean \"{close}\"?)"));
        let list: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
        Err(format!("one of {}{}", list.join(", "), guess.unwrap_or_default()))
    }
}

pub fn log_level(value: &Value<'_>) -> Parsed<&'static str> {
    choice(&["error", "warn", "info", "debug", "trace"].map(|level| (level, level)))(value)
}

/// Parses a fraction above 0 and up to 1.
pub fn share(value: &Value<'_>) -> Parsed<f64> {
    let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
    number.filter(|share| *share > 0.0 && *share <= 1.0).ok_or_else(|| "a number above 0, up to 1".into())
}

/// Parses a fraction from 0 to 1.
pub fn share_or_none(value: &Value<'_>) -> Parsed<f64> {
    share(value).or_else(|_| {
        let is_none = value.as_float() == Some(0.0) || value.as_integer() == Some(0);
        is_none.then_some(0.0).ok_or_else(|| "a number from 0 to 1".into())
    })
}

pub(crate) fn part(value: &Value<'_>) -> Parsed<f64> {
    share(value).ok().filter(|part| *part < 1.0).ok_or_else(|| "a number above 0 and below 1".into())
}

pub fn boolean(value: &Value<'_>) -> Parsed<bool> {
    value.as_bool().ok_or_else(|| "true or false".into())
}

const SIZE_MAX: Bytes = Bytes(1 << 50);

/// Parses a size with a unit; a number without a unit is in bytes.
pub fn bytes(value: &Value<'_>) -> Parsed<Bytes> {
    let bare = value.as_integer().and_then(|number| u64::try_from(number).ok()).map(Bytes);
    let size = bare.or_else(|| value.as_str().and_then(quantity::parse_bytes));
    size.filter(|size| *size <= SIZE_MAX).ok_or_else(|| {
        let (most, units) = (quantity::bytes(SIZE_MAX), quantity::byte_units());
        format!("a size up to \"{most}\" in {units}, such as \"100KB\" or \"64KiB\", or a number of bytes such as 1500")
    })
}

pub fn time(range: RangeInclusive<Nanos>) -> impl Fn(&Value<'_>) -> Parsed<Nanos> {
    move |value| {
        let time = value.as_str().and_then(quantity::parse_time).filter(|time| range.contains(time));
        let (least, most) = (quantity::time(*range.start()), quantity::time(*range.end()));
        time.ok_or_else(|| format!("a time from \"{least}\" to \"{most}\", such as \"5us\" or \"20ms\""))
    }
}

/// Parses a rate from 1 Mb/s to 1.6 Tb/s.
pub fn rate(value: &Value<'_>) -> Parsed<BitRate> {
    let rate = value.as_str().and_then(quantity::parse_rate);
    rate.filter(|rate| rate.bits_per_second() >= 1_000_000)
        .ok_or_else(|| "a rate from \"1M\" to \"1.6T\", such as \"400M\", \"1G\" or \"25Gb/s\"".into())
}

pub(crate) fn frame_rate(value: &Value<'_>) -> Parsed<FrameRate> {
    let rate = value.as_str().and_then(quantity::parse_frame_rate);
    rate.ok_or_else(|| "frames a second, up to \"4000Mpps\", such as \"1Mpps\" or \"500kpps\"".into())
}

pub(crate) fn storm_limit(value: &Value<'_>) -> Parsed<StormLimit> {
    let allowed = "maximum rates of floods, such as { broadcast = \"10M\", multicast = \"50M\", unknown = \"10M\" }, \
                   each from \"1M\" to \"1.6T\"";
    let table = value.as_table().filter(|table| !table.is_empty()).ok_or(allowed)?;
    let names = Flooded::ALL.map(Flooded::name);
    table.iter().try_fold(StormLimit::default(), |limit, (key, entry)| {
        let kind = Flooded::ALL.into_iter().find(|kind| kind.name() == key.name).ok_or_else(|| {
            let guess = closest(&key.name, &names).map(|close| format!("; did you mean `{close}`?"));
            format!("{allowed} (there is no `{}`{})", key.name, guess.unwrap_or_default())
        })?;
        let rate = rate(entry).map_err(|_| format!("{allowed} (`{}` is {})", key.name, found(entry)))?;
        Ok(limit.with(kind, rate))
    })
}

pub fn metres(value: &Value<'_>) -> Parsed<u64> {
    let metres = value.as_str().and_then(quantity::parse_metres).filter(|metres| *metres <= 20_000_000);
    metres.ok_or_else(|| "a length up to \"20000km\", such as \"3m\" or \"2km\"".into())
}

pub fn class(value: &Value<'_>) -> Parsed<Class> {
    let class = value.as_integer().and_then(|number| u8::try_from(number).ok()).and_then(Class::new);
    class.ok_or_else(|| "a class from 0 to 7".into())
}

pub fn classes(value: &Value<'_>) -> Parsed<ClassSet> {
    list(value, class)
        .ok_or_else(|| "a list of classes from 0 to 7, such as [3] or [3, 4]".into())
        .map(|classes| classes.into_iter().collect())
}

/// Returns a parser for eight numbers up to `most`, one for each class; the word `"class"` means `of_class`.
pub(crate) fn by_class(most: u8, of_class: [u8; CLASSES]) -> impl Fn(&Value<'_>) -> Parsed<[u8; CLASSES]> {
    move |value| {
        if value.as_str() == Some("class") {
            return Ok(of_class);
        }
        list(value, integer(0..=most))
            .and_then(|numbers| numbers.try_into().ok())
            .ok_or_else(|| format!("\"class\", or a list of 8 numbers from 0 to {most}, one for each class"))
    }
}

/// Parses a map from PCP or DSCP to class, such as `{ 26 = 3, 40-47 = 5 }`.
pub fn class_map<const N: usize>(value: &Value<'_>) -> Parsed<[Option<Class>; N]> {
    let allowed = || {
        format!(
            "classes from 0 to 7 for different keys (PCPs or DSCPs) from 0 to {}, such as {{ 3 = 3, 4-5 = 0 }}",
            N - 1
        )
    };
    let mut map = [None; N];
    for (key, entry) in value.as_table().ok_or_else(allowed)? {
        let (from, to) = key.name.split_once('-').unwrap_or((&key.name, &key.name));
        let (from, to) = from.parse::<usize>().ok().zip(to.parse::<usize>().ok()).ok_or_else(allowed)?;
        if from > to || to >= N || map[from..=to].iter().any(Option::is_some) {
            return Err(allowed());
        }
        map[from..=to].fill(Some(class(entry).map_err(|_| allowed())?));
    }
    Ok(map)
}

pub fn vid(value: &Value<'_>) -> Parsed<u16> {
    integer(VIDS)(value)
}

/// Parses VLAN identifiers, such as `[10, "20-29"]`; sorts them and removes duplicates.
pub(crate) fn vids(value: &Value<'_>) -> Parsed<Vec<u16>> {
    let ranges = list(value, |entry| {
        let range = match entry.as_ref() {
            ValueInner::String(text) => text
                .split_once('-')
                .and_then(|(from, to)| from.trim().parse().ok().zip(to.trim().parse().ok())),
            _ => vid(entry).ok().map(|vid| (vid, vid)),
        };
        range
            .filter(|(from, to)| from <= to && VIDS.contains(from) && VIDS.contains(to))
            .ok_or_else(String::new)
    });
    let ranges = ranges.ok_or("a list of VLANs from 1 to 4094, such as [10, 20] or [10, \"100-199\"]")?;
    let mut vids: Vec<u16> = ranges.into_iter().flat_map(|(from, to)| from..=to).collect();
    vids.sort_unstable();
    vids.dedup();
    Ok(vids)
}

pub fn name(value: &Value<'_>) -> Parsed<String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name =
        value.as_str().filter(|name| (1..=NAME_LEN_MAX).contains(&name.len()) && name.chars().all(fine));
    name.map(str::to_owned)
        .ok_or_else(|| format!("a name of 1 to {NAME_LEN_MAX} letters, digits, '.', '_' or '-'"))
}

pub fn device(value: &Value<'_>) -> Parsed<String> {
    let fine = |c: char| !c.is_whitespace() && !c.is_control() && c != '/' && c != ':';
    let device =
        value.as_str().filter(|name| (1..=DEVICE_LEN_MAX).contains(&name.len()) && name.chars().all(fine));
    device
        .map(str::to_owned)
        .ok_or_else(|| format!("the name of an interface in `ip link` (1 to {DEVICE_LEN_MAX} bytes)"))
}

pub fn mac(value: &Value<'_>) -> Parsed<MacAddr> {
    let mac = value.as_str().and_then(MacAddr::parse);
    mac.filter(|mac| !mac.is_group())
        .ok_or_else(|| "the MAC address of one station, such as \"02:00:00:00:00:01\"".into())
}

pub fn http(value: &Value<'_>) -> Parsed<HttpAt> {
    value.as_str().unwrap_or_default().parse()
}

pub(crate) fn netns(value: &Value<'_>) -> Parsed<PathBuf> {
    let fine = |text: &&str| {
        !text.is_empty() && !text.contains('\0') && (text.starts_with('/') || !text.contains('/'))
    };
    let text = value.as_str().filter(fine);
    text.map(|text| Path::new(NAMESPACES).join(text))
        .ok_or_else(|| "a name that `ip netns` lists, or the absolute path of a namespace".into())
}

pub fn hosts(value: &Value<'_>) -> Parsed<Vec<String>> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let host = |entry: &Value<'_>| {
        let name =
            entry.as_str().filter(|name| (1..=HOST_LEN_MAX).contains(&name.len()) && name.chars().all(fine));
        name.map(str::to_owned).ok_or_else(String::new)
    };
    list(value, host)
        .ok_or_else(|| "a list of host names without ports, such as [\"leaf1.lab.example\"]".into())
}

/// Parses each entry of a list. Returns `None` if an entry is not allowed.
pub fn list<T>(value: &Value<'_>, parse: impl Fn(&Value<'_>) -> Parsed<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(|entry| parse(entry).ok()).collect()
}
