//! The control thread over real HTTP, with counters filled by hand and a worker that only answers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use xoff_dataplane::counters::Counters;
use xoff_dataplane::drop_reason::DropReason;
use xoff_dataplane::ledger::Ledger;
use xoff_dataplane::settings::{
    ClassSettings, PolicyKind, PortSettings, Service, SwitchSettings, WatchdogAction, WatchdogSettings,
    WhenFull,
};
use xoff_dataplane::units::{BitRate, Bytes, CLASSES, Class, MacAddr, Nanos, PortId};
use xoff_dataplane::wire::mac_control::MacControlError;
use xoff_ebpf::{EbpfError, Place};
use xoff_xdp::{DeviceDrops, Look, Overlap, PortDriver, Unread, XdpStatistics};

use super::mailbox::{Address, Inbox, Mailbox, Request};
use super::status::{Status, WorkerState};
use super::*;
use crate::bell::Bell;
use crate::lldp::Neighbors;
use xoff_fabric::Promise;

mod addresses;
mod capture;
mod connections;
mod metrics;
mod policy;
mod reference;
mod reload;
mod status;

const CLASS_3: Class = Class::ALL[3];
const NOW: Nanos = Nanos(5_000_000_000);

struct FakeDriver;

impl PortDriver for FakeDriver {
    fn xdp_statistics(&self) -> io::Result<XdpStatistics> {
        Ok(XdpStatistics {
            rx_ring_full: 2,
            tx_ring_empty: 9,
            tx_failed_kicks: 7,
            tx_failed_errno: 22,
            ..XdpStatistics::default()
        })
    }

    fn device_drops(&self) -> Result<DeviceDrops, Unread> {
        let last = DeviceDrops { tx_errors: 1, ..DeviceDrops::default() };
        Err(Unread { last, why: io::Error::other("nobody knows") })
    }

    fn look(&self) -> Look {
        Look::There(Place::Ours)
    }

    fn attach_again(&self) -> Result<(), EbpfError> {
        Ok(())
    }
}

/// Of a port that has lost nothing, whose device takes programs where `takes` says so.
pub(super) struct SilentDriver {
    pub(super) takes: Arc<AtomicBool>,
}

impl PortDriver for SilentDriver {
    fn xdp_statistics(&self) -> io::Result<XdpStatistics> {
        Ok(XdpStatistics::default())
    }

    fn device_drops(&self) -> Result<DeviceDrops, Unread> {
        Ok(DeviceDrops::default())
    }

    fn look(&self) -> Look {
        Look::There(Place::Ours)
    }

    fn attach_again(&self) -> Result<(), EbpfError> {
        let refused = || EbpfError::AnotherXoff { device: "l0".into(), process: None };
        self.takes.load(Relaxed).then_some(()).ok_or_else(refused)
    }
}

/// Of a port that has lost five frames, as long as its device is not gone.
#[derive(Default)]
pub(super) struct FickleDriver {
    pub(super) is_gone: Arc<AtomicBool>,
}

impl PortDriver for FickleDriver {
    fn xdp_statistics(&self) -> io::Result<XdpStatistics> {
        match self.is_gone.load(Relaxed) {
            true => Err(io::Error::other("it is gone")),
            false => Ok(XdpStatistics { rx_dropped: 5, ..XdpStatistics::default() }),
        }
    }

    fn device_drops(&self) -> Result<DeviceDrops, Unread> {
        Ok(DeviceDrops::default())
    }

    fn look(&self) -> Look {
        if self.is_gone.load(Relaxed) { Look::Gone } else { Look::There(Place::Ours) }
    }

    fn attach_again(&self) -> Result<(), EbpfError> {
        Ok(())
    }
}

/// What is answered for by that driver.
pub(super) fn device(ifindex: u32, driver: impl PortDriver + 'static) -> PortDevice {
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    let overlap = Overlap::Sockets;
    PortDevice { ifindex, mac, native: false, zero_copy: false, queues: 1, overlap, driver: Arc::new(driver) }
}

fn class_settings(class: usize) -> ClassSettings {
    let lossless = class == 3;
    ClassSettings {
        lossless,
        headroom: if lossless { Bytes(30_000) } else { Bytes::ZERO },
        service: Service::Strict,
        watchdog: lossless.then_some(WatchdogSettings {
            action: WatchdogAction::Drop,
            detect: Nanos::from_millis(200),
            restore: Nanos::from_millis(200),
        }),
        ..ClassSettings::lossy(Bytes(40_000))
    }
}

fn port_settings(name: &str) -> PortSettings {
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    PortSettings::plain(name, mac, BitRate::from_gbps(1), std::array::from_fn(class_settings))
}

/// A switch of two ports and one worker, and that worker's inbox. The ports' devices are there: they are `lo`.
pub(crate) fn view() -> (Arc<SwitchView>, Inbox) {
    view_on([1; 2])
}

/// The same on devices of these indices.
pub(super) fn view_on(devices: [u32; 2]) -> (Arc<SwitchView>, Inbox) {
    let mut settings = SwitchSettings::plain(["left", "right"].map(port_settings).into());
    settings.when_full = WhenFull::Stop;
    settings.pipeline.delay = Nanos::from_micros(25);
    settings.shadows = vec![PolicyKind::CaPfcStopMax, PolicyKind::Ofc, PolicyKind::Gfc];
    let port = |(name, ifindex)| PortView::new(name, 0, device(ifindex, FakeDriver));
    let ports = ["l0", "r0"]
        .into_iter()
        .zip(devices)
        .map(port)
        .zip(["left", "right"])
        .map(|(port, name)| port.named(name));
    let (mailbox, inbox) = Mailbox::new().unwrap();
    let view = SwitchView {
        name: "s1".into(),
        counters: Counters::with_shadows(2, settings.shadows.len()),
        policies: policy_cells::PolicyCells::new(settings.policies),
        configured: current::Current::new(settings),
        ports: ports.collect(),
        workers: vec![WorkerView { core: Some(1), slots: 16, facts: Arc::default(), mailbox }],
        stall_budget: Nanos::from_millis(10),
        clock: || NOW,
        started_at: Nanos(NOW.0 - 4_000_000_000),
        started: SystemTime::now(),
        router: None,
        books: loss_books::LossBooks::new(2),
        going_on: GoingOn::default(),
        neighbors: Neighbors::new(2),
        host_bell: Arc::new(Bell::new().unwrap()),
    };
    fill(&view);
    (Arc::new(view), inbox)
}

fn fill(view: &SwitchView) {
    let left = view.counters.port(PortId(0));
    left.malformed_control[MacControlError::Truncated.index()].add(4);
    let right = view.counters.port(PortId(1));
    right.loops.add(2);
    right.loop_with.set(1);
    right.looped.set(1);
    let class = view.counters.class(PortId(0), CLASS_3);
    class.intents_refused.add(6);
    class.rx_frames.add(1000);
    class.rx_bytes.add(64_000);
    class.drops[DropReason::Hairpin.index()].add(3);
    class.drops[DropReason::HeadroomExhausted.index()].add(1);
    class.xoff_sent.add(2);
    class.xon_sent.add(1);
    class.held_nanos.add(250_000_000);
    class.held_since.set(NOW.0 - 1_000_000_000);
    class.held_durations.record(250_000_000);
    class.headroom_watermark.raise(12_345);
    class.held_cause.set(1 << 40 | 3 << 32 | 1 << 16 | 1 << 8 | 1); // class 3: the egress queue of port 1
    class.xoff_causes.own[1].add(2);
    view.counters.between(PortId(0), PortId(1), CLASS_3).add(7_000);
    let shadow = &view.counters.shadow(0)[0][3];
    shadow.xoff.add(1);
    shadow.held_nanos.add(500_000_000);
    shadow.lost.add(2);
    shadow.refused.add(8);
    shadow.first_loss.set(NOW.0);
    let flows = &view.counters.shadow(1)[0][3].flows;
    let rate = &view.counters.shadow(2)[0][3].rate;
    for (counter, value) in [
        (&flows.pauses, 3),
        (&flows.flows, 12),
        (&flows.resumes, 2),
        (&flows.now, 4),
        (&rate.changes, 5),
        (&rate.now, 500_000_000),
        (&rate.lowest, 250_000_000),
    ] {
        counter.add(value);
    }
    let stormed = view.counters.class(PortId(1), CLASS_3);
    stormed.storms.add(2);
    stormed.storm_nanos.add(500_000_000);
    stormed.storm_since.set(NOW.0 - 2_000_000_000);
    stormed.drops[DropReason::PausedDiscard.index()].add(70);
    stormed.last_storm.began.set(NOW.0 - 2_000_000_000);
    stormed.last_storm.dropped_before.set(20);
    let full = view.counters.class(PortId(1), CLASS_3);
    full.halts.add(3);
    full.halted_nanos.add(250_000_000);
    full.halted_since.set(NOW.0 - 500_000_000);
    view.workers[0].facts.looped(Nanos::from_millis(11), view.stall_budget);
}

/// A worker that answers until it is told that a link is up.
fn answer(inbox: Inbox) -> JoinHandle<()> {
    let learned = Address { vid: 1, mac: MacAddr([2, 0, 0, 0, 0, 9]), port: PortId(1), fixed: false };
    answer_with(inbox, vec![learned])
}

/// The same with a table of these addresses.
fn answer_with(inbox: Inbox, table: Vec<Address>) -> JoinHandle<()> {
    let ledger = Ledger { received: 10, sent: 7, dropped: 3, ..Ledger::default() };
    std::thread::spawn(move || {
        loop {
            poll(&mut [PollFd::new(inbox.fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
            inbox.acknowledge();
            while let Some(request) = inbox.take() {
                match request {
                    Request::Ledger(answer) => answer.send(ledger).unwrap(),
                    Request::Addresses(request) => {
                        request.answer(table.len(), |places| places.map(|at| table[at]))
                    }
                    Request::Link { up, .. } if up => return,
                    Request::SetPolicy { successor, done } => done.send(successor).unwrap(),
                    Request::Revise { revision, done, .. } => done.send(revision).unwrap(),
                    Request::PutTap { done, .. } => done.send(Ok(())).unwrap(),
                    Request::TakeTap { done, .. } => done.send(None).unwrap(),
                    Request::Link { .. }
                    | Request::GiveUp { .. }
                    | Request::TakeBack(_)
                    | Request::Adopt { .. }
                    | Request::SetFib { .. } => {}
                }
            }
        }
    })
}

fn stop_worker(view: &SwitchView, worker: JoinHandle<()>) {
    view.workers[0].mailbox.send(Request::Link { port: PortId(0), up: true }).unwrap();
    worker.join().unwrap();
}

fn get(control: &ControlHandle, path: &str) -> (u16, String) {
    let url = format!("http://{}{path}", control.address().unwrap());
    let call = ureq::get(url).config().http_status_as_error(false).build().call();
    let mut response = call.unwrap();
    (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
}

fn any_port() -> Http {
    listen(&SocketAddr::from(([127, 0, 0, 1], 0)).into(), None, &[]).unwrap()
}

fn serve(view: &Arc<SwitchView>) -> ControlHandle {
    start(Arc::clone(view), Some(any_port()), None, None, &Confinement::default(), ()).unwrap()
}

/// `count` addresses in some order, in two VLANs.
fn table(count: u32) -> Vec<Address> {
    let address = |number: u32| {
        let [a, b, c, d] = number.wrapping_mul(0x9e37_79b1).to_be_bytes(); // an odd number: none comes twice
        let (vid, port) = (1 + (number % 2) as u16, PortId((number % 2) as u8));
        Address { vid, mac: MacAddr([2, 0, a, b, c, d]), port, fixed: number.is_multiple_of(3) }
    };
    (0..count).map(address).collect()
}
