//! A device made ready to be a port, and left as it was found.

use std::io;
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};
use xoff_ebpf::{Claim, Clsact, Filtered, Mode};
use xoff_netlink::tc::Handle;
use xoff_wire::units::MacAddr;

use crate::driver::{self, Driver};
use crate::error::{Obstacle, XdpError};
use crate::journal::{Journal, Left, Owner};
use crate::netlink::{Link, Netlink, OwnAddresses};
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
    /// Its driver.
    pub driver: Driver,
    /// How many of its receive queues have a socket.
    pub queues: u32,
    /// Where the XDP program runs.
    pub mode: Mode,
    /// Whether the device reads and writes packet memory itself.
    pub zero_copy: bool,
    /// Whether frames reached anybody when the port was opened.
    pub carrier: bool,
    /// Whether VLAN tags, and with them PCPs, stay in the frames. A port where they do not is not
    /// lossless by PCP.
    pub tags_kept: bool,
    /// What could not be set, in words.
    pub warnings: Vec<String>,
}

/// A device that is claimed, or made ready, too. Dropping it undoes what was done.
#[derive(Debug)]
pub(crate) struct Device {
    name: String,
    driver: Driver,
    ifindex: i32,
    mac: MacAddr,
    mtu: u32,
    queues: u32,
    tags_kept: bool,
    warnings: Vec<String>,
    /// As it was before it was made ready.
    found: Link,
    netlink: Netlink,
    ethtool: Ethtool,
    _promiscuous: Option<OwnedFd>,
    undo: Undo,
    journal: Journal,
    /// Given up last: then another xoff may make the device ready.
    claim: Claim,
}

/// What it means that something could not be done to a device.
fn refused(device: &str, doing: &'static str) -> impl Fn(io::Error) -> XdpError {
    let device = device.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => {
            XdpError::NotPrivileged { missing: vec!["CAP_NET_ADMIN".to_owned()] }
        }
        _ => XdpError::Device { doing, device: device.clone(), source },
    }
}

/// What was changed, or is about to be, and is to be put back where it still is as it was set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Undo {
    /// It was down.
    down: bool,
    /// It had no queueing discipline.
    qdisc: bool,
    /// It had no clsact.
    clsact: bool,
    /// VLAN offloads that were on.
    flags: u32,
    /// How the kernel made addresses.
    own_addresses: Option<OwnAddresses>,
}

impl Device {
    /// The device of that name, for nobody else, and as it is: it is to be [made ready](Self::prepare). One that runs a
    /// stranger's program is left alone.
    pub(crate) fn take(name: &str) -> Result<Device, XdpError> {
        let refused = |doing| refused(name, doing);
        let netlink = Netlink::open().map_err(refused("talk to the kernel about"))?;
        let link = netlink.link(name).map_err(refused("look at"))?;
        let link = link.ok_or_else(|| XdpError::NoSuchInterface { device: name.to_owned() })?;
        let claim = Claim::take(name, link.ifindex)?;
        if let Some(program) = link.program {
            xoff_ebpf::may_replace(&claim, program)?;
        }
        let ethtool = Ethtool::new(name).map_err(refused("talk to the driver of"))?;
        let journal = Journal::of(Owner::Switch, link.permanent_address);
        let mut warnings = Vec::new();
        let undo = match journal.left::<Undo>(&claim) {
            Left::Nothing => Undo::default(),
            Left::Changes(undo) => undo.as_it_holds(&link, &netlink, &ethtool).map_err(refused("look at"))?,
            Left::Other => return Err(XdpError::LeftByHost { device: name.to_owned() }),
            Left::Unreadable(warning) => {
                warnings.push(warning);
                Undo::default()
            }
        };
        Ok(Device {
            driver: Driver(ethtool.driver().unwrap_or_default()),
            name: name.to_owned(),
            ifindex: link.ifindex,
            mac: link.mac,
            mtu: link.mtu,
            queues: ethtool.rx_queues(),
            tags_kept: false,
            warnings,
            netlink,
            ethtool,
            _promiscuous: None,
            undo,
            journal,
            claim,
            found: link,
        })
    }

    /// Has the kernel make no IPv6 address of its own there, brings the device up, makes it promiscuous, keeps VLAN tags in
    /// the frames, and gives a device without a queue (a veth) one, so that it says busy instead of dropping.
    pub(crate) fn prepare(&mut self) -> Result<(), XdpError> {
        let name = self.name.clone();
        let refused = |doing| refused(&name, doing);
        self.stop_own_addresses();
        if !self.found.up {
            self.change(|undo| undo.down = true, |device| device.netlink.set_up(device.ifindex, true))
                .map_err(refused("bring up"))?;
        }
        let promiscuous = sys::promiscuous(self.ifindex).map_err(refused("make promiscuous"))?;
        self._promiscuous = Some(promiscuous);
        self.keep_tags();
        self.warnings.extend(self.ethtool.receive_ring().and_then(|ring| ring.advice(&name)));
        self.warnings.extend(self.ethtool.flow_control().and_then(|pause| pause.advice(&name)));
        self.add_queue();
        self.add_clsact();
        Ok(())
    }

    /// Writes down what is about to be changed, and changes it.
    fn change(
        &mut self,
        note: impl FnOnce(&mut Undo),
        change: impl FnOnce(&Device) -> io::Result<()>,
    ) -> io::Result<()> {
        let before = self.undo;
        note(&mut self.undo);
        let done = self.journal.write(&self.claim, &self.undo).and_then(|()| change(self));
        if done.is_err() {
            self.undo = before;
            let _ = self.journal.write(&self.claim, &self.undo); // what was not changed is as it was
        }
        done
    }

    /// Puts back what was changed and still is as it was set. The page of the journal stays where a part fails: the next start, or
    /// `xoff nic --restore`, tries again.
    fn put_back(&mut self) -> io::Result<()> {
        if self.undo != Undo::default()
            && let Some(now) = self.netlink.link_at(self.ifindex)?
        {
            self.undo.put_back(&now, &self.netlink, &self.ethtool.about(&now.name)?)?;
        }
        self.undo = Undo::default();
        Journal::clear(&self.claim);
        Ok(())
    }

    fn add_clsact(&mut self) {
        // Somebody else's is not taken away; where there is none, or the kernel takes none, the filter says why not.
        if self.netlink.has_clsact(self.ifindex).is_ok_and(|is_there| !is_there) {
            let add = |device: &Device| device.netlink.add_clsact(device.ifindex);
            let _ = self.change(|undo| undo.clsact = true, add);
        }
    }

    /// How many receive queues the device called `name` has.
    pub(crate) fn rx_queues(name: &str) -> Result<u32, XdpError> {
        let refused = |source| XdpError::Device { doing: "look at", device: name.to_owned(), source };
        let netlink = Netlink::open().map_err(refused)?;
        let link = netlink.link(name).map_err(refused)?;
        link.ok_or_else(|| XdpError::NoSuchInterface { device: name.to_owned() })?;
        Ok(Ethtool::new(name).map_err(refused)?.rx_queues())
    }

    /// A device that comes up, or whose cable does, gets an address of the kernel's, which the kernel then tells others of, asks
    /// whether it has it alone, and asks routers for more.
    fn stop_own_addresses(&mut self) {
        let found = self.found.own_addresses.filter(|&found| found != OwnAddresses::NONE);
        if let Some(found) = found {
            let stop = |device: &Device| device.netlink.set_own_addresses(device.ifindex, OwnAddresses::NONE);
            let _ = self.change(|undo| undo.own_addresses = Some(found), stop); // what it sends is held back
        }
    }

    fn keep_tags(&mut self) {
        let before = self.ethtool.flags();
        if let Some(flags) = before.filter(|flags| flags & Ethtool::VLAN_FLAGS != 0) {
            // A driver that cannot change one of them refuses both; e1000 takes the other along. What is sent has its
            // tags in the frames anyway.
            let wanted = [Ethtool::VLAN_FLAGS, Ethtool::RX_VLAN_FLAG];
            let clear = |device: &Device| {
                let cleared = wanted.into_iter().any(|off| device.ethtool.set_flags(flags & !off).is_ok());
                if cleared { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
            };
            let _ = self.change(|undo| undo.flags |= flags & Ethtool::VLAN_FLAGS, clear); // told below
        }
        let now = self.ethtool.flags();
        self.tags_kept = now.is_some_and(|flags| flags & Ethtool::RX_VLAN_FLAG == 0);
        if !self.tags_kept {
            self.warnings.push(format!(
                "the driver of {} keeps VLAN tags out of the frames (`ethtool -K {} rxvlan off` \
                 fails): classes by PCP cannot be called lossless here",
                self.name, self.name
            ));
        }
    }

    fn add_queue(&mut self) {
        let qdisc = self.found.qdisc.as_str();
        if qdisc != "noqueue" {
            return;
        }
        let add = |device: &Device| device.netlink.add_pfifo(device.ifindex, OUR_QDISC);
        match self.change(|undo| undo.qdisc = true, add) {
            Ok(()) => {}
            Err(error) => self.warnings.push(format!(
                "{} has no queueing discipline and takes none ({error}): where its ring is full it drops",
                self.name
            )),
        }
    }

    /// Takes note of what became of the filter at the device.
    pub(crate) fn filtered(&mut self, filter: &Filtered) {
        match filter {
            Filtered::New(_) | Filtered::Replaced(_) => {}
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

    /// Returns the mode in which the XDP program is attached; `None`: native where the driver can, else generic.
    pub(crate) fn mode(&self, wanted: Option<Mode>) -> Result<Option<Mode>, XdpError> {
        let release = driver::kernel_release().unwrap_or_default();
        let most = self.driver.native_mtu_max(&release).filter(|&most| self.mtu > most);
        match (wanted, most) {
            (None, None) => Ok(None),
            (None, Some(_)) | (Some(Mode::Generic), _) => Ok(Some(Mode::Generic)),
            (Some(Mode::Native), None) => Ok(Some(Mode::Native)),
            (Some(Mode::Native), Some(most)) => {
                Err(XdpError::LostNatively { device: self.name.clone(), mtu: self.mtu, most })
            }
        }
    }

    /// What keeps it from sharing packet memory with chunks of that size.
    pub(crate) fn obstacle(&self, mode: Mode, chunk_bytes: u32) -> Option<Obstacle> {
        match mode {
            Mode::Generic => Some(Obstacle::Generic),
            Mode::Native => self.driver.obstacle(chunk_bytes, self.mtu),
        }
    }

    /// It is gone: whatever has its name or its index since is left alone.
    pub(crate) fn forget(&mut self) {
        self.undo = Undo::default();
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
            driver: self.driver.clone(),
            queues,
            mode,
            zero_copy,
            carrier: self.netlink.link(&self.name).ok().flatten().is_none_or(|link| link.carrier),
            tags_kept: self.tags_kept,
            warnings: self.warnings.clone(),
        }
    }
}

impl Undo {
    /// What of it still is as it was set.
    fn as_it_holds(self, found: &Link, netlink: &Netlink, ethtool: &Ethtool) -> io::Result<Undo> {
        let flags = match self.flags {
            0 => 0,
            flags => flags & !ethtool.flags().ok_or(io::ErrorKind::Unsupported)?,
        };
        Ok(Undo {
            down: self.down && found.up,
            qdisc: self.qdisc && netlink.has_pfifo(found.ifindex, OUR_QDISC)?,
            clsact: self.clsact && netlink.has_clsact(found.ifindex)?,
            flags,
            own_addresses: self.own_addresses.filter(|_| found.own_addresses == Some(OwnAddresses::NONE)),
        })
    }

    /// Puts back each part that still is as it was set, whatever becomes of the others; returns the first error.
    fn put_back(self, found: &Link, netlink: &Netlink, ethtool: &Ethtool) -> io::Result<()> {
        let ifindex = found.ifindex;
        let put_back = |part: Undo| {
            let part = part.as_it_holds(found, netlink, ethtool)?;
            if part.flags != 0 {
                ethtool.set_flags(ethtool.flags().unwrap_or(0) | part.flags)?;
            }
            if part.clsact {
                remove_clsact(ifindex, netlink)?;
            }
            if part.qdisc {
                netlink.remove_qdisc(ifindex)?;
            }
            if part.down {
                netlink.set_up(ifindex, false)?;
            }
            part.own_addresses.map_or(Ok(()), |mode| netlink.set_own_addresses(ifindex, mode))
        };
        self.parts().map(put_back).into_iter().collect()
    }

    /// The same, one part each.
    fn parts(self) -> [Undo; 5] {
        let Undo { down, qdisc, clsact, flags, own_addresses } = self;
        let none = Undo::default();
        [
            Undo { flags, ..none },
            Undo { clsact, ..none },
            Undo { qdisc, ..none },
            Undo { down, ..none },
            Undo { own_addresses, ..none },
        ]
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.put_back(); // the journal has what could not be put back
    }
}

/// Removes the clsact that we made, unless somebody else has put filters into it.
fn remove_clsact(ifindex: i32, netlink: &Netlink) -> io::Result<()> {
    for place in [Handle::INGRESS, Handle::EGRESS] {
        let filters = netlink.filters(ifindex, place)?;
        if filters.iter().any(|filter| filter.priority() != xoff_ebpf::FILTER_PRIORITY) {
            return Ok(());
        }
    }
    netlink.remove_clsact(ifindex)
}

/// Puts back what a killed switch has left at a device.
///
/// # Errors
/// There is no such device, another process has it, or a part cannot be put back.
pub fn restore_port(device: &str) -> Result<(), XdpError> {
    let mut left = Device::take(device)?;
    xoff_ebpf::take_off_leftover(left.claim())?;
    left.put_back().map_err(refused(device, "put back what was at"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;
    use std::thread;

    use caps::{CapSet, Capability};
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    const NAME: &str = "port0";

    fn ip(words: &str) -> String {
        let output = Command::new("ip").args(words.split(' ')).output().unwrap();
        assert!(output.status.success(), "ip {words}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a test in a network namespace of its own, with a device that is down.
    fn beside_device(test: impl FnOnce() + Send + 'static) {
        let test = || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            ip(&format!("link add {NAME} type veth peer name peer0"));
            // Its queueing discipline is that of a device that was up before.
            for state in ["up", "down"] {
                ip(&format!("link set {NAME} {state}"));
            }
            test();
        };
        thread::spawn(test).join().unwrap();
    }

    /// The device's page of the journal.
    fn page(ifindex: i32) -> Vec<u8> {
        Claim::take(NAME, ifindex).unwrap().journal()
    }

    fn prepared() -> Device {
        let mut device = Device::take(NAME).unwrap();
        device.prepare().unwrap();
        device
    }

    /// Leaves the device as a killed switch does: nothing is put back.
    fn kill(device: Device) {
        caps::drop(None, CapSet::Effective, Capability::CAP_NET_ADMIN).unwrap();
        drop(device);
        caps::raise(None, CapSet::Effective, Capability::CAP_NET_ADMIN).unwrap();
    }

    #[test]
    fn change_is_written_down_before_it_is_made() {
        beside_device(|| {
            let mut device = Device::take(NAME).unwrap();
            let written = |device: &Device| device.journal.left::<Undo>(&device.claim);
            let noted = Undo { down: true, ..Undo::default() };
            let change = |device: &Device| {
                assert_eq!(written(device), Left::Changes(noted));
                Err(io::ErrorKind::Other.into())
            };
            assert!(device.change(|undo| undo.down = true, change).is_err());
            assert_eq!(written(&device), Left::Changes(Undo::default()), "nothing was changed");
        });
    }

    #[test]
    fn page_stays_until_all_is_put_back() {
        beside_device(|| {
            let before = ip("-details link show");
            let device = prepared();
            let ifindex = device.ifindex;
            kill(device);
            assert_ne!(page(ifindex), b"", "nothing could be put back");
            restore_port(NAME).unwrap();
            assert_eq!(ip("-details link show"), before);
            assert_eq!(page(ifindex), b"");
        });
    }

    #[test]
    fn page_is_found_under_another_address() {
        beside_device(|| {
            let before = ip("-details link show");
            let device = prepared();
            let address = device.mac;
            kill(device);
            ip(&format!("link set {NAME} address 02:00:00:00:00:77"));
            restore_port(NAME).unwrap();
            ip(&format!("link set {NAME} address {address}"));
            assert_eq!(ip("-details link show"), before);
        });
    }

    #[test]
    fn page_of_a_device_that_is_gone_is_cleared() {
        beside_device(|| {
            let device = prepared();
            let ifindex = device.ifindex;
            ip(&format!("link delete {NAME}"));
            drop(device);
            assert_eq!(page(ifindex), b"");
        });
    }
}
