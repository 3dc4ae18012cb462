#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

pub mod reference;

use std::io;
use std::sync::Arc;

use xoff_ebpf::{EbpfError, Place};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{
    ClassSettings, GroupSettings, Lacp, Member, PolicyKind, PortSettings, Service, Spread, SwitchSettings,
    WatchdogAction, WatchdogSettings, WhenFull,
};
use xoff_wire::mac_control::MacControlError;
use xoff_wire::units::{BitRate, Bytes, Class, MacAddr, Nanos, PortId};
use xoff_xdp::{DeviceDrops, Look, Overlap, PortDriver, Unread, XdpStatistics};

use super::mailbox::{Inbox, Mailbox};
use super::*;
use crate::bell::Bell;
use crate::lacp::LacpPorts;
use crate::lldp::Neighbors;

pub const CLASS_3: Class = Class::ALL[3];
pub const NOW: Nanos = Nanos(5_000_000_000);

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

pub fn device(ifindex: u32, driver: impl PortDriver + 'static) -> PortDevice {
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    let overlap = Overlap::Sockets;
    PortDevice {
        ifindex,
        mac,
        native: false,
        zero_copy: false,
        fallbacks: xoff_xdp::Fallbacks::default(),
        queues: 1,
        overlap,
        driver: Arc::new(driver),
    }
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
            share: WatchdogSettings::UNBROKEN,
        }),
        ..ClassSettings::lossy(Bytes(40_000))
    }
}

fn port_settings(name: &str) -> PortSettings {
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    PortSettings::plain(name, mac, BitRate::from_gbps(1), std::array::from_fn(class_settings))
}

#[must_use]
pub fn group_with_lacp() -> GroupSettings {
    GroupSettings {
        name: "up".into(),
        members: vec![Member { port: PortId(0), weight: 1 }],
        spread: Spread::Flow,
        uplinks: false,
        lacp: Some(Lacp { active: true, short_timeout: false }),
        salt: 0,
    }
}

#[must_use]
pub fn view() -> (Arc<SwitchView>, Inbox) {
    view_on([1; 2])
}

#[must_use]
pub fn view_on(devices: [u32; 2]) -> (Arc<SwitchView>, Inbox) {
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
        router: None,
        books: loss_books::LossBooks::new(2),
        ongoing: OngoingConditions::default(),
        neighbors: Neighbors::new(2),
        snooping: crate::snooping::Snooping::default(),
        lacp: LacpPorts::new(2),
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
    class.held_cause.set(1 << 40 | 3 << 32 | 1 << 16 | 1 << 8 | 1); // class 3 of port 1
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
