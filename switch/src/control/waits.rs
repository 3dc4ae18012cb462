use crate::causes::{ClassWaits, FullQueue, PortWaits, Waits};

use super::status::{ClassStatus, CulpritStatus, PortStatus, Status};

impl From<&Status> for Waits {
    fn from(status: &Status) -> Waits {
        Waits { switch: status.name.clone(), ports: status.ports.iter().map(of_port).collect() }
    }
}

fn of_port(port: &PortStatus) -> PortWaits {
    PortWaits {
        name: port.name.clone(),
        mac: port.mac.clone(),
        pause_peer: port.pause_peer.clone(),
        classes: port.classes.iter().map(of_class).collect(),
    }
}

fn of_class(class: &ClassStatus) -> ClassWaits {
    let full = |CulpritStatus { port, class, bytes, .. }: &CulpritStatus| FullQueue {
        port: port.clone(),
        class: *class,
        bytes: *bytes,
    };
    ClassWaits {
        class: class.class,
        holds: class.pause_sent.now,
        culprits: class.culprits.iter().map(full).collect(),
        is_held: class.pause_received.now || class.flows.is_some_and(|flows| flows.paused > 0),
    }
}

#[cfg(test)]
mod tests {
    use crate::causes::Causes;

    use super::*;
    use crate::control::status::FlowStatus;
    use crate::control::testing::view;
    use crate::control::{Answer, snapshot};

    #[test]
    fn cause_graph_contains_station_that_pauses_only_flows() {
        let (view, _inbox) = view();
        let mut status = snapshot(&view, &[Answer::Given(Default::default())]);
        for class in status.ports.iter_mut().flat_map(|port| &mut port.classes) {
            (class.pause_sent.now, class.pause_received.now) = (false, false);
        }
        assert_eq!(Causes::of([&status]).text(), "no peer is paused\n");
        let culprit = CulpritStatus { port: "right".into(), class: 3, bytes: 1, held: true };
        let held = &mut status.ports[0].classes[3];
        (held.pause_sent.now, held.culprits) = (true, vec![culprit]);
        status.ports[1].pause_peer = Some("02:00:00:00:02:01".into());
        status.ports[1].classes[3].flows = Some(FlowStatus { paused: 1, ..FlowStatus::default() });
        let text = Causes::of([&status]).text();
        assert!(text.contains("  1 bytes: egress queue "), "{text}");
        assert!(text.ends_with("    paused by: station 02:00:00:00:02:01, class 3\n"), "{text}");
    }
}
