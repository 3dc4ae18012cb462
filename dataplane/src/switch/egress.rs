//! The last two steps: the scheduler picks a frame, and when it has left it is counted out.

use super::batch::{Like, Step, Way};
use super::notices::control_meta;
use super::{Switch, on_line};
use crate::buffer::Load;
use crate::drop_reason::DropReason;
use crate::frame::{Frame, FrameStore};
use crate::pause::Announcement;
use crate::queue::{ClassQueue, NONE};
use crate::settings::{FlowControl, WhenFull};
use crate::units::{Bytes, Class, ClassSet, Nanos, PortId, PortSet, Quanta};
use crate::wire::mac_control::{self, MacControl, Pfc};

impl Switch {
    /// Ports that have something to send or to wait for: the ones worth calling
    /// [`Switch::transmit`] for.
    #[must_use]
    pub fn egress_active(&self) -> PortSet {
        self.egress_active
    }

    /// Whether a peer was let go or held, or asked for another rate, since [`Switch::take_changed`].
    #[inline]
    #[must_use]
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The ports whose peers were let go or held, or asked for another rate, since the last call: the ones
    /// worth calling [`Switch::announce`] for. Who does not loses nothing but time.
    pub fn take_changed(&mut self) -> PortSet {
        std::mem::take(&mut self.changed)
    }

    /// Whether the peer of `port` is to be told now of a pause, of a rate, or of the end of one.
    #[must_use]
    pub fn has_orders(&self, port: PortId) -> bool {
        self.ports[port.index()].has_orders()
    }

    /// The frame that tells the peer of `port` what it is held to, where it does not know; never data.
    /// [`Switch::transmit`] gives it out before anything else; a driver need not wait until it gets there.
    #[cold]
    pub fn announce<S: FrameStore>(&mut self, now: Nanos, port: PortId, store: &mut S) -> Option<Frame> {
        if !self.ports[port.index()].up {
            return None;
        }
        self.announce_pause(now, port, store).or_else(|| self.announce_rates(now, port, store))
    }

    /// The next frame to leave by `port`, rewritten as that port sends it; `None` where nothing may
    /// leave now. The driver sends it, and says so by [`Switch::release`].
    #[inline]
    pub fn transmit<S: FrameStore>(&mut self, now: Nanos, port: PortId, store: &mut S) -> Option<Frame> {
        self.settle();
        if self.ports[port.index()].announces()
            && let Some(frame) = self.control(now, port, store)
        {
            return Some(frame);
        }
        self.expire_pauses(now, port);
        loop {
            let class = self.choose(now, port)?;
            let mut frame = self.dequeue(port, class)?;
            if !self.rewrite(port, &mut frame, store) {
                let meta = *self.nodes.meta(&frame);
                self.leave_egress(now, port, &meta);
                self.drop_admitted(now, port, DropReason::NoFrames, frame, store);
                self.room_at(now, port, class, store);
                continue;
            }
            if self.ports[port.index()].marks.contains(class) {
                self.mark(port, class, &frame, store);
            }
            let size = on_line(&frame);
            let at = &mut self.ports[port.index()];
            at.scheduler.sent(class, size, !at.backlogged.contains(class));
            if let Some(rate) = &mut at.class_rates[class.index()] {
                rate.spend(now, size);
            }
            let like = Like::of(self.nodes.meta(&frame));
            self.commit(now, like.since, port, class, size);
            self.begin_run_of(like, Way { step: Step::Transmit, ingress: port, egress: port, class });
            return Some(frame);
        }
    }

    /// Frames of `class` that came at the same time are given to the driver of `port`.
    #[inline]
    pub(super) fn commit(
        &mut self,
        now: Nanos,
        since: Nanos,
        port: PortId,
        class: Class,
        load: impl Into<Load>,
    ) {
        let load = load.into();
        let delay = now.since(since);
        self.counters.class(port, class).queueing_delay.record_times(delay.0, load.frames.into());
        let at = &mut self.ports[port.index()];
        at.committed += load.bytes;
        at.committed_frames += u64::from(load.frames);
        at.line.spend(now, load.bytes);
    }

    /// Bytes on the line of frames like the last that `port` may send with nothing to choose, to write or to say.
    pub(super) fn quiet_line(&self, port: PortId, class: Class) -> Bytes {
        let at = &self.ports[port.index()];
        let eligible = ClassSet(at.backlogged.0 & !at.obeyed.stopped().0);
        let Like { vid, tags, .. } = self.run.like;
        let is_written = !at.rewriter.has_nothing_to_do(tags > 0, self.bridge.is_tagged(port, vid));
        let is_special = at.shaped.contains(class) || at.marks.contains(class);
        if is_written || is_special || at.announces() {
            return Bytes::ZERO;
        }
        let turn = at.scheduler.stays_with(class, eligible);
        turn.min(at.settings.commit.saturating_sub(at.committed)).min(at.line.left())
    }

    /// A frame given out by [`Switch::transmit`] of `port` has left.
    #[inline]
    pub fn release<S: FrameStore>(&mut self, now: Nanos, port: PortId, frame: Frame, store: &mut S) {
        self.ledger.sent += 1;
        let meta = *self.nodes.meta(&frame);
        let way = Way { step: Step::Release, ingress: meta.ingress, egress: port, class: meta.class };
        let counts_as_sent = !meta.control && meta.group == NONE && meta.len == frame.len();
        let tallied = counts_as_sent && self.goes_on(way, meta.counted());
        if !tallied {
            self.settle();
        }
        self.take_back_from_driver(port, &frame);
        if tallied {
            return store.free(frame);
        }
        if !meta.control {
            self.count_sent(port, meta.class, Bytes::of_frame(frame.len()));
            self.leave_egress(now, port, &meta);
            self.room_at(now, port, meta.class, store);
        }
        self.finish(now, frame, store);
        if counts_as_sent {
            self.begin_run(way);
        }
    }

    #[inline]
    pub(super) fn count_sent(&self, port: PortId, class: Class, load: impl Into<Load>) {
        let shown = self.counters.class(port, class);
        let load = load.into();
        shown.tx_frames.add(load.frames.into());
        shown.tx_bytes.add(load.bytes.0);
    }

    /// A frame given out by [`Switch::transmit`] of `port` will never leave, because its device is gone.
    #[cold]
    pub fn give_up<S: FrameStore>(&mut self, now: Nanos, port: PortId, frame: Frame, store: &mut S) {
        self.settle();
        let meta = *self.nodes.meta(&frame);
        self.take_back_from_driver(port, &frame);
        if meta.control {
            self.ledger.made -= 1;
            return self.finish(now, frame, store);
        }
        self.leave_egress(now, port, &meta);
        self.drop_admitted(now, port, DropReason::LinkDown, frame, store);
        self.room_at(now, port, meta.class, store);
    }

    /// The driver of `port` no longer has a frame.
    #[inline]
    fn take_back_from_driver(&mut self, port: PortId, frame: &Frame) {
        let at = &mut self.ports[port.index()];
        at.committed_frames -= 1;
        at.committed -= on_line(frame);
    }

    /// Layer-1 bytes given out by [`Switch::transmit`] of `port` and not yet back.
    #[must_use]
    pub fn committed(&self, port: PortId) -> Bytes {
        self.ports[port.index()].committed
    }

    /// The class that sends next: backlogged, unpaused, in rate, and only while the line is free.
    #[inline]
    fn choose(&mut self, now: Nanos, port: PortId) -> Option<Class> {
        let at = &mut self.ports[port.index()];
        let mut eligible = ClassSet(at.backlogged.0 & !at.obeyed.stopped().0);
        if eligible.is_empty() {
            if at.backlogged.is_empty() && !at.has_news() {
                self.egress_active.remove(port);
            }
            return None;
        }
        if at.is_fully_committed() || !at.line.ready(now) {
            return None;
        }
        for class in ClassSet(eligible.0 & at.shaped.0).iter() {
            if let Some(rate) = &mut at.class_rates[class.index()]
                && !rate.ready(now)
            {
                eligible.remove(class);
            }
        }
        at.scheduler.choose(eligible)
    }

    #[inline]
    pub(super) fn dequeue(&mut self, port: PortId, class: Class) -> Option<Frame> {
        let at = &mut self.ports[port.index()];
        let frame = at.queues[class.index()].pop(&mut self.nodes)?;
        if !at.queues[class.index()].is_ready() {
            at.backlogged.remove(class);
        }
        self.leave_congestion_point(&frame);
        self.count_flow_out(port, class, &frame);
        Some(frame)
    }

    /// A frame of a flow that the peer has paused, where no other is left.
    pub(super) fn dequeue_held(&mut self, port: PortId, class: Class) -> Option<Frame> {
        let queue = &mut self.ports[port.index()].queues[class.index()];
        let ClassQueue::Nested(queue) = queue else { return None };
        let frame = queue.pop_held(&self.nodes)?;
        self.leave_congestion_point(&frame);
        self.count_flow_out(port, class, &frame);
        Some(frame)
    }

    /// There is room at (`port`, `class`): what waited for it may try again.
    #[inline]
    pub(super) fn room_at<S: FrameStore>(&mut self, now: Nanos, port: PortId, class: Class, store: &mut S) {
        if self.when_full == WhenFull::Stop && !self.awaited.is_empty() {
            self.try_again(now, port, class, store);
        }
    }

    #[cold]
    fn try_again<S: FrameStore>(&mut self, now: Nanos, port: PortId, class: Class, store: &mut S) {
        if !self.buffer.shares_egress() {
            return self.try_again_at(now, port, class, store);
        }
        for port in self.awaited.iter() {
            Class::ALL.into_iter().for_each(|class| self.try_again_at(now, port, class, store));
        }
    }

    fn try_again_at<S: FrameStore>(&mut self, now: Nanos, port: PortId, class: Class, store: &mut S) {
        let at = &mut self.ports[port.index()];
        let waiting = std::mem::take(&mut at.awaiting_room[class.index()]);
        let mut handed_over = std::mem::take(&mut at.handed_over[class.index()]);
        for ingress in waiting.iter() {
            self.ports[ingress.index()].stopped.remove(class);
            self.ingress_ready.insert(ingress);
        }
        while let Some(frame) = handed_over.pop(&self.nodes) {
            if self.must_wait(port, class, &frame) {
                handed_over.unpop(&mut self.nodes, frame);
                break;
            }
            self.enqueue(now, port, frame, store);
        }
        let at = &mut self.ports[port.index()];
        at.handed_over[class.index()] = handed_over;
        if !at.is_awaited() {
            self.awaited.remove(port);
        }
    }

    /// Tag and DSCP as `port` sends them. False where the frame's slot has no room for a tag.
    #[inline]
    fn rewrite<S: FrameStore>(&mut self, port: PortId, frame: &mut Frame, store: &mut S) -> bool {
        let meta = self.nodes.meta(frame);
        let tagged = self.bridge.is_tagged(port, meta.vid);
        let rewriter = &self.ports[port.index()].rewriter;
        rewriter.has_nothing_to_do(meta.tags > 0, tagged)
            || rewriter.apply(store, frame, meta.vid, tagged, meta.class)
    }

    /// The control frame that is due at `port`: a pause frame, else a list of flows, else a CNM.
    #[cold]
    fn control<S: FrameStore>(&mut self, now: Nanos, port: PortId, store: &mut S) -> Option<Frame> {
        self.announce(now, port, store)
            .or_else(|| self.announce_flows(now, port, store))
            .or_else(|| self.next_notice(now, port))
    }

    /// Whether the control pool has a frame for `port`; where not, the port waits for one.
    pub(super) fn control_is_free<S: FrameStore>(&mut self, port: PortId, store: &mut S) -> bool {
        let Some(probe) = store.control(&[0; mac_control::LEN]) else {
            if !self.starved.contains(port) {
                self.counters.port(port).control_starved.add(1);
                self.starved.insert(port);
            }
            return false;
        };
        self.starved.remove(port);
        store.free(probe);
        true
    }

    /// The pause frame that is due at `port`; `None` where none is, or the control pool is in flight, and
    /// the frame stays due.
    fn announce_pause<S: FrameStore>(&mut self, now: Nanos, port: PortId, store: &mut S) -> Option<Frame> {
        if !self.ports[port.index()].held.due() || !self.control_is_free(port, store) {
            return None;
        }
        let at = &mut self.ports[port.index()];
        let what = at.held.announce(now)?;
        let bytes =
            pause_frame(at.settings.flow_control, &what, at.settings.pause_time).encode(at.settings.mac);
        self.next_timer = self.next_timer.min(at.held.next_refresh());
        self.timed.insert(port);
        self.count_announcement(port, &what);
        self.stops_told += u64::from(!what.xoff.is_empty());
        for class in what.xon.iter() {
            self.forget_told_flows(port, class); // whoever hears that the class may send resumes all
        }
        Some(self.send_control(now, port, &bytes, store))
    }

    /// Makes a control frame of `bytes`, for which the store has room.
    pub(super) fn send_control<S: FrameStore>(
        &mut self,
        now: Nanos,
        port: PortId,
        bytes: &[u8],
        store: &mut S,
    ) -> Frame {
        let frame = store.control(bytes).expect("one was free a moment ago");
        let at = &mut self.ports[port.index()];
        at.committed += on_line(&frame);
        at.committed_frames += 1;
        at.line.spend(now, on_line(&frame));
        self.ledger.made += 1;
        *self.nodes.meta_mut(&frame) = control_meta(now, port, Class::ALL[7], &frame);
        frame
    }

    fn count_announcement(&self, port: PortId, what: &Announcement) {
        self.counters.port(port).pause_frames_sent.add(1);
        for class in what.vector().iter() {
            let shown = self.counters.class(port, class);
            shown.xoff_sent.add(u64::from(what.xoff.contains(class)));
            shown.xon_sent.add(u64::from(what.xon.contains(class)));
            shown.refreshes_sent.add(u64::from(what.refreshed.contains(class)));
        }
    }
}

/// What tells a peer of `what`. An 802.3x peer knows one state: paused while any class is.
fn pause_frame(flow_control: FlowControl, what: &Announcement, pause_time: Quanta) -> MacControl {
    let stopped = ClassSet(what.xoff.0 | what.refreshed.0);
    let time = |class: Class| if stopped.contains(class) { pause_time } else { Quanta(0) };
    match flow_control {
        FlowControl::Pause8023x if stopped.is_empty() => MacControl::Pause(Quanta(0)),
        FlowControl::Pause8023x => MacControl::Pause(pause_time),
        FlowControl::Pfc { .. } | FlowControl::Ignore => MacControl::Pfc(
            what.vector().iter().fold(Pfc::default(), |pfc, class| pfc.with(class, time(class))),
        ),
    }
}
