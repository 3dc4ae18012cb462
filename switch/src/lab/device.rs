//! veth pairs, made and read over rtnetlink.

use std::net::IpAddr;

use futures::TryStreamExt;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags};
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute, LinkMessage};
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, LinkVeth};
use tokio::runtime;
use xoff_dataplane::units::MacAddr;
use xoff_xdp::finish_frames;

use super::{LabError, Namespace};

/// What both ends of a veth pair have in common.
#[derive(Clone, Debug)]
pub struct VethOptions {
    /// MTU: payload bytes, without the Ethernet header.
    pub mtu: u32,
    /// Receive queues, and as many transmit queues.
    pub queues: u32,
    /// Packets that the queueing discipline in front of the device holds. Without one, a veth whose
    /// ring of 256 frames is full drops; with one it tells the sender to wait.
    pub txqueuelen: u32,
}

impl Default for VethOptions {
    fn default() -> VethOptions {
        VethOptions { mtu: 1500, queues: 1, txqueuelen: 1000 }
    }
}

/// One end of a wire to be made; see [`Namespace::end`].
#[derive(Clone, Debug)]
pub struct End<'a> {
    namespace: &'a Namespace,
    name: &'a str,
    mac: Option<MacAddr>,
    addresses: Vec<(IpAddr, u8)>,
}

impl<'a> End<'a> {
    pub(super) fn new(namespace: &'a Namespace, name: &'a str) -> End<'a> {
        End { namespace, name, mac: None, addresses: Vec::new() }
    }

    /// With this MAC address, instead of one that the kernel makes up.
    #[must_use]
    pub fn mac(mut self, mac: MacAddr) -> End<'a> {
        self.mac = Some(mac);
        self
    }

    /// With this IP address and prefix length; may be said again for more.
    #[must_use]
    pub fn address(mut self, address: impl Into<IpAddr>, prefix_len: u8) -> End<'a> {
        self.addresses.push((address.into(), prefix_len));
        self
    }

    fn link<T: Default>(
        &self,
        builder: LinkMessageBuilder<T>,
        options: &VethOptions,
    ) -> LinkMessageBuilder<T> {
        let mut builder = builder
            .name(self.name)
            .mtu(options.mtu)
            .txqueuelen(options.txqueuelen)
            .append_extra_attribute(LinkAttribute::NumRxQueues(options.queues))
            .append_extra_attribute(LinkAttribute::NumTxQueues(options.queues));
        if let Some(mac) = self.mac {
            builder = builder.address(mac.0.to_vec());
        }
        builder
    }
}

pub(super) fn veth(a: End<'_>, b: End<'_>, options: &VethOptions) -> Result<(Device, Device), LabError> {
    let what =
        format!("make veth pair {}/{} - {}/{}", a.namespace.name(), a.name, b.namespace.name(), b.name);
    netlink(a.namespace, &what, async |handle| {
        let peer = b.link(LinkMessageBuilder::<LinkUnspec>::default(), options);
        let peer = peer.setns_by_fd(b.namespace.raw_fd()).build();
        let message = a
            .link(LinkVeth::new(a.name, b.name), options)
            .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
            .build();
        handle.link().add(message).execute().await
    })?;
    Ok((Device::bring_up(&a)?, Device::bring_up(&b)?))
}

pub(super) fn loopback_up(namespace: &Namespace) -> Result<(), LabError> {
    let lo = LinkUnspec::new_with_name("lo").up().build();
    netlink(namespace, "bring lo up", async |handle| handle.link().set(lo).execute().await)
}

/// A network device in a namespace.
#[derive(Clone, Debug)]
pub struct Device {
    namespace: Namespace,
    name: String,
    index: u32,
    mac: MacAddr,
}

impl Device {
    fn bring_up(end: &End<'_>) -> Result<Device, LabError> {
        let link = read_link(end.namespace, end.name)?;
        let device = Device {
            namespace: end.namespace.clone(),
            name: end.name.to_owned(),
            index: link.header.index,
            mac: mac_of(&link),
        };
        device.add_queue()?;
        device.set_up(true)?;
        for &(address, prefix_len) in &end.addresses {
            device.add_address(address, prefix_len)?;
        }
        Ok(device)
    }

    /// Where it is.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Its name there.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its index there.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Its MAC address.
    #[must_use]
    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    /// Administratively up or down. The other end of a veth pair loses its carrier with it.
    ///
    /// # Errors
    /// Where the device is gone.
    pub fn set_up(&self, up: bool) -> Result<(), LabError> {
        let link = LinkUnspec::new_with_index(self.index);
        let link = if up { link.up() } else { link.down() };
        let what = format!("set {} {}", self.name, if up { "up" } else { "down" });
        netlink(&self.namespace, &what, async |handle| handle.link().set(link.build()).execute().await)
    }

    /// Gives the device an IP address. The first IPv6 one turns IPv6 on for this device.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub fn add_address(&self, address: IpAddr, prefix_len: u8) -> Result<(), LabError> {
        if address.is_ipv6() {
            self.silence_ipv6()?;
        }
        let what = format!("add {address}/{prefix_len} to {}", self.name);
        netlink(&self.namespace, &what, async |handle| {
            let mut request = handle.address().add(self.index, address, prefix_len);
            let nodad = AddressAttribute::Flags(AddressFlags::Nodad);
            request.message_mut().attributes.push(nodad);
            request.execute().await
        })
    }

    /// Tells the device for good that `address` is at `mac`, so that nobody has to ask.
    ///
    /// # Errors
    /// Where the device is gone.
    pub fn add_neighbour(&self, address: IpAddr, mac: MacAddr) -> Result<(), LabError> {
        let what = format!("tell {} where {address} is", self.name);
        netlink(&self.namespace, &what, async |handle| {
            handle.neighbours().add(self.index, address).link_layer_address(&mac.0).execute().await
        })
    }

    /// Makes it the device of a host of the kernel, beside a switch: the kernel finishes its own frames.
    ///
    /// # Errors
    /// Where the device is gone.
    pub fn finish_frames(&self) -> Result<(), LabError> {
        self.namespace.run(|| finish_frames(&self.name)).map_err(|source| LabError::Io {
            what: format!("turn offloads of {} off", self.name),
            namespace: self.namespace.name().to_owned(),
            source,
        })
    }

    /// What has passed and what was lost so far.
    ///
    /// # Errors
    /// Where the device is gone.
    pub fn counters(&self) -> Result<Counters, LabError> {
        let link = read_link(&self.namespace, &self.name)?;
        let stats = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Stats64(stats) => Some(*stats),
            _ => None,
        });
        let stats = stats.expect("every link message of Linux carries its statistics");
        Ok(Counters {
            rx_packets: stats.rx_packets,
            rx_bytes: stats.rx_bytes,
            tx_packets: stats.tx_packets,
            tx_bytes: stats.tx_bytes,
            rx_dropped: stats.rx_dropped + stats.rx_errors,
            tx_dropped: stats.tx_dropped + stats.tx_errors,
        })
    }

    fn add_queue(&self) -> Result<(), LabError> {
        let index = i32::try_from(self.index).expect("the kernel's interface indexes are positive ints");
        self.namespace.run(|| xoff_xdp::add_queue(index)).map_err(|source| LabError::Io {
            what: format!("put a pfifo on {}", self.name),
            namespace: self.namespace.name().to_owned(),
            source,
        })
    }

    fn silence_ipv6(&self) -> Result<(), LabError> {
        const NO_LINK_LOCAL: &str = "1";
        let settings = [
            ("addr_gen_mode", NO_LINK_LOCAL),
            ("accept_ra", "0"),
            ("accept_dad", "0"),
            ("router_solicitations", "0"),
            ("disable_ipv6", "0"),
        ];
        settings.into_iter().try_for_each(|(setting, value)| {
            self.namespace.sysctl(&format!("ipv6/conf/{}/{setting}", self.name), value)
        })
    }
}

/// Counters of a device since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the kernel's
pub struct Counters {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    /// Lost on the way in, errors included.
    pub rx_dropped: u64,
    /// Lost on the way out, errors included.
    pub tx_dropped: u64,
}

impl Counters {
    /// Lost on either way.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.rx_dropped + self.tx_dropped
    }
}

/// One conversation over rtnetlink, inside `namespace`.
fn netlink<T: Send>(
    namespace: &Namespace,
    what: &str,
    talk: impl AsyncFnOnce(Handle) -> Result<T, rtnetlink::Error> + Send,
) -> Result<T, LabError> {
    let (what, place) = (what.to_owned(), namespace.name().to_owned());
    namespace.run(|| {
        let runtime = runtime::Builder::new_current_thread().enable_io().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(source) => return Err(LabError::Io { what, namespace: place, source }),
        };
        runtime.block_on(async {
            match rtnetlink::new_connection() {
                Err(source) => Err(LabError::Io { what, namespace: place, source }),
                Ok((connection, handle, _)) => {
                    tokio::spawn(connection);
                    talk(handle).await.map_err(|source| LabError::Netlink { what, namespace: place, source })
                }
            }
        })
    })
}

fn read_link(namespace: &Namespace, name: &str) -> Result<LinkMessage, LabError> {
    netlink(namespace, &format!("read device {name}"), async |handle| {
        let mut links = handle.link().get().match_name(name.to_owned()).execute();
        links.try_next().await?.ok_or(rtnetlink::Error::RequestFailed)
    })
}

fn mac_of(link: &LinkMessage) -> MacAddr {
    let octets = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Address(octets) => <[u8; 6]>::try_from(octets.as_slice()).ok(),
        _ => None,
    });
    MacAddr(octets.expect("an Ethernet device has a MAC address"))
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
    use crate::lab::Lab;

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
    fn a_wire_carries_both_ip_versions_and_counts() {
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
    fn a_wire_is_made_as_told() {
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
    fn a_name_taken_is_refused_in_words() {
        let mut lab = Lab::new();
        let (a, b) = pair(&mut lab, &VethOptions::default());
        let again = lab.veth(a.namespace().end("p1"), b.namespace().end("e"), &VethOptions::default());
        let message = again.unwrap_err().to_string();
        assert!(message.starts_with("cannot make veth pair a/p1 - b/e"), "{message}");
    }

    /// Not a test by itself: the process that the next one kills.
    const VICTIM: &str = "XOFF_LAB_VICTIM";

    #[test]
    fn nothing_is_left_after_kill_9() {
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
        let this = "lab::device::tests::nothing_is_left_after_kill_9";
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

    /// Whether any thread of any process lives in the namespace.
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
