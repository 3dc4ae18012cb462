//! Class rates (GFC): those that this switch requests from its peer ([`RequestedRates`]), and those that the peer
//! requests ([`KeptRates`]).
//!
//! As in PFC, a change is sent at once, the latest value applies, and limits expire unless refreshed.

use xoff_wire::Rates;
use xoff_wire::units::{BitRate, CLASSES, Class, ClassSet, Nanos, Quanta, RateStep};

/// For each class, the rate step requested from the peer, and the one last sent.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct RequestedRates {
    /// True if a rate frame is due. Must be the first field: it is the only one read per forwarded frame.
    due: bool,
    refresh_due: bool,
    wanted: [RateStep; CLASSES],
    announced: [RateStep; CLASSES],
    refresh: Nanos,
    next_refresh: Nanos,
}

impl RequestedRates {
    /// Creates a state without rate limits.
    #[must_use]
    pub fn new(refresh: Nanos) -> RequestedRates {
        let full = [RateStep::FULL; CLASSES];
        RequestedRates {
            wanted: full,
            announced: full,
            refresh,
            next_refresh: Nanos::NEVER,
            refresh_due: false,
            due: false,
        }
    }

    /// Changes the interval at which rate limits are refreshed.
    pub fn set_refresh(&mut self, now: Nanos, refresh: Nanos) {
        self.refresh = refresh;
        if self.next_refresh != Nanos::NEVER {
            self.next_refresh = self.next_refresh.min(now.after(refresh));
        }
    }

    /// Sets the rate step to request from the peer for `class`.
    pub fn set(&mut self, class: Class, step: RateStep) {
        self.wanted[class.index()] = step;
        self.due = self.wanted != self.announced || self.refresh_due;
    }

    /// Returns the rate step that this switch requests from the peer for `class`.
    #[must_use]
    pub const fn step(&self, class: Class) -> RateStep {
        self.wanted[class.index()]
    }

    /// Returns whether a rate frame is due.
    #[inline]
    #[must_use]
    pub const fn due(&self) -> bool {
        self.due
    }

    /// Advances the time to `now`; refreshes of limits may fall due.
    #[inline]
    pub fn advance(&mut self, now: Nanos) {
        if now >= self.next_refresh {
            (self.due, self.refresh_due) = (true, true);
            self.next_refresh = Nanos::NEVER;
        }
    }

    /// Returns a rate frame with all current limits, and full rate for limits that end.
    pub fn announce(&mut self, now: Nanos, time: Quanta) -> Rates {
        let limited = |class: &Class| {
            self.wanted[class.index()] != RateStep::FULL || self.announced[class.index()] != RateStep::FULL
        };
        let rates = Rates { time, ..Rates::default() };
        let named = Class::ALL.into_iter().filter(limited);
        let rates = named.fold(rates, |rates, class| rates.with(class, self.wanted[class.index()]));
        self.announced = self.wanted;
        (self.due, self.refresh_due) = (false, false);
        let holds = self.wanted.iter().any(|&step| step != RateStep::FULL);
        self.next_refresh = if holds { now.after(self.refresh) } else { Nanos::NEVER };
        rates
    }

    /// Forgets all rates sent to the peer, because the peer forgets them at a link loss.
    pub fn forget_announced(&mut self) {
        self.announced = [RateStep::FULL; CLASSES];
        self.refresh_due = false;
        self.due = self.wanted != self.announced;
        self.next_refresh = Nanos::NEVER;
    }

    /// Returns when a rate limit is refreshed next.
    #[inline]
    #[must_use]
    pub const fn next_refresh(&self) -> Nanos {
        self.next_refresh
    }
}

/// Rate steps that the peer requests and this switch obeys, with their expiry.
#[derive(Clone, Debug)]
pub struct KeptRates {
    line: BitRate,
    steps: [RateStep; CLASSES],
    until: Box<[Nanos; CLASSES]>,
    next_expiry: Nanos,
}

impl KeptRates {
    /// Creates the state of a port with this line rate, without limits.
    #[must_use]
    pub fn new(line: BitRate) -> KeptRates {
        KeptRates {
            line,
            steps: [RateStep::FULL; CLASSES],
            until: Box::new([Nanos::ZERO; CLASSES]),
            next_expiry: Nanos::NEVER,
        }
    }

    /// Changes the line rate, which determines the length of a pause quantum.
    pub fn set_line(&mut self, line: BitRate) {
        self.line = line;
    }

    /// Obeys a rate frame for `classes`. Returns the classes whose step may have changed.
    pub fn receive(&mut self, now: Nanos, classes: ClassSet, rates: &Rates) -> ClassSet {
        let changed = self.expire(now);
        let named = ClassSet(classes.0 & rates.classes.0);
        for class in named.iter() {
            let ends = rates.time == Quanta(0);
            self.steps[class.index()] = if ends { RateStep::FULL } else { rates.steps[class.index()] };
            self.until[class.index()] = now.after(self.line.time_of_quanta(rates.time));
        }
        self.find_next_expiry();
        ClassSet(changed.0 | named.0)
    }

    /// Ends expired rate limits; returns their classes.
    #[inline]
    pub fn expire(&mut self, now: Nanos) -> ClassSet {
        if now < self.next_expiry {
            return ClassSet::NONE;
        }
        let over =
            |class: &Class| self.steps[class.index()] != RateStep::FULL && self.until[class.index()] <= now;
        let over: ClassSet = Class::ALL.into_iter().filter(over).collect();
        over.iter().for_each(|class| self.steps[class.index()] = RateStep::FULL);
        self.find_next_expiry();
        over
    }

    /// Returns the rate step that this switch obeys for `class`.
    #[must_use]
    pub const fn step(&self, class: Class) -> RateStep {
        self.steps[class.index()]
    }

    /// Returns the rate limit that this switch obeys for `class`.
    #[must_use]
    pub fn rate(&self, class: Class) -> Option<BitRate> {
        let step = self.step(class);
        (step != RateStep::FULL).then(|| step.of(self.line))
    }

    /// Returns when the next rate limit expires.
    #[inline]
    #[must_use]
    pub const fn next_expiry(&self) -> Nanos {
        self.next_expiry
    }

    fn find_next_expiry(&mut self) {
        let limited = Class::ALL.into_iter().filter(|class| self.step(*class) != RateStep::FULL);
        self.next_expiry = limited.map(|class| self.until[class.index()]).min().unwrap_or(Nanos::NEVER);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const C3: Class = Class::ALL[3];
    const C4: Class = Class::ALL[4];

    fn step(k: u8) -> RateStep {
        RateStep::new(k).unwrap()
    }

    #[test]
    fn rate_change_is_sent_with_all_limits() {
        let mut rates = RequestedRates::new(Nanos(100));
        rates.set(C3, step(1));
        assert!(rates.due());
        let first = rates.announce(Nanos(0), Quanta(9));
        assert_eq!(first, Rates { time: Quanta(9), ..Rates::default() }.with(C3, step(1)));
        rates.set(C3, step(1));
        assert!(!rates.due(), "no rate frame may be due unless a rate changed");
        rates.set(C4, step(2));
        assert_eq!(rates.announce(Nanos(10), Quanta(9)), first.with(C4, step(2)));
        rates.set(C3, RateStep::FULL);
        let third = rates.announce(Nanos(20), Quanta(9));
        assert_eq!((third.classes, third.steps[3]), (ClassSet(0b1_1000), RateStep::FULL));
        rates.set(C4, RateStep::FULL);
        assert_eq!(rates.announce(Nanos(30), Quanta(9)).classes, ClassSet(0b1_0000));
        assert_eq!(rates.next_refresh(), Nanos::NEVER);
    }

    #[test]
    fn rate_limit_is_refreshed_and_is_resent_after_link_flap() {
        let mut rates = RequestedRates::new(Nanos(100));
        rates.set(C3, step(1));
        rates.announce(Nanos(5), Quanta(9));
        rates.advance(Nanos(104));
        assert!(!rates.due());
        rates.advance(Nanos(105));
        assert!(rates.due());
        assert_eq!(rates.announce(Nanos(106), Quanta(9)).steps[3], step(1));
        rates.forget_announced();
        assert!(rates.due());
    }

    #[test]
    fn rate_refresh_stays_due_when_change_is_reverted() {
        let mut rates = RequestedRates::new(Nanos(100));
        rates.set(C3, step(1));
        rates.announce(Nanos(0), Quanta(9));
        rates.advance(Nanos(100));
        rates.set(C3, step(2));
        rates.set(C3, step(1));
        assert!(rates.due(), "the due refresh must remain due: otherwise the limit expires at the peer");
        rates.announce(Nanos(101), Quanta(9));
        assert_eq!((rates.due(), rates.next_refresh()), (false, Nanos(201)));
    }

    #[test] // proves: gfc
    fn rate_limit_expires_exactly_after_its_quanta() {
        let mut kept = KeptRates::new(BitRate::from_gbps(1)); // a quantum is 512 ns
        let rates = Rates { time: Quanta(10), ..Rates::default() }.with(C3, step(2)).with(C4, step(1));
        assert_eq!(
            kept.receive(Nanos(0), ClassSet(0b1000), &rates),
            ClassSet(0b1000),
            "class 4 must not count as changed, because its rates are not obeyed"
        );
        assert_eq!(kept.rate(C3), Some(BitRate::from_mbps(250)));
        assert_eq!((kept.rate(C4), kept.next_expiry()), (None, Nanos(5_120)));
        assert_eq!(kept.expire(Nanos(5_119)), ClassSet::NONE);
        assert_eq!(kept.expire(Nanos(5_120)), ClassSet(0b1000));
        assert_eq!((kept.rate(C3), kept.next_expiry()), (None, Nanos::NEVER));
    }

    #[test]
    fn later_rate_frame_replaces_or_ends_limit() {
        let mut kept = KeptRates::new(BitRate::from_gbps(1));
        let say = |k, time| Rates { time: Quanta(time), ..Rates::default() }.with(C3, step(k));
        kept.receive(Nanos(0), ClassSet::ALL, &say(4, 100));
        kept.receive(Nanos(10), ClassSet::ALL, &say(1, 20));
        assert_eq!((kept.step(C3), kept.next_expiry()), (step(1), Nanos(10 + 20 * 512)));
        kept.receive(Nanos(20), ClassSet::ALL, &say(0, 100));
        assert_eq!((kept.step(C3), kept.next_expiry()), (RateStep::FULL, Nanos::NEVER));
        kept.receive(Nanos(30), ClassSet::ALL, &say(3, 0));
        assert_eq!(kept.step(C3), RateStep::FULL);
    }
}
