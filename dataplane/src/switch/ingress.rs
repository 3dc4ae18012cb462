//! The first two steps: a frame comes in, and the pipeline moves it to where it goes out.

use super::batch::{Step, Way};
use super::train::{Kind, Leader};
use super::{Port, Switch};
use crate::buffer::Load;
use crate::drop_reason::DropReason;
use crate::forward::{Decision, Forwarding};
use crate::frame::{Frame, FrameStore};
use crate::pause::Resumed;
use crate::policy::Event;
use crate::queue::{FrameMeta, NONE};
use crate::settings::{Accounting, FlowControl, WhenFull};
use crate::units::{Bytes, CLASSES, Class, ClassSet, Nanos, PortId, PortSet, Quanta, TAGS};
use crate::wire::cnm::Cnm;
use crate::wire::header::{Header, field};
use crate::wire::mac_control::MacControl;
use crate::wire::ofc::FlowPause;

impl Switch {
    /// A frame has come in by `port`, which this worker owns. Control frames are obeyed and consumed;
    /// every other is counted and waits for [`Switch::forward`].
    #[inline]
    pub fn receive<S: FrameStore>(&mut self, now: Nanos, port: PortId, frame: Frame, store: &mut S) {
        self.ledger.received += 1;
        let head = store.head(&frame);
        let head = &head[..head.len().min(frame.len() as usize)];
        let leader = self.ports[port.index()].leader.as_ref().filter(|leader| leader.leads(head));
        let follows = leader.is_some();
        let kind = match leader {
            Some(leader) => leader.kind,
            None => {
                let Ok(header) = Header::parse(head) else {
                    let class = self.ports[port.index()].settings.default_class;
                    self.count_received(port, class, Bytes::of_frame(frame.len()));
                    return self.discard(port, class, DropReason::Malformed, frame, store);
                };
                if MacControl::is_mac_control(&header) {
                    self.obey(now, port, &header, head);
                    return self.consume(frame, store);
                }
                if header.dst.is_link_local() {
                    self.counters.port(port).reserved_frames.add(1);
                    return self.consume(frame, store);
                }
                if Cnm::is_cnm(&header) {
                    self.count_notice(port, &header, head);
                }
                let class = self.ports[port.index()].classifier.classify(&header);
                Kind::new(class, &header, head)
            }
        };
        let Kind { class, tags, .. } = kind;
        let size = Bytes::of_frame(frame.len());
        if frame.len() - u32::from(tags) > self.ports[port.index()].settings.mtu_frame {
            self.count_received(port, class, size);
            return self.discard(port, class, DropReason::TooLong, frame, store);
        }
        let meta = FrameMeta {
            since: now,
            len: frame.len(),
            group: NONE,
            flow: NONE,
            vid: 0,
            ingress: port,
            egress: port,
            class,
            control: false,
            tags,
            follows,
        };
        let way = Way { step: Step::Receive, ingress: port, egress: port, class };
        let goes_on = self.goes_on(way, size);
        if !goes_on {
            self.count_received(port, class, size);
            if let Err(reason) = self.buffer.enter_ingress(port, class, size) {
                self.note_loss(now, port, class);
                return self.discard(port, class, reason, frame, store);
            }
        }
        *self.nodes.meta_mut(&frame) = meta;
        let slot = frame.slot();
        let at = &mut self.ports[port.index()];
        if !follows {
            at.leader = Leader::of(head, kind);
        }
        at.arrived[class.index()].push(&mut self.nodes, frame);
        if goes_on {
            return;
        }
        at.backlogged_in.insert(class);
        if !at.stopped.contains(class) {
            self.ingress_ready.insert(port);
        }
        self.sample_ingress(now, port, class, slot, store);
        self.observe(now, class, Event::Received { ingress: port });
        self.begin_run(way);
    }

    /// Whether there is a frame for [`Switch::forward`] to move.
    #[must_use]
    pub fn can_forward(&self) -> bool {
        !self.ingress_ready.is_empty()
    }

    /// Moves one frame through the pipeline: the next port in turn, its highest class that can move.
    /// False where no frame can move.
    #[inline]
    pub fn forward<S: FrameStore>(&mut self, now: Nanos, store: &mut S) -> bool {
        let Some(port) = self.ingress_ready.next_from(self.next_ingress) else { return false };
        self.next_ingress = PortId(port.0.wrapping_add(1));
        let Some(class) = self.ports[port.index()].movable().highest() else { return false };
        let at = &mut self.ports[port.index()];
        let Some(frame) = at.arrived[class.index()].pop(&self.nodes) else { return false };
        self.route(now, port, class, frame, store);
        let at = &mut self.ports[port.index()];
        if at.arrived[class.index()].is_empty() {
            at.backlogged_in.remove(class);
        }
        if at.movable().is_empty() {
            self.ingress_ready.remove(port);
        }
        true
    }

    /// Learns from a frame, looks its destinations up, and sends it there.
    #[inline]
    fn route<S: FrameStore>(&mut self, now: Nanos, port: PortId, class: Class, frame: Frame, store: &mut S) {
        let follows = self.nodes.meta(&frame).follows;
        let path = if follows { self.bridge.follow(now, port, class) } else { None };
        let (decision, vid) = match path {
            Some((egress, vid)) => (Decision::Unicast(egress), vid),
            None => {
                let header = Header::parse(store.head(&frame)).expect("it parsed when it came in");
                let Forwarding { decision, vid, news } = self.bridge.forward(now, port, class, &header);
                if let Some(update) = news {
                    self.spread(update);
                }
                (decision, vid)
            }
        };
        match decision {
            Decision::Drop(reason) => {
                self.leave_pipeline(now, &frame);
                self.drop_admitted(now, port, reason, frame, store);
            }
            Decision::Unicast(egress) => {
                self.nodes.meta_mut(&frame).vid = vid;
                if self.must_wait(egress, class, &frame) {
                    return self.wait_for_room(port, egress, class, frame);
                }
                self.leave_pipeline(now, &frame);
                self.enqueue(now, egress, frame, store);
                if path.is_some() {
                    self.forward_train(port, egress, class, vid);
                }
            }
            Decision::Flood(ports) => self.flood(now, port, class, ports, vid, frame, store),
        }
    }

    #[allow(clippy::too_many_arguments)] // one call site, one frame's whole context
    fn flood<S: FrameStore>(
        &mut self,
        now: Nanos,
        port: PortId,
        class: Class,
        ports: PortSet,
        vid: u16,
        frame: Frame,
        store: &mut S,
    ) {
        self.nodes.meta_mut(&frame).vid = vid;
        if let Some(full) = self.must_wait_for_one_of(ports, class, &frame) {
            return self.wait_for_room(port, full, class, frame);
        }
        self.leave_pipeline(now, &frame);
        let copies = u32::try_from(ports.len()).unwrap_or(u32::MAX);
        let mut may_be_made = copies - 1;
        if copies > 1 && self.accounting == Accounting::UntilTransmitted {
            let meta = self.nodes.meta_mut(&frame);
            (meta.group, may_be_made) = self.groups.open(class, copies);
        }
        let meta = *self.nodes.meta(&frame);
        let mut rest = ports;
        while let Some(egress) = rest.first_from(PortId(0)) {
            rest.remove(egress);
            if rest.is_empty() {
                return self.enqueue(now, egress, frame, store);
            }
            match if may_be_made > 0 { store.copy(&frame) } else { None } {
                Some(copy) => {
                    may_be_made -= 1;
                    self.ledger.copied += 1;
                    *self.nodes.meta_mut(&copy) = meta;
                    self.enqueue(now, egress, copy, store);
                }
                None => self.count_missing_copy(now, egress, &meta),
            }
        }
    }

    /// A copy that should have gone to `egress` could not be made.
    #[cold]
    fn count_missing_copy(&mut self, now: Nanos, egress: PortId, meta: &FrameMeta) {
        let at = if self.workers.owns(egress) { egress } else { meta.ingress };
        self.counters.class(at, meta.class).drops[DropReason::NoFrames.index()].add(1);
        if self.accounting == Accounting::UntilTransmitted {
            self.count_out(now, meta);
        }
    }

    /// Admits a frame to the queue of `egress`, which may be another worker's.
    #[inline]
    pub(super) fn enqueue<S: FrameStore>(&mut self, now: Nanos, egress: PortId, frame: Frame, store: &mut S) {
        let meta = self.nodes.meta_mut(&frame);
        meta.egress = egress;
        let (ingress, class, size) = (meta.ingress, meta.class, meta.counted());
        let way = Way { step: Step::Enqueue, ingress, egress, class };
        let fits = !self.is_too_long_for(egress, self.nodes.meta(&frame));
        if fits && self.goes_on(way, size) {
            return self.ports[egress.index()].queues[class.index()].push(&mut self.nodes, frame);
        }
        self.settle(); // where it is too long
        if !self.workers.owns(egress) {
            self.leave_congestion_point(&frame);
            let worker = self.workers.owner(egress);
            return self.outbound[worker.index()].frames.push(&mut self.nodes, frame);
        }
        if let Some(reason) = self.why_refused(egress, class, &frame, store) {
            return self.drop_admitted(now, egress, reason, frame, store);
        }
        self.buffer.enter_egress(ingress, egress, class, size);
        self.count_flow(now, egress, &frame, store);
        let slot = frame.slot();
        let at = &mut self.ports[egress.index()];
        at.queues[class.index()].push(&mut self.nodes, frame);
        if at.queues[class.index()].is_ready() {
            at.backlogged.insert(class);
            self.egress_active.insert(egress);
        }
        self.sample_egress(now, egress, class, slot, store);
        self.observe(now, class, Event::Enqueued { ingress, egress, size });
        self.begin_run(way);
    }

    /// Why a frame is not admitted to the queue of `egress`, if it is not.
    #[inline]
    fn why_refused<S: FrameStore>(
        &mut self,
        egress: PortId,
        class: Class,
        frame: &Frame,
        store: &S,
    ) -> Option<DropReason> {
        let at = &self.ports[egress.index()];
        let meta = self.nodes.meta(frame);
        if at.closed.contains(class) {
            Some(at.why_closed())
        } else if self.is_too_long_for(egress, meta) {
            Some(DropReason::TooLong)
        } else if !self.buffer.egress_has_room(egress, class, meta.counted()) {
            Some(DropReason::EgressFull)
        } else if at.drops_early.contains(class) && self.is_dropped_early(egress, class, frame, store) {
            Some(DropReason::EarlyDrop)
        } else {
            None
        }
    }

    /// Whether the pipeline stops for want of room at `egress` ([`WhenFull::Stop`]). Room at another
    /// worker's port is not known here: there the frame waits at that port. What will be dropped there
    /// waits for nothing.
    #[inline]
    pub(super) fn must_wait(&self, egress: PortId, class: Class, frame: &Frame) -> bool {
        self.when_full == WhenFull::Stop
            && self.joins(egress, class, frame)
            && !self.buffer.egress_has_room(egress, class, self.nodes.meta(frame).counted())
    }

    /// The port for whose room a flood waits, if it does: one that has none for a copy, or the first, where the
    /// memory that egress queues share has none for all copies together.
    fn must_wait_for_one_of(&self, ports: PortSet, class: Class, frame: &Frame) -> Option<PortId> {
        if self.when_full == WhenFull::Drop {
            return None;
        }
        let joined = || ports.iter().filter(|&egress| self.joins(egress, class, frame));
        let full = joined().find(|&egress| self.must_wait(egress, class, frame));
        let size = self.nodes.meta(frame).counted();
        let together = || !self.buffer.egresses_have_room(joined(), class, size);
        full.or_else(|| joined().next().filter(|_| together()))
    }

    /// Whether a frame for `egress` joins a queue of this worker, where there is room.
    #[inline]
    fn joins(&self, egress: PortId, class: Class, frame: &Frame) -> bool {
        self.workers.owns(egress)
            && !self.ports[egress.index()].closed.contains(class)
            && !self.is_too_long_for(egress, self.nodes.meta(frame))
    }

    /// Whether a frame is longer than what `egress` sends may be.
    #[inline]
    fn is_too_long_for(&self, egress: PortId, meta: &FrameMeta) -> bool {
        meta.len > self.longest_for(egress, meta.vid, meta.tags)
    }

    /// The longest frame of VLAN `vid` with `tags` bytes of tags that may leave by `egress`. Where those are all that
    /// an MTU leaves out ([`TAGS`]), one that the frame gets on its way out counts.
    #[inline]
    pub(super) fn longest_for(&self, egress: PortId, vid: u16, tags: u8) -> u32 {
        let tags = u32::from(tags);
        let is_beyond = tags == TAGS && self.bridge.is_tagged(egress, vid);
        let counts = if is_beyond { u32::from(field::TAG_LEN) } else { 0 };
        self.ports[egress.index()].settings.mtu_frame + tags - counts
    }

    #[cold]
    fn wait_for_room(&mut self, port: PortId, egress: PortId, class: Class, frame: Frame) {
        let at = &mut self.ports[port.index()];
        at.arrived[class.index()].unpop(&mut self.nodes, frame);
        at.backlogged_in.insert(class);
        at.stopped.insert(class);
        self.ports[egress.index()].awaiting_room[class.index()].insert(port);
        self.awaited.insert(egress);
    }

    /// The frame leaves its ingress queue: in `until-forwarded` accounting it counts there no longer.
    #[inline]
    fn leave_pipeline(&mut self, now: Nanos, frame: &Frame) {
        if self.accounting == Accounting::UntilForwarded {
            let meta = *self.nodes.meta(frame);
            self.count_out(now, &meta);
        }
    }

    #[inline]
    pub(super) fn count_received(&self, port: PortId, class: Class, load: impl Into<Load>) {
        let shown = self.counters.class(port, class);
        let load = load.into();
        shown.rx_frames.add(load.frames.into());
        shown.rx_bytes.add(load.bytes.0);
    }

    /// A frame that was meant for this station.
    fn consume<S: FrameStore>(&mut self, frame: Frame, store: &mut S) {
        self.ledger.consumed += 1;
        store.free(frame);
    }

    #[cold]
    fn obey(&mut self, now: Nanos, port: PortId, header: &Header, head: &[u8]) {
        self.settle();
        let shown = self.counters.port(port);
        let control = match MacControl::parse(header, head) {
            Ok(control) => control,
            Err(error) => return shown.malformed_control[error.index()].add(1),
        };
        if self.ports[port.index()].settings.ofc_peer
            && let MacControl::Pfc(pfc) = control
        {
            match FlowPause::parse(&pfc, head) {
                Ok(Some(list)) if self.obeys(port, list.class) => {
                    shown.pfc_frames_received.add(1);
                    self.pauses_obeyed += 1;
                    shown.pause_peer.set(header.src.to_number());
                    return self.obey_list(now, port, &pfc, &list);
                }
                Ok(_) => (),
                Err(error) => return shown.malformed_control[error.index()].add(1),
            }
        }
        if let MacControl::Pfc(pfc) = control {
            match self.obey_rates(now, port, &pfc, head) {
                Ok(true) => return self.counters.port(port).pfc_frames_received.add(1),
                Ok(false) => (),
                Err(error) => return self.counters.port(port).malformed_control[error.index()].add(1),
            }
        }
        let shown = self.counters.port(port);
        let flow_control = self.ports[port.index()].settings.flow_control;
        let (named, obeyed, times) = match (control, flow_control) {
            (MacControl::Pfc(pfc), FlowControl::Pfc { obey, .. }) => {
                shown.pfc_frames_received.add(1);
                (pfc.classes, ClassSet(pfc.classes.0 & obey.0), pfc.times)
            }
            (MacControl::Pause(time), FlowControl::Pause8023x) => {
                shown.pause_frames_received.add(1);
                (ClassSet::ALL, ClassSet::ALL, [time; CLASSES])
            }
            (MacControl::Pfc(pfc), _) => {
                shown.pfc_frames_received.add(1);
                (pfc.classes, ClassSet::NONE, pfc.times)
            }
            (MacControl::Pause(time), _) => {
                shown.pause_frames_received.add(1);
                (ClassSet::ALL, ClassSet::NONE, [time; CLASSES])
            }
        };
        if obeyed.is_empty() {
            if !named.is_empty() {
                shown.pause_frames_ignored.add(1);
            }
            return;
        }
        self.pauses_obeyed += 1;
        shown.pause_peer.set(header.src.to_number());
        self.pause_classes(now, port, obeyed, &times);
    }

    pub(super) fn pause_classes(
        &mut self,
        now: Nanos,
        port: PortId,
        classes: ClassSet,
        times: &[Quanta; CLASSES],
    ) {
        for class in classes.iter() {
            let shown = self.counters.class(port, class);
            match times[class.index()] {
                Quanta(0) => {
                    shown.xon_received.add(1);
                    self.resume_flows(port, class);
                }
                _ => shown.xoff_received.add(1),
            }
        }
        let at = &mut self.ports[port.index()];
        at.stopped_for_flows.0 &= !classes.0;
        let obeyed = &mut at.obeyed;
        let resumed = obeyed.receive(now, classes, times);
        for class in obeyed.paused().iter() {
            let since = obeyed.since(class).map_or(0, |since| since.0.max(1));
            self.counters.class(port, class).paused_since.set(since);
        }
        self.next_timer = self.next_timer.min(obeyed.next_expiry());
        self.timed.insert(port);
        self.note_resumed(port, &resumed);
        self.watch_pauses(port, classes);
    }

    pub(super) fn note_resumed(&mut self, port: PortId, resumed: &Resumed) {
        self.watch_pauses(port, resumed.classes);
        for class in resumed.classes.iter() {
            let shown = self.counters.class(port, class);
            let paused_for = resumed.paused_for[class.index()].0;
            // No longer running, then counted: a reader in between sees too little for a moment, never
            // the same pause twice.
            if !self.ports[port.index()].obeyed.paused().contains(class) {
                shown.paused_since.set(0);
            }
            shown.paused_nanos.add(paused_for);
            shown.paused_durations.record(paused_for);
        }
    }
}

impl Port {
    /// Classes with frames that do not wait for room.
    fn movable(&self) -> ClassSet {
        ClassSet(self.backlogged_in.0 & !self.stopped.0)
    }

    /// Why no frame of a closed class is taken.
    #[cold]
    const fn why_closed(&self) -> DropReason {
        if self.up { DropReason::PausedDiscard } else { DropReason::LinkDown }
    }
}
