use xoff_wire::units::{BitRate, Class, Nanos};
use xoff_wire::{FlowKey, FlowPause, Operation};

#[derive(Debug)]
pub struct FlowGate {
    line: BitRate,
    paused: Vec<(Class, FlowKey, Nanos)>,
    changed: bool,
}

impl FlowGate {
    #[must_use]
    pub const fn new(line: BitRate) -> FlowGate {
        FlowGate { line, paused: Vec::new(), changed: false }
    }

    /// Pauses or resumes the flows of a received list (OFC), which replaces earlier pauses of these flows.
    pub fn obey(&mut self, now: Nanos, list: &FlowPause<'_>) {
        for flow in list.flows() {
            self.paused.retain(|&(class, other, _)| (class, other) != (list.class, flow));
            if let Operation::Pause(time) = list.operation {
                self.paused.push((list.class, flow, now.after(self.line.time_of_quanta(time))));
            }
        }
        self.changed = true;
    }

    pub fn resume(&mut self, class: Class) {
        self.paused.retain(|&(other, ..)| other != class);
        self.changed = true;
    }

    /// Removes expired pauses. Returns whether the paused flows have changed since the last call.
    pub fn take_change(&mut self, now: Nanos) -> bool {
        let before = self.paused.len();
        self.paused.retain(|&(.., until)| until > now);
        std::mem::take(&mut self.changed) || self.paused.len() < before
    }

    #[must_use]
    pub fn holds(&self, class: Class, flow: &FlowKey) -> bool {
        self.paused.iter().any(|(other, held, _)| (*other, held) == (class, flow))
    }

    #[must_use]
    pub fn next_change(&self) -> Nanos {
        self.paused.iter().map(|&(.., until)| until).min().unwrap_or(Nanos::NEVER)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use xoff_wire::units::{MacAddr, Quanta};
    use xoff_wire::{FlowPauseWriter, Header};

    const C3: Class = Class::ALL[3];

    fn flow(port: u16) -> FlowKey {
        FlowKey::V4 { protocol: 17, ports: [port, 4791], src: [10, 0, 0, 1], dst: [10, 0, 0, 2] }
    }

    fn obey(gate: &mut FlowGate, now: u64, operation: Operation, ports: &[u16]) {
        let mut bytes = [0; 200];
        let mut writer = FlowPauseWriter::new(&mut bytes, MacAddr::default(), operation, C3);
        ports.iter().for_each(|&port| assert!(writer.push(&flow(port))));
        let frame = writer.finish();
        let list = FlowPause::of_frame(&Header::parse(frame).unwrap(), frame).unwrap().unwrap();
        gate.obey(Nanos(now), &list);
    }

    #[test]
    fn flow_pause_ends_after_its_quanta_or_when_resumed() {
        let mut gate = FlowGate::new(BitRate::from_gbps(1)); // a quantum is 512 ns
        assert!(!gate.take_change(Nanos(0)));
        obey(&mut gate, 0, Operation::Pause(Quanta(10)), &[1, 2]);
        assert!(gate.take_change(Nanos(0)) && !gate.take_change(Nanos(5_119)));
        assert!(
            gate.holds(C3, &flow(1)) && !gate.holds(C3, &flow(3)) && !gate.holds(Class::ALL[4], &flow(1))
        );
        obey(&mut gate, 100, Operation::Resume, &[1]);
        assert!(!gate.holds(C3, &flow(1)) && gate.holds(C3, &flow(2)));
        assert_eq!(gate.next_change(), Nanos(5_120));
        assert!(gate.take_change(Nanos(5_120)));
        assert!(!gate.holds(C3, &flow(2)));
    }

    #[test]
    fn xon_of_a_class_resumes_all_its_flows() {
        let mut gate = FlowGate::new(BitRate::from_gbps(1));
        obey(&mut gate, 0, Operation::Pause(Quanta(10)), &[1, 2]);
        gate.resume(Class::ALL[4]);
        assert!(gate.holds(C3, &flow(1)));
        gate.resume(C3);
        assert!(!gate.holds(C3, &flow(1)) && !gate.holds(C3, &flow(2)));
    }
}
