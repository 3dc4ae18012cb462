//! Samples of TCP and UDP checksums. They reveal hosts that send unfinished checksums (the sum of the pseudo-header
//! only), as with checksum offload behind virtual devices.
//!
//! Each second, every port examines at most [`FRAMES`] frames, and none after the first frame with a finished checksum.
//! A finished checksum looks unfinished once in 65,536 times, so only several unfinished ones in a short series count.

use xoff_flow_control::counters::PortCounters;
use xoff_wire::checksum;
use xoff_wire::header::Header;
use xoff_wire::units::Nanos;

use super::Switch;

const EVERY: Nanos = Nanos::from_secs(1);
const FRAMES: u8 = 16;
/// Points that an unfinished checksum adds to `suspicion`, a score of the port. A finished checksum removes one point.
const STEP: u8 = 40;
/// Score above which unfinished checksums are counted. The third one exceeds it if the port examined fewer than 40
/// finished ones since the first.
const CERTAIN: u8 = 2 * STEP;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChecksumProbe {
    frames_left: u8,
    suspicion: u8,
}

impl ChecksumProbe {
    #[inline]
    pub(super) const fn is_open(self) -> bool {
        self.frames_left > 0
    }

    #[cold]
    pub(super) fn examine(&mut self, header: &Header, head: &[u8], counters: &PortCounters) {
        self.frames_left -= 1;
        let Some(is_unfinished) = checksum::is_unfinished(header, head) else { return };
        counters.checksums_examined.add(1);
        if is_unfinished {
            self.suspicion = (self.suspicion + STEP).min(3 * STEP);
            counters.checksums_unfinished.add((self.suspicion > CERTAIN).into());
        } else {
            self.suspicion = self.suspicion.saturating_sub(1);
            self.frames_left = 0;
        }
    }
}

impl Switch {
    /// Lets this worker's ports examine checksums again, once a second. Also ends micro-flows, of which only the first
    /// frame is parsed and examined.
    #[inline]
    pub(super) fn open_checksum_probes(&mut self) {
        if self.now >= self.next_checksum_probe {
            self.open_probes();
        }
    }

    #[cold]
    fn open_probes(&mut self) {
        self.next_checksum_probe = self.now.after(EVERY);
        for port in self.workers.own().iter() {
            let ingress = &mut self.ports[port.index()].ingress;
            ingress.checksum_probe.frames_left = FRAMES;
            ingress.micro_flow.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use xoff_flow_control::counters::Counters;
    use xoff_flow_control::settings::SwitchSettings;
    use xoff_wire::units::PortId;

    use super::*;
    use crate::switch::Workers;
    use crate::testing::{OneSlot, port_settings};

    fn segment(protocol: u8, checksum: u16) -> Vec<u8> {
        let mut bytes =
            vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0, 0, 40, 0, 1, 0x40, 0, 64];
        bytes.extend([protocol, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
        bytes.resize(60, 0);
        bytes[50..52].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    #[test] // proves: unfinished-checksums
    fn several_unfinished_checksums_of_a_port_are_counted() {
        const TCP: u8 = 6;
        const ICMP: u8 = 1;
        let settings = SwitchSettings::plain((0..2).map(port_settings).collect());
        let counters = Counters::new(2);
        let mut switch = Switch::new(&settings, 1, Workers::single(2), counters.clone());
        let mut send = |second: u64, frames: u64, protocol: u8, checksum: u16| {
            for number in 0..frames {
                let (mut store, frame) = OneSlot::holding(&segment(protocol, checksum), 0);
                let mut batch = switch.batch(Nanos(second * 1_000_000_000 + number + 1));
                batch.set_link(PortId(1), false, &mut store); // so that the switch drops the frame
                batch.receive(PortId(0), frame, &mut store);
                while batch.forward(&mut store) {}
            }
            let port = counters.port(PortId(0));
            (port.checksums_examined.get(), port.checksums_unfinished.get())
        };
        assert_eq!(
            send(0, 100, TCP, 0x1234),
            (1, 0),
            "each second, the first finished checksum must end the examination"
        );
        assert_eq!(
            send(2, 3, TCP, 0x142f),
            (3, 0),
            "two unfinished checksums must not count, because they may be chance"
        );
        assert_eq!(send(4, 2, TCP, 0x142f), (5, 2));
        assert_eq!(
            send(6, 100, ICMP, 0x142f),
            (5, 2),
            "a packet without TCP or UDP checksum must not be examined"
        );
        assert_eq!(send(8, 100, TCP, 0x142f), (21, 18), "16 frames per second must be examined");
        for second in (10..300).step_by(2) {
            send(second, 2, TCP, 0x1234);
        }
        assert_eq!(send(400, 3, TCP, 0x142f), (168, 18), "finished checksums must lower the suspicion score");
    }
}
