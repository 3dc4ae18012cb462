//! State of a running agent, written by its threads and read by any thread. [`NicStatus`](crate::serve::NicStatus) explains the counters.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use xoff_config::format::span;
use xoff_flow_control::counter::Counter;
use xoff_flow_control::counters::Counters;
use xoff_switch::control::Current;
use xoff_switch::lldp::Neighbors;
use xoff_switch::lldp::announcement::Announcement;
use xoff_wire::units::{CLASSES, Class, ClassSet, MacAddr, Nanos, PortId};

use crate::config::NicSettings;
use crate::egress::Defects;
use crate::guard;
use crate::response::Response;

#[derive(Debug)]
pub struct NicView {
    pub settings: NicSettings,
    /// Settings in use: `settings`, but with classes and maps of the switch that the host follows (DCBX).
    pub in_force: Current<NicSettings>,
    pub neighbors: Neighbors,
    /// DCBX announcement that a willing host follows.
    pub(crate) announced: Mutex<Option<Announcement>>,
    pub ifindex: u32,
    /// Present name of the device; `settings` has the name at the start.
    pub device: Current<String>,
    pub(crate) address: Counter,
    pub leaf: &'static str,
    /// Counters of the host's port, into which the agent copies the kernel's counters every second.
    pub counters: Arc<Counters>,
    pub response: Response,
    pub waiting_frames: [Counter; CLASSES],
    pub dropped: [Counter; CLASSES],
    dropped_lossless: Counter,
    deleted_lossless: Counter,
    later_lossless: Counter,
    pub cnms: [Counter; CLASSES],
    pub longest_pause: [Counter; CLASSES],
    pub refused: Counter,
    pub(crate) unsettled: Counter,
    pub repairs: Counter,
    pub(crate) defects: Counter,
    pub offload_repairs: Counter,
    pub(crate) offloads_changed: AtomicBool,
    /// Id of the attached XDP program; 0 means none.
    pub(crate) xdp_program: Counter,
    /// Number of pause frames received before the XDP program was found.
    pub(crate) pauses_before: Counter,
    pub disobeyed: [Counter; CLASSES],
    pub deleted: [Counter; CLASSES],
    pub missed: Counter,
    pub guards_lost: Counter,
    pub receive_backlog: Counter,
    pub looks: Counter,
    pub real_time: AtomicBool,
    pub started_at: Nanos,
    pub started: SystemTime,
}

impl NicView {
    pub(crate) fn new(
        settings: NicSettings,
        ifindex: u32,
        leaf: &'static str,
        response: Response,
    ) -> NicView {
        NicView {
            in_force: Current::new(settings.clone()),
            neighbors: Neighbors::new(1),
            announced: Mutex::default(),
            device: Current::new(settings.device.clone()),
            settings,
            ifindex,
            address: Counter::default(),
            leaf,
            counters: Counters::new(1),
            response,
            waiting_frames: Default::default(),
            dropped: Default::default(),
            dropped_lossless: Counter::default(),
            deleted_lossless: Counter::default(),
            later_lossless: Counter::default(),
            cnms: Default::default(),
            longest_pause: Default::default(),
            refused: Counter::default(),
            unsettled: Counter::default(),
            repairs: Counter::default(),
            defects: Counter::default(),
            offload_repairs: Counter::default(),
            offloads_changed: AtomicBool::default(),
            xdp_program: Counter::default(),
            pauses_before: Counter::default(),
            disobeyed: Default::default(),
            deleted: Default::default(),
            missed: Counter::default(),
            guards_lost: Counter::default(),
            receive_backlog: Counter::default(),
            looks: Counter::default(),
            real_time: AtomicBool::default(),
            started_at: guard::now(),
            started: SystemTime::now(),
        }
    }

    #[must_use]
    pub fn peer_response(&self) -> Nanos {
        self.response.recommended().unwrap_or_else(|| self.expected_response())
    }

    #[must_use]
    pub fn expected_response(&self) -> Nanos {
        let expected = || self.response.expected(self.real_time.load(Relaxed));
        self.settings.peer_response.unwrap_or_else(expected)
    }

    pub(crate) fn follow(&self, settings: NicSettings) {
        self.later_lossless.set(self.later_lossless.get() | u64::from(settings.lossless.0));
        self.in_force.set(settings);
    }

    pub(crate) fn count_dropped(&self, class: Class, total: u64) -> bool {
        let new = total.saturating_sub(self.dropped[class.index()].get());
        if new == 0 {
            return false;
        }
        self.dropped[class.index()].add(new);
        if self.in_force.get().lossless.contains(class) {
            self.dropped_lossless.add(new);
        }
        true
    }

    pub(crate) fn count_deleted(&self, classes: ClassSet) {
        classes.iter().for_each(|class| self.deleted[class.index()].add(1));
        let lossless = u64::from(classes.0 & self.in_force.get().lossless.0);
        self.deleted_lossless.set(self.deleted_lossless.get() | lossless);
    }

    #[must_use]
    pub fn ever_lossless(&self) -> ClassSet {
        ClassSet(self.settings.lossless.0 | set_of(&self.later_lossless).0)
    }

    #[must_use]
    pub fn address(&self) -> MacAddr {
        MacAddr::from_number(self.address.get())
    }

    #[must_use]
    pub fn dropped_lossless(&self) -> u64 {
        self.dropped_lossless.get()
    }

    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let (dropped, missed) = (self.dropped_lossless(), self.missed.get());
        let faults = [
            (missed, "pause frames and CNMs were lost, because they arrived faster than the agent read them"),
            (dropped, "frames of lossless classes were dropped in the host's queues"),
        ];
        let faults = faults.iter().filter(|(count, _)| *count > 0);
        let faults = faults.map(|(count, what)| format!("{count} {what}"));
        let own = [
            self.unsettled(),
            self.broken(),
            self.disobedience(),
            self.deletions(),
            self.hidden_pauses(),
            self.offloads(),
        ];
        own.into_iter().flatten().chain(faults).collect()
    }

    pub(crate) fn pauses_received(&self) -> u64 {
        let port = self.counters.port(PortId(0));
        let counts = [&port.pfc_frames_received, &port.pause_frames_received, &port.rate_frames_received];
        counts.iter().map(|count| count.get()).sum()
    }

    fn hidden_pauses(&self) -> Option<String> {
        let program = u32::try_from(self.xdp_program.get()).ok().filter(|&program| program != 0)?;
        let has_passed = self.pauses_received() > self.pauses_before.get();
        (!has_passed).then(|| xdp_warning(&self.device.get(), program))
    }

    fn offloads(&self) -> Option<String> {
        self.offloads_changed.load(Relaxed).then(|| {
            "another program changed offloads, and the agent cannot turn them off again (the log has the reason): superframes, or \
             frames without checksum, may leave"
                .to_owned()
        })
    }

    fn unsettled(&self) -> Option<String> {
        let classes = set_of(&self.unsettled);
        (!classes.is_empty()).then(|| {
            format!(
                "the kernel refuses to change the queue of class {}; the agent tries again, and the log has the reason",
                list(classes)
            )
        })
    }

    #[must_use]
    pub fn defects(&self) -> Defects {
        Defects::from_number(self.defects.get())
    }

    #[must_use]
    pub fn broken(&self) -> Option<String> {
        let defects = self.defects();
        (!defects.is_empty()).then(|| {
            format!("queues are missing or changed, and cannot be repaired ({defects}): frames of paused classes may leave")
        })
    }

    #[must_use]
    pub fn deletions(&self) -> Option<String> {
        let classes = set_of(&self.deleted_lossless);
        (!classes.is_empty()).then(|| {
            format!(
                "another program deleted the queue of class {}; its frames are lost and were not counted",
                list(classes)
            )
        })
    }

    #[must_use]
    pub fn disobedience(&self) -> Option<String> {
        let times = Class::ALL.into_iter().zip(&self.disobeyed).filter(|(_, time)| time.get() > 0);
        let times: Vec<String> =
            times.map(|(class, time)| format!("class {class} for up to {}", span(time.get()))).collect();
        (!times.is_empty()).then(|| {
            format!(
                "pauses were not enforced: {}; because another program had changed the queues, frames of paused classes may have left",
                times.join(", ")
            )
        })
    }
}

fn set_of(bits: &Counter) -> ClassSet {
    ClassSet(u8::try_from(bits.get()).unwrap_or(u8::MAX))
}

pub(crate) fn list(classes: ClassSet) -> String {
    classes.iter().map(|class| class.to_string()).collect::<Vec<_>>().join(", ")
}

pub(crate) fn xdp_warning(device: &str, program: u32) -> String {
    format!(
        "the XDP program {program} at {device} gets each frame before the agent, and may consume pauses: make it pass MAC control \
         (EtherType 0x8808), or remove it (`ip link set dev {device} xdp off`, or `xdpgeneric off`)"
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_wire::units::{BitRate, Bytes};

    use super::*;
    use crate::config::NicWishes;

    fn view(lossless: u8) -> NicView {
        let wishes = NicWishes {
            device: Some("eth0".into()),
            speed: Some(BitRate::from_gbps(1)),
            lossless: Some(ClassSet(lossless)),
            ..NicWishes::default()
        };
        let settings = wishes.settings().unwrap();
        let response = Response::new(settings.speed, Bytes::ZERO);
        NicView::new(settings, 1, "tbf", response)
    }

    #[test] // proves: host-service
    fn xdp_program_is_reported_until_agent_receives_a_pause() {
        let view = view(0b1000);
        let received = &view.counters.port(PortId(0)).pfc_frames_received;
        received.set(5);
        view.pauses_before.set(5);
        assert!(view.faults().is_empty());
        view.xdp_program.set(7);
        view.device.set("eth9".into());
        assert!(view.faults()[0].contains("XDP program 7 at eth9"), "{:?}", view.faults());
        received.set(6);
        assert!(view.faults().is_empty());
    }

    #[test] // proves: host-dcbx
    fn lossless_class_losses_stay_counted_after_it_becomes_lossy() {
        let (view, class) = (view(0b1000), Class::ALL[3]);
        let with = |lossless| NicSettings { lossless: ClassSet(lossless), ..view.settings.clone() };
        assert!(view.count_dropped(class, 2) && !view.count_dropped(class, 2));
        view.count_deleted(ClassSet(0b1001));
        view.follow(with(0b1_0000));
        assert!(view.count_dropped(class, 5), "lossy now");
        assert_eq!((view.dropped_lossless(), view.ever_lossless()), (2, ClassSet(0b1_1000)));
        view.follow(with(0b1001));
        assert!(view.count_dropped(class, 6));
        assert_eq!((view.dropped_lossless(), view.dropped[3].get()), (3, 6));
        assert!(view.deletions().unwrap().contains("the queue of class 3;"));
    }
}
