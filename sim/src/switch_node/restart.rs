//! Restart: a new switch replaces the old one.
//!
//! The new switch has the same routes, but no learned addresses. It does not know its peers' pauses: a peer's buffer may
//! overflow until the peer repeats its pause.

use std::sync::Arc;

use xoff_dataplane::frame::Frame;
use xoff_dataplane::switch::{Switch, Workers};
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::{Nanos, PortId, PortSet};

use super::SwitchNode;
use super::driver_backlog::DriverBacklog;
use crate::node::Net;
use crate::pool::Packet;
use crate::slots::View;

impl SwitchNode {
    pub(crate) fn restart(&mut self, settings: &SwitchSettings, begins: Nanos, net: &mut Net) {
        let now = net.now().floor();
        let ports = || (0..=u8::MAX).map(PortId).take(settings.ports.len());
        let without_link: Vec<PortId> = ports().filter(|port| !self.switch.bridge().is_up(*port)).collect();
        let parting = self.release_peers(ports(), net);
        let on_lines = self.leave_lines(now, net);
        self.impairment_counts.restarts += 1;
        self.impairment_counts.lost_in_restarts += self.slots.clear(&mut net.pool);
        let taps: Vec<_> = self.taps.iter().map(|id| (*id, self.switch.batch(now).take_tap(*id))).collect();
        self.counters.begin_anew(now);
        let workers = Workers::single(settings.ports.len());
        self.switch = Switch::new(settings, self.slots.count(), workers, self.counters().clone());
        for (id, tap) in taps {
            let put = tap.map(|tap| self.switch.batch(now).put_tap(id, tap));
            debug_assert!(matches!(put, Some(Ok(()))), "the new switch must accept the taps of the old one");
        }
        let view = &mut View { pool: &mut net.pool, slots: &mut self.slots };
        if let Some(fib) = &self.fib {
            drop(self.switch.batch(now).set_fib(Arc::clone(fib)));
        }
        for port in without_link {
            self.switch.batch(now).set_link(port, false, view);
        }
        self.impair(now, net);
        let backlog = self.impair(begins, net);
        backlog.forget();
        backlog.begins = begins;
        backlog.parting.extend(parting);
        backlog.orphans = backlog.orphans.or(&on_lines);
    }

    fn release_peers(&mut self, ports: impl Iterator<Item = PortId>, net: &mut Net) -> Vec<(PortId, Packet)> {
        let view = &mut View { pool: &mut net.pool, slots: &mut self.slots };
        let mut batch = self.switch.batch(net.links.now.floor());
        batch.release_peers();
        let mut parting = Vec::new();
        for port in ports {
            while let Some(frame) = batch.announce(port, view) {
                parting.push((port, view.slots.send(&frame)));
                batch.release(port, frame, view);
            }
        }
        parting
    }

    fn leave_lines(&mut self, now: Nanos, net: &mut Net) -> PortSet {
        let view = &mut View { pool: &mut net.pool, slots: &mut self.slots };
        let mut batch = self.switch.batch(now);
        for (port, (slot, len)) in self.backlog.iter_mut().flat_map(|backlog| backlog.take_left()) {
            batch.release(port, Frame::new(slot, len), view);
        }
        let mut on_lines = PortSet::NONE;
        for (port, sending) in (0..=u8::MAX).map(PortId).zip(&mut self.sending) {
            if let Some((slot, len)) = sending.take() {
                batch.release(port, Frame::new(slot, len), view);
                on_lines.insert(port);
            }
        }
        on_lines
    }

    pub(crate) fn part(&mut self, backlog: &mut DriverBacklog, net: &mut Net) {
        let DriverBacklog { parting, orphans, .. } = backlog;
        parting.retain(|&(port, packet)| {
            let waits = !self.free.contains(port);
            if !waits {
                net.start(self.place, port, packet);
                self.free.remove(port);
                orphans.insert(port);
            }
            waits
        });
    }
}
