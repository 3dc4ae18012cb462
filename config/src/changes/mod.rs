//! Compares the configuration of a running switch with a new one.
//!
//! Ports are identified by name.

mod fields;
mod notation;
mod places;

use xoff_flow_control::settings::{
    ClassSettings, FdbSettings, FlowControl, MulticastSettings, PolicySettings, PortSettings, SwitchSettings,
};
use xoff_wire::units::{Class, PortId};

use crate::Config;
use crate::shell::{PortShell, ShellSettings, Workers};
use fields::differences;
use notation::{Notation, absent};
pub(crate) use places::vacated;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Changed setting, named as in the file, such as `port "a": class 3: xoff`.
    pub what: String,
    pub before: String,
    pub after: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub live: Vec<Change>,
    pub restart: Vec<Change>,
    /// Added ports, by their indices in the new configuration.
    pub added: Vec<PortId>,
    pub removed: Vec<PortId>,
}

impl Changes {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.restart.is_empty()
    }

    fn live(&mut self, what: String, before: String, after: String) {
        self.live.push(Change { what, before, after });
    }

    pub fn restart(&mut self, what: String, before: String, after: String) {
        self.restart.push(Change { what, before, after });
    }
}

impl Config {
    /// Returns `new` and its differences from this running configuration. In the returned `new`, remaining ports keep their
    /// indices, and added ports have spare indices.
    #[must_use]
    pub fn changes(&self, workers: usize, new: Config) -> (Config, Changes) {
        let mut changes = Changes::default();
        let mut new = places::placed(self, new, &mut changes);
        new.switch.lossy_pool = self.switch.lossy_pool;
        of_switch(self, &new, &mut changes);
        of_shell(&self.shell, workers, &new.shell, &mut changes);
        (new, changes)
    }
}

fn of_switch(before: &Config, after: &Config, changes: &mut Changes) {
    let (old, new) = (&before.switch, &after.switch);
    differences!(changes, "", old, new, SwitchSettings {
        ports: other,
        accounting: restart "switch.accounting",
        memory: restart "memory",
        lossy_pool: other, // fixed at the start, when the memory was allocated
        when_full: restart "switch.when_full",
        pipeline: restart "pipeline",
        policies: other,
        shadows: restart "switch.shadow",
        policy: other,
        hash: live "switch.hash",
        fdb: other,
        vlans: other,
        groups: other,
        routed_vlans: restart "vlan.router",
        multicast: other,
        qcn: restart "qcn",
    });
    for class in Class::ALL {
        let kinds = [old, new].map(|settings| settings.policies[class.index()].notation());
        changed(changes, format!("policy of class {class}"), kinds);
    }
    of_policies(&old.policy, &new.policy, changes);
    differences!(
        changes,
        "fdb.",
        &old.fdb,
        &new.fdb,
        FdbSettings {
            capacity: restart,
            ageing: live,
            statics: other,
            seed: other, // a secret, which stays
        }
    );
    differences!(changes, "multicast.", &old.multicast, &new.multicast, MulticastSettings {
        vlans: live "snooping (VLANs)",
        unknown: live,
        querier: live,
        groups_max: live "groups",
    });
    of_statics(old, new, changes);
    of_groups(old, new, changes);
    for (index, (old_port, new_port)) in (0_u8..).zip(old.ports.iter().zip(&new.ports)) {
        let shells = [before, after].map(|config| &config.shell.ports[usize::from(index)]);
        let place = format!("port {:?}: ", new_port.name);
        match shells.map(PortShell::is_vacant) {
            [true, true] => {}
            [true, false] => {
                changes.live(format!("port {:?}", new_port.name), absent(), shells[1].device.clone());
                changes.added.push(PortId(index));
                of_place(&place, before, after, PortId(index), changes);
            }
            [false, true] => {
                changes.live(format!("port {:?}", old_port.name), shells[0].device.clone(), absent());
                changes.removed.push(PortId(index));
            }
            [false, false] => {
                of_port(&place, old_port, new_port, changes);
                of_vlans(&place, PortId(index), [old, new], changes);
                of_device(&place, shells, changes);
            }
        }
    }
}

fn changed(changes: &mut Changes, what: String, [before, after]: [String; 2]) {
    if before != after {
        changes.live(what, before, after);
    }
}

fn of_policies(old: &PolicySettings, new: &PolicySettings, changes: &mut Changes) {
    differences!(changes, "policy.", old, new, PolicySettings {
        capfc_cut: live "capfc.cut",
        capfc_count_unit: live "capfc.count",
        ofc: live,
        p_pfc: live "p-pfc",
        g_pfc: live "g-pfc",
        gfc: live,
        custom: other,
    });
    // Compare debug texts, which show a policy's parameters: policies are never equal, because each reading of a file creates
    // new ones.
    changed(changes, "policy.custom".into(), [old, new].map(|policies| format!("{:?}", policies.custom)));
}

fn of_statics(old: &SwitchSettings, new: &SwitchSettings, changes: &mut Changes) {
    let name = |settings: &SwitchSettings, port: PortId| {
        let mut groups = settings.groups.iter();
        if let Some(group) = groups.find(|group| group.members.iter().any(|member| member.port == port)) {
            return format!("group {:?}", group.name);
        }
        settings.ports.get(port.index()).map_or_else(absent, |port| format!("port {:?}", port.name))
    };
    let at = |settings: &SwitchSettings, of: (u16, xoff_wire::units::MacAddr)| {
        let found = settings.fdb.statics.iter().find(|(vid, mac, _)| (*vid, *mac) == of);
        found.map_or_else(absent, |(_, _, port)| name(settings, *port))
    };
    let mut all: Vec<_> =
        old.fdb.statics.iter().chain(&new.fdb.statics).map(|(vid, mac, _)| (*vid, *mac)).collect();
    all.sort_unstable();
    all.dedup();
    for of @ (vid, mac) in all {
        changed(changes, format!("static address {mac} in VLAN {vid}"), [at(old, of), at(new, of)]);
    }
}

fn of_groups(old: &SwitchSettings, new: &SwitchSettings, changes: &mut Changes) {
    let mut names: Vec<&str> =
        old.groups.iter().chain(&new.groups).map(|group| group.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let at = |settings: &SwitchSettings| {
            let group = settings.groups.iter().find(|group| group.name == name);
            group.map_or_else(absent, |group| notation::group(group, &settings.ports))
        };
        changed(changes, format!("group {name:?}"), [at(old), at(new)]);
    }
}

fn of_vlans(place: &str, port: PortId, settings: [&SwitchSettings; 2], changes: &mut Changes) {
    type Members = fn(&xoff_flow_control::settings::VlanSettings) -> &Vec<PortId>;
    let lists: [(&str, Members); 2] = [("tagged", |vlan| &vlan.tagged), ("untagged", |vlan| &vlan.untagged)];
    for (key, members) in lists {
        let vids = settings.map(|settings| {
            let vlans = settings.vlans.iter().filter(|vlan| members(vlan).contains(&port));
            vlans.map(|vlan| vlan.vid).collect::<Vec<u16>>().notation()
        });
        changed(changes, format!("{place}{key}"), vids);
    }
}

fn of_place(place: &str, before: &Config, after: &Config, id: PortId, changes: &mut Changes) {
    let mut kept = |what: String, [before, after]: [String; 2]| {
        if before != after {
            changes.restart(what, before, after);
        }
    };
    let [old, new] = [before, after].map(|config| &config.switch.ports[id.index()].classes);
    for (class, (old, new)) in Class::ALL.into_iter().zip(old.iter().zip(new)) {
        let both = |of: fn(&ClassSettings) -> String| [of(old), of(new)];
        kept(format!("{place}class {class}: queue"), both(|class| class.queue.notation()));
        kept(
            format!("{place}class {class}: ingress_reserve"),
            both(|class| class.ingress_reserve.notation()),
        );
        kept(format!("{place}class {class}: egress_reserve"), both(|class| class.egress_reserve.notation()));
    }
}

fn of_port(place: &str, old: &PortSettings, new: &PortSettings, changes: &mut Changes) {
    differences!(changes, place, old, new, PortSettings {
        name: other,
        mac: other, // set by the device
        speed: live,
        max_rate: live,
        mtu_frame: restart "mtu (as bytes of the frame)",
        trust: live,
        default_class: live,
        pcp_to_class: live "pcp_map",
        dscp_to_class: live "dscp_map",
        rewrite_pcp: live,
        rewrite_dscp: live,
        pvid: live,
        learning: live,
        learn_limit: live,
        storm_limit: live,
        loop_detection: live,
        flood_unknown: live,
        flood_group: live,
        multicast_router: live,
        fast_leave: live,
        isolated: live,
        routed: restart,
        flow_control: other,
        lldp: live,
        punt_limit: live,
        dcbx: live,
        auto_peer: live "learned by LLDP",
        ofc_peer: live,
        gfc_peer: live,
        pause_time: live,
        refresh: live,
        burst: live,
        commit: live,
        past_xoff: live "headroom for frames after XOFF",
        peer_response: live,
        classes: other,
    });
    of_pauses(place, old.flow_control, new.flow_control, changes);
    for class in Class::ALL {
        let place = format!("{place}class {class}: ");
        let [old, new] = [old, new].map(|port| &port.classes[class.index()]);
        differences!(changes, &place, old, new, ClassSettings {
            lossless: live,
            xoff: live,
            xon: live,
            headroom: live,
            xoff_frames: live,
            ingress_reserve: restart,
            ingress_max: live,
            egress_max: live,
            egress_max_frames: live,
            egress_reserve: restart,
            egress_warn: live,
            egress_xoff: live,
            egress_xon: live,
            queue: restart,
            service: live "weight",
            max_rate: live,
            ecn: live,
            watchdog: live,
        });
    }
}

/// A change between PFC, 802.3x and no pauses needs a restart, because the peer does not expect the new kind of pause frames.
fn of_pauses(place: &str, old: FlowControl, new: FlowControl, changes: &mut Changes) {
    let values = [old.notation(), new.notation()];
    match (old, new) {
        (FlowControl::Pfc { .. }, FlowControl::Pfc { .. })
        | (FlowControl::Pause8023x, FlowControl::Pause8023x)
        | (FlowControl::Ignore, FlowControl::Ignore) => changed(changes, format!("{place}pause"), values),
        (FlowControl::Pfc { .. } | FlowControl::Pause8023x | FlowControl::Ignore, _) => {
            let [before, after] = values;
            changes.restart(format!("{place}pause"), before, after);
        }
    }
}

fn of_device(place: &str, [old, new]: [&PortShell; 2], changes: &mut Changes) {
    differences!(changes, place, old, new, PortShell {
        device: restart,
        queues: restart,
        mode: restart,
        rings: restart "rings (depend on speed, stall_budget, smallest_frame, commit)",
        transmit_chunks: restart "transmit chunks (depend on commit, smallest_frame)",
        stall_chunks: restart "receive chunks (depend on speed, stall_budget, smallest_frame, burst)",
    });
}

fn of_shell(old: &ShellSettings, workers: usize, new: &ShellSettings, changes: &mut Changes) {
    differences!(changes, "switch.", old, new, ShellSettings {
        name: restart,
        ports: other,
        workers: other,
        spare_ports: restart,
        poll: restart,
        http: restart,
        http_netns: restart,
        http_hosts: restart,
        user: restart,
        log: live,
        log_format: restart,
        sighup: restart,
        stall_budget: restart,
        smallest_frame: live,
        zero_copy: restart,
        chunks: restart "chunks (depend on mtu, receive_chunks)",
        budget: restart "budget (of [memory])",
        lossy_pool: restart "lossy_pool (of [memory])",
        pool: other, // part of the switch's memory settings
        router: restart "router (depends on [router], routed ports and VLANs)",
    });
    let stays = |id: &PortId| {
        let is_there =
            |shell: &ShellSettings| shell.ports.get(id.index()).is_some_and(|port| !port.is_vacant());
        is_there(old) && is_there(new)
    };
    if !old.workers.keeps_workers(workers, &new.workers, stays) {
        let before = match &old.workers {
            Workers::List(_) => old.workers.notation(),
            Workers::Auto | Workers::Count(_) => workers.to_string(),
        };
        changes.restart("switch.workers".into(), before, new.workers.notation());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
