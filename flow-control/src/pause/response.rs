//! Response of a peer to XOFF: bytes of a class that still arrive while it is held, and how long they do.
//!
//! Headroom ([`crate::headroom`]) is the maximum that an obedient peer sends past XOFF, at the longest delays on both
//! sides. It implies two limits: a number of bytes, and the time after XOFF in which the line carries them. A peer
//! that exceeds the bytes in time is faster, or has a larger backlog, than declared. A peer that exceeds the time
//! stops later than declared, or never.
//!
//! The switch timestamps a frame when it polls the port, not when the frame arrives. The limits include polling as
//! late as the stall budget allows. After a longer stall, frames are not judged until one time limit has passed.

use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, Nanos};

use crate::load::Load;
use crate::settings::PortSettings;

/// Bytes received of each class since it was held, at one port.
#[derive(Clone, Debug)]
pub struct Response {
    /// Maximum bytes that an obedient peer sends of a class past XOFF.
    limit: Bytes,
    limit_time: Nanos,
    came: [Bytes; CLASSES],
    told: ClassSet,
    told_at: [Nanos; CLASSES],
}

/// Judgement of frames that arrived while their class was held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Bytes of the class received since it was held.
    pub came: Bytes,
    /// Maximum time from the sent XOFF to these frames; `None` if unknown.
    pub after: Option<Nanos>,
    /// Fault of the peer, if any.
    pub fault: Option<Fault>,
}

/// Fault of a peer that exceeds its headroom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Too many bytes within the time limit.
    TooMuch,
    /// Frames after the time limit of an obedient peer.
    TooLate,
}

impl Response {
    /// Creates the record of a port with these settings, whose peer is held in no class.
    pub fn new(settings: &PortSettings) -> Response {
        let limit = settings.past_xoff;
        let limit_time = if limit == Bytes::MAX { Nanos::NEVER } else { settings.speed.time_of(limit) };
        Response {
            limit,
            limit_time,
            came: [Bytes::ZERO; CLASSES],
            told: ClassSet::NONE,
            told_at: [Nanos::ZERO; CLASSES],
        }
    }

    /// Applies the limits of a newly declared peer. Current holds are not judged if the limits changed.
    pub fn revise(&mut self, settings: &PortSettings) {
        let Response { limit, limit_time, .. } = Response::new(settings);
        if (limit, limit_time) != (self.limit, self.limit_time) {
            (self.limit, self.limit_time, self.told) = (limit, limit_time, ClassSet::NONE);
        }
    }

    /// Begins a hold of `class`.
    pub fn held(&mut self, class: Class) {
        self.came[class.index()] = Bytes::ZERO;
        self.told.remove(class);
    }

    /// Records that XOFF for `class`, held since `since`, was sent.
    pub fn told(&mut self, now: Nanos, class: Class, since: Nanos) {
        self.told.insert(class);
        self.told_at[class.index()] = now;
        if now.since(since) > self.limit_time {
            self.came[class.index()] = Bytes::ZERO; // XOFF was sent late, by our own fault
        }
    }

    /// Forgets sent XOFFs because the link was lost.
    pub fn forget_told(&mut self) {
        self.told = ClassSet::NONE;
    }

    /// Judges `load` of the held `class`, polled at `now`. `away` is the end of the switch's last overlong stall.
    pub fn came(&mut self, now: Nanos, class: Class, load: Load, away: Option<Nanos>) -> Answer {
        let came = &mut self.came[class.index()];
        *came = came.saturating_add(load.bytes);
        let came = *came;
        let is_excused = away.is_some_and(|away| now.since(away) <= self.limit_time);
        if is_excused || !self.told.contains(class) {
            return Answer { came, after: None, fault: None };
        }
        let after = now.since(self.told_at[class.index()]);
        let fault = match (after > self.limit_time, came > self.limit) {
            (true, _) => Some(Fault::TooLate),
            (false, true) => Some(Fault::TooMuch),
            (false, false) => None,
        };
        Answer { came, after: Some(after), fault }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_wire::units::BitRate;

    use super::*;
    use crate::testing::port_settings;

    const CLASS: Class = Class::ALL[3];

    /// Returns a response with a limit of 1000 bytes, which the line carries in 8 us.
    fn response() -> Response {
        let (speed, past_xoff) = (BitRate::from_gbps(1), Bytes(1_000));
        let mut response = Response::new(&PortSettings { speed, past_xoff, ..port_settings(0) });
        response.held(CLASS);
        response
    }

    fn bytes(bytes: u64) -> Load {
        Load { frames: 1, bytes: Bytes(bytes) }
    }

    // proves: peer-faults
    #[test]
    fn the_last_byte_and_the_last_moment_are_in_time_and_one_more_is_not() {
        let mut response = response();
        response.told(Nanos(100), CLASS, Nanos(100));
        let in_time = response.came(Nanos(8_100), CLASS, bytes(1_000), None);
        assert_eq!(in_time, Answer { came: Bytes(1_000), after: Some(Nanos(8_000)), fault: None });
        let mut other = response.clone();
        assert_eq!(other.came(Nanos(8_100), CLASS, bytes(1), None).fault, Some(Fault::TooMuch));
        assert_eq!(response.came(Nanos(8_101), CLASS, bytes(1), None).fault, Some(Fault::TooLate));
    }

    // proves: peer-faults
    #[test]
    fn who_was_not_told_is_not_to_blame() {
        let mut response = response();
        let untold = response.came(Nanos(9_000), CLASS, bytes(5_000), None);
        assert_eq!(untold, Answer { came: Bytes(5_000), after: None, fault: None });
        response.told(Nanos(9_000), CLASS, Nanos(0)); // sent far too late by this switch
        assert_eq!(response.came(Nanos(9_001), CLASS, bytes(1_000), None).fault, None);
        response.forget_told();
        assert_eq!(response.came(Nanos(99_000), CLASS, bytes(9_000), None).fault, None);
    }

    // proves: peer-faults
    #[test]
    fn who_was_away_himself_blames_nobody_until_all_that_came_meanwhile_is_seen() {
        let mut response = response();
        response.told(Nanos(0), CLASS, Nanos(0));
        let back = Nanos(100_000);
        let fault =
            |response: &mut Response, at| response.came(Nanos(at), CLASS, bytes(2_000), Some(back)).fault;
        assert_eq!(fault(&mut response, 100_000), None);
        assert_eq!(fault(&mut response, 108_000), None);
        assert_eq!(fault(&mut response, 108_001), Some(Fault::TooLate));
    }

    // proves: peer-faults
    #[test]
    fn each_hold_begins_anew_and_nothing_is_said_of_a_peer_that_declares_nothing() {
        let mut response = response();
        response.told(Nanos(0), CLASS, Nanos(0));
        response.came(Nanos(1), CLASS, bytes(1_000), None);
        response.held(CLASS);
        response.told(Nanos(10), CLASS, Nanos(10));
        assert_eq!(response.came(Nanos(11), CLASS, bytes(1_000), None).fault, None);
        let mut any = Response::new(&port_settings(0));
        any.held(CLASS);
        any.told(Nanos(0), CLASS, Nanos(0));
        assert_eq!(any.came(Nanos::from_secs(9), CLASS, bytes(1 << 40), None).fault, None);
    }
}
