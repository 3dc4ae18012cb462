use super::ask::StatusError;
use xoff_switch::control::status::{ClassStatus, PortStatus, Status};

#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub ports: Vec<String>,
    pub classes: Vec<u8>,
    pub congested: bool,
}

impl Selection {
    pub fn is_everything(&self) -> bool {
        self.ports.is_empty() && self.classes.is_empty() && !self.congested
    }

    pub fn of(&self, now: &Status, before: Option<&Status>) -> Result<Status, StatusError> {
        if let Some(name) = self.ports.iter().find(|name| now.ports.iter().all(|port| port.name != **name)) {
            let names: Vec<&str> = now.ports.iter().map(|port| port.name.as_str()).collect();
            return Err(StatusError::NoSuchPort { name: name.clone(), valid_names: names.join(", ") });
        }
        let mut status = now.clone();
        let is_picked = |port: &str| self.ports.is_empty() || self.ports.iter().any(|name| name == port);
        status.ports.retain(|port| is_picked(&port.name));
        status.fdb.retain(|entry| is_picked(&entry.port));
        for port in &mut status.ports {
            let past = before.and_then(|before| before.ports.iter().find(|it| it.name == port.name));
            port.classes.retain(|class| {
                let is_wanted = self.classes.is_empty() || self.classes.contains(&class.class);
                is_wanted && (!self.congested || is_congested(class, past))
            });
        }
        status.ports.retain(|port| !self.congested || !port.classes.is_empty());
        Ok(status)
    }
}

/// Returns whether a class is congested or paused, or was paused since `past`.
/// Congested: its ingress queue has reached XOFF, or its egress queue is over half full or halts the pipeline. Paused: either end
/// of the link pauses or slows the class or a flow of it, or a pause storm lasts.
pub(super) fn is_congested(class: &ClassStatus, past: Option<&PortStatus>) -> bool {
    let past = past.and_then(|port| port.classes.iter().find(|it| it.class == class.class));
    let was_paused = past.is_some_and(|past| {
        class.pause_sent.nanos > past.pause_sent.nanos
            || class.pause_received.nanos > past.pause_received.nanos
    });
    let flows = class.flows.is_some_and(|flows| flows.requests.requested > 0 || flows.paused > 0);
    let rate = class.requested_rate_bits_per_second.is_some() || class.rate_obeyed_bits_per_second.is_some();
    let storm = class.watchdog.as_ref().is_some_and(|watchdog| watchdog.storm);
    let (ingress, egress) = (&class.ingress, &class.egress);
    let is_full = class.lossless && ingress.bytes > 0 && ingress.bytes >= ingress.xoff_bytes
        || egress.bytes > egress.limit_bytes / 2
        || egress.halts.now;
    was_paused || class.pause_sent.now || class.pause_received.now || flows || rate || storm || is_full
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::tables::tests::status;
    use super::*;

    fn names(status: &Status) -> Vec<(&str, Vec<u8>)> {
        let classes = |port: &PortStatus| port.classes.iter().map(|class| class.class).collect();
        status.ports.iter().map(|port| (port.name.as_str(), classes(port))).collect()
    }

    #[test] // proves: status
    fn selection_keeps_given_ports_and_refuses_unknown_port() {
        let selection = Selection { ports: vec!["right".into()], classes: vec![3, 5], congested: false };
        assert_eq!(names(&selection.of(&status(), None).unwrap()), [("right", vec![3, 5])]);
        assert!(Selection::default().is_everything() && !selection.is_everything());
        let selection = Selection { ports: vec!["middle".into()], ..Default::default() };
        let error = selection.of(&status(), None).unwrap_err().to_string();
        assert_eq!(error, "the switch has no port \"middle\"; its ports are left, right");
    }

    #[test] // proves: status
    fn congested_option_selects_recently_paused_classes() {
        let selection = Selection { congested: true, ..Default::default() };
        let mut calm = status();
        for class in calm.ports.iter_mut().flat_map(|port| &mut port.classes) {
            (class.pause_sent.now, class.pause_received.now) = (false, false);
            (class.ingress.bytes, class.egress.bytes, class.egress.halts.now) = (0, 0, false);
            class.watchdog = None;
        }
        let of = |change: fn(&mut ClassStatus)| {
            let mut now = calm.clone();
            change(&mut now.ports[1].classes[3]);
            names(&selection.of(&now, Some(&calm)).unwrap()).len()
        };
        assert_eq!(of(|_| ()), 0);
        let changes: [fn(&mut ClassStatus); 6] = [
            |class| class.pause_sent.now = true,
            |class| class.pause_received.now = true,
            |class| class.pause_sent.nanos += 1,
            |class| class.ingress.bytes = class.ingress.xoff_bytes,
            |class| class.egress.bytes = class.egress.limit_bytes / 2 + 1,
            |class| class.rate_obeyed_bits_per_second = Some(1),
        ];
        assert_eq!(changes.map(of), [1; 6]);
        assert_eq!(of(|class| class.ingress.bytes = class.ingress.xoff_bytes - 1), 0);
    }
}
