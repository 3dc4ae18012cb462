//! Occupancy of one ingress queue. Departing frames free its headroom first, then the shared pool, then its reserve.

use xoff_wire::units::Bytes;

use crate::drop_reason::DropReason;
use crate::load::{Load, Margin};
use crate::settings::{ClassSettings, HeadroomPlace, Memory};

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct IngressQueue {
    body: Bytes,
    headroom_used: Bytes,
    frames: u32,
    xoff_frames: u32,
    reserve: Bytes,
    limit: Bytes,
    headroom: Bytes,
    /// New headroom limit, which applies once no headroom is in use: frames in flight may rely on a larger old limit.
    headroom_next: Bytes,
    headroom_place: HeadroomPlace,
    lossless: bool,
    xon_frames: u32,
    hysteresis: Bytes,
    longest_frame: Bytes,
}

impl IngressQueue {
    pub(super) fn new(class: &ClassSettings, memory: Memory, longest_frame: Bytes) -> IngressQueue {
        let (reserve, headroom_place) = match memory {
            Memory::Dedicated => (Bytes::ZERO, HeadroomPlace::Reserved),
            Memory::Shared(shared) => (class.ingress_reserve, shared.headroom),
        };
        let limit = if class.lossless { class.xoff } else { class.ingress_max };
        let headroom = if class.lossless { class.headroom } else { Bytes::ZERO };
        IngressQueue {
            body: Bytes::ZERO,
            headroom_used: Bytes::ZERO,
            frames: 0,
            xoff_frames: class.xoff_frames,
            reserve,
            limit,
            headroom,
            headroom_next: headroom,
            headroom_place,
            lossless: class.lossless,
            xon_frames: xon_frames(class),
            hysteresis: class.xoff.saturating_sub(class.xon),
            longest_frame,
        }
    }

    pub(super) fn revise(&mut self, class: &ClassSettings, memory: Memory, longest_frame: Bytes) {
        let before = *self;
        let IngressQueue { body, headroom_used, frames, .. } = before;
        *self =
            IngressQueue { body, headroom_used, frames, ..IngressQueue::new(class, memory, longest_frame) };
        if memory == Memory::Dedicated {
            let fits = self.headroom_used.min(self.limit.saturating_sub(self.body)); // bytes below a raised XOFF leave the headroom
            self.body += fits;
            self.headroom_used -= fits;
        }
        if self.headroom_used > Bytes::ZERO {
            self.headroom = self.headroom_next.max(before.headroom);
        }
    }

    #[inline]
    pub(super) fn enter(&mut self, load: Load, threshold: Bytes, left: Bytes) -> Result<Bytes, DropReason> {
        let before = self.pooled();
        let room = self.reserve.saturating_add(threshold).saturating_sub(self.body);
        let beyond = load.bytes.saturating_sub(room);
        let body = self.body + (load.bytes - beyond);
        if beyond > Bytes::ZERO {
            let below = body.saturating_sub(self.reserve) - self.pooled_below_xoff();
            if self.headroom_used + beyond > self.headroom || beyond > left.saturating_sub(below) {
                let lossless = self.lossless;
                return Err(if lossless { DropReason::HeadroomExhausted } else { DropReason::IngressFull });
            }
        }
        self.body = body;
        self.headroom_used += beyond;
        self.frames += load.frames;
        Ok(self.pooled() - before)
    }

    #[inline]
    pub(super) fn leave(&mut self, load: Load) -> Bytes {
        let before = self.pooled();
        let from_headroom = load.bytes.min(self.headroom_used);
        self.headroom_used -= from_headroom;
        if self.headroom_used == Bytes::ZERO {
            self.headroom = self.headroom_next;
        }
        self.body -= load.bytes - from_headroom;
        self.frames -= load.frames;
        before - self.pooled()
    }

    #[inline]
    pub(super) fn xoff(&self, threshold: Bytes) -> Bytes {
        self.reserve.saturating_add(threshold)
    }

    #[inline]
    pub(super) fn xon(&self, threshold: Bytes) -> Bytes {
        self.xoff(threshold).saturating_sub(self.hysteresis)
    }

    #[inline]
    pub(super) fn xon_in_frames(&self) -> u32 {
        self.xon_frames
    }

    #[inline]
    pub(super) fn below_xoff(&self, threshold: Bytes) -> Option<Margin> {
        let bytes = self.xoff(threshold).0.checked_sub(self.body.0 + 1)?;
        let frames = self.xoff_frames.checked_sub(self.frames + 1)?;
        (self.headroom_used == Bytes::ZERO).then_some(Margin { frames, bytes: Bytes(bytes) })
    }

    pub(super) fn is_at_own_xoff(&self) -> bool {
        self.bytes() >= self.xoff(self.limit) || self.frames >= self.xoff_frames
    }

    #[inline]
    fn before_last_frame(&self, left: Bytes) -> Option<Bytes> {
        if !self.lossless {
            return Some(Bytes::MAX);
        }
        let room = self.reserve.saturating_sub(self.body).saturating_add(left);
        room.0.checked_sub(self.longest_frame.0).map(Bytes)
    }

    /// Returns whether a frame of maximum length would exceed the free reserve plus `left` bytes of the pool. False for
    /// an empty queue: XON follows a departing frame, so a peer paused now would never resume.
    #[inline]
    pub(super) fn lacks_room(&self, left: Bytes) -> bool {
        self.bytes() > Bytes::ZERO && self.before_last_frame(left).is_none()
    }

    #[inline]
    pub(super) fn until_room_lacks(&self, left: Bytes) -> Bytes {
        self.before_last_frame(left).unwrap_or_default()
    }

    #[inline]
    pub(super) fn below_xon(&self, threshold: Bytes) -> bool {
        let drained = self.body < self.xon(threshold) || self.body == Bytes::ZERO;
        self.headroom_used == Bytes::ZERO && drained && self.frames < self.xon_frames
    }

    #[inline]
    pub(super) fn bytes(&self) -> Bytes {
        self.body + self.headroom_used
    }

    pub(super) fn headroom_used(&self) -> Bytes {
        self.headroom_used
    }

    #[inline]
    pub(super) fn pooled(&self) -> Bytes {
        match self.headroom_place {
            HeadroomPlace::Reserved => self.pooled_below_xoff(),
            HeadroomPlace::Pool => self.pooled_below_xoff() + self.headroom_used,
        }
    }

    #[inline]
    pub(super) fn pooled_below_xoff(&self) -> Bytes {
        self.body.saturating_sub(self.reserve)
    }

    #[inline]
    pub(super) fn limit(&self) -> Bytes {
        self.limit
    }
}

fn xon_frames(class: &ClassSettings) -> u32 {
    if class.xoff_frames == u32::MAX || class.xoff == Bytes::ZERO {
        return u32::MAX;
    }
    let scaled = u128::from(class.xoff_frames) * u128::from(class.xon.0) / u128::from(class.xoff.0);
    u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
}
