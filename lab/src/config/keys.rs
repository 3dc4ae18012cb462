use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use toml_span::value::ValueInner;
use toml_span::{Span, Spanned, Value};
use xoff_config::reader::{Parsed, Problems, Table, parse};
use xoff_config::{Config, Problem};
use xoff_wire::units::{BitRate, MacAddr, Nanos};

use super::lines::LineKeys;
use super::{NicSettings, Place};
use crate::line::impairment::{DELAY_MAX, parse_percent};

const NODE_LEN_MAX: usize = 15;
const OF_LINUX: [&str; 3] = ["lo", "all", "default"];
pub(super) const LAB_NAME_LEN_MAX: usize = 32;
const HOSTS_MAX: u16 = 250;

pub(super) const NAME_EXAMPLE: &str = "name = \"a\"";

pub(super) type Address<T> = (T, u8);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndName {
    pub(super) node: String,
    pub(super) port: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostsKey {
    Count(u16),
    Names(Vec<(String, Span)>),
}

xoff_config::keys! {
    struct TopKeys {
        name: String = lab_name;
    }
}

xoff_config::keys! {
    struct DefaultKeys {
        speed: BitRate = parse::rate;
        mtu: u32 = parse::integer(256..=9_216);
        delay: Nanos = parse::time(Nanos::ZERO..=DELAY_MAX);
        jitter: Nanos = parse::time(Nanos::ZERO..=DELAY_MAX);
        loss: u32 = loss;
        mac_control: bool = parse::boolean;
        nic: Option<NicSettings> = nic;
    }
}

xoff_config::keys! {
    struct HostKeys {
        name: String = host_name;
        switch: EndName = end_name;
        speed: BitRate = parse::rate;
        mtu: u32 = parse::integer(256..=9_216);
        delay: Nanos = parse::time(Nanos::ZERO..=DELAY_MAX);
        jitter: Nanos = parse::time(Nanos::ZERO..=DELAY_MAX);
        loss: u32 = loss;
        mac_control: bool = parse::boolean;
        mac: MacAddr = parse::mac;
        ipv4: Address<Ipv4Addr> = ipv4;
        ipv6: Address<Ipv6Addr> = ipv6;
        nic: Option<NicSettings> = nic;
        netns: String = netns;
        pid: i32 = parse::integer(1..=i32::MAX);
        container: String = container;
        tap: String = parse::device;
    }
}

xoff_config::keys! {
    struct SwitchKeys {
        name: String = node_name;
        hosts: HostsKey = hosts;
    }
}

xoff_config::keys! {
    struct LinkKeys {
        between: [EndName; 2] = between;
        speed: BitRate = parse::rate;
        mtu: u32 = parse::integer(256..=9_216);
        delay: Nanos = parse::time(Nanos::ZERO..=DELAY_MAX);
        jitter: Nanos = parse::time(Nanos::ZERO..=DELAY_MAX);
        loss: u32 = loss;
        mac_control: bool = parse::boolean;
        from: String = node_name;
    }
}

macro_rules! line_keys {
    ($keys:ident) => {
        impl $keys {
            pub(super) fn line(&self) -> LineKeys {
                let $keys { delay, jitter, loss, mac_control, .. } = self;
                LineKeys {
                    delay: delay.as_ref().map(|key| key.value),
                    jitter: jitter.as_ref().map(|key| key.value),
                    loss: loss.as_ref().map(|key| key.value),
                    mac_control: mac_control.as_ref().map(|key| key.value),
                }
            }
        }
    };
}

line_keys!(DefaultKeys);
line_keys!(HostKeys);
line_keys!(LinkKeys);

#[cfg(test)]
pub(super) fn documented() -> [(&'static str, &'static [&'static str]); 5] {
    [
        ("## At the top", TopKeys::KEYS),
        ("## `[defaults]`", DefaultKeys::KEYS),
        ("## `[[switch]]`", SwitchKeys::KEYS),
        ("## `[[host]]`", HostKeys::KEYS),
        ("## `[[link]]`", LinkKeys::KEYS),
    ]
}

#[derive(Debug)]
pub(super) struct SwitchTable {
    pub(super) name: Option<Spanned<String>>,
    pub(super) hosts: Option<Spanned<HostsKey>>,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) struct HostTable {
    pub(super) keys: HostKeys,
    pub(super) place: Place,
}

#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) name: Option<Spanned<String>>,
    pub(super) defaults: DefaultKeys,
    pub(super) switches: Vec<SwitchTable>,
    pub(super) hosts: Vec<HostTable>,
    pub(super) links: Vec<LinkKeys>,
}

impl File {
    pub(super) fn read(root: &Table<'_, '_>, problems: &mut Problems) -> File {
        let own = ["defaults", "switch", "host", "link"];
        for table in Config::TABLES.iter().filter(|table| !own.contains(table)) {
            if let Some(value) = root.value(table) {
                let problem = Problem::error(format!("`{table}` is not a key at the top level"));
                problems.push(problem.at(value.span, "setting of a switch").help(
                    "begin the header with `switch.` after the [[switch]], such as [switch.memory], or with `defaults.switch.` for \
                     all switches",
                ));
            }
        }
        root.no_others(&[TopKeys::KEYS, &own, Config::TABLES], problems);
        let mut file = File { name: TopKeys::read(root, problems).name, ..File::default() };
        if let Some(table) = root.table("defaults", problems) {
            table.no_others(&[DefaultKeys::KEYS, &["switch"]], problems);
            file.defaults = DefaultKeys::read(&table, problems);
            let _ = table.table("switch", problems);
        }
        for table in root.tables("switch", problems) {
            required("[[switch]]", "name", NAME_EXAMPLE, &table, problems);
            let SwitchKeys { name, hosts } = SwitchKeys::read(&table, problems);
            file.switches.push(SwitchTable { name, hosts, span: table.span });
        }
        for table in root.tables("host", problems) {
            table.no_others(&[HostKeys::KEYS], problems);
            required("[[host]]", "name", NAME_EXAMPLE, &table, problems);
            let keys = HostKeys::read(&table, problems);
            let place = place(&keys, problems);
            file.hosts.push(HostTable { keys, place });
        }
        for table in root.tables("link", problems) {
            table.no_others(&[LinkKeys::KEYS], problems);
            required("[[link]]", "between", "between = [\"h1\", \"s1\"]", &table, problems);
            file.links.push(LinkKeys::read(&table, problems));
        }
        file
    }
}

fn required(heading: &str, key: &str, example: &str, table: &Table<'_, '_>, problems: &mut Problems) {
    if table.value(key).is_none() {
        problems.push(Problem::missing(heading, key, example, table.span));
    }
}

fn place(keys: &HostKeys, problems: &mut Problems) -> Place {
    let places = [
        keys.netns.as_ref().map(|key| (Place::Netns(key.value.clone()), key.span)),
        keys.pid.as_ref().map(|key| (Place::Pid(key.value), key.span)),
        keys.container.as_ref().map(|key| (Place::Container(key.value.clone()), key.span)),
        keys.tap.as_ref().map(|key| (Place::Tap(key.value.clone()), key.span)),
    ];
    let mut given = places.into_iter().flatten();
    let first = given.next();
    if let (Some((_, first)), Some((_, second))) = (&first, given.next()) {
        problems.push(
            Problem::error("a host has two of the keys `netns`, `pid`, `container` and `tap`")
                .at(second, "second key")
                .at(*first, "first key")
                .help("give at most one of these keys; without any of them the lab makes a namespace for the host"),
        );
    }
    first.map(|(place, _)| place).unwrap_or_default()
}

fn words(text: &str, len_max: usize) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=len_max).contains(&text.len()) && text.chars().all(fine) && !text.starts_with('-')
}

fn device(name: &str) -> bool {
    words(name, NODE_LEN_MAX) && !OF_LINUX.contains(&name)
}

fn lab_name(value: &Value<'_>) -> Parsed<String> {
    let name = value.as_str().filter(|name| words(name, LAB_NAME_LEN_MAX));
    name.map(str::to_owned)
        .ok_or_else(|| format!("a name of 1 to {LAB_NAME_LEN_MAX} letters, digits, '-' or '_'"))
}

fn node_name(value: &Value<'_>) -> Parsed<String> {
    let name = value.as_str().filter(|name| device(name) && *name != "localhost");
    name.map(str::to_owned).ok_or_else(|| {
        format!(
            "a name of 1 to {NODE_LEN_MAX} letters, digits, '-' or '_' (a switch's device towards this node has the same name), except {}",
            OF_LINUX.join(", ")
        )
    })
}

fn host_name(value: &Value<'_>) -> Parsed<String> {
    node_name(value).and_then(|name| match is_address(&name) {
        false => Ok(name),
        true => {
            Err("a name that is no number: programs read 1 and 0x10 as IP addresses, and do not look them up"
                .into())
        }
    })
}

/// Returns whether programs read a node's name as a decimal, octal or hexadecimal IPv4 address (`inet_aton`).
fn is_address(name: &str) -> bool {
    let hexadecimal = name.strip_prefix("0x").or_else(|| name.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit()),
        None => name.chars().all(|c| c.is_ascii_digit()),
    }
}

fn hosts(value: &Value<'_>) -> Parsed<HostsKey> {
    let allowed =
        || format!("a number of hosts from 1 to {HOSTS_MAX}, or a list of names such as [\"h1\", \"h2\"]");
    if let Ok(count) = parse::integer(1..=HOSTS_MAX)(value) {
        return Ok(HostsKey::Count(count));
    }
    let names = value.as_array().ok_or_else(allowed)?;
    let name = |entry: &Value<'_>| host_name(entry).map(|name| (name, entry.span));
    names
        .iter()
        .map(name)
        .collect::<Parsed<Vec<_>>>()
        .map(HostsKey::Names)
        .map_err(|wrong| format!("{}, each {wrong}", allowed()))
}

fn end_name(value: &Value<'_>) -> Parsed<EndName> {
    let allowed = || {
        "a node such as \"s1\", or a port of a switch such as \"s1:uplink\"; names have at most 15 characters"
            .to_owned()
    };
    let text = value.as_str().ok_or_else(allowed)?;
    let (node, port) = text.split_once(':').map_or((text, None), |(node, port)| (node, Some(port)));
    let fine = device(node) && port.is_none_or(device);
    fine.then(|| EndName { node: node.to_owned(), port: port.map(str::to_owned) }).ok_or_else(allowed)
}

fn loss(value: &Value<'_>) -> Parsed<u32> {
    let share = value.as_str().and_then(parse_percent);
    share.ok_or_else(|| "a share of frames from \"0%\" to \"100%\", such as \"0.1%\"".into())
}

fn between(value: &Value<'_>) -> Parsed<[EndName; 2]> {
    let ends = parse::list(value, end_name).and_then(|ends| <[EndName; 2]>::try_from(ends).ok());
    ends.ok_or_else(|| "the two ends of a link, such as [\"h1\", \"s1\"] or [\"s1:uplink\", \"s2\"]".into())
}

fn address<T: FromStr>(value: &Value<'_>, bits: u8, such_as: &str) -> Parsed<Address<T>> {
    let split = value.as_str().and_then(|text| text.split_once('/'));
    let address = split.and_then(|(address, length)| {
        let length = length.parse().ok().filter(|length| (1..=bits).contains(length))?;
        Some((address.parse().ok()?, length))
    });
    address.ok_or_else(|| format!("an address with the length of its prefix, such as {such_as:?}"))
}

fn ipv4(value: &Value<'_>) -> Parsed<Address<Ipv4Addr>> {
    let (address, length): Address<Ipv4Addr> = address(value, 32, "192.0.2.1/24")?;
    let host_bits = u32::MAX.checked_shr(length.into()).unwrap_or(0);
    // Prefixes of 31 and 32 bits have no broadcast address (RFC 3021).
    let is_last = length < 31 && address.to_bits() & host_bits == host_bits;
    let kind = match address {
        _ if address.is_multicast() => "a multicast address",
        _ if address.is_loopback() => "a loopback address",
        _ if address.octets()[0] == 0 => "an address of 0.0.0.0/8 (\"this network\" in RFC 791)",
        _ if address.is_broadcast() || is_last => "the broadcast address of its network",
        _ => return Ok((address, length)),
    };
    Err(of_no_host(&address, kind))
}

fn ipv6(value: &Value<'_>) -> Parsed<Address<Ipv6Addr>> {
    let (address, length): Address<Ipv6Addr> = address(value, 128, "2001:db8::1/64")?;
    let kind = match address {
        _ if address.is_multicast() => "a multicast address",
        _ if address.is_loopback() => "the loopback address",
        _ if address.is_unspecified() => "the unspecified address",
        _ if address.to_ipv4_mapped().is_some() => "an IPv4 address in IPv6 form",
        _ => return Ok((address, length)),
    };
    Err(of_no_host(&address, kind))
}

fn of_no_host(address: &dyn Display, kind: &str) -> String {
    format!("an address that a host can have: {address} is {kind}")
}

fn netns(value: &Value<'_>) -> Parsed<String> {
    let fine = |name: &&str| !name.is_empty() && !name.contains('/') && *name != "." && *name != "..";
    let name = value.as_str().filter(fine);
    name.map(str::to_owned).ok_or_else(|| "the name of a namespace as `ip netns` lists it".into())
}

fn container(value: &Value<'_>) -> Parsed<String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name = value
        .as_str()
        .filter(|name| name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(fine));
    name.map(str::to_owned).ok_or_else(|| "the name or id of a container as docker or podman list it".into())
}

const OF_THE_LAB: [&str; 3] = ["device", "speed", "http"];

pub(crate) const AGENT_FILE: &str = "file";

fn nic(value: &Value<'_>) -> Parsed<Option<NicSettings>> {
    let allowed = || {
        format!(
            "true, false, or arguments of `xoff nic` such as {{ lossless = 3, trust = \"dscp\" }}, except {}, which the lab sets itself",
            OF_THE_LAB.join(", ")
        )
    };
    match value.as_ref() {
        ValueInner::Boolean(yes) => Ok(yes.then(NicSettings::default)),
        ValueInner::Table(entries) => {
            let argument = |(key, value): (&toml_span::value::Key<'_>, &Value<'_>)| {
                let fine =
                    |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
                let value = fine(&key.name).then(|| plain(value)).flatten()?;
                let name = key.name.replace('_', "-");
                (!OF_THE_LAB.contains(&name.as_str())).then_some((name, value))
            };
            let arguments = entries.iter().map(argument).collect::<Option<_>>();
            arguments.map(|arguments| Some(NicSettings(arguments))).ok_or_else(allowed)
        }
        _ => Err(allowed()),
    }
}

fn plain(value: &Value<'_>) -> Option<String> {
    match value.as_ref() {
        ValueInner::String(text) => Some(text.to_string()),
        ValueInner::Integer(number) => Some(number.to_string()),
        ValueInner::Float(number) => Some(number.to_string()),
        ValueInner::Boolean(yes) => Some(yes.to_string()),
        ValueInner::Array(entries) => {
            entries.iter().map(plain).collect::<Option<Vec<_>>>().map(|entries| entries.join(","))
        }
        ValueInner::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use xoff_config::Machine;

    use crate::config::Network;

    #[test] // proves: lab-lifecycle
    fn lab_host_whose_name_is_a_number_is_refused() {
        let read = |text: &str| Network::from_toml("lab.toml", text, "lab", &Machine::default());
        let listed = |name: &str| read(&format!("[[switch]]\nname = \"s1\"\nhosts = [{name:?}, \"h2\"]\n"));
        let of_its_own = |name: &str| {
            read(&format!(
                "[[switch]]\nname = \"s1\"\nhosts = 1\n[[host]]\nname = {name:?}\nswitch = \"s1\"\n"
            ))
        };
        for name in ["1", "010", "0x10", "0XaB"] {
            for refused in [listed(name), of_its_own(name)] {
                let message = refused.map(drop).map_err(|error| format!("{error:?}"));
                assert!(message.as_ref().is_err_and(|it| it.contains("no number")), "{name}: {message:?}");
            }
        }
        for name in ["0x", "0xg", "1a", "h_1", "host"] {
            assert!(listed(name).is_ok() && of_its_own(name).is_ok(), "{name}");
        }
    }

    #[test] // proves: lab-lifecycle
    fn lab_address_that_no_host_can_have_is_refused() {
        let read = |key: &str, address: &str| {
            let text = format!(
                "[[switch]]\nname = \"s1\"\nhosts = 2\n[[host]]\nname = \"h1\"\n{key} = {address:?}\n"
            );
            let network = Network::from_toml("lab.toml", &text, "lab", &Machine::default());
            network.map(drop).map_err(|error| format!("{error:?}"))
        };
        for (key, address, kind) in [
            ("ipv4", "10.1.255.255/16", "broadcast"),
            ("ipv4", "255.255.255.255/32", "broadcast"),
            ("ipv4", "224.0.0.5/4", "multicast"),
            ("ipv4", "127.0.0.5/8", "loopback"),
            ("ipv4", "0.0.0.0/8", "this network"),
            ("ipv6", "ff02::5/64", "multicast"),
            ("ipv6", "::1/128", "loopback"),
            ("ipv6", "::/64", "unspecified"),
            ("ipv6", "::ffff:10.0.0.1/96", "IPv4"),
        ] {
            let message = read(key, address);
            assert!(message.as_ref().is_err_and(|it| it.contains(kind)), "{address}: {message:?}");
        }
        for (key, address) in [
            ("ipv4", "10.1.0.0/16"),
            ("ipv4", "10.1.0.255/16"),
            ("ipv4", "192.0.2.1/31"),
            ("ipv4", "192.0.2.255/32"),
            ("ipv4", "240.2.0.1/16"),
            ("ipv6", "2001:db8::/64"),
            ("ipv6", "fe80::1/64"),
        ] {
            assert_eq!(read(key, address), Ok(()), "{address}");
        }
    }
}
