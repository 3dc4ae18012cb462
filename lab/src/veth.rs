use std::net::IpAddr;

use xoff_netlink::packet_route::RouteNetlinkMessage;
use xoff_netlink::packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkInfo, LinkMessage};
use xoff_netlink::{NLM_F_CREATE, NLM_F_EXCL, link_named};
use xoff_wire::units::MacAddr;

use super::netlink::netlink;
use super::{Device, LabError, Namespace};

#[derive(Clone, Debug)]
pub struct VethOptions {
    pub mtu: u32,
    pub queues: u32,
    /// Maximum packets in the device's queueing discipline. With 0, a full veth drops frames instead of blocking the sender.
    pub txqueuelen: u32,
}

impl Default for VethOptions {
    fn default() -> VethOptions {
        VethOptions { mtu: 1500, queues: 1, txqueuelen: 1000 }
    }
}

#[derive(Clone, Debug)]
pub struct VethEnd<'a> {
    namespace: &'a Namespace,
    name: &'a str,
    mac: Option<MacAddr>,
    group: Option<u32>,
    addresses: Vec<(IpAddr, u8)>,
}

impl Namespace {
    #[must_use]
    pub fn end<'a>(&'a self, device: &'a str) -> VethEnd<'a> {
        VethEnd::new(self, device)
    }

    /// Deletes a group of devices and their veth peers in one request, because the kernel waits once for each request.
    pub fn delete_group(&self, group: u32) -> Result<(), LabError> {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::Group(group));
        let link = RouteNetlinkMessage::DelLink(link);
        netlink(self, &format!("delete device group {group}"), |kernel| kernel.request(link, 0))
    }
}

impl<'a> VethEnd<'a> {
    pub(super) fn new(namespace: &'a Namespace, name: &'a str) -> VethEnd<'a> {
        VethEnd { namespace, name, mac: None, group: None, addresses: Vec::new() }
    }

    #[must_use]
    pub fn mac(mut self, mac: MacAddr) -> VethEnd<'a> {
        self.mac = Some(mac);
        self
    }

    #[must_use]
    pub fn group(mut self, group: u32) -> VethEnd<'a> {
        self.group = Some(group);
        self
    }

    #[must_use]
    pub fn address(mut self, address: impl Into<IpAddr>, prefix_len: u8) -> VethEnd<'a> {
        self.addresses.push((address.into(), prefix_len));
        self
    }

    fn link(&self, options: &VethOptions) -> LinkMessage {
        let mut link = link_named(self.name);
        link.attributes.extend([
            LinkAttribute::Mtu(options.mtu),
            LinkAttribute::TxQueueLen(options.txqueuelen),
            LinkAttribute::NumRxQueues(options.queues),
            LinkAttribute::NumTxQueues(options.queues),
        ]);
        link.attributes.extend(self.mac.map(|mac| LinkAttribute::Address(mac.0.to_vec())));
        link.attributes.extend(self.group.map(LinkAttribute::Group));
        link
    }
}

pub(super) fn veth(
    a: VethEnd<'_>,
    b: VethEnd<'_>,
    options: &VethOptions,
) -> Result<(Device, Device), LabError> {
    let what =
        format!("make the veth pair {}/{} - {}/{}", a.namespace.name(), a.name, b.namespace.name(), b.name);
    let (mut link, mut peer) = (a.link(options), b.link(options));
    peer.attributes.push(LinkAttribute::NetNsFd(b.namespace.raw_fd()));
    let peer = LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer)));
    link.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth), peer]));
    let link = RouteNetlinkMessage::NewLink(link);
    netlink(a.namespace, &what, |kernel| kernel.request(link, NLM_F_CREATE | NLM_F_EXCL))?;
    Ok((bring_up(&a)?, bring_up(&b)?))
}

fn bring_up(end: &VethEnd<'_>) -> Result<Device, LabError> {
    let device = Device::find(end.namespace, end.name)?;
    device.add_queue()?;
    // Disable IPv6, so that the kernel sends nothing before the peer is ready. A kernel without IPv6 lacks the
    // setting.
    let _ = end.namespace.sysctl(&format!("ipv6/conf/{}/disable_ipv6", end.name), "1");
    device.set_up(true)?;
    for &(address, prefix_len) in &end.addresses {
        device.add_address(address, prefix_len)?;
    }
    Ok(device)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::Duration;
    use std::{env, fs, thread};

    use super::*;
    use crate::Lab;
    use crate::netlink::read_link;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    fn pair(lab: &mut Lab, options: &VethOptions) -> (Device, Device) {
        let (a, b) = (lab.namespace("a").unwrap(), lab.namespace("b").unwrap());
        let far = b.end("eth0").address([10, 0, 0, 2], 24).address(v6(2), 64);
        lab.veth(a.end("p1").mac(MAC).address([10, 0, 0, 1], 24).address(v6(1), 64), far, options).unwrap()
    }

    fn v6(host: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host)
    }

    #[test]
    fn veth_pair_carries_and_counts_ipv4_and_ipv6() {
        let mut lab = Lab::new();
        let (a, b) = pair(&mut lab, &VethOptions::default());
        let before = b.counters().unwrap();
        for (from, to) in [
            (Ipv4Addr::UNSPECIFIED.into(), IpAddr::from([10, 0, 0, 2])),
            (IpAddr::from(Ipv6Addr::UNSPECIFIED), v6(2).into()),
        ] {
            let server = b.namespace().run(|| UdpSocket::bind((from, 700)).unwrap());
            server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let client = a.namespace().run(|| UdpSocket::bind((from, 0)).unwrap());
            client.send_to(b"hello", (to, 700)).unwrap();
            assert_eq!(server.recv(&mut [0; 16]).unwrap(), 5);
        }
        let after = b.counters().unwrap();
        assert!(after.rx_packets >= before.rx_packets + 2);
        assert_eq!((after.rx_dropped, after.tx_dropped), (0, 0));
        assert_eq!(lab.devices().len(), 2);
    }

    #[test]
    fn new_veth_pair_has_the_requested_mtu_and_queue_count() {
        let mut lab = Lab::new();
        let options = VethOptions { mtu: 9000, queues: 3, txqueuelen: 77 };
        let (a, b) = pair(&mut lab, &options);
        assert_eq!((a.mac(), a.name(), b.name()), (MAC, "p1", "eth0"));
        for device in [&a, &b] {
            let link = read_link(device.namespace(), device.name()).unwrap();
            for expected in [
                LinkAttribute::Mtu(9000),
                LinkAttribute::NumRxQueues(3),
                LinkAttribute::NumTxQueues(3),
                LinkAttribute::TxQueueLen(77),
                LinkAttribute::Qdisc("pfifo".to_owned()),
                LinkAttribute::Carrier(1),
            ] {
                assert!(link.attributes.contains(&expected), "{expected:?} in {link:?}");
            }
        }
        b.set_up(false).unwrap();
        let link = read_link(a.namespace(), a.name()).unwrap();
        assert!(link.attributes.contains(&LinkAttribute::Carrier(0)));
    }

    #[test]
    fn deleting_a_device_group_keeps_all_other_devices() {
        let mut lab = Lab::new();
        let [near, far] = ["near", "far"].map(|name| lab.namespace(name).unwrap());
        let pair = |device, group: Option<u32>| {
            let end = near.end(device);
            let end = group.map_or(end.clone(), |group| end.group(group));
            (end, far.end(device), VethOptions::default())
        };
        lab.veths(vec![pair("p1", Some(7)), pair("p2", None), pair("p3", Some(7))]).unwrap();
        near.delete_group(7).unwrap();
        let left = [&near, &far]
            .map(|namespace| ["p1", "p2", "p3"].map(|name| Device::find(namespace, name).is_ok()));
        assert_eq!(left, [[false, true, false]; 2]);
        assert!(near.delete_group(7).is_err());
    }

    #[test]
    fn veth_error_shows_device_pair_whose_name_is_taken() {
        let mut lab = Lab::new();
        let (a, b) = pair(&mut lab, &VethOptions::default());
        let again = lab.veth(a.namespace().end("p1"), b.namespace().end("e"), &VethOptions::default());
        let message = again.unwrap_err().to_string();
        assert!(message.starts_with("cannot make the veth pair a/p1 - b/e"), "{message}");
    }

    const VICTIM: &str = "XOFF_LAB_VICTIM";

    #[test] // proves: experiments
    fn kernel_removes_namespaces_of_a_lab_after_kill_9() {
        if env::var_os(VICTIM).is_some() {
            let mut lab = Lab::new();
            let (a, _) = pair(&mut lab, &VethOptions::default());
            fs::write(env::var_os(VICTIM).unwrap(), a.namespace().inode().to_string()).unwrap();
            loop {
                thread::park();
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let note = directory.path().join("inode");
        let this = "veth::tests::kernel_removes_namespaces_of_a_lab_after_kill_9";
        let mut victim = Command::new(env::current_exe().unwrap())
            .args(["--exact", this])
            .env(VICTIM, &note)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let inode = wait_for(|| fs::read_to_string(&note).ok().filter(|inode| !inode.is_empty()));
        assert!(in_use(&inode));
        victim.kill().unwrap();
        victim.wait().unwrap();
        wait_for(|| (!in_use(&inode)).then_some(()));
        assert!(fs::read_to_string("/proc/mounts").is_ok_and(|mounts| !mounts.contains(&inode)));
    }

    fn in_use(inode: &str) -> bool {
        let namespace = format!("net:[{inode}]");
        let lives_there = |task: &Path| {
            fs::read_link(task.join("ns/net")).is_ok_and(|link| link.as_os_str() == namespace.as_str())
        };
        let threads = |process: &Path| fs::read_dir(process.join("task")).into_iter().flatten().flatten();
        fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .any(|process| threads(&process.path()).any(|task| lives_there(&task.path())))
    }

    fn wait_for<T>(ready: impl Fn() -> Option<T>) -> T {
        for _ in 0..1000 {
            if let Some(value) = ready() {
                return value;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("waited in vain");
    }
}
