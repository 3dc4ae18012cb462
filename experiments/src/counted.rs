use std::sync::Arc;

use xoff_flow_control::counter::Counter;
use xoff_flow_control::counters::{ClassCounters, Counters, CulpritQueue};
use xoff_flow_control::settings::SwitchSettings;
use xoff_switch::causes::{ClassWaits, FullQueue, PortWaits, Waits};
use xoff_wire::units::{Class, MacAddr, PortId};

use crate::plan::{Plan, SwitchId};

#[derive(Clone, Debug)]
pub struct Counted {
    pub name: String,
    pub port_names: Vec<String>,
    pub settings: Arc<SwitchSettings>,
    pub counters: Arc<Counters>,
}

impl Counted {
    pub(crate) fn new(
        plan: &Plan,
        switch: SwitchId,
        settings: Arc<SwitchSettings>,
        counters: Arc<Counters>,
    ) -> Counted {
        let port_names = plan.ports_of(switch).map(|at| plan.port_name(at).to_owned()).collect();
        Counted { name: plan.switch_name(switch).to_owned(), port_names, settings, counters }
    }

    pub fn ports(&self) -> impl Iterator<Item = PortId> + use<> {
        (0..=u8::MAX).map(PortId).take(self.port_names.len())
    }

    pub fn classes(&self) -> impl Iterator<Item = (PortId, Class, &ClassCounters)> {
        queues(&self.counters)
    }

    pub fn class(&self, class: Class) -> impl Iterator<Item = &ClassCounters> {
        self.classes().filter(move |queue| queue.1 == class).map(|queue| queue.2)
    }

    pub fn least_headroom(&self) -> Option<u64> {
        let left = |(port, class, counters): (PortId, Class, &ClassCounters)| {
            let settings = &self.settings.ports[port.index()].classes[class.index()];
            let used = counters.headroom_watermark.get();
            settings.lossless.then(|| settings.headroom.0.saturating_sub(used))
        };
        self.classes().filter_map(left).min()
    }

    #[cfg(test)]
    pub(crate) fn nothing(name: &str) -> Counted {
        let mut plan = Plan::new(crate::line::Line::from(crate::line::Line::REFERENCE));
        let switch = plan.switch(name);
        ["left", "right"].iter().for_each(|port| _ = plan.host(port, switch));
        let config =
            plan.config(switch, &crate::settings::Settings::default(), xoff_config::Machine::default());
        let settings = Arc::new(config.expect("the planned configuration must be valid").switch);
        Counted::new(&plan, switch, settings, Counters::new(2))
    }
}

impl From<&Counted> for Waits {
    fn from(switch: &Counted) -> Waits {
        let port = |port: PortId| {
            let peer = switch.counters.port(port).pause_peer.get();
            PortWaits {
                name: switch.port_names[port.index()].clone(),
                mac: switch.settings.ports[port.index()].mac.to_string(),
                pause_peer: (peer != 0).then(|| MacAddr::from_number(peer).to_string()),
                classes: Class::ALL.map(|class| of_class(switch, port, class)).into(),
            }
        };
        Waits { switch: switch.name.clone(), ports: switch.ports().map(port).collect() }
    }
}

fn of_class(switch: &Counted, port: PortId, class: Class) -> ClassWaits {
    let counters = switch.counters.class(port, class);
    let full = |CulpritQueue { egress, class, bytes, .. }: CulpritQueue| FullQueue {
        port: switch.port_names[egress.index()].clone(),
        class: class.get(),
        bytes,
    };
    ClassWaits {
        class: class.get(),
        holds: counters.held_since.get() != 0,
        culprits: switch.counters.culprits(port, class).into_iter().map(full).collect(),
        is_held: counters.paused_since.get() != 0 || counters.flows.paused.get() != 0,
    }
}

pub fn queues(counters: &Counters) -> impl Iterator<Item = (PortId, Class, &ClassCounters)> {
    let ports = (0..=u8::MAX).map(PortId).take(counters.ports());
    ports.flat_map(move |port| {
        Class::ALL.into_iter().map(move |class| (port, class, counters.class(port, class)))
    })
}

pub fn dropped(class: &ClassCounters) -> u64 {
    class.drops.iter().map(Counter::get).sum()
}

/// Reads counters until two readings agree, because a single reading may mix old and new values.
pub fn settled<T: PartialEq>(mut read: impl FnMut() -> T) -> T {
    let mut before = read();
    loop {
        let now = read();
        if now == before {
            return now;
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::LOSSLESS;
    use xoff_switch::causes::Causes;

    #[test]
    fn unused_headroom_is_minimum_over_ports_of_lossless_class() {
        let switch = Counted::nothing("a");
        let whole = |port: u8| switch.settings.ports[usize::from(port)].classes[LOSSLESS.index()].headroom.0;
        assert!(switch.least_headroom().is_some_and(|left| left == whole(0).min(whole(1)) && left > 7));
        switch.counters.class(PortId(1), LOSSLESS).headroom_watermark.set(whole(1) - 7);
        assert_eq!(switch.least_headroom(), Some(7));
        switch.counters.class(PortId(0), Class::default()).headroom_watermark.set(u64::MAX);
        assert_eq!(switch.least_headroom(), Some(7));
    }

    #[test]
    fn causes_of_pauses_follow_from_counters() {
        let counted = Counted::nothing("s1");
        let [left, right] = [0, 1].map(PortId);
        let class = Class::ALL[3];
        let waits = || Waits::from(&counted);
        assert_eq!(Causes::of([waits()]).text(), "no peer is paused\n");
        counted.counters.class(left, class).held_since.set(1);
        counted.counters.between(left, right, class).add(5_000);
        counted.counters.port(right).pause_peer.set(0x99);
        let text = Causes::of([waits()]).text();
        assert!(
            text.ends_with("5000 bytes: egress queue s1 right, class 3, limited by its line\n"),
            "{text}"
        );
        counted.counters.class(right, class).flows.paused.set(1);
        let text = Causes::of([&counted]).text();
        assert!(text.ends_with("paused by: station 00:00:00:00:00:99, class 3\n"), "{text}");
    }

    #[test] // proves: experiments
    fn counters_are_read_again_until_two_readings_agree() {
        let mut reads = [(0, 1), (1, 1), (2, 1), (2, 1), (2, 2)].into_iter();
        assert_eq!(settled(|| reads.next()), Some((2, 1)));
        assert_eq!(reads.len(), 1, "reading must stop once two readings are equal");
    }
}
