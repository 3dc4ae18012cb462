//! How a peer answers an XOFF: what of a class still comes from it while it is held, and until when.
//!
//! Headroom ([`crate::headroom`]) is the most that an obedient peer can send past XOFF, whatever delays there are on
//! both sides. From that follow two limits that no obedient peer crosses: so many bytes, and, as the line carries these in
//! a certain time, so long after the XOFF was told. Who crosses the first in time is faster than the line is said to be
//! (or has more with its driver than is said); who crosses the second stops later than is said, or never.
//!
//! A frame is seen when the switch looks, not when it comes. The limits include a switch that looks as late as its stall
//! budget allows; of what comes in while it was away for longer, and until one limit later, nothing is said.

use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, Nanos};

use crate::load::Load;
use crate::settings::PortSettings;

/// What came of each class since its peer was to be held, at one port.
#[derive(Clone, Debug)]
pub struct Response {
    /// Most that an obedient peer sends of a class past XOFF.
    limit: Bytes,
    /// How long the line takes to carry that.
    limit_time: Nanos,
    came: [Bytes; CLASSES],
    told: ClassSet,
    told_at: [Nanos; CLASSES],
}

/// What is to be said of frames that came while their class was held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// All that came of the class since it was to be held.
    pub came: Bytes,
    /// How long after the XOFF was told these came, at most; `None` where nothing can be said.
    pub after: Option<Nanos>,
    /// The peer's fault, where it has made one.
    pub fault: Option<Fault>,
}

/// Whose fault it is that more came than headroom is made for: the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// In time, and too much.
    TooMuch,
    /// After the last moment at which an obedient peer sends.
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

    /// Another peer was declared. Of what is held now nothing is said any more.
    pub fn revise(&mut self, settings: &PortSettings) {
        let Response { limit, limit_time, .. } = Response::new(settings);
        if (limit, limit_time) != (self.limit, self.limit_time) {
            (self.limit, self.limit_time, self.told) = (limit, limit_time, ClassSet::NONE);
        }
    }

    /// `class` is to be held from now on.
    pub fn held(&mut self, class: Class) {
        self.came[class.index()] = Bytes::ZERO;
        self.told.remove(class);
    }

    /// The peer is told to stop `class`, which is to be held since `since`.
    pub fn told(&mut self, now: Nanos, class: Class, since: Nanos) {
        self.told.insert(class);
        self.told_at[class.index()] = now;
        if now.since(since) > self.limit_time {
            self.came[class.index()] = Bytes::ZERO; // it could not know
        }
    }

    /// The peer knows nothing any more: its link was lost.
    pub fn forget_told(&mut self) {
        self.told = ClassSet::NONE;
    }

    /// `load` of `class`, which is to be held, is found at `now`; the switch itself was away too long until `away`.
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

    /// 1000 bytes, which the line carries in 8 us.
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
        response.told(Nanos(9_000), CLASS, Nanos(0)); // far too late by ourselves
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
