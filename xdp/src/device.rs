//! A device made ready to be a port, and left as it was found.

use std::io;
use std::os::fd::OwnedFd;

use xoff_dataplane::units::MacAddr;
use xoff_ebpf::{Claim, Clsact, Filtered, Mode};

use crate::XdpError;
use crate::netlink::{Netlink, PFIFO};
use crate::sys::{self, Ethtool};

/// Major number of the handle of a queueing discipline that we gave a device (`tc qdisc` shows it as `ff:`): the
/// kernel makes up none below 0x8000.
const OUR_QDISC: u16 = 0xff;

/// What a port turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The interface.
    pub device: String,
    /// Its index in its network namespace.
    pub ifindex: i32,
    /// Its address.
    pub mac: MacAddr,
    /// Payload bytes of its longest frame.
    pub mtu: u32,
    /// How many of its receive queues have a socket.
    pub queues: u32,
    /// Where the XDP program runs.
    pub mode: Mode,
    /// Whether the device shares the packet memory.
    pub zero_copy: bool,
    /// Whether VLAN tags, and with them PCPs, stay in the frames. A port where they do not is not
    /// lossless by PCP.
    pub tags_kept: bool,
    /// What could not be set, in words.
    pub warnings: Vec<String>,
}

/// Makes a veth the device of a host whose kernel finishes its own frames: checksums in place, no longer
/// than the MTU, and in order where a sender changes its CPU (which takes GRO).
///
/// # Errors
/// Where there is no such device, or its driver refuses.
pub fn finish_frames(device: &str) -> io::Result<()> {
    let ethtool = Ethtool::new(device)?;
    let features = [(Ethtool::SET_TX_CHECKSUM, 0), (Ethtool::SET_TSO, 0), (Ethtool::SET_GRO, 1)];
    features.into_iter().try_for_each(|(command, value)| ethtool.set(command, value))
}

/// A device that has been made ready. Dropping it undoes what was done.
#[derive(Debug)]
pub(crate) struct Device {
    name: String,
    ifindex: i32,
    mac: MacAddr,
    mtu: u32,
    queues: u32,
    tags_kept: bool,
    warnings: Vec<String>,
    netlink: Netlink,
    ethtool: Ethtool,
    _promiscuous: Option<OwnedFd>,
    undo: Undo,
    /// Given up last: then another xoff may make the device ready.
    claim: Claim,
}

#[derive(Debug, Default)]
struct Undo {
    down: bool,
    qdisc: bool,
    clsact: bool,
    flags: Option<u32>,
}

impl Device {
    /// Brings the device up, makes it promiscuous, keeps VLAN tags in the frames, and gives a device
    /// without a queue (a veth) one, so that it says busy instead of dropping.
    pub(crate) fn prepare(name: &str) -> Result<Device, XdpError> {
        let refused = |doing| {
            move |source: io::Error| match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    XdpError::NotPrivileged { missing: vec!["CAP_NET_ADMIN".to_owned()] }
                }
                _ => XdpError::Device { doing, device: name.to_owned(), source },
            }
        };
        let netlink = Netlink::open().map_err(refused("talk to the kernel about"))?;
        let link = netlink.link(name).map_err(refused("look at"))?;
        let link = link.ok_or_else(|| XdpError::NoSuchInterface { device: name.to_owned() })?;
        let claim = Claim::take(name, link.ifindex)?;
        let ethtool = Ethtool::new(name).map_err(refused("talk to the driver of"))?;
        let mut device = Device {
            name: name.to_owned(),
            ifindex: link.ifindex,
            mac: link.mac,
            mtu: link.mtu,
            queues: ethtool.rx_queues(),
            tags_kept: false,
            warnings: Vec::new(),
            netlink,
            ethtool,
            _promiscuous: None,
            undo: Undo::default(),
            claim,
        };
        if !link.up {
            device.netlink.set_up(link.ifindex, true).map_err(refused("bring up"))?;
            device.undo.down = true;
        }
        let promiscuous = sys::promiscuous(link.ifindex).map_err(refused("make promiscuous"))?;
        device._promiscuous = Some(promiscuous);
        device.keep_tags();
        device.add_queue(&link.qdisc);
        device.undo.clsact = device.netlink.add_clsact(link.ifindex).unwrap_or(false); // the filter says why not
        Ok(device)
    }

    /// How many receive queues the device called `name` has.
    pub(crate) fn rx_queues(name: &str) -> Result<u32, XdpError> {
        let refused = |source| XdpError::Device { doing: "look at", device: name.to_owned(), source };
        let netlink = Netlink::open().map_err(refused)?;
        let link = netlink.link(name).map_err(refused)?;
        link.ok_or_else(|| XdpError::NoSuchInterface { device: name.to_owned() })?;
        Ok(Ethtool::new(name).map_err(refused)?.rx_queues())
    }

    fn keep_tags(&mut self) {
        let before = self.ethtool.flags();
        if let Some(flags) = before.filter(|flags| flags & Ethtool::VLAN_FLAGS != 0)
            && self.ethtool.set_flags(flags & !Ethtool::VLAN_FLAGS).is_ok()
        {
            self.undo.flags = Some(flags);
        }
        let now = self.ethtool.flags();
        self.tags_kept = now.is_some_and(|flags| flags & Ethtool::VLAN_FLAGS == 0);
        if !self.tags_kept {
            self.warnings.push(format!(
                "the driver of {} keeps VLAN tags out of the frames (`ethtool -K {} rxvlan off txvlan off` \
                 fails): classes by PCP cannot be called lossless here",
                self.name, self.name
            ));
        }
    }

    fn add_queue(&mut self, qdisc: &str) {
        if qdisc == PFIFO && self.netlink.has_pfifo(self.ifindex, OUR_QDISC).unwrap_or(false) {
            self.undo.qdisc = true; // a killed xoff left it
        }
        if qdisc != "noqueue" {
            return;
        }
        match self.netlink.add_pfifo(self.ifindex, OUR_QDISC) {
            Ok(()) => self.undo.qdisc = true,
            Err(error) => self.warnings.push(format!(
                "{} has no queueing discipline and takes none ({error}): where its ring is full it drops",
                self.name
            )),
        }
    }

    /// Takes note of what became of the filter at the device.
    pub(crate) fn filtered(&mut self, filter: &Filtered) {
        match filter {
            Filtered::New(_) => {}
            Filtered::Replaced(_) => self.undo.clsact = true, // a killed xoff left it
            Filtered::Refused(error) => self.warnings.push(format!(
                "the kernel's own stack cannot be kept from sending on {} ({error:#}): where it does while the link is down, \
                 the device counts losses, and the switch cannot tell them from its own",
                self.name
            )),
        }
    }

    /// Where filters of the device hang.
    pub(crate) fn clsact(&self) -> Clsact {
        if self.undo.clsact { Clsact::New } else { Clsact::Found }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn ifindex(&self) -> i32 {
        self.ifindex
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(crate) fn queues(&self) -> u32 {
        self.queues
    }

    pub(crate) fn facts(&self, queues: u32, mode: Mode, zero_copy: bool) -> Facts {
        Facts {
            device: self.name.clone(),
            ifindex: self.ifindex,
            mac: self.mac,
            mtu: self.mtu,
            queues,
            mode,
            zero_copy,
            tags_kept: self.tags_kept,
            warnings: self.warnings.clone(),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Nothing to be done about failures: the device may be gone, or the privilege.
        if let Some(flags) = self.undo.flags {
            let _ = self.ethtool.set_flags(flags);
        }
        if self.undo.clsact {
            let _ = self.netlink.remove_clsact(self.ifindex);
        }
        if self.undo.qdisc {
            let _ = self.netlink.remove_qdisc(self.ifindex);
        }
        if self.undo.down {
            let _ = self.netlink.set_up(self.ifindex, false);
        }
    }
}
