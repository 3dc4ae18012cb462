//! One (ingress port, class): a waterfall of reserve, pool and headroom.
//!
//! Bytes enter the reserve first, then the pool, then the headroom, which may be of the pool too, and leave in the opposite
//! order.
//! Dedicated memory is the case without a pool: everything up to the threshold is the queue's own.

use xoff_wire::units::Bytes;

use crate::drop_reason::DropReason;
use crate::load::{Load, Margin};
use crate::settings::{ClassSettings, HeadroomPlace, Memory};

/// What every frame is counted by is in its first cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct IngressQueue {
    /// Reserve and pool.
    body: Bytes,
    headroom_used: Bytes,
    frames: u32,
    xoff_frames: u32,
    reserve: Bytes,
    limit: Bytes,
    headroom: Bytes,
    /// What it is once nothing is in it: less is taken from nobody who has been told that there is more.
    headroom_next: Bytes,
    headroom_place: HeadroomPlace,
    lossless: bool,
    xon_frames: u32,
    /// XOFF - XON: how far below the threshold a queue must fall to resume.
    hysteresis: Bytes,
    longest_frame: Bytes,
}

impl IngressQueue {
    /// At a port that takes frames of at most `longest_frame`.
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

    /// Other limits from now on. What it holds it keeps, where it is; headroom in use does not become less.
    pub(super) fn revise(&mut self, class: &ClassSettings, memory: Memory, longest_frame: Bytes) {
        let before = *self;
        let IngressQueue { body, headroom_used, frames, .. } = before;
        *self =
            IngressQueue { body, headroom_used, frames, ..IngressQueue::new(class, memory, longest_frame) };
        if memory == Memory::Dedicated {
            let fits = self.headroom_used.min(self.limit.saturating_sub(self.body)); // below a higher XOFF
            self.body += fits;
            self.headroom_used -= fits;
        }
        if self.headroom_used > Bytes::ZERO {
            self.headroom = self.headroom_next.max(before.headroom);
        }
    }

    /// Takes `load` in, where `threshold` bounds what the queue may hold beyond its
    /// reserve; what does not fit below it goes into the headroom, which a lossy queue does not have. `left` is what
    /// the pool has for both, where headroom is taken from there. Answers how much came from the pool.
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

    /// Lets `load` go. Answers how much goes back to the pool.
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

    /// What it holds at XOFF.
    #[inline]
    pub(super) fn xoff(&self, threshold: Bytes) -> Bytes {
        self.reserve.saturating_add(threshold)
    }

    /// Below this it resumes.
    #[inline]
    pub(super) fn xon(&self, threshold: Bytes) -> Bytes {
        self.xoff(threshold).saturating_sub(self.hysteresis)
    }

    /// Below so many frames it resumes.
    #[inline]
    pub(super) fn xon_in_frames(&self) -> u32 {
        self.xon_frames
    }

    /// What may come with XOFF still ahead; `None` where it is reached.
    #[inline]
    pub(super) fn below_xoff(&self, threshold: Bytes) -> Option<Margin> {
        let bytes = self.xoff(threshold).0.checked_sub(self.body.0 + 1)?;
        let frames = self.xoff_frames.checked_sub(self.frames + 1)?;
        (self.headroom_used == Bytes::ZERO).then_some(Margin { frames, bytes: Bytes(bytes) })
    }

    /// What may come with room for one more frame still, whatever its length, where the pool has `left`, headroom
    /// included. `None` where a lossless queue has no such room: what comes then is lost.
    #[inline]
    fn before_last_frame(&self, left: Bytes) -> Option<Bytes> {
        if !self.lossless {
            return Some(Bytes::MAX);
        }
        let room = self.reserve.saturating_sub(self.body).saturating_add(left);
        room.0.checked_sub(self.longest_frame.0).map(Bytes)
    }

    /// Whether the next frame may find no room, and will find some when what the queue holds has gone.
    #[inline]
    pub(super) fn lacks_room(&self, left: Bytes) -> bool {
        self.bytes() > Bytes::ZERO && self.before_last_frame(left).is_none()
    }

    /// What may come until it lacks room.
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

    /// What it has taken of the pool.
    #[inline]
    pub(super) fn pooled(&self) -> Bytes {
        match self.headroom_place {
            HeadroomPlace::Reserved => self.pooled_below_xoff(),
            HeadroomPlace::Pool => self.pooled_below_xoff() + self.headroom_used,
        }
    }

    /// What it holds beyond its reserve, headroom not included.
    #[inline]
    pub(super) fn pooled_below_xoff(&self) -> Bytes {
        self.body.saturating_sub(self.reserve)
    }

    #[inline]
    pub(super) fn limit(&self) -> Bytes {
        self.limit
    }
}

/// XON in frames, in the proportion of XON to XOFF in bytes.
fn xon_frames(class: &ClassSettings) -> u32 {
    if class.xoff_frames == u32::MAX || class.xoff == Bytes::ZERO {
        return u32::MAX;
    }
    let scaled = u128::from(class.xoff_frames) * u128::from(class.xon.0) / u128::from(class.xoff.0);
    u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
}
