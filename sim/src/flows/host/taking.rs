use xoff_wire::units::Class;

use super::super::intake::{Arrived, Intake, ReceiverPause, SlowReceiver};
use super::super::segment::{Content, Kind, Segment, link_of, port};
use super::super::transport::{Control, Transport};
use super::{FlowHost, Reply};
use crate::host::address;
use crate::node::Net;

impl FlowHost {
    pub(in crate::flows) fn slow_down(&mut self, receiver: SlowReceiver) {
        for link in &mut self.links {
            assert!(link.intake.is_none(), "host {} is already a slow receiver", self.number);
            link.intake = Some(Box::new(Intake::new(receiver, link.pace, address(self.number))));
        }
    }

    /// Returns how many frames of a class this host dropped as a slow receiver.
    #[must_use]
    pub fn dropped(&self, class: Class) -> u64 {
        self.links.iter().flat_map(|link| &link.intake).map(|intake| intake.dropped(class)).sum()
    }

    /// Returns the pauses that this host sent on a link as a slow receiver, ordered by time.
    #[must_use]
    pub fn pauses(&self, link: u8) -> &[ReceiverPause] {
        let intake = self.links.get(usize::from(link)).and_then(|link| link.intake.as_ref());
        intake.map_or(&[], |intake| intake.pauses())
    }

    #[inline]
    pub(super) fn receive(&mut self, at: usize, frame: Arrived, net: &mut Net) {
        if self.links[at].intake.is_some() {
            self.take_waiting(at, net);
        }
        let taken = match &mut self.links[at].intake {
            None => Some(frame),
            Some(intake) => intake.offer(frame, net.now()),
        };
        if let Some(frame) = taken {
            self.take(&frame, net);
        }
    }

    #[cold]
    pub(super) fn take_waiting(&mut self, at: usize, net: &mut Net) {
        while let Some(frame) = self.links[at].intake.as_mut().and_then(|intake| intake.take(net.now())) {
            self.take(&frame, net);
        }
    }

    #[inline]
    fn take(&mut self, frame: &Arrived, net: &mut Net) {
        let (now, is_marked) = (net.now(), frame.is_marked);
        let segment = match &frame.content {
            Content::Roce(segment) => segment,
            Content::Tcp(header) => return self.take_tcp(frame, header, net),
        };
        let Some(flow) = self.receiving.get_mut(segment.number as usize) else { return };
        flow.marked += u32::from(is_marked);
        let Transport::Roce(roce) = &self.settings.transport else {
            let is_last = flow.take_any(now, segment.sequence);
            return self.tell_end(segment.number, is_last, net);
        };
        let (peer, to, port) = (flow.peer, flow.from, port(flow.flow));
        let link = link_of((self.number, to), port, self.links.len());
        let link = &mut self.links[link];
        let reply = |kind, sequence| {
            let segment = Segment { kind, number: peer, sequence, sent: segment.sent };
            Reply { content: Content::Roce(segment), to, port }
        };
        if let Control::Dcqcn(dcqcn) = &roce.control
            && is_marked
            && self.notification_points[segment.number as usize].notifies(now, dcqcn.cnp_interval)
        {
            flow.cnps += 1;
            link.replies[dcqcn.cnp_class.index()].push_back(reply(Kind::Cnp, 0));
            link.has_replies.insert(dcqcn.cnp_class);
        }
        let class = roce.ack_class.unwrap_or(flow.class);
        let (answer, is_last) = flow.take_in_order(now, segment.sequence, roce.ack_every);
        if let Some(answer) = answer {
            link.replies[class.index()].push_back(reply(answer.kind, answer.sequence));
            link.has_replies.insert(class);
        }
        self.tell_end(segment.number, is_last, net);
    }

    #[inline]
    pub(super) fn tell_end(&mut self, number: u32, is_last: bool, net: &mut Net) {
        if is_last {
            self.ended.push(self.receiving[number as usize].flow);
            net.report(self.place);
        }
    }
}
