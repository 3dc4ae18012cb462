//! Streams from a sender to a destination, as in `--stream class=3,size=1500,rate=200M,dst=02:00:00:00:00:02,count=1000`.

use std::fmt;

use crate::sizes::{Between, Sizes};
use crate::values;
use xoff_config::file::{FileKind, WRITTEN_MAX, read_text};
use xoff_wire::Tci;
use xoff_wire::units::{BitRate, Bytes, Class, FCS, MacAddr, Nanos};

/// Maximum number of a sender's streams: stream numbers have one byte in a frame.
pub const STREAMS_MAX: usize = 256;

const SIZE_MIN: u32 = 64;
const SIZE_MAX: u32 = 9018;
const TAG_LEN: u32 = 4;
const FLOW_SIZE_MIN: u32 = 128;

#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Class whose pauses the stream obeys.
    pub class: Class,
    pub tag: Option<Tci>,
    pub dscp: u8,
    /// ECN bits: 0 is not capable, 1 is ECT(1), 2 is ECT(0).
    pub ecn: u8,
    pub dst: MacAddr,
    /// MAC address of the first router; `None` if the stream is not routed.
    pub via: Option<MacAddr>,
    /// Source MAC address; `None` means the host's address.
    pub src: Option<MacAddr>,
    /// UDP source port. `None` means 49152 plus the stream's number; with flows, a different port for each.
    pub source_port: Option<u16>,
    pub destination_port: u16,
    /// Frame size in bytes with FCS (RFC 2544): 64 to 9018, with a VLAN tag 68 to 9022. With flows, the maximum size:
    /// at least 128, with a VLAN tag 132.
    pub size: u32,
    /// Rate on the line (FCS, preamble and gap included); `None` means line rate.
    pub rate: Option<BitRate>,
    /// Maximum number of frames (with flows, of flows).
    pub count: Option<u64>,
    pub duration: Option<Nanos>,
    pub start: Nanos,
    pub pattern: Pattern,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Pattern {
    #[default]
    Constant,
    /// Evenly spaced frames during `on`, then silence during `off`.
    OnOff { on: Nanos, off: Nanos },
    /// Bursts at multiples of `every` on the machine's clock, simultaneous for all hosts of the machine.
    Incast {
        /// Bytes of a burst, FCS included, rounded up to whole frames.
        burst: Bytes,
        every: Nanos,
    },
    /// Flows that arrive at random, with the stream's rate as mean load; up to 256 are sent at a time, round robin.
    Flows { sizes: Sizes, seed: u64 },
}

impl Default for Stream {
    fn default() -> Stream {
        Stream {
            class: Class::default(),
            tag: None,
            dscp: 0,
            ecn: 0,
            dst: MacAddr::BROADCAST,
            via: None,
            src: None,
            source_port: None,
            destination_port: 9,
            size: 1518,
            rate: None,
            count: None,
            duration: None,
            start: Nanos::ZERO,
            pattern: Pattern::Constant,
        }
    }
}

impl Stream {
    #[must_use]
    pub const fn frame_len(&self) -> u32 {
        self.size - FCS
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct StreamErrors(Vec<String>);

impl fmt::Display for StreamErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for StreamErrors {}

pub fn parse_streams<T: AsRef<str>>(texts: &[T]) -> Result<Vec<Stream>, StreamErrors> {
    let mut errors = Vec::new();
    let mut streams = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        match parse_stream(text.as_ref()) {
            Ok(stream) => streams.push(stream),
            Err(wrong) => errors.extend(wrong.into_iter().map(|e| format!("stream {index}: {e}"))),
        }
    }
    if texts.len() > STREAMS_MAX {
        errors.push(format!("{} streams are given; a host sends at most {STREAMS_MAX}", texts.len()));
    }
    if errors.is_empty() { Ok(streams) } else { Err(StreamErrors(errors)) }
}

const KEYS: &[(&str, &str, &str)] = &[
    ("dst", "MAC address of the receiving host, or broadcast", ""),
    ("via", "MAC address of the router to which frames are sent", "none"),
    ("class", "class 0 to 7 whose pauses the stream obeys", "0"),
    ("pcp", "priority 0 to 7 of the VLAN tag", "the class, if vlan is given"),
    ("vlan", "VLAN 0 to 4094 of the tag", "0, if pcp is given"),
    ("dscp", "DSCP 0 to 63", "class x 8"),
    ("ecn", "ECN bits: 0 (not capable), 1 or 2 (ECT; the receiver counts marks)", "0"),
    ("src", "source MAC address", "the host's address"),
    ("sport", "UDP source port", "49152 + the stream's number"),
    ("dport", "UDP destination port", "9"),
    ("size", "frame size with FCS, 64 to 9018 bytes", "1518"),
    ("rate", "bits per second on the line, or rate=line for its full rate", "line"),
    ("count", "number of frames (or flows)", "no limit"),
    ("duration", "duration of the stream", "no limit"),
    ("start", "delay after the start of the host", "0s"),
    ("on", "duration of sending phases; needs off=TIME", "always"),
    ("off", "duration of silent phases; needs on=TIME", "never"),
    ("burst", "size of bursts, such as 64KB; needs every=TIME", "none"),
    ("every", "interval of bursts; needs burst=SIZE", "none"),
    ("flows", "flow sizes: edu1, edu2, web-search, data-mining, hadoop or a file; needs rate=BITS/S", "none"),
    ("seed", "seed of random flows; needs flows=SIZES", "1"),
];

struct Fields<'a> {
    pairs: Vec<(&'a str, &'a str)>,
    errors: Vec<String>,
}

impl<'a> Fields<'a> {
    fn split(text: &'a str) -> Fields<'a> {
        let mut fields = Fields { pairs: Vec::new(), errors: Vec::new() };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                fields.errors.push(format!("`{part}` does not have the form key=value"));
                continue;
            };
            if !KEYS.iter().any(|valid| valid.0 == key) {
                let valid_keys: Vec<_> = KEYS.iter().map(|valid| valid.0).collect();
                fields.errors.push(format!("unknown key `{key}`; valid keys: {}", valid_keys.join(", ")));
            } else if fields.pairs.iter().any(|pair| pair.0 == key) {
                fields.errors.push(format!("`{key}` is given twice"));
            } else {
                fields.pairs.push((key, value));
            }
        }
        fields
    }

    fn has(&self, key: &str) -> bool {
        self.pairs.iter().any(|pair| pair.0 == key)
    }

    fn take<T>(&mut self, key: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let &(_, value) = self.pairs.iter().find(|pair| pair.0 == key)?;
        read(value).map_err(|allowed| self.errors.push(format!("{key}=`{value}`: {allowed}"))).ok()
    }

    fn number(&mut self, key: &str, low: u64, high: u64) -> Option<u64> {
        self.take(key, |value| {
            value
                .parse()
                .ok()
                .filter(|number| (low..=high).contains(number))
                .ok_or_else(|| format!("the value must be a number from {low} to {high}"))
        })
    }

    fn byte(&mut self, key: &str, high: u8) -> Option<u8> {
        self.number(key, 0, u64::from(high)).and_then(|n| u8::try_from(n).ok())
    }

    fn port(&mut self, key: &str) -> Option<u16> {
        self.number(key, 0, u64::from(u16::MAX)).and_then(|n| u16::try_from(n).ok())
    }

    fn span(&mut self, key: &str) -> Option<Nanos> {
        self.take(key, |value| {
            values::duration(value).and_then(|span| {
                if span == Nanos::ZERO {
                    Err("the duration must be longer than zero".to_owned())
                } else {
                    Ok(span)
                }
            })
        })
    }
}

#[must_use]
pub fn keys_help() -> String {
    let default = |default: &str| match default {
        "" => " (required)".to_owned(),
        default => format!(" [default: {default}]"),
    };
    KEYS.iter().map(|(key, takes, otherwise)| format!("  {key:<9} {takes}{}\n", default(otherwise))).collect()
}

fn parse_stream(text: &str) -> Result<Stream, Vec<String>> {
    let mut fields = Fields::split(text);
    let defaults = Stream::default();
    let class = fields.byte("class", 7).and_then(Class::new).unwrap_or_default();
    let tag = read_tag(&mut fields, class);
    let pattern = read_pattern(&mut fields);
    let stream = Stream {
        class,
        tag,
        dscp: fields.byte("dscp", 63).unwrap_or(class.get() << 3),
        ecn: fields.byte("ecn", 2).unwrap_or(defaults.ecn),
        dst: fields.take("dst", destination).unwrap_or(defaults.dst),
        via: fields.take("via", router),
        src: fields.take("src", values::mac),
        source_port: fields.port("sport"),
        destination_port: fields.port("dport").unwrap_or(defaults.destination_port),
        size: read_size(&mut fields, tag, &pattern).unwrap_or(defaults.size),
        rate: fields
            .take("rate", |value| if value == "line" { Ok(None) } else { values::rate(value).map(Some) })
            .flatten(),
        count: fields.number("count", 1, (1 << 48) - 1),
        duration: fields.span("duration"),
        start: fields.take("start", values::duration).unwrap_or_default(),
        pattern,
    };
    if !fields.has("dst") {
        fields.errors.push(
            "`dst` is missing; give dst=ADDRESS (the receiving host prints it with \"ready\"), or dst=broadcast for all hosts"
                .to_owned(),
        );
    }
    if stream.via.is_some() && stream.dst.is_group() && fields.has("dst") {
        fields.errors.push(
            "`via` cannot be combined with a broadcast or multicast `dst`; give the address of one host"
                .to_owned(),
        );
    }
    if matches!(stream.pattern, Pattern::Flows { .. }) && stream.rate.is_none() {
        fields.errors.push("flows need a rate; give the mean load, such as rate=1G".to_owned());
    }
    if fields.errors.is_empty() { Ok(stream) } else { Err(fields.errors) }
}

fn destination(text: &str) -> Result<MacAddr, String> {
    if text == "broadcast" { Ok(MacAddr::BROADCAST) } else { values::mac(text) }
}

fn router(text: &str) -> Result<MacAddr, String> {
    let address = values::mac(text).ok().filter(|address| !address.is_group());
    address.ok_or_else(|| "a router needs a unicast address, such as 02:00:00:00:00:01".to_owned())
}

fn read_tag(fields: &mut Fields<'_>, class: Class) -> Option<Tci> {
    let pcp = fields.byte("pcp", 7).and_then(Class::new);
    let vid = fields.number("vlan", 0, 4094).and_then(|vid| u16::try_from(vid).ok());
    (pcp.is_some() || vid.is_some()).then(|| Tci::new(pcp.unwrap_or(class), false, vid.unwrap_or(0)))
}

fn read_size(fields: &mut Fields<'_>, tag: Option<Tci>, pattern: &Pattern) -> Option<u32> {
    let tag = if tag.is_some() { TAG_LEN } else { 0 };
    let low = if matches!(pattern, Pattern::Flows { .. }) { FLOW_SIZE_MIN } else { SIZE_MIN } + tag;
    let size = fields.number("size", u64::from(low), u64::from(SIZE_MAX + tag));
    size.and_then(|size| u32::try_from(size).ok())
}

fn read_pattern(fields: &mut Fields<'_>) -> Pattern {
    let (on, off) = (fields.span("on"), fields.span("off"));
    let (burst, every) = (fields.take("burst", values::bytes), fields.span("every"));
    let sizes = fields.take("flows", read_flow_sizes);
    let seed = fields.number("seed", 0, u64::MAX);
    let mut given = 0;
    for pair in [["on", "off"], ["burst", "every"]] {
        let here = pair.iter().filter(|key| fields.has(key)).count();
        given += here.min(1);
        if here == 1 {
            fields.errors.push(format!("{} and {} must be given together", pair[0], pair[1]));
        }
    }
    given += usize::from(fields.has("flows"));
    if given > 1 {
        fields.errors.push(
            "several patterns are given; keep one: on= and off=, burst= and every=, or flows=".to_owned(),
        );
    }
    if fields.has("seed") && !fields.has("flows") {
        fields.errors.push("seed is given without flows; remove it, or give flows".to_owned());
    }
    match (on.zip(off), burst.zip(every), sizes) {
        (Some((on, off)), _, _) => Pattern::OnOff { on, off },
        (_, Some((burst, every)), _) => Pattern::Incast { burst, every },
        (_, _, Some(sizes)) => Pattern::Flows { sizes, seed: seed.unwrap_or(1) },
        _ => Pattern::Constant,
    }
}

/// Maximum flow size in bytes: frames carry it as 32 bits.
const FLOW_MAX: u64 = u32::MAX as u64;

const FLOW_SIZES: FileKind = FileKind {
    name: "list of flow sizes",
    help: "`flows` is the name of a built-in table or the path of a list of sizes and cumulative percents",
    bytes_max: WRITTEN_MAX,
};

fn read_flow_sizes(name: &str) -> Result<Sizes, String> {
    if let Some(sizes) = Sizes::named(name, Between::Linear) {
        return Ok(sizes);
    }
    let text = read_text(name.as_ref(), FLOW_SIZES).map_err(|error| {
        let names = Sizes::names().collect::<Vec<_>>().join(", ");
        format!(
            "flows must be {names} or the path of a readable file; this file cannot be read: {}",
            error.why
        )
    })?;
    let sizes = Sizes::parse(&text, Between::Linear).map_err(|error| error.to_string())?;
    match sizes.at(1.0) {
        ..=FLOW_MAX => Ok(sizes),
        bytes => Err(format!("the largest flow has {bytes} bytes; at most {FLOW_MAX} are allowed")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn one(text: &str) -> Stream {
        parse_streams(&[to_all(text)]).unwrap().remove(0)
    }

    fn to_all(text: &str) -> String {
        if text.contains("dst=") { text.to_owned() } else { format!("{text},dst=broadcast") }
    }

    fn tag(pcp: u8, vid: u16) -> Tci {
        Tci::new(Class::new(pcp).unwrap(), false, vid)
    }

    fn errors(text: &str) -> Vec<String> {
        parse_streams(&[to_all(text)]).unwrap_err().0
    }

    #[test]
    fn stream_defaults_to_class_0_at_line_rate() {
        assert_eq!(one(""), Stream::default());
    }

    #[test] // proves: traffic
    fn stream_without_destination_is_refused() {
        for text in ["", "class=3,rate=1G"] {
            let StreamErrors(errors) = parse_streams(&[text]).unwrap_err();
            assert!(errors.len() == 1 && errors[0].contains("dst=broadcast"), "{errors:?}");
        }
        assert_eq!(one("dst=broadcast").dst, MacAddr::BROADCAST);
        assert!(
            keys_help().contains("  dst       MAC address of the receiving host, or broadcast (required)\n")
        );
        assert!(keys_help().contains("  size      frame size with FCS, 64 to 9018 bytes [default: 1518]\n"));
    }

    #[test] // proves: traffic
    fn stream_with_all_keys_is_parsed() {
        let stream = one(
            "class=3,dscp=26,ecn=2,pcp=4,vlan=7,dst=02:00:00:00:00:02,via=02:00:00:00:00:03,src=02:00:00:00:00:01,\
             sport=1000,dport=2000,size=68,rate=200M,count=1000,duration=2s,start=5ms,on=1ms,off=9ms",
        );
        let expected = Stream {
            class: Class::new(3).unwrap(),
            tag: Some(tag(4, 7)),
            dscp: 26,
            ecn: 2,
            dst: MacAddr([2, 0, 0, 0, 0, 2]),
            via: Some(MacAddr([2, 0, 0, 0, 0, 3])),
            src: Some(MacAddr([2, 0, 0, 0, 0, 1])),
            source_port: Some(1000),
            destination_port: 2000,
            size: 68,
            rate: Some(BitRate::from_mbps(200)),
            count: Some(1000),
            duration: Some(Nanos::from_secs(2)),
            start: Nanos::from_millis(5),
            pattern: Pattern::OnOff { on: Nanos::from_millis(1), off: Nanos::from_millis(9) },
        };
        assert_eq!(stream, expected);
        assert_eq!(stream.frame_len(), 64);
    }

    #[test]
    fn class_determines_default_dscp_and_pcp() {
        let stream = one("class=5,vlan=10");
        assert_eq!((stream.dscp, stream.tag), (40, Some(tag(5, 10))));
        assert_eq!(one("class=5").tag, None);
        assert_eq!(one("pcp=2").tag, Some(tag(2, 0)));
    }

    #[test]
    fn stream_parser_reads_every_traffic_pattern() {
        assert_eq!(
            one("burst=64KB,every=10ms").pattern,
            Pattern::Incast { burst: Bytes(64_000), every: Nanos::from_millis(10) }
        );
        let Pattern::Flows { seed, .. } = one("flows=edu1,rate=1G,seed=7").pattern else {
            panic!("no flows")
        };
        assert_eq!(seed, 7);
    }

    #[test]
    fn stream_parser_reports_all_errors_of_all_streams() {
        let errors = errors("class=8,rate=fast,sise=9,size=63,class,dst=1,on=1ms");
        let text = errors.join("\n");
        assert_eq!(errors.len(), 7, "{text}");
        for part in [
            "class=`8`",
            "rate=`fast`",
            "`sise`",
            "from 64 to 9018",
            "`class` does not",
            "dst=`1`",
            "must be given together",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(errors.iter().all(|error| error.starts_with("stream 0: ")));
    }

    #[test]
    fn stream_parser_checks_frame_size_limits_to_the_byte() {
        for (text, fits) in [
            ("size=63", false),
            ("size=64", true),
            ("size=9018", true),
            ("size=9019", false),
            ("vlan=1,size=67", false),
            ("vlan=1,size=68", true),
            ("vlan=1,size=9022", true),
            ("vlan=1,size=9023", false),
            ("flows=edu1,rate=1G,size=127", false),
            ("flows=edu1,rate=1G,size=128", true),
        ] {
            assert_eq!(parse_streams(&[to_all(text)]).is_ok(), fits, "{text}");
        }
    }

    #[test] // proves: traffic
    fn stream_refuses_router_address_that_is_not_unicast() {
        let of = |via: &str| parse_streams(&[format!("dst=02:00:00:00:00:02,via={via}")]);
        for (via, is_one) in [
            ("00:00:00:00:00:01", true),
            ("01:00:00:00:00:00", false),
            ("02:00:00:00:00:00", true),
            ("fe:ff:ff:ff:ff:ff", true),
            ("ff:00:00:00:00:00", false),
            ("ff:ff:ff:ff:ff:ff", false),
            ("broadcast", false),
        ] {
            assert_eq!(of(via).is_ok(), is_one, "{via}");
        }
        let StreamErrors(messages) = of("01:00:5e:00:00:01").unwrap_err();
        let one =
            "stream 0: via=`01:00:5e:00:00:01`: a router needs a unicast address, such as 02:00:00:00:00:01";
        assert_eq!(messages, [one]);
        assert_eq!(errors("via=broadcast").len(), 1, "without `dst` there must be a single error");
    }

    #[test] // proves: traffic
    fn each_invalid_stream_key_gives_exactly_one_error() {
        for text in [
            "on=1ms,off=1ms,burst=1KB,every=1s",
            "flows=edu1",
            "seed=1",
            "via=02:00:00:00:00:03,dst=broadcast",
            "via=02:00:00:00:00:03,dst=01:00:5e:00:00:01",
            "size=64,size=64",
            "flows=/nowhere,rate=1G",
        ] {
            assert_eq!(errors(text).len(), 1, "{text}");
        }
        assert!(parse_streams(&vec!["dst=broadcast"; 256]).is_ok());
        assert!(parse_streams(&vec!["dst=broadcast"; 257]).is_err());
    }
}
