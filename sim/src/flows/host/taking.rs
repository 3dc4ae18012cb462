use xoff_wire::units::Class;

use super::super::intake::{Arrived, Intake, ReceiverPause, SlowReceiver};
use super::super::segment::{Kind, Segment, port};
use super::super::transport::{Control, Transport};
use super::{FlowHost, Reply};
use crate::host::address;
use crate::node::Net;

impl FlowHost {
    pub(in crate::flows) fn slow_down(&mut self, receiver: SlowReceiver) {
        assert!(self.intake.is_none(), "host {} is already a slow receiver", self.number);
        self.intake = Some(Box::new(Intake::new(receiver, self.pace, address(self.number))));
    }

    /// Returns how many frames a slow receiver dropped.
    #[must_use]
    pub fn dropped(&self, class: Class) -> u64 {
        self.intake.as_ref().map_or(0, |intake| intake.dropped(class))
    }

    /// Returns a slow receiver's pauses, in order.
    #[must_use]
    pub fn pauses(&self) -> &[ReceiverPause] {
        self.intake.as_ref().map_or(&[], |intake| intake.pauses())
    }

    #[inline]
    pub(super) fn receive(&mut self, frame: Arrived, net: &mut Net) {
        if self.intake.is_some() {
            self.take_waiting(net);
        }
        let taken = match &mut self.intake {
            None => Some(frame),
            Some(intake) => intake.offer(frame, net.now()),
        };
        if let Some(frame) = taken {
            self.take(&frame.segment, frame.is_marked, net);
        }
    }

    #[cold]
    pub(super) fn take_waiting(&mut self, net: &mut Net) {
        while let Some(frame) = self.intake.as_mut().and_then(|intake| intake.take(net.now())) {
            self.take(&frame.segment, frame.is_marked, net);
        }
    }

    #[inline]
    fn take(&mut self, segment: &Segment, is_marked: bool, net: &mut Net) {
        let now = net.now();
        let Some(flow) = self.receiving.get_mut(segment.number as usize) else { return };
        flow.marked += u32::from(is_marked);
        let Transport::Roce(roce) = &self.settings.transport else {
            let is_last = flow.take_any(now, segment.sequence);
            return self.tell_end(segment.number, is_last, net);
        };
        let (peer, to, port) = (flow.peer, flow.from, port(flow.flow));
        let reply = |kind, sequence| {
            let segment = Segment { kind, number: peer, sequence, sent: segment.sent };
            Reply { segment, to, port }
        };
        if let Control::Dcqcn(dcqcn) = &roce.control
            && is_marked
            && self.notification_points[segment.number as usize].notifies(now, dcqcn.cnp_interval)
        {
            flow.cnps += 1;
            self.replies[dcqcn.cnp_class.index()].push_back(reply(Kind::Cnp, 0));
            self.has_replies.insert(dcqcn.cnp_class);
        }
        let class = roce.ack_class.unwrap_or(flow.class);
        let (answer, is_last) = flow.take_in_order(now, segment.sequence, roce.ack_every);
        if let Some(answer) = answer {
            self.replies[class.index()].push_back(reply(answer.kind, answer.sequence));
            self.has_replies.insert(class);
        }
        self.tell_end(segment.number, is_last, net);
    }

    #[inline]
    fn tell_end(&mut self, number: u32, is_last: bool, net: &mut Net) {
        if is_last {
            self.ended.push(self.receiving[number as usize].flow);
            net.report(self.place);
        }
    }
}
