use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use xoff_config::shell::RouterInterface;
use xoff_flow_control::counter::Counter;
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::{PortId, Site};

use super::mirror::MirrorHandle;
use super::presence::Presence;

#[derive(Debug)]
pub struct RouterView {
    pub interfaces: Vec<InterfaceView>,
    pub mirrored: Mirrored,
    pub mirror: MirrorHandle,
}

impl RouterView {
    /// Creates the view of a router. An SVI's frames count at the first port of the VLAN.
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

#[derive(Debug)]
pub struct InterfaceView {
    pub interface: RouterInterface,
    pub port: PortId,
    pub counts: Arc<InterfaceCounts>,
    presence: AtomicU8,
}

impl InterfaceView {
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

#[derive(Debug, Default)]
pub struct InterfaceCounts {
    pub to_host: Counter,
    pub refused: Counter,
    pub from_host: Counter,
}

#[derive(Debug, Default)]
pub struct Mirrored {
    pub routes: [AtomicU64; 2],
    pub tables: AtomicU64,
    pub took: AtomicU64,
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
