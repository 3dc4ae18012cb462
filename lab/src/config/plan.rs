//! Default addresses of hosts, assigned in the order of the lab's file.
//!
//! Devices of broadcast domain S (from 1) are in 10.S.0.0/16 and fd78:6f66:6600:S::/64 (78 6f 66 66 is "xoff"), numbered from 1. MAC
//! addresses are 02:00:00:I:H:H, with the device's index I and the host's number H:H.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};

use toml_span::Span;
use xoff_config::Problem;
use xoff_config::reader::Problems;
use xoff_wire::units::MacAddr;

use super::keys::{Address, File, HostKeys};
use super::wires::{DEVICES_MAX, HostName, Wiring};
use super::{Host, Interface, NicSettings, Place};

const IPV4_PREFIX: u8 = 16;
const IPV6_PREFIX: u8 = 64;

const SEGMENTS_MAX: usize = 255;

pub(super) fn hosts(file: &File, wiring: &Wiring, problems: &mut Problems) -> Vec<Host> {
    let segments = wiring.segments.iter().max().map_or(0, |most| most + 1);
    if segments > SEGMENTS_MAX {
        problems.push(
            Problem::error(format!(
                "the network has {segments} broadcast domains, but addresses suffice for {SEGMENTS_MAX} only"
            ))
            .help("connect the domains, or divide the network into several labs"),
        );
        return Vec::new();
    }
    let devices = wiring.hosts.iter().map(|host| host.links.len().max(1)).sum::<usize>();
    if devices > usize::from(DEVICES_MAX) {
        problems.push(
            Problem::error(format!(
                "hosts have {devices} devices, but addresses suffice for {DEVICES_MAX} only"
            ))
            .help("divide the network into several labs"),
        );
        return Vec::new();
    }
    let mut taken = AddressOwners::default();
    let mut counts: BTreeMap<usize, u16> = BTreeMap::new();
    let hosts = (1..).zip(&wiring.hosts).map(|(number, name)| {
        let keys = name.table.map(|table| &file.hosts[table].keys);
        let place = name.table.map_or(Place::Fresh, |table| file.hosts[table].place.clone());
        let interfaces = name.links.iter().enumerate().map(|(index, &link)| {
            let segment = wiring.segments[link];
            let count = counts.entry(segment).or_default();
            *count += 1;
            let own = keys.filter(|_| index == 0);
            let interface = Interface {
                device: device(&place, index),
                link,
                segment,
                mac: own
                    .and_then(|keys| keys.mac.as_ref())
                    .map_or_else(|| mac(number, index), |mac| mac.value),
                ipv4: own
                    .and_then(|keys| keys.ipv4.as_ref())
                    .map_or_else(|| ipv4(segment, *count), |key| key.value),
                ipv6: own
                    .and_then(|keys| keys.ipv6.as_ref())
                    .map_or_else(|| ipv6(segment, *count), |key| key.value),
            };
            taken.all(name, own, &interface, problems);
            interface
        });
        let interfaces = interfaces.collect();
        Host { name: name.name.clone(), nic: nic(file, keys, &place), place, interfaces }
    });
    hosts.collect()
}

fn nic(file: &File, keys: Option<&HostKeys>, place: &Place) -> Option<NicSettings> {
    let own = keys.and_then(|keys| keys.nic.as_ref());
    let key = own.or(file.defaults.nic.as_ref());
    let default_nic = (!matches!(place, Place::Tap(_))).then(NicSettings::default);
    key.map_or(default_nic, |key| key.value.clone())
}

fn device(place: &Place, index: usize) -> String {
    match place {
        Place::Fresh => format!("eth{index}"),
        Place::Tap(tap) => tap.clone(),
        // Avoid the name eth0, which a device of an existing namespace may have.
        Place::Netns(_) | Place::Pid(_) | Place::Container(_) => format!("xoff{index}"),
    }
}

fn mac(number: u16, index: usize) -> MacAddr {
    let [high, low] = number.to_be_bytes();
    MacAddr([0x02, 0, 0, u8::try_from(index).unwrap_or(u8::MAX), high, low])
}

fn ipv4(segment: usize, count: u16) -> Address<Ipv4Addr> {
    let [high, low] = count.to_be_bytes();
    (Ipv4Addr::new(10, u8::try_from(segment + 1).unwrap_or(u8::MAX), high, low), IPV4_PREFIX)
}

fn ipv6(segment: usize, count: u16) -> Address<Ipv6Addr> {
    let segment = u16::try_from(segment + 1).unwrap_or(u16::MAX);
    (Ipv6Addr::new(0xfd78, 0x6f66, 0x6600, segment, 0, 0, 0, count), IPV6_PREFIX)
}

#[derive(Default)]
struct AddressOwners(BTreeMap<String, (String, Span)>);

impl AddressOwners {
    fn all(
        &mut self,
        host: &HostName,
        keys: Option<&HostKeys>,
        interface: &Interface,
        problems: &mut Problems,
    ) {
        let key_spans = [
            keys.and_then(|keys| keys.mac.as_ref()).map(|key| key.span),
            keys.and_then(|keys| keys.ipv4.as_ref()).map(|key| key.span),
            keys.and_then(|keys| keys.ipv6.as_ref()).map(|key| key.span),
        ];
        let addresses: [&dyn Display; 3] = [&interface.mac, &interface.ipv4.0, &interface.ipv6.0];
        for (address, key_span) in addresses.into_iter().zip(key_spans) {
            let span = key_span.unwrap_or(host.span);
            let Some((other, first)) = self.0.insert(address.to_string(), (host.name.clone(), span)) else {
                continue;
            };
            problems.push(
                Problem::error(format!("{other} and {} have the same address {address}", host.name))
                    .at(span, "second host")
                    .at(first, "first host")
                    .help("give another address; hosts without a given address get theirs by their order in the file"),
            );
        }
    }
}
