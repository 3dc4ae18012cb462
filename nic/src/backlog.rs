//! `--pause-above`: a host that cannot keep up pauses its switch for all lossless classes.
//!
//! The pause begins at a limit of bytes in the fullest UDP socket, because UDP has no flow control, and ends at half of the limit. The
//! backlog of RDMA is unknown, because RDMA bypasses sockets.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use xoff_flow_control::pause::Held;
use xoff_wire::units::{Bytes, Class, ClassSet, Nanos, PortId, Quanta};
use xoff_wire::{MacControl, Pfc};
use xoff_xdp::PacketSender;

use crate::config::NicSettings;
use crate::guard::now;
use crate::view::NicView;

/// Interval between readings of the UDP sockets' backlog. A socket must have room above `pause_above` for the frames of one interval.
const LOOK_EVERY: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(crate) struct BacklogPause {
    above: Bytes,
    classes: ClassSet,
    time: Quanta,
    held: Held,
}

impl BacklogPause {
    pub(crate) fn new(settings: &NicSettings, above: Bytes) -> BacklogPause {
        let pause = settings.speed.time_of_quanta(settings.pause_time);
        BacklogPause {
            above,
            classes: settings.lossless,
            time: settings.pause_time,
            held: Held::new(Nanos(pause.0 / 2)),
        }
    }

    pub(crate) fn update(&mut self, now: Nanos, backlog: Bytes) -> Option<Pfc> {
        for class in Class::ALL {
            let is_lossless = self.classes.contains(class);
            if is_lossless && backlog >= self.above {
                self.held.xoff(now, class);
            } else if !is_lossless || backlog.0 <= self.above.0 / 2 {
                self.held.xon(now, class);
            }
        }
        self.held.advance(now);
        let announcement = self.held.announce(now)?;
        let time = |class| if announcement.xon.contains(class) { Quanta(0) } else { self.time };
        Some(announcement.vector().iter().fold(Pfc::default(), |pfc, class| pfc.with(class, time(class))))
    }

    fn release(&mut self, now: Nanos) -> Option<Pfc> {
        self.update(now, Bytes::ZERO)
    }
}

#[derive(Debug)]
pub(crate) struct BacklogWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BacklogWatch {
    pub(crate) fn start(
        mut pause: BacklogPause,
        sender: PacketSender,
        view: Arc<NicView>,
    ) -> std::io::Result<BacklogWatch> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            while !stopped.load(Relaxed) {
                let backlog = fullest();
                view.receive_backlog.set(backlog.0);
                pause.classes = view.in_force.get().lossless;
                if let Some(pfc) = pause.update(now(), backlog) {
                    send_pause(&view, &sender, &pfc);
                }
                thread::sleep(LOOK_EVERY);
            }
            if let Some(pfc) = pause.release(now()) {
                send_pause(&view, &sender, &pfc);
            }
        };
        let thread = thread::Builder::new().name("xoff-backlog".into()).spawn(work)?;
        Ok(BacklogWatch { stop, thread: Some(thread) })
    }
}

impl Drop for BacklogWatch {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn send_pause(view: &NicView, sender: &PacketSender, pfc: &Pfc) {
    let counters = view.counters.port(PortId(0));
    match sender.send(&MacControl::Pfc(*pfc).encode(view.address())) {
        Ok(()) => counters.pause_frames_sent.add(1),
        Err(_) => counters.control_starved.add(1), // if the device is busy or down, the next refresh sends the pause
    }
    for (class, time) in pfc.iter() {
        note(view, class, time);
    }
}

fn note(view: &NicView, class: Class, time: Quanta) {
    let counters = view.counters.class(PortId(0), class);
    let since = counters.held_since.get();
    match (time, since) {
        (Quanta(0), 0) => {}
        (Quanta(0), since) => {
            counters.xon_sent.add(1);
            let held = now().since(Nanos(since));
            counters.held_since.set(0);
            counters.held_nanos.add(held.0);
            counters.held_durations.record(held.0);
        }
        (_, 0) => {
            counters.xoff_sent.add(1);
            counters.held_since.set(now().0.max(1));
        }
        _ => counters.refreshes_sent.add(1),
    }
}

fn fullest() -> Bytes {
    let files = ["udp", "udp6"].map(|name| fs::read_to_string(format!("/proc/thread-self/net/{name}")));
    let queues = files.iter().flatten().flat_map(|text| text.lines().skip(1).filter_map(queue));
    Bytes(queues.max().unwrap_or(0))
}

fn queue(line: &str) -> Option<u64> {
    let (_, received) = line.split_whitespace().nth(4)?.split_once(':')?;
    u64::from_str_radix(received, 16).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::config::NicWishes;
    use xoff_wire::units::BitRate;

    use super::*;

    const C3: Class = Class::ALL[3];

    fn pause() -> BacklogPause {
        let wishes = NicWishes {
            device: Some("eth0".into()),
            speed: Some(BitRate::from_gbps(1)),
            pause_time: Some(Quanta(1_000)), // a pause of 512 us
            ..NicWishes::default()
        };
        BacklogPause::new(&wishes.settings().unwrap(), Bytes(1_000))
    }

    fn times(pfc: Option<Pfc>) -> Vec<(Class, Quanta)> {
        pfc.iter().flat_map(Pfc::iter).collect()
    }

    #[test] // proves: host-service
    fn agent_sends_xoff_at_backlog_limit_and_xon_at_half_of_it() {
        let mut pause = pause();
        assert_eq!(pause.update(Nanos(0), Bytes(999)), None);
        assert_eq!(times(pause.update(Nanos(1), Bytes(1_000))), [(C3, Quanta(1_000))]);
        assert_eq!(pause.update(Nanos(2), Bytes(501)), None);
        assert_eq!(times(pause.update(Nanos(3), Bytes(500))), [(C3, Quanta(0))]);
        assert_eq!(pause.update(Nanos::from_secs(1), Bytes(0)), None);
    }

    #[test]
    fn agent_repeats_its_pause_frame_after_half_the_pause_time() {
        let mut pause = pause();
        assert!(pause.update(Nanos(0), Bytes(1_000)).is_some());
        assert_eq!(pause.update(Nanos(255_999), Bytes(1_000)), None);
        assert_eq!(times(pause.update(Nanos(256_000), Bytes(700))), [(C3, Quanta(1_000))]);
        assert_eq!(times(pause.release(Nanos(256_001))), [(C3, Quanta(0))]);
        assert_eq!(pause.release(Nanos(256_002)), None);
    }

    #[test]
    fn udp_socket_backlog_is_read_from_proc_net_udp() {
        let line =
            "  123: 00000000:12B7 00000000:0000 07 00000000:0001A900 00:00000000 00000000  0 0 77 2 0 12";
        assert_eq!(queue(line), Some(0x1a900));
        for wrong in ["", "sl local_address rem_address st tx_queue rx_queue", "1: a b c 1"] {
            assert_eq!(queue(wrong), None);
        }
    }
}
