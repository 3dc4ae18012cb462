//! Whether a frame finds room at its egress. Where it does not it is dropped, or waits ([`WhenFull`]): at the head of the
//! pipeline, which halts ([`super::pipeline`]); or in its ingress queue, and with it all behind it. One from another worker's
//! port waits at the egress port itself, or at its group ([`super::paths`]).
//!
//! Where frames of this worker's ports and frames from others' wait for the same queue, they join it in turns, one of each: who is
//! not in turn waits whatever room there is, so that a long frame is not passed for ever by short ones. After others' frame
//! own ones try again, in the pipeline; until that has done what it can it is their turn, however many frames leave meanwhile, and
//! then others', unless own frames still wait here. A flood, which wants room at several ports at once, waits for room and no turn,
//! and has its turn at each port that has none for it; what the host sends has none.

use super::Switch;
use crate::drop_reason::DropReason;
use crate::frame::{Frame, FrameStore};
use crate::queue::{FrameMeta, Origin};
use crate::settings::WhenFull;
use crate::units::{Class, PortId, PortSet, TAGS};
use crate::wire::header::field;

impl Switch {
    /// Why a frame is not admitted to the queue of `egress`, if it is not.
    #[inline]
    pub(super) fn why_refused<S: FrameStore>(
        &mut self,
        egress: PortId,
        frame: &Frame,
        store: &S,
    ) -> Option<DropReason> {
        let meta = self.nodes.meta(frame);
        let drops_early = self.ports[egress.index()].egress.drops_early;
        if let Some(reason) = self.why_kept_out(egress, meta) {
            Some(reason)
        } else if !self.buffer.egress_has_room(egress, meta.class, meta.counted()) {
            Some(if meta.origin == Origin::Host { DropReason::HostLimit } else { DropReason::EgressFull })
        } else if drops_early.contains(meta.class) && self.is_dropped_early(egress, frame, store) {
            Some(DropReason::EarlyDrop)
        } else {
            None
        }
    }

    /// Why a frame joins no queue of `egress`, whatever room there is.
    #[inline]
    fn why_kept_out(&self, egress: PortId, meta: &FrameMeta) -> Option<DropReason> {
        let at = &self.ports[egress.index()];
        if at.egress.closed.contains(meta.class) {
            Some(at.why_closed())
        } else if self.is_too_long_for(egress, meta) {
            Some(DropReason::TooLong)
        } else if self.host_misses(egress, meta) {
            Some(DropReason::HostLimit)
        } else if self.misses(egress, meta) {
            Some(DropReason::FloodPaused)
        } else {
            None
        }
    }

    /// Whether a frame is longer than what `egress` sends may be.
    #[inline]
    pub(super) fn is_too_long_for(&self, egress: PortId, meta: &FrameMeta) -> bool {
        meta.len > self.len_max(egress, meta.vid, meta.tags)
    }

    /// The longest frame of VLAN `vid` with `tags` bytes of tags that may leave by `egress`. Where those are all that
    /// an MTU leaves out ([`TAGS`]), one that the frame gets on its way out counts.
    #[inline]
    pub(super) fn len_max(&self, egress: PortId, vid: u16, tags: u8) -> u32 {
        let tags = u32::from(tags);
        let is_beyond = tags == TAGS && self.bridge.is_tagged(egress, vid);
        let counts = if is_beyond { u32::from(field::TAG_LEN) } else { 0 };
        self.ports[egress.index()].egress.mtu_frame + tags - counts
    }

    /// Whether the pipeline stops for want of room at `egress`. Room at another
    /// worker's port is not known here: there the frame waits at that port. What will be dropped there
    /// waits for nothing, and what the host sends never waits: it would hold up what others send.
    #[inline]
    pub(super) fn must_wait(&self, egress: PortId, meta: &FrameMeta) -> bool {
        self.when_full.waits()
            && meta.origin == Origin::Network
            && self.may_enter(egress, meta)
            && (!self.buffer.egress_has_room(egress, meta.class, meta.counted())
                || self.is_others_turn(egress, meta.class))
    }

    /// The same, whoever's turn it is.
    #[inline]
    fn lacks_room(&self, egress: PortId, meta: &FrameMeta) -> bool {
        self.when_full.waits()
            && meta.origin == Origin::Network
            && self.may_enter(egress, meta)
            && !self.buffer.egress_has_room(egress, meta.class, meta.counted())
    }

    /// Whether frames from other workers' ports wait for (`egress`, `class`) that are to go first.
    #[inline]
    pub(super) fn is_others_turn(&self, egress: PortId, class: Class) -> bool {
        !self.agenda.awaited.is_empty()
            && self.do_others_wait(egress, class)
            && !self.ports[egress.index()].egress.awaits_room[class.index()].is_own_turn
    }

    fn do_others_wait(&self, egress: PortId, class: Class) -> bool {
        let awaits = &self.ports[egress.index()].egress.awaits_room[class.index()];
        let at_group =
            || self.bridge.groups().of(egress).is_some_and(|group| self.is_group_awaited(group, class));
        !awaits.taken_over.is_empty() || at_group()
    }

    /// Whether one of the frames from other workers' ports that wait for (`egress`, `class`), there or at its group, waits no longer if it
    /// tries now. Where all do, nobody is told of room: who is told tries again, and where two queues have none that would never end.
    fn may_others_join(&self, egress: PortId, class: Class) -> bool {
        let awaits = &self.ports[egress.index()].egress.awaits_room[class.index()];
        let joins_here =
            awaits.taken_over.front(&self.nodes).is_some_and(|first| !self.lacks_room(egress, first));
        let goes_on = |group| self.may_go_on_from_group(group, class);
        joins_here || self.bridge.groups().of(egress).is_some_and(goes_on)
    }

    /// Whether there are other workers, whose frames may wait, too.
    #[inline]
    pub(super) fn has_other_workers(&self) -> bool {
        self.outbox.by_worker.len() > 1
    }

    /// Whether frames of this worker's ports wait for (`egress`, `class`), where there are other workers.
    fn do_own_wait(&self, egress: PortId, class: Class) -> bool {
        let waits = |port: PortId| {
            let ingress = &self.ports[port.index()].ingress;
            ingress.waits_for_room.contains(ingress.lane(class))
        };
        let awaits = &self.ports[egress.index()].egress.awaits_room[class.index()];
        self.has_other_workers()
            && (awaits.ports.iter().any(waits) || self.pipeline.is_halted_for_room_at((egress, class)))
    }

    /// A frame has joined the queue: if it was one of this worker's ports in its turn, others' are next.
    #[inline]
    pub(super) fn use_turn(&mut self, egress: PortId, class: Class) {
        let awaits = &mut self.ports[egress.index()].egress.awaits_room[class.index()];
        if std::mem::take(&mut awaits.is_own_turn) {
            self.agenda.in_turns.insert(egress);
        }
    }

    /// A frame from another worker's port has joined the queue: own ones are next, if any wait.
    pub(super) fn give_own_turn(&mut self, egress: PortId, class: Class) {
        let is_told = self.agenda.told_of_room.contains(egress);
        if is_told {
            self.agenda.in_turns.insert(egress); // it may go elsewhere
        }
        let is_own_turn = is_told || self.do_own_wait(egress, class);
        self.ports[egress.index()].egress.awaits_room[class.index()].is_own_turn = is_own_turn;
    }

    /// Frames of this worker's ports have tried again where it was their turn. Others' are next, but where own ones still wait for room.
    /// Whether there was such a place.
    #[inline]
    pub(super) fn give_others_turns<S: FrameStore>(&mut self, store: &mut S) -> bool {
        self.agenda.told_of_room = PortSet::NONE;
        let is_any = !self.agenda.in_turns.is_empty();
        if is_any {
            self.give_each_its_turn(store);
        }
        is_any
    }

    #[cold]
    fn give_each_its_turn<S: FrameStore>(&mut self, store: &mut S) {
        let ports = std::mem::take(&mut self.agenda.in_turns);
        let queues = || ports.iter().flat_map(|port| Class::ALL.map(|class| (port, class)));
        for (port, class) in queues() {
            let own_wait = self.do_own_wait(port, class);
            self.ports[port.index()].egress.awaits_room[class.index()].is_own_turn &= own_wait;
        }
        // Only then: at the one own frames are told again that they wait for the other, too.
        for (port, class) in queues() {
            let is_own_turn = self.ports[port.index()].egress.awaits_room[class.index()].is_own_turn;
            if !is_own_turn && self.may_others_join(port, class) {
                self.try_again_at(port, class, store);
            }
        }
    }

    /// Those of `ports` where a copy of a flood joins a queue of this worker, if there is room.
    pub(super) fn joined(&self, ports: PortSet, meta: &FrameMeta) -> PortSet {
        let joins = |egress: &PortId| self.may_enter(*egress, meta) && !self.flood_misses(*egress, meta);
        ports.iter().filter(joins).collect()
    }

    /// Whether a frame for `egress` joins a queue of this worker, where there is room.
    #[inline]
    pub(super) fn may_enter(&self, egress: PortId, meta: &FrameMeta) -> bool {
        self.workers.owns(egress) && self.why_kept_out(egress, meta).is_none()
    }

    /// The frame waits until `egress` has room: at the head of the pipeline, or back where it came from.
    #[cold]
    pub(super) fn wait_for_room(&mut self, egress: PortId, frame: Frame) {
        self.wait_for_one_of(egress, PortSet::NONE, frame);
    }

    /// The same, but room at any of `others` will do, or is wanted, too.
    #[cold]
    pub(super) fn wait_for_one_of(&mut self, egress: PortId, others: PortSet, frame: Frame) {
        let &FrameMeta { ingress: port, class, .. } = self.nodes.meta(&frame);
        let mut awaited = others;
        awaited.insert(egress);
        self.agenda.awaited = self.agenda.awaited.or(&awaited);
        self.look_again_if_it_may_storm(class);
        if self.when_full == WhenFull::Stop {
            return self.pipeline.halt(self.now, &mut self.nodes, frame, (egress, class), others);
        }
        let ingress = &mut self.ports[port.index()].ingress;
        let lane = ingress.lane(class);
        ingress.arrived[lane.index()].unpop(&mut self.nodes, frame);
        ingress.waits_for_room.insert(lane);
        for egress in awaited.iter() {
            self.ports[egress.index()].egress.awaits_room[class.index()].ports.insert(port);
        }
    }

    /// A frame that another worker has handed over waits where others do, or need not. What the host sends waits for no room, and not
    /// behind what does. `chosen_by`: see [`Switch::may_go_on_by`].
    pub(super) fn enter_from_another<S: FrameStore>(&mut self, frame: Frame, chosen_by: u32, store: &mut S) {
        let meta = self.nodes.meta(&frame);
        let &FrameMeta { egress, class, .. } = meta;
        let awaits = &self.ports[egress.index()].egress.awaits_room[class.index()];
        let never_waits = meta.origin == Origin::Host || self.misses(egress, meta);
        let has_turn = awaits.taken_over.is_empty() && !awaits.is_own_turn;
        let waits = !never_waits && (!has_turn || self.lacks_room(egress, meta));
        if let Some(group) = self.may_go_on_by(egress, chosen_by)
            && (waits || !self.may_enter(egress, meta) || self.is_group_awaited(group, class))
        {
            return self.wait_at_group(group, frame, store);
        }
        if !waits {
            self.enqueue(egress, frame, store);
            return;
        }
        let awaits = &mut self.ports[egress.index()].egress.awaits_room[class.index()];
        awaits.taken_over.push(&mut self.nodes, frame);
        self.agenda.awaited.insert(egress);
    }

    /// There is room at (`port`, `class`): what waited for it may try again.
    #[inline]
    pub(super) fn room_at<S: FrameStore>(&mut self, port: PortId, class: Class, store: &mut S) {
        if self.when_full.waits() && !self.agenda.awaited.is_empty() {
            self.try_again(port, class, store);
        }
    }

    /// What waits for room anywhere tries again: elsewhere there may be some.
    pub(super) fn look_elsewhere<S: FrameStore>(&mut self, store: &mut S) {
        for port in self.agenda.awaited.iter() {
            Class::ALL.into_iter().for_each(|class| self.try_again_at(port, class, store));
        }
    }

    #[cold]
    fn try_again<S: FrameStore>(&mut self, port: PortId, class: Class, store: &mut S) {
        if !self.buffer.shares_egress() {
            return self.try_again_at(port, class, store);
        }
        self.look_elsewhere(store);
    }

    fn try_again_at<S: FrameStore>(&mut self, port: PortId, class: Class, store: &mut S) {
        let is_awaited_by_group = self.let_others_in(port, class, store);
        self.pipeline.go_on_for(self.now, (port, class));
        let awaits = &mut self.ports[port.index()].egress.awaits_room[class.index()];
        if awaits.is_own_turn {
            self.agenda.in_turns.insert(port);
        }
        let own = std::mem::take(&mut awaits.ports);
        if !own.is_empty() && self.has_other_workers() {
            self.agenda.told_of_room.insert(port);
            self.note_told_elsewhere(&own, class);
        }
        for ingress in own.iter() {
            let from = &mut self.ports[ingress.index()].ingress;
            from.waits_for_room.remove(from.lane(class));
            if !from.movable().is_empty() {
                self.agenda.ingress_ready.insert(ingress); // else it went elsewhere meanwhile
            }
        }
        let awaits = &self.ports[port.index()].egress.awaits_room;
        let nothing_waits = awaits.iter().all(|at| at.ports.is_empty() && at.taken_over.is_empty());
        if nothing_waits && !is_awaited_by_group && !self.pipeline.is_halted_for(port) {
            self.agenda.awaited.remove(port);
        }
    }

    /// Frames of `own` ports have been told of room: they try again, and say anew wherever else they wait for some.
    fn note_told_elsewhere(&mut self, own: &PortSet, class: Class) {
        for port in self.agenda.awaited.iter() {
            let awaits = &mut self.ports[port.index()].egress.awaits_room[class.index()];
            if awaits.ports.and(own).is_empty() {
                continue;
            }
            awaits.ports = awaits.ports.without(own);
            self.agenda.told_of_room.insert(port);
            if awaits.is_own_turn {
                self.agenda.in_turns.insert(port);
            }
        }
    }

    /// Frames from other workers' ports join the queue as far as there is room: one, where own ones wait, and none in their turn.
    /// Whether some, of whatever class, wait at the group of `port`.
    fn let_others_in<S: FrameStore>(&mut self, port: PortId, class: Class, store: &mut S) -> bool {
        let own_wait = self.agenda.told_of_room.contains(port) || self.do_own_wait(port, class);
        let awaits = &mut self.ports[port.index()].egress.awaits_room[class.index()];
        awaits.is_own_turn &= own_wait;
        let (mut is_own_turn, mut taken_over) = (awaits.is_own_turn, std::mem::take(&mut awaits.taken_over));
        while !is_own_turn && let Some(frame) = taken_over.pop(&self.nodes) {
            if self.lacks_room(port, self.nodes.meta(&frame)) {
                taken_over.unpop(&mut self.nodes, frame);
                break;
            }
            self.enqueue(port, frame, store);
            is_own_turn = own_wait;
        }
        let awaits = &mut self.ports[port.index()].egress.awaits_room[class.index()];
        (awaits.is_own_turn, awaits.taken_over) = (is_own_turn, taken_over);
        let group = self.bridge.groups().of(port);
        let is_awaited_by_group = group.is_some_and(|group| self.go_on_from_group(group, class, store));
        if own_wait && !self.do_others_wait(port, class) {
            self.ports[port.index()].egress.awaits_room[class.index()].is_own_turn = true; // before those that come meanwhile
        }
        is_awaited_by_group
    }
}
