//! Frames of a worker's own ports and frames that another has handed over for the same queue take turns.

use std::sync::Arc;

use xoff_dataplane::counters::Counters;
use xoff_dataplane::drop_reason::DropReason;
use xoff_dataplane::settings::{Spread, Turns, WhenFull};
use xoff_dataplane::switch::{Switch, WorkerId, Workers};
use xoff_dataplane::units::{Bytes, Class, MacAddr, Nanos, PortId, Site};

use super::{BEYOND, SIZE, group};
use crate::bed::plan::{self, LINK};
use crate::bed::store::MemoryStore;

/// Port 0 is of one worker; the other has port 1, and those that lead beyond.
const OWNERS: [u8; 4] = [0, 1, 1, 1];
const HANDED_OVER: PortId = PortId(0);
const OWN: PortId = PortId(1);
/// The one of those that has a link.
const OUT: PortId = PortId(2);
const SHORT: u64 = 100;
/// Where a frame of the host says that it is from.
const OF_HOST: PortId = PortId(9);

/// A frame of class 3 in VLAN `vid`, as long as it is counted to be.
fn frame(from: PortId, vid: u8, size: u64) -> Vec<u8> {
    let mut bytes = BEYOND.0.to_vec();
    bytes.extend(MacAddr([2, 0, 0, 0, 0, from.0]).0);
    bytes.extend([0x81, 0, 3 << 5, vid, 0x88, 0xb5]);
    bytes.resize(usize::try_from(size - 4).expect("a frame's length"), 0);
    bytes
}

fn frame_of_host() -> Vec<u8> {
    frame(OF_HOST, 0, SHORT)
}

/// Two workers by hand: what has come to either is for the same queue of the second.
struct TwoWorkers {
    now: Nanos,
    receives: Switch,
    sends: Switch,
    store: MemoryStore,
    counters: Arc<Counters>,
}

impl TwoWorkers {
    fn new(is_group: bool, when_full: WhenFull, egress_max: u64) -> TwoWorkers {
        let mut plan = plan::switch(&[LINK; 4]);
        plan.settings.when_full = when_full;
        plan.each_port(|port| port.commit = Bytes(8 * SIZE));
        plan.each_lossless(|class| class.egress_max = Bytes(egress_max));
        if is_group {
            plan.settings.groups = vec![group(2..4, Spread::Frame(Turns::RoundRobin), 1)];
        }
        plan.settings.fdb.statics = vec![(1, BEYOND, OUT)];
        let counters = Counters::new(4);
        let [mut receives, mut sends] = [0, 1].map(|me| {
            let roles = Workers::new(OWNERS.map(WorkerId).into(), WorkerId(me));
            Switch::new(&plan.settings, 110, roles, counters.clone())
        });
        let mut store = MemoryStore::new(100, 10, 16, 1_600);
        let now = Nanos::from_micros(1);
        for worker in [&mut receives, &mut sends] {
            worker.batch(now).set_link(PortId(3), false, &mut store);
        }
        TwoWorkers { now, receives, sends, store, counters }
    }

    /// Frames, so long as they are counted, come in by a port, and go as far as they do at once.
    fn come(&mut self, port: PortId, frames: u32, size: u64) {
        let bytes = frame(port, 1, size);
        let worker = if port == OWN { &mut self.sends } else { &mut self.receives };
        for _ in 0..frames {
            let frame = self.store.fill(&bytes).expect("a slot is free");
            worker.batch(self.now).receive(port, frame, &mut self.store);
        }
        while worker.batch(self.now).forward(&mut self.store) {}
        while let Some(handover) = self.receives.batch(self.now).hand_over(WorkerId(1)) {
            self.sends.batch(self.now).take_over(handover, &mut self.store);
        }
    }

    /// The host sends short frames by its interface at `site`.
    fn host_sends(&mut self, site: Site, frames: u32) {
        for _ in 0..frames {
            self.sends.batch(self.now).send_of_host(site, OUT, &frame_of_host(), &mut self.store);
        }
    }

    /// Frames of the host for which there was no room.
    fn host_limit(&self) -> u64 {
        self.counters.class(OUT, Class::ALL[3]).drops[DropReason::HostLimit.index()].get()
    }

    /// By which ports those came that leave, one after the other; so many of them have left when it is looked at what they leave behind.
    fn leave(&mut self, at_once: usize) -> Vec<PortId> {
        self.leave_beside(at_once, None)
    }

    /// The same, and the host sends a frame by its interface there whenever one of others has made room.
    fn leave_beside(&mut self, at_once: usize, host: Option<Site>) -> Vec<PortId> {
        let mut from = Vec::new();
        loop {
            let mut ring = Vec::new();
            for _ in 0..at_once {
                self.now += Nanos::from_micros(20);
                self.sends.batch(self.now).transmit(OUT, &mut self.store, 1, |_, frame| ring.push(frame));
            }
            if ring.is_empty() {
                break;
            }
            let mut batch = self.sends.batch(self.now);
            for frame in ring {
                from.push(PortId(self.store.frame(&frame)[11]));
                batch.release(OUT, frame, &mut self.store);
            }
            if let Some(site) = host.filter(|_| from.last() != Some(&OF_HOST)) {
                batch.send_of_host(site, OUT, &frame_of_host(), &mut self.store);
            }
            while batch.forward(&mut self.store) {}
        }
        while let Some(back) = self.sends.batch(self.now).give_back(WorkerId(0)) {
            self.receives.batch(self.now).take_back(back, &mut self.store);
        }
        assert_eq!(self.store.in_use(), 0);
        assert_eq!(self.sends.buffer().egress(OUT, Class::ALL[3]), Bytes::ZERO);
        from
    }
}

#[test]
fn own_frames_and_those_of_another_worker_leave_in_turns() {
    let rooms = [(1, 1), (2, 1), (2, 2), (4, 4)];
    for (is_group, (room, at_once)) in [false, true].into_iter().flat_map(|is| rooms.map(|room| (is, room))) {
        let mut workers = TwoWorkers::new(is_group, WhenFull::StopClass, room * SIZE + 1);
        workers.come(HANDED_OVER, 12, SIZE);
        workers.come(OWN, 4, SIZE);
        let left = workers.leave(at_once);
        assert_eq!(left.len(), 16);
        let own: Vec<usize> = (0..16).filter(|place| left[*place] == OWN).collect();
        let first = own[0];
        assert!(first <= 5, "group {is_group}, room for {room}, {at_once} at once: {left:?}");
        assert_eq!(own, [0, 2, 4, 6].map(|after| first + after), "group {is_group}, {at_once} at once");
    }
}

/// It joins a queue whose turn it is for others; without room it is dropped, and not kept.
#[test]
fn what_the_host_sends_takes_no_turn_and_waits_for_none() {
    let sites = [Site::Port(OUT), Site::Vlan(1)];
    for (is_group, site) in [false, true].into_iter().flat_map(|is_group| sites.map(|site| (is_group, site)))
    {
        let come = || {
            let mut workers = TwoWorkers::new(is_group, WhenFull::StopClass, SIZE + SHORT + 1);
            workers.come(HANDED_OVER, 4, SIZE);
            workers.come(OWN, 4, SIZE);
            workers
        };
        let leave = |of_host| {
            let mut workers = come();
            workers.host_sends(site, of_host);
            (workers.host_limit(), workers.leave(1))
        };
        let (dropped, mut left) = leave(3);
        assert_eq!((dropped, left.remove(1)), (2, OF_HOST), "group {is_group}, {site:?}: {left:?}");
        assert_eq!((0, left), leave(0), "group {is_group}, {site:?}");
        let mut left = come().leave_beside(1, Some(site));
        let all = left.len();
        left.retain(|from| *from != OF_HOST);
        assert!(all > left.len() + 2, "group {is_group}, {site:?}");
        assert_eq!((0, left), leave(0), "beside the host, group {is_group}, {site:?}");
    }
}

/// Whoever it is.
#[test]
fn a_long_frame_is_not_passed_for_ever_by_short_ones_of_others() {
    for is_group in [false, true] {
        for (long, short) in [(HANDED_OVER, OWN), (OWN, HANDED_OVER)] {
            let mut workers = TwoWorkers::new(is_group, WhenFull::StopClass, SIZE + SHORT / 2);
            workers.come(short, 16, SHORT);
            workers.come(long, 1, SIZE);
            workers.come(short, 40, SHORT);
            let left = workers.leave(1);
            let place = left.iter().position(|port| *port == long).expect("it leaves");
            assert_eq!(left.len(), 57);
            assert!(place < 20, "group {is_group}: {place} of {} are before it", left.len());
        }
    }
}
