use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use xoff_config::shell::RouterInterface;
use xoff_flow_control::counter::Counter;
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::{PortId, Site};

use super::mirror::MirrorHandle;
use super::presence::Presence;

/// Router as other threads see it.
#[derive(Debug)]
pub struct RouterView {
    /// Interfaces.
    pub interfaces: Vec<InterfaceView>,
    /// Mirror's counters.
    pub mirrored: Mirrored,
    /// Mirror's handle.
    pub mirror: MirrorHandle,
}

impl RouterView {
    /// Creates the view. Frames of an SVI are counted at its VLAN's first port.
    pub fn new<'a>(
        interfaces: impl IntoIterator<Item = &'a RouterInterface>,
        settings: &SwitchSettings,
        mirror: MirrorHandle,
    ) -> RouterView {
        let port = |site: Site| match site {
            Site::Port(port) => port,
            Site::Vlan(vid) => {
                let vlan = settings.vlans.iter().find(|vlan| vlan.vid == vid);
                let members = vlan.into_iter().flat_map(|vlan| vlan.tagged.iter().chain(&vlan.untagged));
                members.min().copied().unwrap_or_default()
            }
        };
        let interfaces = interfaces.into_iter().map(|interface| InterfaceView {
            interface: interface.clone(),
            port: port(interface.site),
            counts: Arc::default(),
            presence: AtomicU8::default(),
        });
        RouterView { interfaces: interfaces.collect(), mirrored: Mirrored::default(), mirror }
    }
}

/// Interface of the router.
#[derive(Debug)]
pub struct InterfaceView {
    /// Site and kernel name.
    pub interface: RouterInterface,
    /// Port for counters.
    pub port: PortId,
    /// Counters.
    pub counts: Arc<InterfaceCounts>,
    presence: AtomicU8,
}

impl InterfaceView {
    /// Returns its state in the kernel.
    #[must_use]
    pub fn presence(&self) -> Presence {
        Presence::ALL[usize::from(self.presence.load(Ordering::Relaxed)).min(Presence::ALL.len() - 1)]
    }

    pub(crate) fn set_presence(&self, presence: Presence) -> Presence {
        let before = self.presence();
        self.presence.store(presence as u8, Ordering::Relaxed);
        before
    }
}

/// Counters of a host interface, by the host path.
#[derive(Debug, Default)]
pub struct InterfaceCounts {
    /// Frames given to the kernel.
    pub to_host: Counter,
    /// Frames refused, because the interface is down.
    pub refused: Counter,
    /// Frames from the kernel given to a worker.
    pub from_host: Counter,
}

/// Counters of the mirror. Written by its thread.
#[derive(Debug, Default)]
pub struct Mirrored {
    /// Prefixes, IPv4 and IPv6.
    pub routes: [AtomicU64; 2],
    /// Tables built.
    pub tables: AtomicU64,
    /// Time to build the last table, in nanoseconds.
    pub took: AtomicU64,
    /// Complete reads after lost messages.
    pub resyncs: AtomicU64,
}

impl Mirrored {
    pub(crate) fn made(&self, routes: [usize; 2], took: u64) {
        for (cell, count) in self.routes.iter().zip(routes) {
            cell.store(count as u64, Ordering::Relaxed);
        }
        self.took.store(took, Ordering::Relaxed);
        self.tables.fetch_add(1, Ordering::Relaxed);
    }
}
