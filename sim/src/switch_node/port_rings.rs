use std::collections::VecDeque;

use xoff_dataplane::driver::Port;
use xoff_dataplane::frame::Frame;

use crate::slots::View;

pub(crate) type FrameParts = (u32, u32);

#[derive(Debug, Default)]
pub(crate) struct PortRings {
    pub(crate) arrived: VecDeque<FrameParts>,
    pub(crate) left: VecDeque<FrameParts>,
    pub(crate) is_late: bool,
    pub(crate) is_free: bool,
    pub(crate) starts: Option<FrameParts>,
}

impl<'a> Port<View<'a>> for PortRings {
    fn reap(&mut self, view: &mut View<'a>, mut sent: impl FnMut(&mut View<'a>, Frame)) {
        while !self.is_late
            && let Some((slot, len)) = self.left.pop_front()
        {
            sent(view, Frame::new(slot, len));
        }
    }

    fn receive(
        &mut self,
        view: &mut View<'a>,
        budget: u32,
        mut each: impl FnMut(&mut View<'a>, Frame),
    ) -> u32 {
        let mut taken = 0;
        while taken < budget
            && let Some((slot, len)) = self.arrived.pop_front()
        {
            each(view, Frame::new(slot, len));
            taken += 1;
        }
        taken
    }

    fn room(&self) -> u32 {
        (self.is_free && self.starts.is_none()).into()
    }

    fn send(&mut self, _: &mut View<'a>, frame: Frame) -> Result<(), Frame> {
        self.starts = Some(frame.into_parts());
        Ok(())
    }

    fn in_flight(&self) -> bool {
        !self.is_free || self.starts.is_some() || !self.left.is_empty()
    }
}
