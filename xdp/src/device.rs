use std::io;
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};
use xoff_ebpf::{Claim, Clsact, Filtered, Mode};
use xoff_netlink::tc::Handle;
use xoff_wire::units::MacAddr;

use crate::driver::{self, Driver};
use crate::error::{Obstacle, XdpError, forbidden};
use crate::fallback::{self, Fallbacks};
use crate::journal::{Journal, Left, Owner};
use crate::netlink::{Link, Netlink, OwnAddresses};
use crate::sys::{self, Ethtool};

/// Major handle of xoff's qdisc (`ff:`). The kernel itself assigns handles from 0x8000 on.
const OUR_QDISC: u16 = 0xff;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub device: String,
    pub ifindex: i32,
    pub mac: MacAddr,
    pub mtu: u32,
    pub driver: Driver,
    pub queues: u32,
    pub mode: Mode,
    pub zero_copy: bool,
    pub fallbacks: Fallbacks,
    pub carrier: bool,
    /// True if VLAN tags stay in received frames. If false, the switch sees no PCP, so no PCP selects a lossless class.
    pub tags_kept: bool,
    pub warnings: Vec<String>,
}

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
    found: Link,
    netlink: Netlink,
    ethtool: Ethtool,
    _promiscuous: Option<OwnedFd>,
    undo: Undo,
    journal: Journal,
    claim: Claim,
}

fn refused(device: &str, fault: &'static str) -> impl Fn(io::Error) -> XdpError {
    let device = device.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => forbidden(fault, source),
        _ => XdpError::Device { fault, device: device.clone(), source },
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Undo {
    down: bool,
    qdisc: bool,
    clsact: bool,
    flags: u32,
    own_addresses: Option<OwnAddresses>,
}

impl Device {
    /// Claims the device without changing it.
    ///
    /// # Errors
    /// Fails if another program has attached an XDP program.
    pub(crate) fn take(name: &str) -> Result<Device, XdpError> {
        let refused = |fault| refused(name, fault);
        let netlink = Netlink::open().map_err(refused("cannot open a netlink socket"))?;
        let link = netlink.link(name).map_err(refused("cannot read the interface"))?;
        let link = link.ok_or_else(|| XdpError::NoSuchInterface { device: name.to_owned() })?;
        if !link.ethernet {
            return Err(XdpError::NotEthernet { device: name.to_owned() });
        }
        let claim = Claim::take(name, link.ifindex)?;
        if let Some(program) = link.program {
            xoff_ebpf::may_replace(&claim, program)?;
        }
        let ethtool = Ethtool::new(name).map_err(refused("cannot open an ethtool socket"))?;
        let journal = Journal::of(Owner::Switch, link.permanent_address);
        let mut warnings = Vec::new();
        let undo = match journal.left::<Undo>(&claim) {
            Left::Nothing => Undo::default(),
            Left::Changes(undo) => {
                undo.as_it_holds(&link, &netlink, &ethtool).map_err(refused("cannot read the interface"))?
            }
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

    pub(crate) fn prepare(&mut self) -> Result<(), XdpError> {
        let name = self.name.clone();
        let refused = |fault| refused(&name, fault);
        self.stop_own_addresses();
        if !self.found.up {
            self.change(|undo| undo.down = true, |device| device.netlink.set_up(device.ifindex, true))
                .map_err(refused("cannot bring the interface up"))?;
        }
        let promiscuous =
            sys::promiscuous(self.ifindex).map_err(refused("cannot make the interface promiscuous"))?;
        self._promiscuous = Some(promiscuous);
        self.keep_tags();
        self.warnings.extend(self.ethtool.receive_ring().and_then(|ring| ring.advice(&name)));
        self.warnings.extend(self.ethtool.flow_control().and_then(|pause| pause.advice(&name)));
        self.add_queue();
        self.add_clsact();
        Ok(())
    }

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
            let _ = self.journal.write(&self.claim, &self.undo); // removes the refused change from the journal
        }
        done
    }

    /// Restores the device's settings, except those that another program changed. After a failure, the journal still
    /// has the changes to undo.
    fn put_back(&mut self) -> io::Result<()> {
        if self.undo != Undo::default()
            && let Some(now) = self.netlink.link_at(self.ifindex)?
        {
            self.undo.put_back(&now, &self.netlink, &self.ethtool.about(&now.name))?;
        }
        self.undo = Undo::default();
        Journal::clear(&self.claim);
        Ok(())
    }

    fn add_clsact(&mut self) {
        // Ignore a failure to add a clsact: the filter that needs it will report the reason.
        if self.netlink.has_clsact(self.ifindex).is_ok_and(|is_there| !is_there) {
            let add = |device: &Device| device.netlink.add_clsact(device.ifindex);
            let _ = self.change(|undo| undo.clsact = true, add);
        }
    }

    pub(crate) fn rx_queues(name: &str) -> Result<u32, XdpError> {
        let refused =
            |source| XdpError::Device { fault: "cannot read the interface", device: name.to_owned(), source };
        let netlink = Netlink::open().map_err(refused)?;
        let link = netlink.link(name).map_err(refused)?;
        link.ok_or_else(|| XdpError::NoSuchInterface { device: name.to_owned() })?;
        Ok(Ethtool::new(name).map_err(refused)?.rx_queues())
    }

    fn stop_own_addresses(&mut self) {
        let found = self.found.own_addresses.filter(|&found| found != OwnAddresses::NONE);
        if let Some(found) = found {
            let stop = |device: &Device| device.netlink.set_own_addresses(device.ifindex, OwnAddresses::NONE);
            let _ = self.change(|undo| undo.own_addresses = Some(found), stop); // on failure, the egress filter drops the kernel's frames
        }
    }

    fn keep_tags(&mut self) {
        let before = self.ethtool.flags();
        if let Some(flags) = before.filter(|flags| flags & Ethtool::VLAN_FLAGS != 0) {
            // Try to clear both VLAN flags first, because e1000 changes them only together. The receive flag suffices: sent frames have
            // their tags anyway.
            let wanted = [Ethtool::VLAN_FLAGS, Ethtool::RX_VLAN_FLAG];
            let clear = |device: &Device| {
                let cleared = wanted.into_iter().any(|off| device.ethtool.set_flags(flags & !off).is_ok());
                if cleared { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
            };
            let _ = self.change(|undo| undo.flags |= flags & Ethtool::VLAN_FLAGS, clear); // `tags_kept` below shows whether this failed
        }
        let now = self.ethtool.flags();
        self.tags_kept = now.is_some_and(|flags| flags & Ethtool::RX_VLAN_FLAG == 0);
        if !self.tags_kept {
            self.warnings.push(format!(
                "the driver of {} keeps VLAN tags out of the frames (`ethtool -K {} rxvlan off` \
                 fails): no class of this port can be lossless by PCP",
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
                "{} drops frames while its ring is full: it has no queueing discipline, and adding one failed ({error})",
                self.name
            )),
        }
    }

    pub(crate) fn filtered(&mut self, filter: &Filtered) {
        match filter {
            Filtered::New(_) | Filtered::Replaced(_) => {}
            Filtered::Refused(error) => self.warnings.push(format!(
                "frames of the kernel's own stack cannot be kept from {} ({error:#}): while the link is down, \
                 the device counts them as lost, and so does the switch",
                self.name
            )),
        }
    }

    pub(crate) fn clsact(&self) -> Clsact {
        if self.undo.clsact { Clsact::New } else { Clsact::Found }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn ifindex(&self) -> i32 {
        self.ifindex
    }

    pub(crate) fn mode(&self, wanted: Option<Mode>) -> Result<Option<Mode>, XdpError> {
        match (wanted, self.native_mtu_max()) {
            (None, None) => Ok(None),
            (None, Some(_)) | (Some(Mode::Generic), _) => Ok(Some(Mode::Generic)),
            (Some(Mode::Native), None) => Ok(Some(Mode::Native)),
            (Some(Mode::Native), Some(most)) => {
                Err(XdpError::LostNatively { device: self.name.clone(), mtu: self.mtu, most })
            }
        }
    }

    fn native_mtu_max(&self) -> Option<u32> {
        let release = driver::kernel_release().unwrap_or_default();
        self.driver.native_mtu_max(&release).filter(|&most| self.mtu > most)
    }

    pub(crate) fn why_generic(&self, wanted: Option<Mode>, errno: Option<i32>) -> String {
        fallback::why_generic(wanted, &self.driver, self.native_mtu_max(), errno)
    }

    pub(crate) fn obstacle(&self, mode: Mode, chunk_bytes: u32) -> Option<Obstacle> {
        match mode {
            Mode::Generic => Some(Obstacle::Generic),
            Mode::Native => self.driver.obstacle(chunk_bytes, self.mtu),
        }
    }

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
            fallbacks: Fallbacks::default(),
            carrier: self.netlink.link(&self.name).ok().flatten().is_none_or(|link| link.carrier),
            tags_kept: self.tags_kept,
            warnings: self.warnings.clone(),
        }
    }
}

impl Undo {
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
        let _ = self.put_back(); // after a failure, the journal keeps the changes
    }
}

fn remove_clsact(ifindex: i32, netlink: &Netlink) -> io::Result<()> {
    for place in [Handle::INGRESS, Handle::EGRESS] {
        let filters = netlink.filters(ifindex, place)?;
        if filters.iter().any(|filter| filter.priority() != xoff_ebpf::FILTER_PRIORITY) {
            return Ok(());
        }
    }
    netlink.remove_clsact(ifindex)
}

/// Restores the settings of a device that a killed switch has left changed.
pub fn restore_port(device: &str) -> Result<(), XdpError> {
    let mut left = Device::take(device)?;
    xoff_ebpf::take_off_leftover(left.claim())?;
    left.put_back().map_err(refused(device, "cannot restore the previous settings"))
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

    fn beside_device(test: impl FnOnce() + Send + 'static) {
        let test = || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            ip(&format!("link add {NAME} type veth peer name peer0"));
            // Bring the device up once: only then does the kernel assign a queueing discipline.
            for state in ["up", "down"] {
                ip(&format!("link set {NAME} {state}"));
            }
            test();
        };
        thread::spawn(test).join().unwrap();
    }

    fn page(ifindex: i32) -> Vec<u8> {
        Claim::take(NAME, ifindex).unwrap().journal()
    }

    fn prepared() -> Device {
        let mut device = Device::take(NAME).unwrap();
        device.prepare().unwrap();
        device
    }

    fn kill(device: Device) {
        caps::drop(None, CapSet::Effective, Capability::CAP_NET_ADMIN).unwrap();
        drop(device);
        caps::raise(None, CapSet::Effective, Capability::CAP_NET_ADMIN).unwrap();
    }

    #[test] // proves: host-guard
    fn device_change_is_journaled_before_it_is_made() {
        beside_device(|| {
            let mut device = Device::take(NAME).unwrap();
            let written = |device: &Device| device.journal.left::<Undo>(&device.claim);
            let noted = Undo { down: true, ..Undo::default() };
            let change = |device: &Device| {
                assert_eq!(written(device), Left::Changes(noted));
                Err(io::ErrorKind::Other.into())
            };
            assert!(device.change(|undo| undo.down = true, change).is_err());
            assert_eq!(
                written(&device),
                Left::Changes(Undo::default()),
                "the journal must not keep a failed change"
            );
        });
    }

    #[test] // proves: host-guard
    fn journal_page_stays_until_everything_is_restored() {
        beside_device(|| {
            let before = ip("-details link show");
            let device = prepared();
            let ifindex = device.ifindex;
            kill(device);
            assert_ne!(page(ifindex), b"", "the journal page must stay until the device is restored");
            restore_port(NAME).unwrap();
            assert_eq!(ip("-details link show"), before);
            assert_eq!(page(ifindex), b"");
        });
    }

    #[test]
    fn journal_page_is_found_after_address_change() {
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
    fn journal_page_of_removed_device_is_cleared() {
        beside_device(|| {
            let device = prepared();
            let ifindex = device.ifindex;
            ip(&format!("link delete {NAME}"));
            drop(device);
            assert_eq!(page(ifindex), b"");
        });
    }
}
