//! Tests of snooping, with IGMP and with MLD. Port 0 leads to a querier, unless a test says otherwise.

// Tests for SPECIFICATION.md: snooping

use std::net::Ipv4Addr;

use xoff_flow_control::settings::{
    ClassSettings, GroupSettings, Member, MulticastSettings, PortSettings, Spread, UnknownGroups,
};
use xoff_wire::multicast::QUERY_LEN;
use xoff_wire::units::{BitRate, Bytes, CLASSES};

use super::*;

const VID: u16 = 1;
const UP: [PortId; 6] = [PortId(0), PortId(1), PortId(2), PortId(3), PortId(4), PortId(5)];
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // times of tests are short
fn sec(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

struct Bench {
    snooper: Snooper,
    settings: SwitchSettings,
    version: Version,
    faults: Vec<SnoopingFault>,
    sent: Vec<(Nanos, Option<PortId>, Query)>,
    unsent: PortSet,
    now: Nanos,
}

impl Bench {
    fn new(version: Version, multicast: MulticastSettings) -> Bench {
        let classes = [ClassSettings::lossy(Bytes(40_000)); CLASSES];
        let port = |n: u8| PortSettings::plain(format!("p{n}"), MAC, BitRate::from_gbps(1), classes);
        let mut settings = SwitchSettings::plain((0..6).map(port).collect());
        settings.multicast = MulticastSettings { vlans: vec![VID], ..multicast };
        let mut snooper = Snooper::default();
        snooper.configure(Nanos::ZERO, &settings, MAC);
        snooper.set_up(Nanos::ZERO, UP.into_iter().collect());
        let (faults, sent, unsent) = (Vec::new(), Vec::new(), PortSet::NONE);
        Bench { snooper, settings, version, faults, sent, unsent, now: Nanos::ZERO }
    }

    fn until(&mut self, now: f64) -> &mut Bench {
        loop {
            let before = self.snooper.table(self.now, &self.settings);
            let at = self.snooper.next_deadline(self.now).max(self.now);
            let is_due = at <= sec(now);
            self.now = if is_due { at } else { sec(now) };
            let version = self.version;
            let (sent, at, unsent) = (&mut self.sent, self.now, self.unsent);
            let is_changed = self.snooper.advance(at, |_, port, query| {
                if matches!(query.source, Address::V4(_)) == (version == Version::Ipv4) {
                    sent.push((at, port, *query));
                }
                unsent
            });
            assert!(
                is_changed || self.snooper.table(at, &self.settings) == before,
                "unreported change of the table at {at:?}"
            );
            if !is_due || self.snooper.next_deadline(self.now) > sec(now) {
                self.now = sec(now);
                return self;
            }
        }
    }

    fn receive(&mut self, port: u8, frame: &[u8]) -> bool {
        let before = self.snooper.table(self.now, &self.settings);
        let faults = &mut self.faults;
        let is_changed = self.snooper.receive(self.now, VID, PortId(port), frame, |fault| faults.push(fault));
        assert!(is_changed || self.snooper.table(self.now, &self.settings) == before, "changed unnoticed");
        is_changed
    }

    fn group(&self, number: u8) -> Address {
        match self.version {
            Version::Ipv4 => Address::V4(0xef01_0200 + u32::from(number)),
            Version::Ipv6 => Address::V6((0xff05 << 112) + u128::from(number)),
        }
    }

    fn address(&self, host: u8) -> Address {
        match self.version {
            Version::Ipv4 if host == 0 => Address::V4(0),
            Version::Ipv4 => Address::V4(0x0a00_0000 + u32::from(host)),
            Version::Ipv6 => Address::V6((0xfe80 << 112) + u128::from(host)),
        }
    }

    fn query(&self, host: u8) -> Query {
        Query {
            source: self.address(host),
            group: None,
            has_sources: false,
            suppresses: false,
            max_response: sec(10.0),
            robustness: Some(2),
            interval: Some(sec(125.0)),
        }
    }

    fn queries(&mut self, port: u8, query: &Query) {
        let mut bytes = [0; QUERY_LEN];
        let frame = query.write(MAC, None, &mut bytes).to_vec();
        self.receive(port, &frame);
    }

    fn report(&mut self, port: u8, joins: bool, group: u8) -> bool {
        let frame = report(joins, self.group(group));
        self.receive(port, &frame)
    }

    /// Returns three lists of ports: for frames of `group`, frames of an unknown group, and reports. `all` means all
    /// ports.
    fn ports(&self, group: u8) -> [String; 3] {
        let table = self.snooper.table(self.now, &self.settings);
        let exits = |frame: Vec<u8>| {
            let header = Header::parse(&frame).unwrap();
            let exits = table.exits(VID, header.ether_type, header.payload(&frame));
            let names = |ports: PortSet| ports.iter().map(|port| port.0.to_string()).collect::<Vec<_>>();
            let is_all = |ports: &PortSet| UP.iter().all(|port| ports.contains(*port));
            exits.filter(|ports| !is_all(ports)).map_or("all".into(), |ports| names(ports).join(" "))
        };
        let data = |group| frame(group, 17, &[0; 8]);
        [exits(data(self.group(group))), exits(data(self.group(99))), exits(report(true, self.group(group)))]
    }
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) * 256 + u32::from(*pair.get(1).unwrap_or(&0))).sum()
}

fn checksum(sum: u32) -> [u8; 2] {
    let once = (sum & 0xffff) + (sum >> 16);
    u16::try_from(!(once + (once >> 16)) & 0xffff).unwrap().to_be_bytes()
}

fn frame(dst: Address, protocol: u8, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let len = u8::try_from(message.len()).unwrap();
    let mut frame = vec![1, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 0, 9];
    match dst {
        Address::V4(dst) => {
            let check = checksum(sum(&message));
            message[2..4].copy_from_slice(&check);
            let mut header = vec![0x45, 0, 0, 20 + len, 0, 0, 0, 0, 1, protocol, 0, 0, 10, 0, 0, 9];
            header.extend(dst.to_be_bytes());
            let check = checksum(sum(&header));
            header[10..12].copy_from_slice(&check);
            frame.extend([8, 0]);
            frame.extend(header);
        }
        Address::V6(dst) => {
            let mut header = vec![0x60, 0, 0, 0, 0, len + 8, 0, 1];
            header.extend(((0xfe80_u128 << 112) | 9).to_be_bytes());
            header.extend(dst.to_be_bytes());
            let check = checksum(sum(&message) + sum(&header[8..]) + u32::from(len) + u32::from(protocol));
            message[2..4].copy_from_slice(&check);
            header.extend([protocol, 0, 5, 2, 0, 0, 1, 0]); // Router Alert
            frame.extend([0x86, 0xdd]);
            frame.extend(header);
        }
    }
    frame.extend(message);
    frame
}

fn report(joins: bool, group: Address) -> Vec<u8> {
    match group {
        Address::V4(address) => {
            let mut message = vec![if joins { 0x16 } else { 0x17 }, 0, 0, 0];
            message.extend(address.to_be_bytes());
            frame(group, 2, &message)
        }
        Address::V6(address) => {
            let mut message = vec![if joins { 131 } else { 132 }, 0, 0, 0, 0, 0, 0, 0];
            message.extend(address.to_be_bytes());
            frame(group, 58, &message)
        }
    }
}

fn with_each_version(multicast: &MulticastSettings, test: impl Fn(Bench)) {
    Version::ALL.into_iter().for_each(|version| test(Bench::new(version, multicast.clone())));
}

const ALL: [&str; 3] = ["all"; 3];

#[test]
fn multicast_frames_are_flooded_without_a_querier() {
    with_each_version(&MulticastSettings::default(), |mut bench| {
        bench.until(1.0).report(2, true, 1);
        assert_eq!(bench.ports(1), ALL, "groups are restricted without a querier");
        let query = bench.query(7);
        bench.until(2.0).queries(0, &query);
        bench.until(12.4).report(3, true, 1);
        assert_eq!(
            bench.ports(1),
            ["all", "all", "0"],
            "groups are restricted before all hosts could answer"
        );
        bench.until(12.5);
        assert_eq!(bench.ports(1), ["0 2 3", "all", "0"]);
        bench.settings.multicast.unknown = UnknownGroups::Routers;
        assert_eq!(bench.ports(1), ["0 2 3", "0", "0"]);
        bench.settings.ports[5].multicast_router = true;
        assert_eq!(bench.ports(1), ["0 2 3 5", "0 5", "0 5"]);
        bench.until(100.0);
        bench.snooper.set_up(sec(100.0), UP[..5].iter().copied().collect());
        bench.snooper.set_up(sec(100.0), UP.into_iter().collect());
        bench.settings.ports[5].multicast_router = false;
        assert_eq!(bench.ports(1)[0], "0 2 3 5", "port with a new link is restricted before a query");
        bench.until(127.0).queries(0, &query);
        assert_eq!([137.4, 137.5].map(|at| bench.until(at).ports(1)[0].clone()), ["0 2 3 5", "0 2 3"]);
        bench.until(381.9);
        assert_eq!(bench.ports(1)[2], "0");
        bench.until(382.0);
        assert_eq!(bench.ports(1), ALL, "groups stay restricted after the querier's silence");
    });
}

#[test]
fn multicast_membership_ends_after_membership_interval() {
    with_each_version(&MulticastSettings::default(), |mut bench| {
        let query = bench.query(7);
        bench.queries(0, &query);
        bench.until(20.0).report(2, true, 1);
        bench.until(21.0).report(3, true, 1);
        for at in [125.0, 250.0] {
            bench.until(at).queries(0, &query);
        }
        bench.until(279.9);
        assert_eq!(bench.ports(1)[0], "0 2 3");
        bench.until(280.0);
        assert_eq!(bench.ports(1)[0], "0 3", "membership does not end after 2 x 125 s + 10 s");
        let short = Query { max_response: sec(1.0), robustness: Some(3), interval: Some(sec(10.0)), ..query };
        bench.queries(0, &short);
        bench.report(4, true, 1);
        bench.until(300.0).queries(0, &short);
        assert_eq!(bench.until(310.9).ports(1)[0], "0 4", "the first query's membership has not ended");
        assert_eq!(bench.snooper.groups(), 1);
        bench.until(311.0);
        assert_eq!(bench.snooper.groups(), 0, "membership does not end after 3 x 10 s + 1 s");
    });
}

#[test]
fn unanswered_group_query_ends_multicast_membership() {
    with_each_version(&MulticastSettings::default(), |mut bench| {
        let query = bench.query(7);
        bench.queries(0, &query);
        bench.until(20.0);
        for port in [2, 3] {
            bench.report(port, true, 1);
        }
        bench.report(2, false, 1);
        assert_eq!(bench.until(30.0).ports(1)[0], "0 2 3", "a leave alone ended a membership");
        assert_eq!(bench.sent, []);
        let of_group = Query { group: Some(bench.group(1)), max_response: sec(1.0), ..query };
        bench.queries(0, &Query { group: Some(bench.group(2)), ..of_group });
        bench.queries(0, &of_group);
        bench.until(31.0).report(3, true, 1);
        assert_eq!(bench.until(32.4).ports(1)[0], "0 2 3");
        assert_eq!(bench.until(32.5).ports(1)[0], "0 3");
    });
}

#[test]
fn switch_as_querier_sends_two_queries_after_a_leave() {
    let querier = Some(Ipv4Addr::UNSPECIFIED);
    with_each_version(&MulticastSettings { querier, ..MulticastSettings::default() }, |mut bench| {
        bench.until(11.0);
        for port in [2, 3] {
            bench.report(port, true, 1);
        }
        assert_eq!(bench.ports(1), ["2 3", "all", ""]);
        bench.sent.clear();
        bench.until(20.0);
        for joins in [false, false] {
            bench.report(2, joins, 1);
        }
        assert_eq!(bench.until(22.4).ports(1)[0], "2 3");
        assert_eq!(bench.until(22.5).ports(1)[0], "3");
        let queries =
            bench.sent.iter().map(|(at, port, query)| (*at, *port, query.group, query.max_response));
        let expected = [20.0, 21.0].map(|at| (sec(at), Some(PortId(2)), Some(bench.group(1)), sec(1.0)));
        assert_eq!(queries.collect::<Vec<_>>(), expected);
        bench.settings.ports[3].fast_leave = true;
        bench.snooper.configure(bench.now, &bench.settings, MAC);
        bench.report(3, false, 1);
        assert_eq!(
            (bench.ports(1)[0].as_str(), bench.sent.len()),
            ("all", 2),
            "fast leave does not end the membership at once"
        );
    });
}

#[test]
fn querier_with_lowest_address_is_elected() {
    let querier = Some(Ipv4Addr::new(10, 0, 0, 5));
    with_each_version(&MulticastSettings { querier, ..MulticastSettings::default() }, |mut bench| {
        let sent_at = |bench: &mut Bench| {
            let sent = std::mem::take(&mut bench.sent);
            sent.into_iter().map(|(at, ..)| at.0 / 1_000_000_000).collect::<Vec<_>>()
        };
        bench.until(160.0);
        assert_eq!(sent_at(&mut bench), [0, 31, 156], "queries are not two at first, then one every 125 s");
        // The switch's own MLD source, made from its MAC address, is above the addresses of this test's hosts.
        let [higher, lower] = match bench.version {
            Version::Ipv4 => [bench.address(9), bench.address(1)],
            Version::Ipv6 => [Address::V6((0xfe80 << 112) | u128::from(u64::MAX)), bench.address(1)],
        };
        let query = Query { source: higher, ..bench.query(7) };
        for at in [161.0, 162.0] {
            bench.until(at).queries(4, &query);
        }
        assert_eq!(bench.faults, []);
        bench.until(163.0).queries(4, &query);
        assert_eq!(bench.faults, [SnoopingFault::TwoQueriers(VID, PortId(4), higher)]);
        bench.until(290.0);
        assert_eq!(sent_at(&mut bench), [281], "switch gives way to a querier with a higher address");
        if bench.version == Version::Ipv4 {
            let none = Query { source: bench.address(0), ..query };
            bench.until(291.0).queries(3, &none);
            assert_eq!(bench.ports(1)[2], "3 4", "a bridge behind the port may need reports");
        }
        bench.until(300.0).queries(4, &Query { source: lower, ..query });
        assert_eq!(bench.until(554.9).sent, []);
        assert_eq!(
            sent_at(bench.until(556.0)),
            [555],
            "switch does not query after 2 x 125 s + 5 s of silence"
        );
        let brief = Query { max_response: sec(1.0), robustness: Some(3), interval: Some(sec(10.0)), ..query };
        bench.until(560.0).queries(4, &Query { source: lower, ..brief });
        assert_eq!(sent_at(bench.until(591.0)), [590], "switch does not query as soon as it is elected");
        assert_eq!(bench.faults.len(), 1);
    });
}

#[test]
fn frames_of_multicast_groups_beyond_maximum_are_flooded() {
    let multicast =
        MulticastSettings { groups_max: 1, unknown: UnknownGroups::Routers, ..MulticastSettings::default() };
    with_each_version(&multicast, |mut bench| {
        let query = bench.query(7);
        bench.queries(0, &query);
        bench.until(20.0);
        for (port, group) in [(2, 1), (2, 1), (2, 2), (3, 3), (3, 1)] {
            bench.report(port, true, group);
        }
        assert_eq!(
            (bench.faults.as_slice(), bench.snooper.counts.refused),
            (&[SnoopingFault::TableFull][..], 2)
        );
        assert_eq!([1, 2].map(|group| bench.ports(group)[0].clone()), ["0 2 3", "all"]);
        for at in [125.0, 250.0] {
            bench.until(at).queries(0, &query);
        }
        assert_eq!([279.9, 280.0].map(|at| bench.until(at).ports(2)[0].clone()), ["all", "0"]);
    });
}

#[test]
fn damaged_and_link_local_membership_reports_are_ignored() {
    with_each_version(&MulticastSettings::default(), |mut bench| {
        let query = bench.query(7);
        bench.queries(0, &query);
        bench.until(20.0);
        let local = match bench.version {
            Version::Ipv4 => Address::V4(0xe000_00fb),
            Version::Ipv6 => Address::V6((0xff02 << 112) | 0x1_ff00_0009),
        };
        bench.receive(2, &report(true, local));
        let mut damaged = report(true, bench.group(1));
        *damaged.last_mut().unwrap() ^= 0x40;
        bench.receive(2, &damaged);
        bench.receive(2, &damaged[..20]);
        assert_eq!((bench.snooper.groups(), bench.snooper.counts.reports), (0, 1));
        let malformed = &bench.snooper.counts.malformed;
        assert_eq!((malformed[MembershipError::Checksum.index()], malformed.iter().sum::<u64>()), (1, 2));
    });
}

#[test]
fn port_that_received_pim_hello_gets_membership_reports() {
    with_each_version(&MulticastSettings::default(), |mut bench| {
        let query = bench.query(7);
        bench.queries(0, &query);
        let all_routers = match bench.version {
            Version::Ipv4 => Address::V4(0xe000_000d),
            Version::Ipv6 => Address::V6((0xff02 << 112) | 0xd),
        };
        bench.until(20.0).receive(4, &frame(all_routers, 103, &[0x20, 0, 0, 0, 0, 1, 0, 2, 0, 105]));
        assert_eq!([124.9, 125.0].map(|at| bench.until(at).ports(1)[2].clone()), ["0 4", "0"]);
    });
}

fn group_ports(bench: &mut Bench) {
    let members = [3, 1].map(|port| Member { port: PortId(port), weight: 1 }).to_vec();
    let (name, spread) = ("g".into(), Spread::Flow);
    bench.settings.groups =
        vec![GroupSettings { name, members, spread, uplinks: false, salt: 0, lacp: None }];
    bench.snooper.configure(bench.now, &bench.settings, MAC);
    bench.snooper.set_up(bench.now, UP.into_iter().collect());
}

#[test]
fn first_port_of_lag_represents_all_its_ports_in_snooping() {
    with_each_version(&MulticastSettings::default(), |mut bench| {
        group_ports(&mut bench);
        let query = bench.query(7);
        bench.queries(3, &query);
        bench.until(20.0).report(4, true, 1);
        assert_eq!(bench.ports(1), ["1 4", "all", "1"]);
    });
}

#[test]
fn leave_at_any_port_of_a_lag_ends_multicast_membership() {
    let querier = Some(Ipv4Addr::UNSPECIFIED);
    with_each_version(&MulticastSettings { querier, ..MulticastSettings::default() }, |mut bench| {
        group_ports(&mut bench);
        bench.until(20.0);
        for (port, joins) in [(4, true), (3, true), (1, false)] {
            assert!(bench.report(port, joins, 1), "port {port}");
        }
        assert_eq!(bench.ports(1)[0], "1 4");
        assert_eq!(bench.until(22.5).ports(1)[0], "4");
        assert_eq!(
            bench.sent.last().unwrap().1,
            Some(PortId(1)),
            "query goes to another port than the group's first"
        );
    });
}

#[test]
fn repeated_membership_report_changes_no_group() {
    with_each_version(&MulticastSettings::default(), |mut bench| {
        let changes =
            [(true, 1), (true, 1), (false, 1), (true, 2)].map(|(joins, at)| bench.report(at, joins, 1));
        assert_eq!(changes, [true, false, false, true], "a leave or repeated report counts as a change");
    });
}

#[test]
fn unsent_multicast_queries_are_repeated_soon() {
    let querier = Some(Ipv4Addr::UNSPECIFIED);
    with_each_version(&MulticastSettings { querier, ..MulticastSettings::default() }, |mut bench| {
        bench.unsent.insert(PortId(2));
        bench.until(20.0).report(3, true, 1);
        assert_eq!(bench.ports(1)[0], "2 3", "port 2 is restricted although nobody was queried there");
        bench.unsent = PortSet::NONE;
        assert_eq!([30.4, 33.0].map(|at| bench.until(at).ports(1)[0].clone()), ["2 3", "3"]);
        bench.unsent.insert(PortId(3));
        bench.report(3, false, 1);
        assert_eq!(bench.until(60.0).ports(1)[0], "3", "membership ends without a query");
        bench.unsent = PortSet::NONE;
        assert_eq!(bench.until(64.0).ports(1)[0], "all");
    });
}
