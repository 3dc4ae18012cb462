//! Host interfaces of the router: TAPs with the name, address and MTU of a port or VLAN, in the namespace of the routing kernel.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::thread;

use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns};
use xoff_config::shell::{Router, RouterInterface};
use xoff_flow_control::settings::SwitchSettings;
use xoff_netlink::packet_route::link::LinkAttribute;
use xoff_netlink::{Conversation, link_named};
use xoff_wire::units::{MacAddr, Site};
use xoff_xdp::{HostInterface, thread_refused};

use super::mirror::{Mirror, MirrorHandle};
use super::tables::Configured;

#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    #[error(
        "cannot enter the network namespace {netns} of the host interfaces: {source}; create that namespace first, for \
         example with `ip netns add NAME`"
    )]
    Netns { netns: PathBuf, source: io::Error },
    #[error("cannot create the host interface {name}: {source}{}", hint(.source))]
    Interface { name: String, source: io::Error },
    #[error("cannot follow the kernel's routing tables by netlink: {0}")]
    Netlink(io::Error),
    #[error("cannot start a thread for the host interfaces: {0}")]
    Thread(io::Error),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            "; a device of that name already exists: set another namespace with `netns` in [router], or rename the port"
        }
        io::ErrorKind::NotFound => "; the kernel's module `tun` is missing: `modprobe tun`",
        io::ErrorKind::PermissionDenied => "; creating a TAP needs CAP_NET_ADMIN",
        _ => "",
    }
}

pub struct OpenedRouter {
    pub taps: Vec<(RouterInterface, HostInterface)>,
    pub mirror: Mirror,
    pub handle: MirrorHandle,
}

pub fn open(router: &Router, settings: &SwitchSettings) -> Result<OpenedRouter, RouterError> {
    thread::scope(|scope| {
        let work = || {
            if let Some(netns) = &router.netns {
                enter(netns).map_err(|source| RouterError::Netns { netns: netns.clone(), source })?;
            }
            open_here(router, settings)
        };
        let opened = thread::Builder::new().spawn_scoped(scope, work);
        let opened = opened.map_err(|error| RouterError::Thread(thread_refused(&error)))?;
        opened.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
    })
}

fn enter(netns: &Path) -> io::Result<()> {
    Ok(setns(File::open(netns)?.as_fd(), CloneFlags::CLONE_NEWNET)?)
}

fn open_here(router: &Router, settings: &SwitchSettings) -> Result<OpenedRouter, RouterError> {
    let mut kernel = Conversation::open().map_err(RouterError::Netlink)?;
    let (mut taps, mut by_index) = (Vec::new(), Configured::new());
    for interface in &router.interfaces {
        let failed = |source| RouterError::Interface { name: interface.name.clone(), source };
        let tap = HostInterface::new(&interface.name).map_err(failed)?;
        let mac = address(settings, interface.site);
        set_up(&mut kernel, interface, mac).map_err(failed)?;
        let index = if_nametoindex(interface.name.as_str()).map_err(|error| failed(error.into()))?;
        by_index.insert(index, interface.clone());
        taps.push((interface.clone(), tap));
    }
    for (setting, what) in [("ipv4/ip_forward", "IPv4"), ("ipv6/conf/all/forwarding", "IPv6")] {
        if fs::read_to_string(format!("/proc/sys/net/{setting}")).is_ok_and(|text| text.trim() == "0") {
            tracing::warn!(
                "the kernel of the host interfaces does not forward {what} (net/{setting} is 0): the kernel answers no \
                 routed packets, and the \
                 first packets to each station with an unknown MAC address are lost"
            );
        }
    }
    let (mirror, handle) = Mirror::open(by_index, router.spread).map_err(RouterError::Netlink)?;
    Ok(OpenedRouter { taps, mirror, handle })
}

fn address(settings: &SwitchSettings, site: Site) -> MacAddr {
    match site {
        Site::Port(port) => settings.ports[port.index()].mac,
        Site::Vlan(vid) => {
            let mut vlans = settings.routed_vlans.iter();
            vlans.find(|(other, _)| *other == vid).map(|(_, mac)| *mac).unwrap_or_default()
        }
    }
}

fn set_up(kernel: &mut Conversation, interface: &RouterInterface, mac: MacAddr) -> io::Result<()> {
    let mut link = xoff_netlink::set_up(link_named(&interface.name), true);
    link.attributes.extend([LinkAttribute::Address(mac.0.to_vec()), LinkAttribute::Mtu(interface.mtu)]);
    kernel.set_link(link)
}
