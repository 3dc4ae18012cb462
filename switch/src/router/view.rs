//! Counters and state of the router for other threads.

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
    /// Interfaces of the router.
    pub interfaces: Vec<InterfaceView>,
    /// Counters of the mirror.
    pub mirrored: Mirrored,
    /// Handle for requests to the mirror.
    pub mirror: MirrorHandle,
}

impl RouterView {
    /// Creates the view of these interfaces. Frames of an SVI are counted at the first port of its VLAN.
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
    /// Port at which the frames are counted.
    pub port: PortId,
    /// Counters of the interface.
    pub counts: Arc<InterfaceCounts>,
    /// Index in [`Presence::ALL`].
    presence: AtomicU8,
}

impl InterfaceView {
    /// Returns the state of the interface in the kernel.
    #[must_use]
    pub fn presence(&self) -> Presence {
        Presence::ALL[usize::from(self.presence.load(Ordering::Relaxed)).min(Presence::ALL.len() - 1)]
    }

    /// Sets the state, and returns the previous one.
    pub(crate) fn set_presence(&self, presence: Presence) -> Presence {
        let before = self.presence();
        self.presence.store(presence as u8, Ordering::Relaxed);
        before
    }
}

/// Counters of a host interface. Written by the host path's thread.
#[derive(Debug, Default)]
pub struct InterfaceCounts {
    /// Frames given to the kernel.
    pub to_host: Counter,
    /// Frames that the kernel refused, because its interface is down.
    pub refused: Counter,
    /// Frames sent by the kernel and given to a worker.
    pub from_host: Counter,
}

/// Counters of the mirror. Written by its thread.
#[derive(Debug, Default)]
pub struct Mirrored {
    /// Prefixes in the workers' table, IPv4 and IPv6.
    pub routes: [AtomicU64; 2],
    /// Number of tables built.
    pub tables: AtomicU64,
    /// Time to build the last table, in nanoseconds.
    pub took: AtomicU64,
    /// Times that messages were lost and everything was read again.
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
