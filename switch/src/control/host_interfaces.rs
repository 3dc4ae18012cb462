use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use xoff_config::shell::RouterInterface;
use xoff_flow_control::punt_reason::PuntReason;
use xoff_flow_control::settings::Lldp;
use xoff_wire::header::Header;
use xoff_wire::ip::{Address, Packet};
use xoff_wire::units::{Nanos, PortId, Site};
use xoff_xdp::HostInterface;

use super::view::{Link, SwitchView};
use crate::host_path::Host;
use crate::host_path::ends::{Outbox, Punted};
use crate::host_path::ring::FRAME_MAX;
use crate::router::mirror::MirrorHandle;
use crate::router::{InterfaceCounts, InterfaceView};

const BATCH: usize = 64;

const TAG: std::ops::Range<usize> = 12..16;

const LOOK_AGAIN: Duration = Duration::from_micros(200);

pub struct HostInterfaces {
    interfaces: Vec<Open>,
    by_site: HashMap<Site, usize>,
    view: Arc<SwitchView>,
    mirror: MirrorHandle,
    frame: Box<[u8]>,
    has_lost: bool,
}

struct Open {
    site: Site,
    port: PortId,
    tap: HostInterface,
    is_deleted: bool,
    has_carrier: Option<bool>,
    counts: Arc<InterfaceCounts>,
}

impl HostInterfaces {
    #[must_use]
    pub fn new(
        taps: Vec<(RouterInterface, HostInterface)>,
        view: Arc<SwitchView>,
        mirror: MirrorHandle,
    ) -> HostInterfaces {
        let views = view.router.iter().flat_map(|router| &router.interfaces);
        let open = |((interface, tap), view): ((RouterInterface, HostInterface), &InterfaceView)| {
            let (port, counts) = (view.port, Arc::clone(&view.counts));
            Open { site: interface.site, port, tap, is_deleted: false, has_carrier: None, counts }
        };
        let interfaces: Vec<Open> = taps.into_iter().zip(views).map(open).collect();
        let by_site = (0..).zip(&interfaces).map(|(place, open)| (open.site, place)).collect();
        HostInterfaces {
            interfaces,
            by_site,
            view,
            mirror,
            frame: vec![0; FRAME_MAX].into_boxed_slice(),
            has_lost: false,
        }
    }

    /// Sets the carrier of each port's TAP to the port's link state, on which routing daemons rely.
    fn show_links(&mut self) {
        for open in self.interfaces.iter_mut().filter(|open| !open.is_deleted) {
            let has_carrier = match open.site {
                Site::Port(port) => self.view.ports[port.index()].link.get() == Link::Up,
                Site::Vlan(_) => true,
            };
            if open.has_carrier != Some(has_carrier) {
                open.has_carrier = Some(has_carrier);
                match open.tap.set_carrier(has_carrier) {
                    Ok(()) => self.mirror.carrier_changed(open.site),
                    Err(error) => {
                        tracing::warn!(interface = %open.tap.name(), "cannot report the state of the link to the kernel: {error}");
                    }
                }
            }
        }
    }
}

impl Host for HostInterfaces {
    fn wakers(&self) -> Vec<BorrowedFd<'_>> {
        self.interfaces.iter().filter(|open| !open.is_deleted).map(|open| open.tap.as_fd()).collect()
    }

    fn has_other_wakers(&mut self) -> bool {
        std::mem::take(&mut self.has_lost)
    }

    fn take(&mut self, punted: &Punted<'_>, _: &mut Outbox) {
        let is_lldp = punted.punt.reason == PuntReason::Lldp;
        if is_lldp && self.view.settings().ports[punted.punt.port.index()].lldp != Lldp::Kernel {
            return;
        }
        let site = match punted.punt.vid {
            0 => Site::Port(punted.punt.port),
            vid => Site::Vlan(vid),
        };
        if punted.punt.reason == PuntReason::Resolve {
            if let Some(address) = destination(punted.bytes) {
                self.mirror.resolve(site, address);
            }
            return; // the switch keeps the frame
        }
        let Some(&place) = self.by_site.get(&site) else { return };
        let Open { tap, counts, .. } = &self.interfaces[place];
        let is_tagged = Header::parse(punted.bytes).is_ok_and(|header| header.tag.is_some());
        let written = if is_tagged {
            let (before, behind) = (&punted.bytes[..TAG.start], &punted.bytes[TAG.end..]);
            let len = before.len() + behind.len();
            self.frame[..before.len()].copy_from_slice(before);
            self.frame[before.len()..len].copy_from_slice(behind);
            tap.write(&self.frame[..len])
        } else {
            tap.write(punted.bytes)
        };
        if written.is_ok() { &counts.to_host } else { &counts.refused }.add(1);
    }

    fn advance(&mut self, now: Nanos, outbox: &mut Outbox) -> Nanos {
        self.show_links();
        let mut next = Nanos::NEVER;
        let mut is_full = false;
        for open in self.interfaces.iter_mut().filter(|open| !open.is_deleted) {
            let mut left = BATCH;
            while left > 0 {
                if !outbox.has_room(open.port) {
                    is_full = true;
                    break;
                }
                match open.tap.read(&mut self.frame) {
                    Ok(len) => {
                        outbox.send(now, open.site, open.port, &self.frame[..len]);
                        open.counts.from_host.add(1);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => {
                        let name = open.tap.name();
                        tracing::error!(
                            interface = %name,
                            "the host interface {name} was deleted ({error}): frames that arrive there for the router are dropped \
                             (no_router) until the switch is restarted"
                        );
                        (open.is_deleted, self.has_lost) = (true, true);
                        break;
                    }
                }
                left -= 1;
            }
            if left == 0 {
                next = now; // there may be more
            }
        }
        if is_full {
            outbox.ring();
            std::thread::sleep(LOOK_AGAIN);
            return now;
        }
        next
    }

    fn stop(&mut self, _: Nanos, _: &mut Outbox) {}
}

fn destination(bytes: &[u8]) -> Option<IpAddr> {
    let header = Header::parse(bytes).ok()?;
    let payload = header.payload(bytes);
    Some(match Packet::read(header.ether_type, payload, payload.len())?.ok()?.dst {
        Address::V4(address) => Ipv4Addr::from_bits(address).into(),
        Address::V6(address) => Ipv6Addr::from_bits(address).into(),
    })
}
