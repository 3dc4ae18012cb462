//! Steps of a frame: [receive](Switch::receive), [forward](Switch::forward), [transmit](Switch::transmit),
//! [release](Switch::release).
//!
//! Consecutive frames with the same ports and class are counted together, as a run ([`super::run`]), if counting them
//! singly would have the same effects.

use xoff_flow_control::buffer::Load;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::policy::Event;
use xoff_flow_control::settings::Accounting;
use xoff_wire::header::Header;
use xoff_wire::units::{Bytes, Class, ClassSet, PortId, Site};

use super::Switch;
use super::obey::Reading;
use super::pipeline::PipelineStep;
use super::run::{RunKey, RunStep};
use crate::forward::Decision;
use crate::frame::{Frame, FrameStore};
use crate::queue::{Fifo, FrameMeta, Origin};
use crate::schedule::Turn;

impl Switch {
    #[inline]
    pub(super) fn receive<S: FrameStore>(&mut self, port: PortId, frame: Frame, store: &mut S) {
        self.ledger.received += 1;
        let head = store.head(&frame);
        let head = &head[..head.len().min(frame.len() as usize)];
        let at = &self.ports[port.index()];
        let (before, mtu_frame) = (at.ingress.micro_flow.kind(head), at.ingress.mtu_frame);
        let is_repeat = before.is_some();
        let kind = match before {
            Some(kind) => kind,
            None => match self.read(port, head) {
                Reading::Data(kind) => kind,
                Reading::Consumed => return self.consume(port, frame, store),
                Reading::Punted(reason) => {
                    let _ = self.punt((port, 0), reason, &frame, store); // counted and consumed in any case
                    return self.consume(port, frame, store);
                }
                Reading::Malformed => {
                    let class = self.ports[port.index()].settings.default_class;
                    return self.discard(port, class, DropReason::Malformed, frame, store);
                }
            },
        };
        let (class, size) = (kind.class, Bytes::of_frame(frame.len()));
        if frame.len() - u32::from(kind.tags) > mtu_frame {
            return self.discard(port, class, DropReason::TooLong, frame, store);
        }
        let key = RunKey { step: RunStep::Receive, ingress: port, egress: port, class };
        let joins = self.joins_run(key, size);
        if !joins && let Err(reason) = self.buffer.enter_ingress(port, class, size) {
            self.note_loss(port, class);
            if reason == DropReason::HeadroomExhausted && self.buffer.ingress(port, class) > Bytes::ZERO {
                // Let the policy pause the sender only if frames are queued: only their departure can end the pause.
                self.observe(class, Event::Received { ingress: port });
            }
            return self.discard(port, class, reason, frame, store);
        }
        if self.taps.watch(port) {
            self.see_received(port, class, kind.layout, &frame, store);
        }
        let meta = FrameMeta::new(self.now, port, class, frame.len());
        *self.nodes.meta_mut(&frame) = FrameMeta { layout: kind.layout, tags: kind.tags, is_repeat, ..meta };
        let slot = frame.slot();
        let ingress = &mut self.ports[port.index()].ingress;
        let lane = ingress.lane(class);
        ingress.arrived[lane.index()].push(&mut self.nodes, frame);
        if joins {
            return;
        }
        ingress.backlogged.insert(lane);
        self.ready.ingress_ready.insert(port);
        self.open_checksum_probes();
        self.count_received(port, class, size.into());
        self.show_headroom(port, class);
        if self.congestion.ingress().contains(class) {
            self.sample(port, slot, self.buffer.ingress(port, class), store);
        }
        self.observe(class, Event::Received { ingress: port });
        self.begin_run(key);
    }

    #[inline]
    pub(super) fn count_received(&mut self, port: PortId, class: Class, load: Load) {
        let counters = self.counters.class(port, class);
        counters.rx_frames.add(load.frames.into());
        counters.rx_bytes.add(load.bytes.0);
        if self.ports[port.index()].peer.held.classes().contains(class) {
            self.note_response(port, class, load);
        }
    }
}

impl Switch {
    #[inline]
    pub(super) fn pipeline_rests(&self) -> bool {
        self.pipeline.passes_at_once() && self.ready.ingress_ready.is_empty()
    }

    #[inline]
    pub(super) fn forward<S: FrameStore>(&mut self, store: &mut S) -> bool {
        let at_once = self.pipeline.passes_at_once();
        if !at_once {
            match self.pipeline.next(self.now, &self.nodes) {
                PipelineStep::Head(frame) => {
                    self.decide_through(frame, store);
                    return true;
                }
                PipelineStep::Enter => (),
                PipelineStep::Wait => return false,
            }
        }
        let Some(port) = self.ready.take_turn() else { return false };
        let ingress = &mut self.ports[port.index()].ingress;
        let next =
            ingress.backlogged.highest().map(|lane| (lane, ingress.arrived[lane.index()].pop(&self.nodes)));
        let Some((lane, Some(frame))) = next else { return self.was_not_ready(port) };
        if at_once {
            self.decide(port, lane, frame, store);
        } else if let Some(frame) = self.pipeline.enter(&mut self.nodes, frame) {
            self.decide_through(frame, store);
        }
        let ingress = &mut self.ports[port.index()].ingress;
        if ingress.arrived[lane.index()].is_empty() {
            ingress.backlogged.remove(lane);
        }
        if ingress.backlogged.is_empty() {
            self.ready.ingress_ready.remove(port);
        }
        true
    }

    #[cold]
    fn was_not_ready(&mut self, port: PortId) -> bool {
        debug_assert!(false, "{port:?} must not be marked as ready without a frame");
        let ingress = &mut self.ports[port.index()].ingress;
        ingress.backlogged =
            Class::ALL.into_iter().filter(|lane| !ingress.arrived[lane.index()].is_empty()).collect();
        if ingress.backlogged.is_empty() {
            self.ready.ingress_ready.remove(port);
        }
        true
    }

    #[inline(never)]
    fn decide_through<S: FrameStore>(&mut self, frame: Frame, store: &mut S) {
        let &FrameMeta { ingress, class, .. } = self.nodes.meta(&frame);
        self.decide(ingress, class, frame, store);
    }

    #[inline]
    fn decide<S: FrameStore>(&mut self, port: PortId, class: Class, frame: Frame, store: &mut S) {
        let (decision, vid) = self.route(port, class, &frame, store);
        let meta = self.nodes.meta_mut(&frame);
        meta.vid = vid;
        match decision {
            Decision::Drop(reason) => {
                self.leave_pipeline(&frame);
                self.drop_admitted(port, reason, frame, store);
            }
            Decision::Unicast(egress) if self.must_wait(egress, self.nodes.meta(&frame)) => {
                self.wait_for_room(egress, frame);
            }
            Decision::Unicast(egress) => {
                self.leave_pipeline(&frame);
                if self.enqueue(egress, frame, store) {
                    self.enqueue_followers(port, class);
                }
            }
            Decision::Group(group) => self.take_path(group, None, frame, store),
            Decision::Flood(ports, kind) => self.flood(ports, kind, None, frame, store),
            Decision::Route(site) => self.decide_routed(site, frame, store),
        }
    }

    #[inline]
    fn route<S: FrameStore>(
        &mut self,
        port: PortId,
        class: Class,
        frame: &Frame,
        store: &S,
    ) -> (Decision, u16) {
        let &FrameMeta { is_repeat, layout, .. } = self.nodes.meta(frame);
        let micro_flow = &mut self.ports[port.index()].ingress.micro_flow;
        if is_repeat && let Some((egress, vid)) = micro_flow.route(self.now, class, &self.bridge) {
            return (Decision::Unicast(egress), vid);
        }
        if self.routed.contains(port) {
            return (Decision::Route(Site::Port(port)), 0);
        }
        let header = Header::read(layout, store.head(frame));
        let forwarding = self.bridge.forward(self.now, port, &header);
        micro_flow.forwarded(self.now, class, &forwarding, &self.bridge);
        if let Some(update) = forwarding.learned {
            self.spread(update);
        }
        (forwarding.decision, forwarding.vid)
    }

    #[inline]
    pub(super) fn enqueue<S: FrameStore>(&mut self, egress: PortId, frame: Frame, store: &mut S) -> bool {
        let meta = self.nodes.meta_mut(&frame);
        meta.egress = egress;
        let meta @ FrameMeta { ingress, class, .. } = *meta;
        let key = RunKey { step: RunStep::Enqueue, ingress, egress, class };
        let is_kept_out = self.is_bounded(egress, &meta) || self.host_misses(egress, &meta);
        let fits = !self.is_too_long_for(egress, &meta) && !is_kept_out;
        let joins = fits && self.joins_run(key, meta.counted());
        if joins {
            self.ports[egress.index()].egress.queues[class.index()].push(&mut self.nodes, frame);
        } else {
            self.enqueue_alone(key, frame, store);
        }
        joins
    }

    #[inline]
    fn enqueue_followers(&mut self, port: PortId, class: Class) {
        let at = &self.ports[port.index()].ingress;
        let Some(next) = at.arrived[class.index()].front(&self.nodes) else { return };
        if !next.is_repeat || self.ready.in_turn() != Some(port) {
            return;
        }
        let Some((egress, vid)) = at.micro_flow.route(self.now, class, &self.bridge) else { return };
        let len_max = self.len_max(egress, vid, next);
        let run = &mut self.run;
        let arrived = &mut self.ports[port.index()].ingress.arrived[class.index()];
        let followers = arrived.split_while(&mut self.nodes, |meta| {
            let joins = meta.is_repeat && meta.len <= len_max && run.takes(meta.counted());
            if joins {
                (meta.vid, meta.egress) = (vid, egress);
            }
            joins
        });
        self.ports[egress.index()].egress.queues[class.index()].append(&mut self.nodes, followers);
    }

    #[inline(never)]
    fn enqueue_alone<S: FrameStore>(&mut self, key: RunKey, frame: Frame, store: &mut S) {
        self.end_run();
        let RunKey { ingress, egress, class, .. } = key;
        if !self.workers.owns(egress) {
            let worker = self.workers.owner(egress);
            if self.buffer.is_lossy(class) && !self.outbox.takes_lossy() {
                return self.drop_admitted(ingress, DropReason::HandoverFull, frame, store);
            }
            self.leave_congestion_point(&frame);
            return self.outbox.by_worker[worker.index()].frames.push(&mut self.nodes, frame);
        }
        if let Some(reason) = self.why_refused(egress, &frame, store) {
            return self.drop_admitted(egress, reason, frame, store);
        }
        let size = self.nodes.meta(&frame).counted();
        self.buffer.enter_egress(ingress, egress, class, size);
        self.count_flow(egress, &frame, store);
        let slot = frame.slot();
        let at = &mut self.ports[egress.index()].egress;
        at.queues[class.index()].push(&mut self.nodes, frame);
        if at.queues[class.index()].is_ready() {
            at.backlogged.insert(class);
            if !self.ports[egress.index()].peer.paused.blocked().contains(class) {
                self.ready.egress_active.insert(egress);
            }
        }
        if self.nodes.meta_at(slot).origin == Origin::Host {
            return; // there is no peer to notify
        }
        if self.congestion.egress().contains(class) {
            self.sample(egress, slot, self.buffer.egress(egress, class), store);
        }
        self.observe(class, Event::Enqueued { ingress, egress, size });
        self.begin_run(key);
    }

    #[inline]
    pub(super) fn leave_pipeline(&mut self, frame: &Frame) {
        if self.accounting == Accounting::UntilForwarded {
            let meta = *self.nodes.meta(frame);
            if meta.origin == Origin::Network {
                self.count_out(&meta);
            }
        }
    }
}

impl Switch {
    #[inline]
    pub(super) fn transmit<S: FrameStore>(
        &mut self,
        port: PortId,
        store: &mut S,
        most: u32,
        mut send: impl FnMut(&mut S, Frame),
    ) -> u32 {
        self.end_run();
        let mut sent = 0;
        if !self.ready.egress_active.contains(port) {
            return sent;
        }
        let is_watched = self.taps.watch(port);
        while sent < most {
            if self.ports[port.index()].announces()
                && let Some(frame) = self.control(port, store)
            {
                if is_watched {
                    self.see_sent(port, &frame, store);
                }
                send(store, frame);
                sent += 1;
                continue;
            }
            self.expire_pauses(port);
            let at = &mut self.ports[port.index()];
            let Some(turn) = at.egress.choose(self.now, at.eligible()) else {
                if at.eligible().is_empty() && !at.has_announcements() {
                    self.ready.egress_active.remove(port); // paused classes become active again when they resume
                }
                break;
            };
            let Some(next) = self.dequeue(port, turn.class) else { break };
            let Some((frame, mut followers)) = self.depart(port, &turn, next, most - sent, store) else {
                continue;
            };
            sent += 1 + followers.frames();
            if is_watched {
                self.see_sent(port, &frame, store);
            }
            send(store, frame);
            while let Some(frame) = followers.pop(&self.nodes) {
                if is_watched {
                    self.see_sent(port, &frame, store);
                }
                send(store, frame);
            }
        }
        let at = &mut self.ports[port.index()];
        at.egress.rest(self.now, at.eligible());
        sent
    }

    #[inline]
    fn depart<S: FrameStore>(
        &mut self,
        port: PortId,
        turn: &Turn,
        mut frame: Frame,
        most: u32,
        store: &mut S,
    ) -> Option<(Frame, Fifo)> {
        let class = turn.class;
        let meta = *self.nodes.meta(&frame);
        let at = &self.ports[port.index()].egress;
        let tagged = self.bridge.is_tagged(port, meta.vid);
        let is_as_it_came = at.rewriter.has_nothing_to_do(meta.layout, tagged);
        let may_be_marked = at.marks.contains(class);
        let is_ready = !may_be_marked && is_as_it_came || store.stage(port, &frame);
        let is_marked = may_be_marked && is_ready && self.mark(port, &frame, store);
        let rewriter = &self.ports[port.index()].egress.rewriter;
        if !is_ready || !is_as_it_came && !rewriter.apply(store, &mut frame, meta.vid, tagged, class) {
            self.leave_egress(port, &meta);
            self.drop_admitted(port, DropReason::NoFrames, frame, store);
            self.pipeline.try_again(self.now);
            return None;
        }
        if is_marked {
            self.count_mark(port, class, &frame);
        }
        let mut load = Load::from(on_line(&frame));
        let followers = match is_as_it_came && most > load.frames {
            true => self.take_followers(port, turn, most, &meta, &mut load),
            false => Fifo::default(),
        };
        let delay = self.now.since(meta.since);
        self.counters.class(port, class).queueing_delay.record_times(delay.0, load.frames.into());
        let at = &mut self.ports[port.index()].egress;
        at.sent(self.now, turn, load);
        if let Some(next) = at.queues[class.index()].next_slot() {
            self.nodes.prefetch(next);
            store.leaves_soon(next);
        }
        Some((frame, followers))
    }

    #[inline]
    fn take_followers(
        &mut self,
        port: PortId,
        turn: &Turn,
        most: u32,
        first: &FrameMeta,
        load: &mut Load,
    ) -> Fifo {
        let class = turn.class;
        let is_like = |next: &FrameMeta| {
            (next.since, next.vid) == (first.since, first.vid) && next.layout.is_tagged_like(first.layout)
        };
        let egress = &mut self.ports[port.index()].egress;
        let sampled = ClassSet(self.congestion.ingress().0 | self.congestion.egress().0 | egress.marks.0);
        let is_counted_singly = sampled.contains(class) || self.policies.shadows_count_flows;
        let next = egress.queues[class.index()].fifo().and_then(|fifo| fifo.front(&self.nodes));
        if !next.is_some_and(is_like) || is_counted_singly {
            return Fifo::default();
        }
        let margin = egress.margin(self.now, turn);
        let Some(fifo) = egress.queues[class.index()].fifo() else { return Fifo::default() };
        let followers = fifo.split_while(&mut self.nodes, |meta| {
            let with_it = load.bytes + Bytes::on_line(meta.len);
            let leaves = load.frames < most && with_it <= margin && is_like(meta);
            if leaves {
                *load = Load { frames: load.frames + 1, bytes: with_it };
            }
            leaves
        });
        if fifo.is_empty() {
            egress.backlogged.remove(class);
        }
        followers
    }

    #[inline]
    fn dequeue(&mut self, port: PortId, class: Class) -> Option<Frame> {
        let at = &mut self.ports[port.index()].egress;
        let frame = at.queues[class.index()].pop(&mut self.nodes)?;
        if !at.queues[class.index()].is_ready() {
            at.backlogged.remove(class);
        }
        self.leave_congestion_point(&frame);
        self.count_flow_out(port, class, &frame);
        Some(frame)
    }
}

impl Switch {
    #[inline]
    pub(super) fn release<S: FrameStore>(&mut self, port: PortId, frame: Frame, store: &mut S) {
        self.ledger.sent += 1;
        let meta @ &FrameMeta { ingress, class, origin, len, .. } = self.nodes.meta(&frame);
        let key = RunKey { step: RunStep::Release, ingress, egress: port, class };
        let may_join = origin == Origin::Network && !meta.is_flooded() && len == frame.len();
        let size = Bytes::of_frame(frame.len());
        if may_join && self.joins_run(key, size) {
            return store.free(frame);
        }
        self.release_alone(port, frame, store);
        if may_join {
            self.begin_run(key);
        }
    }

    #[inline(never)]
    fn release_alone<S: FrameStore>(&mut self, port: PortId, frame: Frame, store: &mut S) {
        self.end_run();
        let meta = *self.nodes.meta(&frame);
        let size = Bytes::of_frame(frame.len());
        self.ports[port.index()].egress.take_back(size.into());
        if meta.origin != Origin::Switch {
            self.count_sent(port, meta.class, size.into());
            self.leave_egress(port, &meta);
            self.pipeline.try_again(self.now);
        }
        self.finish(frame, store);
    }

    #[inline]
    pub(super) fn count_sent(&self, port: PortId, class: Class, load: Load) {
        let counters = self.counters.class(port, class);
        counters.tx_frames.add(load.frames.into());
        counters.tx_bytes.add(load.bytes.0);
    }
}

pub(super) fn on_line(frame: &Frame) -> Bytes {
    Bytes::on_line(frame.len())
}

#[cfg(test)]
mod tests {
    use xoff_flow_control::counters::Counters;
    use xoff_flow_control::settings::SwitchSettings;
    use xoff_wire::units::{Nanos, PortId};

    use crate::switch::{Switch, Workers};
    use crate::testing::{OneSlot, port_settings};

    #[test] // proves: workers
    #[cfg_attr(
        debug_assertions,
        should_panic(expected = "PortId(0) must not be marked as ready without a frame")
    )]
    fn port_wrongly_marked_ready_blocks_no_other_port() {
        let settings = SwitchSettings::plain((0..2).map(port_settings).collect());
        let mut switch = Switch::new(&settings, 1, Workers::single(2), Counters::new(2));
        let bytes = [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5][..], &[0; 46]].concat();
        let (mut store, frame) = OneSlot::holding(&bytes, 0);
        let mut batch = switch.batch(Nanos(1));
        batch.receive(PortId(1), frame, &mut store);
        batch.switch.ready.ingress_ready.insert(PortId(0));
        while batch.forward(&mut store) {}
        drop(batch);
        assert!(switch.pipeline_rests());
        let _ = switch.ports[0].egress.queues[0].pop(&mut switch.nodes).map(crate::frame::Frame::into_parts);
    }
}
