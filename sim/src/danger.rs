use xoff_wire::units::Bytes;

use crate::ends::{LinkId, NodeId};
use crate::event::Event;
use crate::faults::{ControlFaults, FaultCounts, Faults, Loses};
use crate::link::Links;
use crate::node::Net;
use crate::pool::Packet;

impl Links {
    fn faults(&mut self, id: LinkId) -> &mut Faults {
        self.endanger(id);
        self.faults.entry(id.0).or_default()
    }

    pub(crate) fn lose(&mut self, id: LinkId, loses: Loses) {
        self.faults(id).loses = Some(loses);
    }

    pub(crate) fn harm_control(&mut self, id: LinkId, control: ControlFaults, rng: fastrand::Rng) {
        self.faults(id).control = Some((control, rng));
    }

    pub(crate) fn fault_counts(&self) -> FaultCounts {
        self.faults.values().fold(FaultCounts::default(), |sum, Faults { fault_counts, .. }| FaultCounts {
            lost: sum.lost + fault_counts.lost,
            lost_control: sum.lost_control + fault_counts.lost_control,
            late: sum.late + fault_counts.late,
            harmed: sum.harmed + fault_counts.harmed,
        })
    }

    pub(crate) fn fault_counts_by_link(&self) -> impl Iterator<Item = (LinkId, FaultCounts)> {
        self.faults.iter().map(|(id, faults)| (LinkId(*id), faults.fault_counts))
    }

    pub(crate) fn late(&self) -> usize {
        self.faults.values().map(|faults| faults.late.len()).sum()
    }
}

impl Net {
    #[cold]
    pub(crate) fn start_in_danger(&mut self, from: NodeId, id: LinkId, (packet, bytes): (Packet, Bytes)) {
        let head = self.pool.head(packet);
        let faults = self.links.faults(id);
        let fate = faults.fate(head);
        if fate.is_lost {
            faults.doomed.push(packet.number);
            if fate.again_after.is_none() {
                faults.fault_counts.count_lost(head);
            }
        }
        if let Some((at, change)) = fate.harm {
            self.pool.head_mut(packet)[at] ^= change;
        }
        let arrives = self.links.start(from, id, (packet, bytes), &mut self.pool);
        let faults = self.links.faults(id);
        let comes = !fate.is_lost || fate.again_after.is_some();
        faults.fault_counts.harmed += u64::from(comes && fate.harm.is_some());
        if let Some(after) = fate.again_after {
            let copy = self.pool.copy(packet);
            let when = arrives.after(after);
            faults.fault_counts.late += 1;
            faults.late.insert((when, faults.fault_counts.late), copy);
            let to = self.links.to(id).node;
            self.links.put(when, Event::Late(id), to);
        }
    }

    #[cold]
    pub(crate) fn survives(&mut self, id: LinkId, packet: Packet) -> bool {
        let doomed = &mut self.links.faults(id).doomed;
        let Some(place) = doomed.iter().position(|number| *number == packet.number) else { return true };
        doomed.swap_remove(place);
        self.pool.free(packet);
        false
    }

    #[cold]
    pub(crate) fn late(&mut self, id: LinkId) -> Option<Packet> {
        let now = self.links.now;
        let first = self.links.faults(id).late.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(first.remove())
    }

    pub(crate) fn set_link(&mut self, id: LinkId, is_up: bool) {
        let on_their_way: Vec<Packet> = self.links.on_their_way(id).packets(&self.pool).collect();
        let faults = self.links.faults(id);
        faults.is_down = !is_up;
        for packet in on_their_way {
            if !faults.doomed.contains(&packet.number) {
                faults.doomed.push(packet.number);
                faults.fault_counts.count_lost(self.pool.head(packet));
            }
        }
        for packet in std::mem::take(&mut faults.late).into_values() {
            faults.fault_counts.count_lost(self.pool.head(packet));
            self.pool.free(packet);
        }
    }
}
