use std::cmp::Reverse;
use std::collections::HashMap;

use xoff_host::tcp::wire::{self, Kind, TcpHeader};
use xoff_host::tcp::{Ack, Path, Receiver, Sender, TcpSettings};
use xoff_wire::units::{Bytes, Class, Nanos, PortId};

use super::super::intake::Arrived;
use super::super::segment::{Content, Segment, link_of, parse_tcp, tcp_len};
use super::super::sending::{Wait, payload};
use super::super::transport::TcpHosts;
use super::{FlowHost, Reply, Timer, UNDER_WAY};
use crate::node::Net;
use crate::pool::Packet;
use crate::time::Picos;

#[derive(Debug)]
pub(super) struct Connections {
    hosts: TcpHosts,
    senders: Vec<Option<Box<Active<Sender>>>>,
    receivers: Vec<Option<Box<Active<Receiver>>>>,
    acknowledged: Vec<Picos>,
    /// Idle connections by receiver and class, each with congestion state and source port.
    idle: HashMap<(u32, Class), Vec<(Path, u16)>>,
}

#[derive(Debug)]
struct Active<T> {
    endpoint: T,
    armed: Nanos,
    port: u16,
}

impl<T> Active<T> {
    fn new(endpoint: T, port: u16) -> Box<Active<T>> {
        Box::new(Active { endpoint, armed: Nanos::NEVER, port })
    }

    fn arm(&mut self, deadline: Nanos) -> Option<Picos> {
        (deadline < self.armed).then(|| {
            self.armed = deadline;
            Picos::from(deadline)
        })
    }
}

const NO_SENDER: &str = "the flow has no TCP sender";

impl Connections {
    pub(super) fn new(hosts: &TcpHosts) -> Connections {
        Connections {
            hosts: *hosts,
            senders: Vec::new(),
            receivers: Vec::new(),
            acknowledged: Vec::new(),
            idle: HashMap::new(),
        }
    }

    pub(super) fn has(&self, class: Class) -> bool {
        self.hosts.classes.contains(class)
    }

    pub(super) fn add_sender(&mut self) {
        self.senders.push(None);
        self.acknowledged.push(Picos::NEVER);
    }

    pub(super) fn add_receiver(&mut self) {
        self.receivers.push(None);
    }

    pub(super) fn sender(&self, number: u32) -> Option<&Sender> {
        self.senders.get(number as usize)?.as_ref().map(|active| &active.endpoint)
    }

    pub(super) fn acknowledged(&self, number: u32) -> Option<Picos> {
        self.acknowledged.get(number as usize).copied().filter(|time| *time < Picos::NEVER)
    }

    fn endpoint(&mut self, number: u32) -> Option<(&mut Active<Sender>, TcpSettings)> {
        let active = self.senders.get_mut(number as usize)?.as_deref_mut()?;
        Some((active, self.hosts.settings))
    }
}

impl FlowHost {
    #[inline]
    pub(super) fn has_tcp(&self, class: Class) -> bool {
        self.tcp.as_ref().is_some_and(|tcp| tcp.has(class))
    }

    pub(in crate::flows) fn tcp_sender(&self, number: u32) -> Option<&Sender> {
        self.tcp.as_ref()?.sender(number)
    }

    pub(in crate::flows) fn acknowledged(&self, number: u32) -> Option<Picos> {
        self.tcp.as_ref()?.acknowledged(number)
    }

    pub(super) fn open_tcp(&mut self, number: u32, now: Picos) {
        let flow = &mut self.sending[number as usize];
        let Some(tcp) = self.tcp.as_mut().filter(|tcp| tcp.has(flow.class)) else { return };
        let idle = tcp.idle.get_mut(&(flow.to, flow.class)).and_then(Vec::pop);
        let path = idle.map(|(path, port)| {
            flow.port = port;
            path
        });
        let segments = flow.under_way.as_ref().expect(UNDER_WAY).frames;
        let sender = Sender::new(&tcp.hosts.settings, segments, now.floor(), path);
        tcp.senders[number as usize] = Some(Active::new(sender, flow.port));
    }

    /// Returns whether a TCP flow may send; `None` if the flow does not use TCP.
    #[inline]
    pub(super) fn may_send_tcp(&mut self, number: u32) -> Option<bool> {
        let (active, _) = self.tcp.as_mut()?.endpoint(number)?;
        Some(active.endpoint.can_send())
    }

    pub(super) fn start_tcp(&mut self, at: usize, number: u32, net: &mut Net) {
        let now = net.now();
        let flow = &mut self.sending[number as usize];
        let (active, settings) = self.tcp.as_mut().and_then(|tcp| tcp.endpoint(number)).expect(NO_SENDER);
        let Some(sent) = active.endpoint.send(now.floor()) else { return };
        flow.resent = active.endpoint.resent();
        let header = TcpHeader::of(&sent, &settings, (flow.peer, flow.port), now.floor());
        let payload = sent.segment.map_or(0, |segment| payload(flow.bytes, settings.mss, segment));
        let len = tcp_len(&header) + payload;
        let envelope = flow.envelope(self.number, self.links[at].gateway, sent.is_ecn_capable);
        let bytes = Bytes::on_line(len);
        self.space(number, now, bytes);
        self.start_content(at, &Content::Tcp(header), &envelope, len, net);
        self.arm_sender(number);
        self.settle(number, now.after(self.links[at].pace.time_of(bytes)));
    }

    /// Schedules the next event of a TCP flow; returns false if the flow does not use TCP.
    #[inline]
    pub(super) fn settle_tcp(&mut self, number: u32, free: Picos) -> bool {
        let Some((active, settings)) = self.tcp.as_mut().and_then(|tcp| tcp.endpoint(number)) else {
            return false;
        };
        let (is_done, can_send) = (active.endpoint.is_done(), active.endpoint.can_send());
        let flow = &mut self.sending[number as usize];
        let free_at = flow.under_way.as_ref().expect(UNDER_WAY).free_at;
        if is_done {
            flow.end();
            let key = (flow.to, flow.class);
            let tcp = self.tcp.as_mut().expect(NO_SENDER);
            let ended = tcp.senders[number as usize].take();
            if let Some(ended) = ended.filter(|_| settings.persistent) {
                let port = ended.port;
                let path = ended.endpoint.into_path(tcp.acknowledged[number as usize].floor());
                tcp.idle.entry(key).or_default().push((path, port));
            }
        } else if !can_send {
            flow.wait = Wait::Answer;
        } else if free_at > free {
            flow.wait = Wait::Time;
            self.timers.push(Reverse((free_at, Timer::Next(number))));
        } else {
            self.queue(number);
        }
        true
    }

    fn arm_sender(&mut self, number: u32) {
        let Some((active, _)) = self.tcp.as_mut().and_then(|tcp| tcp.endpoint(number)) else { return };
        let deadline = active.endpoint.deadline();
        if let Some(time) = active.arm(deadline) {
            self.timers.push(Reverse((time, Timer::Resend(number))));
        }
    }

    pub(super) fn expire_sender(&mut self, number: u32, now: Picos) {
        let Some((active, _)) = self.tcp.as_mut().and_then(|tcp| tcp.endpoint(number)) else { return };
        if active.armed > now.floor() {
            return; // a timer that has been replaced by a later one
        }
        active.armed = Nanos::NEVER;
        if active.endpoint.deadline() <= now.floor() {
            active.endpoint.expire(now.floor());
            self.sending[number as usize].timeouts = active.endpoint.timeouts();
        }
        self.arm_sender(number);
        self.resume(number, now);
    }

    pub(super) fn expire_receiver(&mut self, number: u32, now: Picos) {
        let Some(tcp) = &mut self.tcp else { return };
        let settings = tcp.hosts.settings;
        let Some(active) = tcp.receivers[number as usize].as_deref_mut() else { return };
        if active.armed > now.floor() {
            return;
        }
        active.armed = Nanos::NEVER;
        let (ack, port) = (active.endpoint.expire(&settings, now.floor()), active.port);
        let deadline = active.endpoint.deadline();
        if let Some(time) = active.arm(deadline) {
            self.timers.push(Reverse((time, Timer::Acknowledge(number))));
        }
        if let Some(ack) = ack {
            self.answer((number, port), Some(&ack), now);
        }
        self.forget_if_done(number);
    }

    fn answer(&mut self, (number, port): (u32, u16), ack: Option<&Ack>, now: Picos) {
        let Some(tcp) = &self.tcp else { return };
        let flow = &self.receiving[number as usize];
        let to = flow.from;
        let header = TcpHeader::answer(ack, &tcp.hosts.settings, (flow.peer, port), now.floor());
        let class = tcp.hosts.ack_class.unwrap_or(flow.class);
        let link = &mut self.links[link_of((self.number, to), port, self.links.len())];
        link.replies[class.index()].push_back(Reply { content: Content::Tcp(header), to, port });
        link.has_replies.insert(class);
    }

    pub(super) fn take_tcp(&mut self, frame: &Arrived, header: &TcpHeader, net: &mut Net) {
        let (now, number, port) = (net.now(), header.number, header.ports[0]);
        let Some(tcp) = &mut self.tcp else { return };
        let Some(flow) = self.receiving.get_mut(number as usize) else { return };
        if header.kind() == Kind::Syn {
            return self.answer((number, port), None, now);
        }
        let settings = tcp.hosts.settings;
        flow.marked += u32::from(frame.is_marked);
        let active = &mut tcp.receivers[number as usize];
        if active.is_none() && flow.finish().is_some() {
            _ = flow.take_tcp(now, false, false);
            let ack = Ack { next: flow.frames(), echo: header.timestamps[0], ..Ack::default() };
            return self.answer((number, port), Some(&ack), now);
        }
        let active = active.get_or_insert_with(|| Active::new(Receiver::new(&settings), port));
        let expected = active.endpoint.expected();
        let arrival = header.arrival(&settings, expected, frame.is_marked);
        if arrival.segment >= flow.frames() {
            return;
        }
        let (is_new, acks) = active.endpoint.receive(&settings, now.floor(), &arrival);
        let deadline = active.endpoint.deadline();
        let next = active.arm(deadline);
        let is_last = flow.take_tcp(now, is_new, arrival.segment == expected);
        if let Some(time) = next {
            self.timers.push(Reverse((time, Timer::Acknowledge(number))));
        }
        for ack in acks.iter().flatten() {
            self.answer((number, port), Some(ack), now);
        }
        self.forget_if_done(number);
        self.tell_end(number, is_last, net);
    }

    fn forget_if_done(&mut self, number: u32) {
        let Some(tcp) = &mut self.tcp else { return };
        let active = &mut tcp.receivers[number as usize];
        let frames = self.receiving[number as usize].frames();
        let is_done =
            |receiver: &Receiver| receiver.expected() == frames && receiver.deadline() == Nanos::NEVER;
        if active.as_ref().is_some_and(|active| is_done(&active.endpoint)) {
            *active = None;
        }
    }

    pub(super) fn arrived_tcp(&mut self, at: PortId, packet: Packet, net: &mut Net) {
        let head = net.pool.head(packet);
        let Some((header, is_marked)) = parse_tcp(head) else { return };
        match header.kind() {
            Kind::Syn | Kind::Data => {
                let (content, class) = (Content::Tcp(header), Segment::class(head));
                self.receive(at.index(), Arrived { content, is_marked, class, len: packet.len }, net);
            }
            Kind::SynAck | Kind::Ack => self.receive_ack(&header, net.now()),
        }
    }

    fn receive_ack(&mut self, header: &TcpHeader, now: Picos) {
        let number = header.number;
        let Some(tcp) = &mut self.tcp else { return };
        let Some((active, settings)) = tcp.endpoint(number) else { return };
        let sender = &mut active.endpoint;
        if header.kind() == Kind::SynAck {
            sender.connected(now.floor());
        } else {
            let ack = header.ack(&settings, sender.first());
            let micros = wire::timestamp(now.floor()).wrapping_sub(ack.echo);
            sender.acknowledged(now.floor(), &ack, Nanos::from_micros(micros.into()));
        }
        let is_done = sender.is_done();
        if is_done && tcp.acknowledged[number as usize] == Picos::NEVER {
            tcp.acknowledged[number as usize] = now;
        }
        self.arm_sender(number);
        self.resume(number, now);
    }
}
