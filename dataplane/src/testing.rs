use xoff_flow_control::settings::{ClassSettings, PortSettings};
use xoff_wire::units::{BitRate, Bytes, CLASSES, MacAddr};

use crate::frame::{Frame, FrameStore};

pub fn port_settings(index: u8) -> PortSettings {
    let classes = [ClassSettings::lossy(Bytes(40_000)); CLASSES];
    PortSettings::plain(
        format!("p{index}"),
        MacAddr([2, 0, 0, 0, 0xff, index]),
        BitRate::from_gbps(1),
        classes,
    )
}

pub struct OneSlot {
    bytes: Vec<u8>,
    start: usize,
}

impl OneSlot {
    pub fn holding(bytes: &[u8], room: usize) -> (OneSlot, Frame) {
        let mut slot = vec![0xee; room];
        slot.extend(bytes);
        let len = u32::try_from(bytes.len()).expect("a frame must be shorter than 4 GiB");
        (OneSlot { bytes: slot, start: room }, Frame::new(0, len))
    }
}

impl FrameStore for OneSlot {
    fn capacity(&self) -> u32 {
        1
    }

    fn head(&self, _: &Frame) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn head_mut(&mut self, _: &Frame) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    fn move_start(&mut self, frame: &mut Frame, by: i32) -> bool {
        let len = frame.len().checked_add_signed(-by);
        let start = u32::try_from(self.start).ok().and_then(|start| start.checked_add_signed(by));
        let (Some(len), Some(start)) = (len, start) else { return false };
        self.start = start as usize;
        frame.resize(len);
        true
    }

    fn free(&mut self, frame: Frame) {
        let _ = frame.into_parts();
    }
}
