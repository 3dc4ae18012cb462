//! What can be seen of the router from outside: who asks looks here, and asks the mirror for what it alone knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use xoff_config::shell::RouterInterface;
use xoff_dataplane::counter::Counter;
use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::units::{PortId, Site};

use super::mirror::Asker;
use super::presence::Presence;

/// A router, as seen from outside.
#[derive(Debug)]
pub struct RouterView {
    /// Its interfaces.
    pub interfaces: Vec<InterfaceView>,
    /// What the mirror has done.
    pub mirrored: Mirrored,
    /// By which the mirror is asked.
    pub asker: Asker,
}

impl RouterView {
    /// Of these interfaces of a switch with `settings`. Frames of a VLAN's are counted at the first of its ports.
    pub fn new<'a>(
        interfaces: impl IntoIterator<Item = &'a RouterInterface>,
        settings: &SwitchSettings,
        asker: Asker,
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
        RouterView { interfaces: interfaces.collect(), mirrored: Mirrored::default(), asker }
    }
}

/// An interface of the router.
#[derive(Debug)]
pub struct InterfaceView {
    /// Where it is, and what the kernel calls it.
    pub interface: RouterInterface,
    /// The port at which its frames are counted.
    pub port: PortId,
    /// What goes by it.
    pub counts: Arc<InterfaceCounts>,
    /// By its place in [`Presence::ALL`].
    presence: AtomicU8,
}

impl InterfaceView {
    /// Whether the kernel has it.
    #[must_use]
    pub fn presence(&self) -> Presence {
        Presence::ALL[usize::from(self.presence.load(Ordering::Relaxed)).min(Presence::ALL.len() - 1)]
    }

    /// Answers what it was until now.
    pub(crate) fn set_presence(&self, presence: Presence) -> Presence {
        let before = self.presence();
        self.presence.store(presence as u8, Ordering::Relaxed);
        before
    }
}

/// What goes by a host interface. Written by the thread of the host path.
#[derive(Debug, Default)]
pub struct InterfaceCounts {
    /// Frames that were given to the kernel.
    pub to_host: Counter,
    /// Frames that the kernel did not take: its interface is down.
    pub refused: Counter,
    /// Frames that the kernel has sent, and that were given to a worker.
    pub from_host: Counter,
}

/// What the mirror has done. Written by its thread.
#[derive(Debug, Default)]
pub struct Mirrored {
    /// Prefixes of the table that workers route by, IPv4 and IPv6.
    pub routes: [AtomicU64; 2],
    /// Tables that were made.
    pub tables: AtomicU64,
    /// How long the last one took, in nanoseconds.
    pub took: AtomicU64,
    /// How often the kernel's messages came too fast, and all was read again.
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
