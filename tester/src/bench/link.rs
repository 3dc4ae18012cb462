use xoff_host::announce;
use xoff_netlink::packet_route::link::LinkAttribute;
use xoff_netlink::{Conversation, link_named, set_up};
use xoff_xdp::{LINK_COUNTERS, Role};

use super::{Bench, QUIET, Void, tagged};

impl Bench {
    /// Sends an ARP announcement from each port, so that the device learns all addresses.
    pub fn announce(&mut self) -> Result<(), Void> {
        for port in 0..self.ports.len() {
            let arp = announce::gratuitous_arp(self.ports[port].mac());
            let bytes = tagged(&arp, self.ports[port].settings.vlan);
            self.send_now(port, &bytes);
        }
        self.run_for(QUIET)
    }

    /// Returns how many frames the interface of a port dropped or missed on receive, by its own counters; `None` if the kernel does not
    /// report them.
    #[must_use]
    pub fn receive_drops(&self, port: usize) -> Option<u64> {
        let link = Conversation::open().ok()?.link(link_named(&self.ports[port].settings.device)).ok()??;
        let counters = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Stats64(counters) => Some(counters),
            _ => None,
        })?;
        let of_receive = |role: Role| matches!(role, Role::RxDropped | Role::RxMissed);
        Some(
            LINK_COUNTERS
                .iter()
                .filter(|(.., role)| of_receive(*role))
                .map(|(_, read, _)| read(counters))
                .sum(),
        )
    }

    /// Takes the interface of a port down, or up again.
    ///
    /// # Errors
    /// If the kernel refuses; the case is then not possible.
    pub fn set_link(&mut self, port: usize, up: bool) -> Result<(), Void> {
        let device = &self.ports[port].settings.device;
        let talk = || {
            let mut kernel = Conversation::open()?;
            let link = kernel.link(link_named(device))?.ok_or(std::io::ErrorKind::NotFound)?;
            let index = link.header.index;
            kernel.set_link(set_up(xoff_netlink::link_at(index), up))
        };
        talk().map_err(|error: std::io::Error| {
            Void::NotPossible(format!("the state of interface `{device}` cannot be changed: {error}"))
        })
    }
}
