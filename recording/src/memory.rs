use xoff_dataplane::frame::Frame;

#[derive(Clone, Debug)]
struct Held {
    bytes: Vec<u8>,
    len: u32,
}

#[derive(Debug)]
pub(crate) struct Memory(Vec<Option<Held>>);

impl Memory {
    pub(crate) fn new(slots: u32) -> Memory {
        Memory(vec![None; slots as usize])
    }

    pub(crate) fn capacity(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn frame(&self, slot: u32) -> Option<Frame> {
        let held = self.0.get(slot as usize)?.as_ref()?;
        Some(Frame::new(slot, held.len))
    }

    pub(crate) fn is_free(&self, slot: u32) -> bool {
        self.0.get(slot as usize).is_some_and(Option::is_none)
    }

    pub(crate) fn put(&mut self, slot: u32, head: &[u8], len: u32) -> Frame {
        self.0[slot as usize] = Some(Held { bytes: head.to_vec(), len });
        Frame::new(slot, len)
    }

    pub(crate) fn put_copy(&mut self, of: &Frame, slot: u32) -> Frame {
        self.0[slot as usize] = self.0[of.slot() as usize].clone();
        Frame::new(slot, of.len())
    }

    pub(crate) fn head(&self, frame: &Frame) -> &[u8] {
        let held = self.0.get(frame.slot() as usize).and_then(Option::as_ref);
        held.map_or(&[], |held| &held.bytes)
    }

    fn held_mut(&mut self, frame: &Frame) -> Option<&mut Held> {
        self.0.get_mut(frame.slot() as usize).and_then(Option::as_mut)
    }

    pub(crate) fn head_mut(&mut self, frame: &Frame) -> &mut [u8] {
        self.held_mut(frame).map_or(&mut [], |held| &mut held.bytes)
    }

    pub(crate) fn move_start(&mut self, frame: &mut Frame, by: i32) -> bool {
        let (shift, len) = (by.unsigned_abs() as usize, frame.len().checked_add_signed(-by));
        let Some(held) = self.held_mut(frame) else { return false };
        let len = len.filter(|len| *len > 0 && (by <= 0 || shift < held.bytes.len()));
        let Some(len) = len else { return false };
        if by < 0 {
            // Fill the space before the frame with zeros: the recorded switch had arbitrary old bytes there.
            held.bytes.splice(..0, std::iter::repeat_n(0, shift));
        } else {
            held.bytes.drain(..shift);
        }
        held.len = len;
        frame.resize(len);
        true
    }

    pub(crate) fn free(&mut self, frame: Frame) {
        let (slot, _) = frame.into_parts();
        self.0.get_mut(slot as usize).into_iter().for_each(|held| *held = None);
    }
}
