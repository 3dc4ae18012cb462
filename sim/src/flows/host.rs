mod obeying;
mod roce;
mod taking;
mod tcp;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use obeying::is_ipv4;
use tcp::Connections;
use xoff_host::{Gate, Notices};
use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, MacAddr, PortId};

use super::FlowPlan;
use super::control::Reaction;
use super::dcqcn::NotificationPoint;
use super::host_link::{HostLink, Reply};
use super::intake::Arrived;
use super::receiving::Receiving;
use super::segment::{Content, Envelope, Kind, Segment, TCP, link_of, port, tcp_len};
use super::sending::{Sending, Wait, frames, payload};
use super::transport::{Control, HostSettings, RoceSettings, Transport};
use crate::ends::Line;
use crate::node::{Net, Node, Place};
use crate::pool::{Packet, is_mac_control};
use crate::time::{Pace, Picos};

const UNDER_WAY: &str = "the flow has ended";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Next(u32),
    Patience(u32),
    Resend(u32),
    Acknowledge(u32),
    /// Delayed reaction of a flow (number) to a congestion notification with this feedback.
    React(u32, u8),
}

/// Simulated host of many flows, which obeys pauses by the [`Gate`] of real hosts.
///
/// Acknowledgements and CNPs leave first, then data, in round robin over classes and flows. A hash of each flow chooses
/// its link.
#[derive(Debug)]
pub struct FlowHost {
    place: Place,
    woken: Picos,
    number: u32,
    settings: Arc<HostSettings>,
    links: Box<[HostLink]>,
    sending: Vec<Sending>,
    reactions: Vec<Option<Reaction>>,
    most: Vec<Option<Pace>>,
    receiving: Vec<Receiving>,
    notification_points: Vec<NotificationPoint>,
    tcp: Option<Box<Connections>>,
    timers: BinaryHeap<Reverse<(Picos, Timer)>>,
    ended: Vec<u32>,
    notices: Box<Notices>,
}

impl FlowHost {
    #[must_use]
    pub(super) fn new(
        place: Place,
        number: u32,
        (lines, gateways): (&[Line], &[Option<MacAddr>]),
        settings: &Arc<HostSettings>,
    ) -> FlowHost {
        let links = lines.iter().zip(gateways).map(|(line, via)| HostLink::new(*line, *via, settings));
        FlowHost {
            place,
            woken: Picos::NEVER,
            number,
            settings: Arc::clone(settings),
            links: links.collect(),
            sending: Vec::new(),
            reactions: Vec::new(),
            most: Vec::new(),
            receiving: Vec::new(),
            notification_points: Vec::new(),
            tcp: settings.tcp.as_ref().map(|tcp| Box::new(Connections::new(tcp))),
            timers: BinaryHeap::new(),
            ended: Vec::new(),
            notices: Box::new(Notices::new(false)),
        }
    }

    pub(super) fn send_flow(
        &mut self,
        flow: u32,
        plan: &FlowPlan,
        (peer, most): (u32, Option<Pace>),
        net: &mut Net,
    ) -> u32 {
        let number = index(self.sending.len());
        let start = plan.start.max(net.now());
        let most = self.most.iter().position(|of| *of == most).unwrap_or_else(|| {
            self.most.push(most);
            self.most.len() - 1
        });
        let most = u16::try_from(most).expect("the number of loads must fit into 16 bits");
        self.sending.push(Sending::new(plan, peer, port(flow), most));
        let pace = self.links[self.link(number)].pace;
        let has_tcp = self.has_tcp(plan.class);
        let reaction = match (&self.settings.qcn, &self.settings.transport) {
            (Some(qcn), _) => {
                let seed = qcn.seed.wrapping_add(u64::from(self.number) << 32 | u64::from(number));
                Some(Reaction::of_qcn(qcn, pace, seed))
            }
            (None, Transport::Roce(roce)) if !has_tcp => Reaction::new(&roce.control, pace),
            (None, Transport::Roce(_) | Transport::LineRate) => None,
        };
        if reaction.is_some() || !self.reactions.is_empty() {
            self.reactions.resize_with(number as usize, || None);
            self.reactions.push(reaction);
        }
        if let Some(tcp) = &mut self.tcp {
            tcp.add_sender();
        }
        self.timers.push(Reverse((start, Timer::Next(number))));
        self.ask_to_be_woken(net);
        number
    }

    pub(super) fn receive_flow(&mut self, flow: u32, plan: &FlowPlan, peer: u32) -> u32 {
        let number = index(self.receiving.len());
        let frames = frames(plan.bytes, self.settings.framing(plan.class).payload_max);
        if let Some(tcp) = &mut self.tcp {
            tcp.add_receiver();
        }
        self.receiving.push(Receiving::new(flow, plan.from, peer, frames, plan.class));
        if self.roce().is_some_and(|roce| matches!(roce.control, Control::Dcqcn(_))) {
            self.notification_points.push(NotificationPoint::default());
        }
        number
    }

    pub(super) fn flows(&self) -> [u32; 2] {
        [index(self.sending.len()), index(self.receiving.len())]
    }

    pub(super) fn sent_flow(&self, number: u32) -> &Sending {
        &self.sending[number as usize]
    }

    pub(super) fn frames_sent(&self, number: u32) -> u32 {
        if let Some(sender) = self.tcp_sender(number) {
            return sender.sent() + sender.resent();
        }
        let flow = &self.sending[number as usize];
        flow.sent(self.settings.framing(flow.class).payload_max)
    }

    pub(super) fn cnms(&self, number: u32) -> u32 {
        self.reactions.get(number as usize).and_then(Option::as_ref).map_or(0, Reaction::cnms)
    }

    pub(super) fn received_flow(&self, number: u32) -> &Receiving {
        &self.receiving[number as usize]
    }

    pub(super) fn ended(&mut self) -> &mut Vec<u32> {
        &mut self.ended
    }

    pub(super) fn rate(&mut self, number: u32, now: Picos) -> Option<f64> {
        self.reaction(number)?.rate(now)
    }

    /// Returns the gate of the host's first link, which obeys and counts received pauses.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.links[0].gate
    }

    pub(super) fn link_of(&self, flow: &Sending) -> u8 {
        let link = link_of((self.number, flow.to), flow.port, self.links.len());
        u8::try_from(link).expect("a host has at most 255 links")
    }

    #[inline]
    fn link(&self, number: u32) -> usize {
        let flow = &self.sending[number as usize];
        link_of((self.number, flow.to), flow.port, self.links.len())
    }

    #[inline]
    fn reaction(&mut self, number: u32) -> Option<&mut Reaction> {
        self.reactions.get_mut(number as usize)?.as_mut()
    }

    fn roce(&self) -> Option<&RoceSettings> {
        match &self.settings.transport {
            Transport::LineRate => None,
            Transport::Roce(roce) => Some(roce),
        }
    }

    #[inline]
    fn go_on(&mut self, net: &mut Net) {
        for link in 0..self.links.len() {
            if self.links[link].intake.is_some() {
                self.take_waiting(link, net);
            }
        }
        self.fire(net.now());
        for link in 0..self.links.len() {
            if self.links[link].is_free {
                self.start_next(link, net);
            }
        }
        self.ask_to_be_woken(net);
    }

    #[inline]
    fn fire(&mut self, now: Picos) {
        while let Some(&Reverse((time, timer))) = self.timers.peek()
            && time <= now
        {
            self.timers.pop();
            match timer {
                Timer::Next(number) => {
                    let flow = &mut self.sending[number as usize];
                    if flow.begin(time, self.settings.framing(flow.class).payload_max) {
                        self.open_tcp(number, time);
                    }
                    self.queue(number);
                }
                Timer::Patience(number) => self.look_at_deadline(number, now),
                Timer::Resend(number) => self.expire_sender(number, now),
                Timer::Acknowledge(number) => self.expire_receiver(number, now),
                Timer::React(number, feedback) => {
                    if let Some(reaction) = self.reaction(number) {
                        reaction.cnm_received(time, feedback);
                    }
                }
            }
        }
    }

    fn ask_to_be_woken(&mut self, net: &mut Net) {
        let mut next = self.timers.peek().map_or(Picos::NEVER, |Reverse((time, _))| *time);
        for link in &mut self.links {
            next = next.min(link.wakeup(net.now().floor()));
        }
        if next < self.woken {
            self.woken = next;
            net.wake(self.place, next);
        }
    }

    #[inline]
    fn queue(&mut self, number: u32) {
        let link = self.link(number);
        let flow = &mut self.sending[number as usize];
        let is_held = flow.under_way.as_ref().is_some_and(|under_way| under_way.is_held);
        flow.wait = if is_held { Wait::Resume } else { Wait::Turn };
        if !is_held {
            self.links[link].turns[flow.class.index()].push_back(number);
            self.links[link].has_data.insert(flow.class);
        }
    }

    fn start_next(&mut self, at: usize, net: &mut Net) {
        let now = net.now();
        let link = &mut self.links[at];
        if let Some(pause) = link.intake.as_mut().and_then(|intake| intake.announce(now.floor())) {
            let packet = net.pool.add_whole(&pause);
            return self.start(at, packet, net);
        }
        if now.floor() >= link.gate_change || self.settings.obeys_rates {
            self.look_at_gate(at, now.floor());
        }
        let link = &self.links[at];
        if let Some(class) = ClassSet(link.has_replies.0 & !link.paused.0).highest() {
            return self.start_reply(at, class, net);
        }
        loop {
            let link = &mut self.links[at];
            let waits = ClassSet(link.has_data.0 & !link.paused.0);
            let Some(class) = next_in_turn(waits, link.turn) else { return };
            link.turn = class.index();
            let turns = &mut link.turns[class.index()];
            let number = turns.pop_front();
            if turns.is_empty() {
                link.has_data.remove(class);
            }
            let Some(number) = number else { continue };
            let flow = &mut self.sending[number as usize];
            let under_way = flow.under_way.as_ref().expect(UNDER_WAY);
            let is_at_end = under_way.next == under_way.frames;
            if under_way.is_held {
                flow.wait = Wait::Resume;
            } else if let Some(may_send) = self.may_send_tcp(number) {
                if may_send {
                    return self.start_tcp(at, number, net);
                }
                self.settle(number, now);
            } else if is_at_end {
                self.settle(number, now);
            } else {
                return self.start_data(at, number, net);
            }
        }
    }

    fn start_reply(&mut self, at: usize, class: Class, net: &mut Net) {
        let link = &mut self.links[at];
        let replies = &mut link.replies[class.index()];
        let reply = replies.pop_front();
        if replies.is_empty() {
            link.has_replies.remove(class);
        }
        let Some(Reply { content, to, port }) = reply else { return };
        let (from, via) = (self.number, link.gateway);
        let envelope = Envelope { from, to, via, class, port, is_ecn_capable: false };
        let len = match &content {
            Content::Roce(segment) => segment.kind.reply_len(),
            Content::Tcp(header) => tcp_len(header),
        };
        self.start_content(at, &content, &envelope, len, net);
    }

    #[inline]
    fn start_data(&mut self, at: usize, number: u32, net: &mut Net) {
        let now = net.now();
        let timeout = self.roce().map(|roce| roce.timeout);
        let flow = &mut self.sending[number as usize];
        let under_way = flow.under_way.as_mut().expect(UNDER_WAY);
        let (sequence, is_again) = under_way.take();
        flow.resent += u32::from(is_again);
        let framing = self.settings.framing(flow.class);
        let len = framing.frame_len(payload(flow.bytes, framing.payload_max, sequence));
        let segment = Segment { kind: Kind::Data, number: flow.peer, sequence, sent: now };
        let envelope = flow.envelope(self.number, self.links[at].gateway, timeout.is_some());
        let bytes = Bytes::on_line(len);
        self.space(number, now, bytes);
        if let Some(timeout) = timeout {
            let under_way = self.sending[number as usize].under_way.as_mut().expect(UNDER_WAY);
            under_way.deadline = now.after(timeout);
            if !under_way.is_watched {
                under_way.is_watched = true;
                self.timers.push(Reverse((under_way.deadline, Timer::Patience(number))));
            }
        }
        self.start_content(at, &Content::Roce(segment), &envelope, len, net);
        self.settle(number, now.after(self.links[at].pace.time_of(bytes)));
    }

    #[inline]
    fn space(&mut self, number: u32, now: Picos, bytes: Bytes) {
        let gap = self.reaction(number).map_or(Picos::ZERO, |reaction| reaction.sent(now, bytes));
        let flow = &mut self.sending[number as usize];
        let under_way = flow.under_way.as_mut().expect(UNDER_WAY);
        under_way.free_at = match self.most[usize::from(flow.most)] {
            None => now.after(gap),
            // A flow delayed by other flows of its host catches up by at most one frame time.
            Some(most) => {
                let span = most.time_of(bytes);
                under_way.free_at.max(Picos(now.0.saturating_sub(span.0))).after(span).max(now.after(gap))
            }
        };
    }

    fn start_content(&mut self, at: usize, content: &Content, envelope: &Envelope, len: u32, net: &mut Net) {
        if self.settings.obeys_rates {
            self.links[at].gate.sent(net.now().floor(), envelope.class, Bytes::on_line(len));
        }
        let packet = match content {
            Content::Roce(segment) => net.pool.add(&segment.encode(envelope, len), len),
            Content::Tcp(header) => {
                let (head, kept) = envelope.encode_tcp(header, len);
                net.pool.add(&head[..kept], len)
            }
        };
        self.start(at, packet, net);
    }

    fn start(&mut self, at: usize, packet: Packet, net: &mut Net) {
        self.links[at].is_free = false;
        net.start(self.place, port_of(at), packet);
    }

    #[inline]
    fn settle(&mut self, number: u32, free: Picos) {
        if self.settle_tcp(number, free) {
            return;
        }
        let is_reliable = self.roce().is_some();
        let window = self.window(number);
        let flow = &mut self.sending[number as usize];
        let under_way = flow.under_way.as_ref().expect(UNDER_WAY);
        if under_way.next == under_way.frames {
            match is_reliable && under_way.acknowledged < under_way.frames {
                true => flow.wait = Wait::Answer,
                false => flow.end(),
            }
        } else if under_way.unanswered() >= window {
            flow.wait = Wait::Answer;
        } else if under_way.free_at > free {
            flow.wait = Wait::Time;
            self.timers.push(Reverse((under_way.free_at, Timer::Next(number))));
        } else {
            self.queue(number);
        }
    }
}

impl Node for FlowHost {
    #[inline]
    fn arrived(&mut self, at: PortId, packet: Packet, net: &mut Net) {
        let head = net.pool.head(packet);
        if is_mac_control(head) {
            self.obey(at.index(), net.now().floor(), head);
        } else if !is_ipv4(head) {
            self.heed(net.now(), head);
        } else if head.get(23) == Some(&TCP) {
            self.arrived_tcp(at, packet, net);
        } else if let Some((segment, is_marked)) = Segment::parse(head) {
            match segment.kind {
                Kind::Data => {
                    let (content, class) = (Content::Roce(segment), Segment::class(head));
                    self.receive(at.index(), Arrived { content, is_marked, class, len: packet.len }, net);
                }
                Kind::Ack | Kind::Nak | Kind::Cnp => self.hear(&segment, net.now()),
            }
        }
        net.pool.free(packet);
        self.go_on(net);
    }

    #[inline]
    fn left(&mut self, at: PortId, net: &mut Net) {
        self.links[at.index()].is_free = true;
        self.go_on(net);
    }

    fn due(&mut self, net: &mut Net) {
        if self.woken <= net.now() {
            self.woken = Picos::NEVER;
        }
        self.go_on(net);
    }

    fn linked(&mut self, at: PortId, is_up: bool, net: &mut Net) {
        let now = net.now().floor();
        let link = &mut self.links[at.index()];
        if let Some(intake) = &mut link.intake {
            intake.link_changed(now);
        }
        if !is_up {
            link.gate.link_lost(now);
            self.look_at_gate(at.index(), now);
        }
        self.go_on(net);
    }

    fn holds(&self) -> u64 {
        0
    }
}

#[inline]
fn next_in_turn(classes: ClassSet, last: usize) -> Option<Class> {
    let order = (1..=CLASSES).map(|ahead| Class::ALL[(last + ahead) % CLASSES]);
    order.into_iter().find(|class| classes.contains(*class))
}

fn port_of(link: usize) -> PortId {
    PortId(u8::try_from(link).expect("a host has at most 255 links"))
}

fn index(count: usize) -> u32 {
    u32::try_from(count).expect("the number of flows must fit into 32 bits")
}
