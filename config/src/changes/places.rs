use xoff_flow_control::settings::{ClassSettings, FlowControl, PortSettings, VlanSettings};
use xoff_wire::units::{Bytes, CLASSES, ClassSet, PortId};

use super::notation::absent;
use super::{Change, Changes};
use crate::Config;
use crate::shell::{PortShell, Worker, Workers};

/// Returns `new` with each port at its index in `running`. A port without a free index is reported as needing a restart.
pub(super) fn placed(running: &Config, new: Config, changes: &mut Changes) -> Config {
    let mut places: Vec<Option<PortId>> = Vec::new();
    for index in 0..new.switch.ports.len() {
        let place = place(running, &new, index, &places);
        if place.is_none() {
            let (name, device) = (&new.switch.ports[index].name, &new.shell.ports[index].device);
            changes.restart.push(Change {
                what: format!(
                    "port {name:?} (its memory must be reserved at the start: restart; later ports need `spare_ports`)"
                ),
                before: absent(),
                after: device.clone(),
            });
        }
        places.push(place);
    }
    let moved = |ports: &[PortId]| -> Vec<PortId> {
        let mut moved: Vec<PortId> = ports.iter().filter_map(|port| places[port.index()]).collect();
        moved.sort_unstable();
        moved
    };
    let mut config = new.clone();
    for vlan in &mut config.switch.vlans {
        let VlanSettings { vid: _, tagged, untagged } = vlan;
        (*tagged, *untagged) = (moved(tagged), moved(untagged));
    }
    for group in &mut config.switch.groups {
        group.members.retain_mut(|member| match places[member.port.index()] {
            Some(place) => {
                member.port = place;
                true
            }
            None => false,
        });
    }
    config.switch.groups.retain(|group| !group.members.is_empty());
    config.switch.fdb.statics.retain_mut(|(_, _, port)| match places[port.index()] {
        Some(place) => {
            *port = place;
            true
        }
        None => false,
    });
    if let Workers::List(list) = &mut config.shell.workers {
        for Worker { core: _, ports } in list {
            *ports = moved(ports);
        }
    }
    config.switch.ports = running.switch.ports.iter().map(vacated).collect();
    config.shell.ports = running.shell.ports.iter().map(PortShell::vacated).collect();
    config.headroom = vec![[None; CLASSES]; running.headroom.len()];
    for (index, place) in places.iter().enumerate() {
        if let Some(place) = place.map(PortId::index) {
            config.switch.ports[place] = new.switch.ports[index].clone();
            let device = new.shell.ports[index].clone();
            config.shell.ports[place] = device.with_rings_of(&running.shell.ports[place]);
            config.headroom[place] = new.headroom[index];
        }
    }
    config
}

fn place(running: &Config, new: &Config, index: usize, taken: &[Option<PortId>]) -> Option<PortId> {
    let name = &new.switch.ports[index].name;
    let ids = || (0..=u8::MAX).map(PortId).zip(&running.switch.ports);
    let current = ids().find(|(_, port)| port.name == *name);
    let spare = || {
        ids().find(|(id, port)| {
            port.name.is_empty() && !taken.contains(&Some(*id)) && of_worker(running, new, *id, index)
        })
    };
    current.or_else(spare).map(|(id, _)| id)
}

fn of_worker(running: &Config, new: &Config, place: PortId, index: usize) -> bool {
    let (Workers::List(old), Workers::List(new)) = (&running.shell.workers, &new.shell.workers) else {
        return true;
    };
    let owner = |list: &[Worker], id: usize| {
        list.iter().position(|worker| worker.ports.iter().any(|port| port.index() == id))
    };
    owner(old, place.index()) == owner(new, index)
}

pub(crate) fn vacated(port: &PortSettings) -> PortSettings {
    let classes = port.classes.map(|class| ClassSettings {
        queue: class.queue,
        ingress_reserve: class.ingress_reserve,
        egress_reserve: class.egress_reserve,
        ..ClassSettings::lossy(Bytes::ZERO)
    });
    let PortSettings { name, mac, speed, mtu_frame, ofc_peer, gfc_peer, .. } = port.clone();
    let flow_control = match port.flow_control {
        FlowControl::Pfc { obey, .. } => FlowControl::Pfc { obey, send: ClassSet::NONE },
        other => other,
    };
    let plain = PortSettings::plain(name, mac, speed, classes);
    PortSettings { mtu_frame, ofc_peer, gfc_peer, flow_control, pvid: None, ..plain }
}
