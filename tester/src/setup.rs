//! Setup file of an examination (`dut.toml`): describes the device under test and the test ports.
//!
//! ```
//! let text = r#"
//!     [device]
//!     name = "leaf1"
//!     lossless = [3]
//!
//!     [[port]]
//!     device = "eth0"
//!     speed = "10G"
//!
//!     [[port]]
//!     device = "eth1"
//!     speed = "10G"
//! "#;
//! let setup = xoff_tester::Setup::from_toml("dut.toml", text).expect("the file is valid");
//! assert_eq!(setup.ports.len(), 2);
//! ```

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;

use toml_span::Spanned;
use xoff_config::Problem;
use xoff_config::file::{CONFIGURATION, read_text};
use xoff_config::reader::parse::{self, choice};
use xoff_config::reader::{self, Problems, Table, value};
use xoff_config::{Choice, ConfigError, defaults};
use xoff_flow_control::headroom::{cable_delay, standard_response};
use xoff_flow_control::settings::Trust;
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, MacAddr, Nanos};

pub const PORTS_MAX: usize = 16;
const MTU_MAX: u32 = 9216;
const SPEED_MIN: BitRate = BitRate::from_mbps(10);
const SOAK: Nanos = Nanos::from_secs(3);
const FCS: Bytes = Bytes(4);
const WATCHDOG_TIMES: RangeInclusive<Nanos> = Nanos::from_millis(10)..=Nanos::from_secs(10);
const PAUSE_TIMES: RangeInclusive<Nanos> = Nanos::from_millis(1)..=Nanos::from_secs(60);
const ALLOWANCE_MAX: Nanos = Nanos::from_secs(1);

xoff_config::keys! {
    struct DeviceKeys {
        name: String = parse::name;
        lossless: ClassSet = parse::classes;
        obeys: ClassSet = parse::classes;
        trust: Trust = choice(Trust::WORDS);
        default_class: Class = parse::class;
        pcp_map: [Option<Class>; 8] = parse::class_map;
        dscp_map: [Option<Class>; 64] = parse::class_map;
        mtu: u32 = parse::integer(68..=MTU_MAX);
        cable: u64 = parse::metres;
        xoff: Bytes = parse::bytes;
        xon: Bytes = parse::bytes;
        headroom: Bytes = parse::bytes;
        frame_overhead: Bytes = parse::bytes;
        cell: Bytes = parse::bytes;
        ecn: Bytes = parse::bytes;
        ecn_max: Bytes = parse::bytes;
        ecn_probability: f64 = parse::share;
        watchdog: Nanos = parse::time(WATCHDOG_TIMES);
        watchdog_restore: Nanos = parse::time(WATCHDOG_TIMES);
        pause_max: Nanos = parse::time(PAUSE_TIMES);
        watchdog_action: WatchdogAction = choice(WatchdogAction::WORDS);
        dcbx: bool = parse::boolean;
        response_allowance: Nanos = parse::time(Nanos(0)..=ALLOWANCE_MAX);
        counters: String = command;
    }
}

xoff_config::keys! {
    struct PortKeys {
        device: String = parse::device;
        speed: BitRate = parse::rate;
        mac: MacAddr = parse::mac;
        vlan: u16 = parse::vid;
        connected: String = parse::name;
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    pub device: DeviceSettings,
    pub ports: Vec<PortSettings>,
    pub soak: Nanos,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSettings {
    pub name: String,
    pub lossless: ClassSet,
    /// Classes for which the device obeys PFC frames; by default the lossless classes.
    pub obeys: ClassSet,
    pub trust: Trust,
    pub default_class: Class,
    pub pcp_to_class: [Class; 8],
    pub dscp_to_class: [Class; 64],
    pub mtu: u32,
    pub cable: Nanos,
    pub xoff: Option<Bytes>,
    pub xon: Option<Bytes>,
    /// Bytes of a class that the device accepts beyond `xoff`, if known.
    pub headroom: Option<Bytes>,
    /// Bytes that the device counts per frame in addition to the length without FCS; 4 by default.
    pub frame_overhead: Bytes,
    /// Size of a buffer cell; the device rounds each frame up to whole cells. 1 byte by default.
    pub cell: Bytes,
    /// Queue lengths from which the device marks some packets, and all.
    pub ecn: Option<[Bytes; 2]>,
    /// Share of packets marked just below the second length of `ecn`, to which it grows linearly.
    pub ecn_probability: Option<f64>,
    pub watchdog: Option<Nanos>,
    pub watchdog_restore: Option<Nanos>,
    pub pause_max: Option<Nanos>,
    pub watchdog_action: WatchdogAction,
    pub dcbx: bool,
    pub from_dcbx: Option<FromDcbx>,
    pub response_allowance: Nanos,
    pub counters: Option<String>,
}

/// Settings that DCBX determines; always the lossless classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromDcbx {
    pub obeys: bool,
    pub dscp_map: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchdogAction {
    Drop,
    Forward,
}

impl Choice for WatchdogAction {
    const WORDS: &'static [(&'static str, WatchdogAction)] =
        &[("drop", WatchdogAction::Drop), ("forward", WatchdogAction::Forward)];
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortKind {
    #[default]
    Station,
    /// Sends through the kernel's queues, because the NIC is the device under test.
    Kernel,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    pub device: String,
    pub speed: BitRate,
    /// MAC address of the port; `None` means the interface's own address.
    pub mac: Option<MacAddr>,
    pub vlan: Option<u16>,
    pub connected: Option<String>,
    pub kind: PortKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Pcp(u8),
    Dscp(u8),
    Untagged,
}

impl Mark {
    #[must_use]
    pub const fn code(self) -> Option<u8> {
        match self {
            Mark::Pcp(code) | Mark::Dscp(code) => Some(code),
            Mark::Untagged => None,
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mark::Pcp(pcp) => write!(f, "PCP {pcp}"),
            Mark::Dscp(dscp) => write!(f, "DSCP {dscp}"),
            Mark::Untagged => write!(f, "no mark"),
        }
    }
}

impl Setup {
    pub fn load(path: &Path) -> Result<Setup, ConfigError> {
        Setup::from_toml(&path.display().to_string(), &read_text(path, CONFIGURATION)?)
    }

    pub fn from_toml(name: &str, text: &str) -> Result<Setup, ConfigError> {
        reader::read(name, text, |root, problems| read(&root, problems)).map(|(setup, _)| setup)
    }

    /// Creates the setup for a NIC of this machine whose line leads to the interface `peer`.
    #[must_use]
    pub fn of_nic(nic: &str, peer: &str, speed: BitRate, device: DeviceSettings) -> Setup {
        let port = |name: &str, kind| PortSettings {
            device: name.to_owned(),
            speed,
            mac: None,
            vlan: None,
            connected: None,
            kind,
        };
        Setup { device, ports: vec![port(nic, PortKind::Kernel), port(peer, PortKind::Station)], soak: SOAK }
    }

    #[must_use]
    pub fn mark(&self, class: Class) -> Option<Mark> {
        let device = &self.device;
        let code =
            |map: &[Class]| map.iter().position(|of| *of == class).and_then(|code| u8::try_from(code).ok());
        let marked = match device.trust {
            Trust::Pcp => code(&device.pcp_to_class).map(Mark::Pcp),
            Trust::Dscp | Trust::Both => code(&device.dscp_to_class).map(Mark::Dscp),
            Trust::Port => None,
        };
        marked.or((device.default_class == class).then_some(Mark::Untagged))
    }

    /// Returns how long after an XOFF a conforming device may still begin frames on a line of `speed`.
    #[must_use]
    pub fn response(&self, speed: BitRate) -> Nanos {
        let round_trip = Nanos(2 * self.device.cable.0);
        standard_response(speed).after(round_trip).after(self.device.response_allowance)
    }
}

fn command(value: &toml_span::Value<'_>) -> reader::Parsed<String> {
    let command = value.as_str().filter(|text| !text.trim().is_empty());
    command.map(str::to_owned).ok_or_else(|| "a shell command that prints counters".into())
}

fn read(root: &toml_span::Value<'_>, problems: &mut Problems) -> Option<Setup> {
    let file = Table::of("", root, problems)?;
    file.no_others(&[&["device", "port"]], problems);
    let device = file.table("device", problems);
    let keys = device.map_or_else(DeviceKeys::default, |table| {
        table.no_others(&[DeviceKeys::KEYS], problems);
        DeviceKeys::read(&table, problems)
    });
    let tables = file.tables("port", problems);
    let ports: Vec<_> = tables.iter().filter_map(|table| port(table, problems)).collect();
    if !(2..=PORTS_MAX).contains(&tables.len()) && !problems.has_errors() {
        problems.push(
            Problem::error(format!("there are {} test ports, but 2 to {PORTS_MAX} are needed", tables.len()))
                .at(file.span, "here")
                .help("add a [[port]] for each interface that is connected to the device"),
        );
    }
    for (index, port) in ports.iter().enumerate() {
        if ports[..index].iter().any(|other: &PortSettings| other.device == port.device) {
            problems.push(
                Problem::error(format!("two ports have the interface `{}`", port.device))
                    .at(tables[index].key_span("device"), "used before")
                    .help("each test port needs an interface of its own"),
            );
        }
    }
    let lossless = value(keys.lossless.as_ref(), defaults::LOSSLESS);
    if lossless.is_empty() {
        let span = device.map_or(file.span, |table| table.key_span("lossless"));
        problems.push(
            Problem::error("`lossless` has no class, so nothing can be tested")
                .at(span, "empty")
                .help("name the classes that the device keeps lossless, such as [3]"),
        );
    }
    if let Some(max) = &keys.ecn_max
        && keys.ecn.as_ref().is_none_or(|ecn| ecn.value > max.value)
    {
        problems.push(
            Problem::error("`ecn_max` needs an `ecn` that is not larger")
                .at(max.span, "queue length from which all packets are marked")
                .help("set `ecn` to the queue length from which packets are marked"),
        );
    }
    if let Some(probability) = &keys.ecn_probability
        && keys.ecn_max.is_none()
    {
        problems.push(
            Problem::error("`ecn_probability` needs an `ecn_max`")
                .at(probability.span, "share of packets marked just below `ecn_max`")
                .help("set `ecn_max` to the queue length from which all packets are marked"),
        );
    }
    let settings = device_settings(keys, lossless);
    (!problems.has_errors()).then_some(Setup { device: settings, ports, soak: SOAK })
}

impl DeviceSettings {
    #[must_use]
    pub fn new(name: &str, lossless: ClassSet) -> DeviceSettings {
        let settings = device_settings(DeviceKeys::default(), lossless);
        DeviceSettings { name: name.to_owned(), ..settings }
    }
}

fn device_settings(keys: DeviceKeys, lossless: ClassSet) -> DeviceSettings {
    let has_dcbx = value(keys.dcbx.as_ref(), false);
    let some = |key: Option<Spanned<Bytes>>| key.map(|key| key.value);
    DeviceSettings {
        name: value(keys.name.as_ref(), "device".to_owned()),
        lossless,
        obeys: value(keys.obeys.as_ref(), lossless),
        trust: value(keys.trust.as_ref(), Trust::default()),
        default_class: value(keys.default_class.as_ref(), defaults::DEFAULT_CLASS),
        pcp_to_class: by_code(keys.pcp_map.as_ref(), |pcp| pcp),
        dscp_to_class: by_code(keys.dscp_map.as_ref(), |dscp| dscp / 8),
        mtu: value(keys.mtu.as_ref(), defaults::MTU),
        cable: cable_delay(value(keys.cable.as_ref(), 0)),
        xoff: some(keys.xoff),
        xon: some(keys.xon),
        headroom: some(keys.headroom),
        frame_overhead: value(keys.frame_overhead.as_ref(), FCS),
        cell: value(keys.cell.as_ref(), Bytes(1)),
        ecn: some(keys.ecn).map(|ecn| [ecn, value(keys.ecn_max.as_ref(), ecn)]),
        ecn_probability: keys.ecn_probability.map(|key| key.value),
        watchdog: keys.watchdog.map(|key| key.value),
        watchdog_restore: keys.watchdog_restore.map(|key| key.value),
        pause_max: keys.pause_max.map(|key| key.value),
        watchdog_action: value(keys.watchdog_action.as_ref(), WatchdogAction::Drop),
        dcbx: has_dcbx,
        from_dcbx: (has_dcbx && keys.lossless.is_none())
            .then_some(FromDcbx { obeys: keys.obeys.is_none(), dscp_map: keys.dscp_map.is_none() }),
        response_allowance: value(keys.response_allowance.as_ref(), Nanos::ZERO),
        counters: keys.counters.map(|key| key.value),
    }
}

fn port(table: &Table<'_, '_>, problems: &mut Problems) -> Option<PortSettings> {
    table.no_others(&[PortKeys::KEYS], problems);
    let keys = PortKeys::read(table, problems);
    for key in ["device", "speed"] {
        if table.value(key).is_none() {
            problems.push(
                Problem::error(format!("a test port has no `{key}`"))
                    .at(table.span, "this port")
                    .help("each [[port]] needs `device`, an interface, and `speed`, such as \"10G\""),
            );
        }
    }
    if let Some(speed) = keys.speed.as_ref().filter(|speed| speed.value < SPEED_MIN) {
        problems.push(
            Problem::error("a test port is slower than 10M")
                .at(speed.span, "too slow")
                .help("give the port's speed, at least \"10M\": the cases' streams need it"),
        );
    }
    Some(PortSettings {
        device: keys.device?.value,
        speed: keys.speed?.value,
        mac: keys.mac.map(|key| key.value),
        vlan: keys.vlan.map(|key| key.value),
        connected: keys.connected.map(|key| key.value),
        kind: PortKind::Station,
    })
}

fn by_code<const N: usize>(
    map: Option<&Spanned<[Option<Class>; N]>>,
    usual: impl Fn(u8) -> u8,
) -> [Class; N] {
    std::array::from_fn(|code| {
        let given = map.and_then(|map| map.value[code]);
        given.unwrap_or_else(|| Class::from_low_bits(usual(u8::try_from(code).unwrap_or(0))))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const PORTS: &str =
        "[[port]]\ndevice = \"a\"\nspeed = \"1G\"\n[[port]]\ndevice = \"b\"\nspeed = \"1G\"\n";

    fn error(text: &str) -> String {
        format!("{:?}", miette::Report::new(Setup::from_toml("dut.toml", text).unwrap_err()))
    }

    #[test]
    fn test_frame_gets_dscp_or_pcp_by_class_map_of_device() {
        let read =
            |device: &str| Setup::from_toml("dut.toml", &format!("[device]\n{device}\n{PORTS}")).unwrap();
        let three = Class::ALL[3];
        assert_eq!(read("").mark(three), Some(Mark::Dscp(24)));
        assert_eq!(read("trust = \"pcp\"\npcp_map = { 5 = 3, 3 = 0 }").mark(three), Some(Mark::Pcp(5)));
        assert_eq!(read("trust = \"port\"").mark(three), None);
        assert_eq!(read("trust = \"port\"\ndefault_class = 3").mark(three), Some(Mark::Untagged));
    }

    #[test]
    fn error_in_test_setup_file_names_its_cause() {
        for (text, part) in [
            ("[[port]]\ndevice = \"a\"\nspeed = \"1G\"", "1 test ports, but 2 to 16"),
            (&format!("{PORTS}[[port]]\ndevice = \"a\"\nspeed = \"1G\""), "two ports have the interface `a`"),
            ("[[port]]\ndevice = \"a\"", "no `speed`"),
            ("[[port]]\ndevice = \"a\"\nspeed = \"9999k\"", "slower than 10M"),
            (&format!("[device]\nlossless = []\n{PORTS}"), "`lossless` has no class"),
            (&format!("[device]\nlosless = [3]\n{PORTS}"), "`losless` is not a key"),
            (&format!("[device]\necn_max = \"9KB\"\n{PORTS}"), "`ecn_max` needs an `ecn`"),
            (
                &format!("[device]\necn = \"9KB\"\necn_probability = 0.1\n{PORTS}"),
                "`ecn_probability` needs an `ecn_max`",
            ),
            (&format!("[device]\necn_probability = 5\n{PORTS}"), "a number above 0, up to 1"),
        ] {
            assert!(error(text).contains(part), "{} lacks {part}", error(text));
        }
    }
}
