//! Response of a peer to XOFF: how many bytes of a class still arrive after the decision to pause it, and how late.
//!
//! Headroom ([`crate::headroom`]) sets two limits: bytes, and the time in which the line carries them. More bytes
//! within that time mean that the peer is faster, or has a larger backlog, than assumed. Later bytes mean that the
//! peer stops late or never. After this switch stalled for longer than `stall_budget`, it blames no peer for the
//! duration of the time limit.

use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, Nanos};

use crate::load::Load;
use crate::settings::PortSettings;

/// Bytes received of each class since its pause began.
#[derive(Clone, Debug)]
pub struct Response {
    limit: Bytes,
    limit_time: Nanos,
    received: [Bytes; CLASSES],
    xoff_sent: ClassSet,
    xoff_sent_at: [Nanos; CLASSES],
}

/// Comparison of a paused class's received frames with the limits of an obedient peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Judgement {
    /// Bytes of the class received since the decision to pause it.
    pub received: Bytes,
    pub after: Option<Nanos>,
    pub fault: Option<Fault>,
}

/// Way in which a peer disobeyed an XOFF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Within the time allowed after an XOFF, the peer sent too many bytes.
    TooMuch,
    /// The peer still sent frames when the time allowed after an XOFF was over.
    TooLate,
}

impl Response {
    /// Creates the state of a port without pauses.
    pub fn new(settings: &PortSettings) -> Response {
        let limit = settings.past_xoff;
        let limit_time = if limit == Bytes::MAX { Nanos::NEVER } else { settings.speed.time_of(limit) };
        Response {
            limit,
            limit_time,
            received: [Bytes::ZERO; CLASSES],
            xoff_sent: ClassSet::NONE,
            xoff_sent_at: [Nanos::ZERO; CLASSES],
        }
    }

    /// Applies changed port settings. If the limits change, the peer is not blamed during current pauses.
    pub fn revise(&mut self, settings: &PortSettings) {
        let Response { limit, limit_time, .. } = Response::new(settings);
        if (limit, limit_time) != (self.limit, self.limit_time) {
            (self.limit, self.limit_time, self.xoff_sent) = (limit, limit_time, ClassSet::NONE);
        }
    }

    /// Records the decision to pause `class`.
    pub fn held(&mut self, class: Class) {
        self.received[class.index()] = Bytes::ZERO;
        self.xoff_sent.remove(class);
    }

    /// Records an XOFF sent for `class`, which the switch decided to pause at `since`.
    pub fn xoff_sent(&mut self, now: Nanos, class: Class, since: Nanos) {
        self.xoff_sent.insert(class);
        self.xoff_sent_at[class.index()] = now;
        if now.since(since) > self.limit_time {
            self.received[class.index()] = Bytes::ZERO; // this switch sent XOFF late
        }
    }

    /// Forgets sent XOFFs after a link loss.
    pub fn forget_xoffs(&mut self) {
        self.xoff_sent = ClassSet::NONE;
    }

    /// Compares frames of a paused class, polled at `now`, with the limits. `away` is the end of this switch's last
    /// stall longer than `stall_budget`.
    pub fn judge(&mut self, now: Nanos, class: Class, load: Load, away: Option<Nanos>) -> Judgement {
        let received = &mut self.received[class.index()];
        *received = received.saturating_add(load.bytes);
        let received = *received;
        let is_excused = away.is_some_and(|away| now.since(away) <= self.limit_time);
        if is_excused || !self.xoff_sent.contains(class) {
            return Judgement { received, after: None, fault: None };
        }
        let after = now.since(self.xoff_sent_at[class.index()]);
        let fault = match (after > self.limit_time, received > self.limit) {
            (true, _) => Some(Fault::TooLate),
            (false, true) => Some(Fault::TooMuch),
            (false, false) => None,
        };
        Judgement { received, after: Some(after), fault }
    }
}

// Tests for SPECIFICATION.md: peer-faults
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_wire::units::BitRate;

    use super::*;
    use crate::testing::port_settings;

    const CLASS: Class = Class::ALL[3];

    fn response() -> Response {
        let (speed, past_xoff) = (BitRate::from_gbps(1), Bytes(1_000));
        let mut response = Response::new(&PortSettings { speed, past_xoff, ..port_settings(0) });
        response.held(CLASS);
        response
    }

    fn bytes(bytes: u64) -> Load {
        Load { frames: 1, bytes: Bytes(bytes) }
    }

    #[test]
    fn peer_is_at_fault_just_beyond_byte_or_time_limit() {
        let mut response = response();
        response.xoff_sent(Nanos(100), CLASS, Nanos(100));
        let in_time = response.judge(Nanos(8_100), CLASS, bytes(1_000), None);
        assert_eq!(in_time, Judgement { received: Bytes(1_000), after: Some(Nanos(8_000)), fault: None });
        let mut other = response.clone();
        assert_eq!(other.judge(Nanos(8_100), CLASS, bytes(1), None).fault, Some(Fault::TooMuch));
        assert_eq!(response.judge(Nanos(8_101), CLASS, bytes(1), None).fault, Some(Fault::TooLate));
    }

    #[test]
    fn peer_that_got_no_xoff_is_not_at_fault() {
        let mut response = response();
        let unnotified = response.judge(Nanos(9_000), CLASS, bytes(5_000), None);
        assert_eq!(unnotified, Judgement { received: Bytes(5_000), after: None, fault: None });
        response.xoff_sent(Nanos(9_000), CLASS, Nanos(0)); // this switch sent XOFF far too late
        assert_eq!(response.judge(Nanos(9_001), CLASS, bytes(1_000), None).fault, None);
        response.forget_xoffs();
        assert_eq!(response.judge(Nanos(99_000), CLASS, bytes(9_000), None).fault, None);
    }

    #[test]
    fn peer_is_not_blamed_after_stall_of_this_switch() {
        let mut response = response();
        response.xoff_sent(Nanos(0), CLASS, Nanos(0));
        let back = Nanos(100_000);
        let fault =
            |response: &mut Response, at| response.judge(Nanos(at), CLASS, bytes(2_000), Some(back)).fault;
        assert_eq!(fault(&mut response, 100_000), None);
        assert_eq!(fault(&mut response, 108_000), None);
        assert_eq!(fault(&mut response, 108_001), Some(Fault::TooLate));
    }

    #[test]
    fn peer_without_declared_limits_is_not_blamed() {
        let mut response = response();
        response.xoff_sent(Nanos(0), CLASS, Nanos(0));
        response.judge(Nanos(1), CLASS, bytes(1_000), None);
        response.held(CLASS);
        response.xoff_sent(Nanos(10), CLASS, Nanos(10));
        assert_eq!(response.judge(Nanos(11), CLASS, bytes(1_000), None).fault, None);
        let mut any = Response::new(&port_settings(0));
        any.held(CLASS);
        any.xoff_sent(Nanos(0), CLASS, Nanos(0));
        assert_eq!(any.judge(Nanos::from_secs(9), CLASS, bytes(1 << 40), None).fault, None);
    }
}
