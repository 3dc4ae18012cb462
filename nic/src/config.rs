//! Settings of a host's agent (`xoff nic FILE`). Arguments override the agent file, which overrides the defaults.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use toml_span::Spanned;
use xoff_config::file::{CONFIGURATION, read_text};
use xoff_config::reader::parse::{self, OrOff};
use xoff_config::reader::{self, Problems, Purpose, Table, value};
use xoff_config::shell::{HttpAt, LogFormat};
use xoff_config::{Choice as _, ConfigError, defaults};
use xoff_flow_control::congestion::ReactionSettings;
use xoff_flow_control::settings::{Dcbx, Trust};
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, Nanos, Quanta};

/// Default of `nic.http`: loopback, and the TCP port after a switch's default port.
pub const DEFAULT_HTTP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9465);
const PAUSE_ABOVE_MIN: Bytes = Bytes(4_000);

xoff_config::keys! {
    struct NicKeys {
        device: String = parse::device;
        speed: BitRate = parse::rate;
        lossless: ClassSet = parse::classes;
        trust: Trust = parse::choice(&[("dscp", Trust::Dscp), ("pcp", Trust::Pcp)]);
        default_class: Class = parse::class;
        pcp_map: [Option<Class>; 8] = parse::class_map;
        dscp_map: [Option<Class>; 64] = parse::class_map;
        dcbx: Dcbx = parse::choice(Dcbx::WORDS);
        obey_rates: bool = parse::boolean;
        pause_above: OrOff<Bytes> = parse::or_word("off", parse::bytes);
        pause_time: u16 = parse::integer(1..=65_535);
        peer_response: OrOff<Nanos> = parse::or_word("auto", parse::time(Nanos(1_000)..=Nanos::from_secs(10)));
        real_time: bool = parse::boolean;
        http: OrOff<HttpAt> = parse::or_word("off", parse::http);
        http_hosts: Vec<String> = parse::hosts;
        log: &'static str = parse::log_level;
        log_format: LogFormat = parse::choice(LogFormat::WORDS);
    }
}

xoff_config::keys! {
    struct ReactionKeys {
        gd: u32 = parse::integer(1..=1_000_000);
        recovery: u32 = parse::integer(1..=1_000);
        bytes: Bytes = parse::bytes;
        time: Nanos = parse::time(Nanos::from_micros(10)..=Nanos::from_secs(10));
        ai: BitRate = parse::rate;
        hai: BitRate = parse::rate;
        min: BitRate = parse::rate;
        jitter: u8 = parse::integer(0..=50);
        seed: u64 = parse::integer(0..=u64::MAX);
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NicWishes {
    pub device: Option<String>,
    pub speed: Option<BitRate>,
    pub lossless: Option<ClassSet>,
    pub trust: Option<Trust>,
    pub default_class: Option<Class>,
    pub pcp_map: Option<[Option<Class>; 8]>,
    pub dscp_map: Option<[Option<Class>; 64]>,
    pub dcbx: Option<Dcbx>,
    pub qcn: Option<ReactionSettings>,
    pub obey_rates: Option<bool>,
    pub pause_above: Option<Option<Bytes>>,
    pub pause_time: Option<Quanta>,
    pub peer_response: Option<Option<Nanos>>,
    pub real_time: Option<bool>,
    pub http: Option<Option<HttpAt>>,
    pub http_hosts: Option<Vec<String>>,
    pub log: Option<&'static str>,
    pub log_format: Option<LogFormat>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NicSettings {
    pub device: String,
    pub speed: BitRate,
    pub lossless: ClassSet,
    pub trust: Trust,
    /// Class of frames without the field that `trust` selects (DSCP or PCP).
    pub default_class: Class,
    pub pcp_to_class: [Class; 8],
    pub dscp_to_class: [Class; 64],
    pub dcbx: Dcbx,
    /// Settings of the QCN reaction point of each class; `None`: CNMs are only counted.
    pub qcn: Option<ReactionSettings>,
    pub obey_rates: bool,
    /// Bytes in a UDP socket's receive queue at which the host pauses the switch; `None`: never.
    pub pause_above: Option<Bytes>,
    pub pause_time: Quanta,
    pub peer_response: Option<Nanos>,
    pub real_time: bool,
    pub http: Option<HttpAt>,
    pub http_hosts: Vec<String>,
    pub log: &'static str,
    pub log_format: LogFormat,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NicMissing {
    #[error("no interface is given: give --device eth0, or `device` in the file")]
    Device,
    #[error(
        "the line rate of {0} is unknown: give --speed 1G, or `speed` in the file, as at the switch's port (pause \
         times depend on the rate, and a veth or a virtual machine's NIC has none of its own)"
    )]
    Speed(String),
    #[error(
        "no class is lossless, so none could be paused: give --lossless 3, or `lossless = [3]` in the file"
    )]
    Lossless,
    #[error(
        "`pause_above` is {bytes} bytes, which wait even in a socket that is read in time, so the switch would always be paused: \
         give --pause-above 4KB or more, or `pause_above` in the file", bytes = .0.0
    )]
    PauseAbove(Bytes),
}

impl NicWishes {
    pub fn load(path: &Path) -> Result<NicWishes, ConfigError> {
        NicWishes::from_toml(&path.display().to_string(), &read_text(path, CONFIGURATION)?)
    }

    pub fn from_toml(name: &str, text: &str) -> Result<NicWishes, ConfigError> {
        let (wishes, _) = reader::read(name, text, |root, problems| read(&root, problems))?;
        Ok(wishes)
    }

    #[must_use]
    pub fn over(self, below: NicWishes) -> NicWishes {
        NicWishes {
            device: self.device.or(below.device),
            speed: self.speed.or(below.speed),
            lossless: self.lossless.or(below.lossless),
            trust: self.trust.or(below.trust),
            default_class: self.default_class.or(below.default_class),
            pcp_map: self.pcp_map.or(below.pcp_map),
            dscp_map: self.dscp_map.or(below.dscp_map),
            dcbx: self.dcbx.or(below.dcbx),
            qcn: self.qcn.or(below.qcn),
            obey_rates: self.obey_rates.or(below.obey_rates),
            pause_above: self.pause_above.or(below.pause_above),
            pause_time: self.pause_time.or(below.pause_time),
            peer_response: self.peer_response.or(below.peer_response),
            real_time: self.real_time.or(below.real_time),
            http: self.http.or(below.http),
            http_hosts: self.http_hosts.or(below.http_hosts),
            log: self.log.or(below.log),
            log_format: self.log_format.or(below.log_format),
        }
    }

    pub fn settings(self) -> Result<NicSettings, NicMissing> {
        let device = self.device.ok_or(NicMissing::Device)?;
        let speed = self.speed.ok_or_else(|| NicMissing::Speed(device.clone()))?;
        let lossless = self.lossless.unwrap_or(defaults::LOSSLESS);
        if lossless.is_empty() {
            return Err(NicMissing::Lossless);
        }
        if let Some(above) = self.pause_above.flatten().filter(|above| *above < PAUSE_ABOVE_MIN) {
            return Err(NicMissing::PauseAbove(above));
        }
        Ok(NicSettings {
            device,
            speed,
            lossless,
            trust: self.trust.unwrap_or(Trust::Dscp),
            default_class: self.default_class.unwrap_or(defaults::DEFAULT_CLASS),
            pcp_to_class: by_code(self.pcp_map, |pcp| pcp),
            dscp_to_class: by_code(self.dscp_map, |dscp| dscp / 8),
            dcbx: self.dcbx.unwrap_or(Dcbx::Off),
            qcn: self.qcn,
            obey_rates: self.obey_rates.unwrap_or(false),
            pause_above: self.pause_above.flatten(),
            pause_time: self.pause_time.unwrap_or(defaults::PAUSE_TIME),
            peer_response: self.peer_response.flatten(),
            real_time: self.real_time.unwrap_or(true),
            http: self.http.unwrap_or(Some(DEFAULT_HTTP.into())),
            http_hosts: self.http_hosts.unwrap_or_default(),
            log: self.log.unwrap_or(defaults::LOG),
            log_format: self.log_format.unwrap_or_default(),
        })
    }
}

/// Parses a class map from the command line, such as `26=3,40-47=5`: DSCP or PCP values and their classes.
pub fn class_map<const N: usize>(text: &str) -> Result<[Option<Class>; N], String> {
    let text = format!("map = {{ {text} }}");
    let table = toml_span::parse(&text).ok();
    let map = table.as_ref().and_then(|root| root.as_table()?.get("map"));
    map.ok_or_else(String::new).and_then(parse::class_map).map_err(|_| {
        format!("entries such as 3=3,4-5=0, with classes from 0 to 7 and different keys from 0 to {}", N - 1)
    })
}

fn by_code<const N: usize>(map: Option<[Option<Class>; N]>, default: fn(u8) -> u8) -> [Class; N] {
    let map = map.unwrap_or([None; N]);
    std::array::from_fn(|code| {
        let class = default(u8::try_from(code).unwrap_or(u8::MAX));
        map[code].unwrap_or(Class::from_low_bits(class))
    })
}

fn read(root: &toml_span::Value<'_>, problems: &mut Problems) -> Option<NicWishes> {
    if !Purpose::Host.is_possible(root, problems) {
        return None;
    }
    let root = Table::of("", root, problems)?;
    root.no_others(&[&["nic", "qcn"]], problems);
    let keys = root.table("nic", problems).map(|table| {
        table.no_others(&[NicKeys::KEYS], problems);
        NicKeys::read(&table, problems)
    });
    let qcn = root.table("qcn", problems).map(|table| {
        table.no_others(&[ReactionKeys::KEYS], problems);
        reaction(&ReactionKeys::read(&table, problems))
    });
    Some(NicWishes { qcn, ..wishes(keys.unwrap_or_default()) })
}

fn wishes(keys: NicKeys) -> NicWishes {
    NicWishes {
        device: given(keys.device),
        speed: given(keys.speed),
        lossless: given(keys.lossless),
        trust: given(keys.trust),
        default_class: given(keys.default_class),
        pcp_map: given(keys.pcp_map),
        dscp_map: given(keys.dscp_map),
        dcbx: given(keys.dcbx),
        qcn: None,
        obey_rates: given(keys.obey_rates),
        pause_above: given(keys.pause_above).map(OrOff::into_option),
        pause_time: given(keys.pause_time).map(Quanta),
        peer_response: given(keys.peer_response).map(OrOff::into_option),
        real_time: given(keys.real_time),
        http: given(keys.http).map(OrOff::into_option),
        http_hosts: given(keys.http_hosts),
        log: given(keys.log),
        log_format: given(keys.log_format),
    }
}

fn reaction(keys: &ReactionKeys) -> ReactionSettings {
    let standard = ReactionSettings::STANDARD;
    ReactionSettings {
        decrease_divisor: value(keys.gd.as_ref(), standard.decrease_divisor),
        decrease_percent_max: standard.decrease_percent_max,
        recovery_cycles: value(keys.recovery.as_ref(), standard.recovery_cycles),
        cycle_bytes: value(keys.bytes.as_ref(), standard.cycle_bytes).max(Bytes(1)),
        cycle_time: value(keys.time.as_ref(), standard.cycle_time),
        active_step: value(keys.ai.as_ref(), standard.active_step),
        hyper_step: value(keys.hai.as_ref(), standard.hyper_step),
        rate_min: value(keys.min.as_ref(), standard.rate_min),
        jitter_percent: value(keys.jitter.as_ref(), standard.jitter_percent),
        seed: value(keys.seed.as_ref(), standard.seed),
    }
}

fn given<T>(key: Option<Spanned<T>>) -> Option<T> {
    key.map(|key| key.value)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn wishes(text: &str) -> NicWishes {
        NicWishes::from_toml("nic.toml", text).unwrap()
    }

    fn wrong(text: &str) -> Vec<String> {
        match NicWishes::from_toml("nic.toml", text) {
            Err(ConfigError::Invalid(invalid)) => {
                invalid.problems().iter().map(ToString::to_string).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn agent_command_line_overrides_its_file_and_defaults() {
        let file = wishes(
            "[nic]\ndevice = \"eth0\"\nspeed = \"1G\"\nlossless = [3, 4]\nhttp = false\ndscp_map = { 26 = 4 }",
        );
        let line = NicWishes { speed: Some(BitRate::from_gbps(10)), ..NicWishes::default() };
        let settings = line.over(file).settings().unwrap();
        assert_eq!((settings.device.as_str(), settings.speed), ("eth0", BitRate::from_gbps(10)));
        assert_eq!((settings.lossless, settings.http), (ClassSet(0b1_1000), None));
        assert_eq!([24, 26, 27, 63].map(|dscp| settings.dscp_to_class[dscp].get()), [3, 4, 3, 7]);
        assert_eq!((settings.trust, settings.qcn, settings.pause_above), (Trust::Dscp, None, None));
    }

    #[test]
    fn values_of_qcn_table_in_agent_file_override_standard_values() {
        assert_eq!(wishes("[qcn]").qcn, Some(ReactionSettings::STANDARD));
        let given = wishes("[qcn]\nai = \"1M\"\ntime = \"5ms\"").qcn.unwrap();
        assert_eq!((given.active_step, given.cycle_time), (BitRate::from_mbps(1), Nanos::from_millis(5)));
        assert_eq!(given.hyper_step, ReactionSettings::STANDARD.hyper_step);
    }

    #[test]
    fn agent_configuration_errors_name_allowed_values() {
        let problems = wrong("[nic]\nspeed = \"fast\"\nlosless = [3]\ntrust = \"both\"\n[port]");
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert!(problems.iter().any(|line| line.contains("`losless` is not a key in [nic]")), "{problems:?}");
        assert!(problems.iter().any(|line| line.contains("one of \"dscp\", \"pcp\"")), "{problems:?}");
        assert!(wrong("nic = 3")[0].contains("[nic]"));
        assert!(wrong("[nic")[0].contains("not TOML"));
    }

    #[test]
    fn agent_setting_without_value_or_default_is_an_error() {
        let settings = |text: &str| wishes(text).settings();
        assert_eq!(settings(""), Err(NicMissing::Device));
        assert_eq!(settings("[nic]\ndevice = \"e\""), Err(NicMissing::Speed("e".into())));
        let none = "[nic]\ndevice = \"e\"\nspeed = \"1G\"\nlossless = []";
        assert_eq!(settings(none), Err(NicMissing::Lossless));
        let above =
            |size: &str| settings(&format!("[nic]\ndevice = \"e\"\nspeed = \"1G\"\npause_above = {size}"));
        assert_eq!(above("3999"), Err(NicMissing::PauseAbove(Bytes(3_999))));
        assert_eq!(above("\"4KB\"").unwrap().pause_above, Some(Bytes(4_000)));
    }

    const DOCUMENT: &str = include_str!("../../docs/hosts.md");
    const PORT: &str = "[nic]\ndevice = \"eth0\"\nspeed = \"10G\"\n";

    const TABLES: [(&str, &str, &[&str]); 2] =
        [("\n## `[nic]`", "", NicKeys::KEYS), ("\n### `[qcn]` of a host", "[qcn]\n", ReactionKeys::KEYS)];

    fn rows(heading: &str) -> Vec<(&'static str, &'static str)> {
        let (_, section) = DOCUMENT.split_once(heading).unwrap();
        let lines = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
        let row = |line: &'static str| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            (cells[0].trim_matches('`'), cells[2])
        };
        lines.take_while(|line| line.starts_with('|')).map(row).collect()
    }

    #[test] // proves: configuration
    fn hosts_page_lists_exactly_the_keys_of_agent_files() {
        for (heading, _, keys) in TABLES {
            let mut documented: Vec<&str> = rows(heading).into_iter().map(|(key, _)| key).collect();
            let mut keys = keys.to_vec();
            documented.sort_unstable();
            keys.sort_unstable();
            assert_eq!(documented, keys, "{heading}");
        }
    }

    #[test] // proves: configuration
    fn hosts_page_shows_the_actual_defaults_of_agent_keys() {
        let read = |text: &str| wishes(text).settings().unwrap();
        for (heading, head, _) in TABLES {
            for (key, default) in rows(heading) {
                let value = default.strip_prefix('`').and_then(|text| text.strip_suffix('`'));
                let line = value.map(|value| format!("{key} = {value}\n"));
                let silent = format!("{PORT}{head}");
                if let Some(line) = line.filter(|line| toml_span::parse(line).is_ok()) {
                    assert_eq!(read(&(silent.clone() + &line)), read(&silent), "{line}");
                }
            }
        }
    }
}
