//! Receive half of PFC (802.1Q 36.1.3.3, PFC indication): classes that the peer pauses at this switch.

use xoff_wire::units::{BitRate, CLASSES, Class, ClassSet, Nanos, Quanta};

/// Classes that the peer pauses, each with its expiry. A new pause time replaces the old one; zero resumes the class.
#[derive(Clone, Debug)]
pub struct Paused {
    rate: BitRate,
    classes: ClassSet,
    defied: ClassSet,
    blocked: ClassSet,
    next_expiry: Nanos,
    /// Boxed to keep this struct small.
    times: Box<[Times; CLASSES]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    since: Nanos,
    until: Nanos,
    ended: Nanos,
    total: Nanos,
}

/// Classes that resume, with the durations of their pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Resumed {
    pub classes: ClassSet,
    /// Durations (ns) of the ended pauses; zero for other classes.
    pub paused_for: [Nanos; CLASSES],
}

impl Paused {
    /// Creates the state of a port with this line rate, without pauses.
    #[must_use]
    pub fn new(rate: BitRate) -> Paused {
        Paused {
            rate,
            classes: ClassSet::NONE,
            defied: ClassSet::NONE,
            blocked: ClassSet::NONE,
            next_expiry: Nanos::NEVER,
            times: Box::default(),
        }
    }

    /// Changes the line rate, which determines the length of a pause quantum.
    pub fn set_rate(&mut self, rate: BitRate) {
        self.rate = rate;
    }

    /// Obeys a pause frame of the peer; returns the classes that resume.
    pub fn receive(&mut self, now: Nanos, classes: ClassSet, times: &[Quanta; CLASSES]) -> Resumed {
        let mut resumed = self.expire(now);
        for class in classes.iter() {
            let time = times[class.index()];
            if time == Quanta(0) {
                self.resume(now, class, &mut resumed);
                continue;
            }
            if !self.classes.contains(class) {
                self.classes.insert(class);
                self.times[class.index()].since = now;
            }
            self.times[class.index()].until = now.after(self.rate.time_of_quanta(time));
        }
        self.settle();
        resumed
    }

    /// Resumes classes with expired pauses.
    #[inline]
    pub fn expire(&mut self, now: Nanos) -> Resumed {
        let mut resumed = Resumed::default();
        if now < self.next_expiry {
            return resumed;
        }
        for class in self.classes.iter() {
            let until = self.times[class.index()].until;
            if until <= now {
                self.resume(until, class, &mut resumed);
            }
        }
        self.settle();
        resumed
    }

    /// Returns classes paused by the peer. Call [`Paused::expire`] first.
    #[inline]
    #[must_use]
    pub const fn classes(&self) -> ClassSet {
        self.classes
    }

    /// Returns the paused classes that must not send: those that do not [defy](Paused::defy) their pause. Call
    /// [`Paused::expire`] first.
    #[inline]
    #[must_use]
    pub const fn blocked(&self) -> ClassSet {
        self.blocked
    }

    /// Allows `class` to send despite a pause (`defy`), or forbids it again.
    pub fn defy(&mut self, class: Class, defy: bool) {
        if defy {
            self.defied.insert(class);
        } else {
            self.defied.remove(class);
        }
        self.settle();
    }

    /// Returns the start of `class`'s current pause.
    #[must_use]
    pub fn since(&self, class: Class) -> Option<Nanos> {
        self.classes.contains(class).then(|| self.times[class.index()].since)
    }

    /// Returns the expiry of `class`'s current pause.
    #[must_use]
    pub fn until(&self, class: Class) -> Option<Nanos> {
        self.classes.contains(class).then(|| self.times[class.index()].until)
    }

    /// Returns the end of `class`'s last finished pause, or zero.
    #[must_use]
    pub fn ended(&self, class: Class) -> Nanos {
        self.times[class.index()].ended
    }

    /// Returns how long `class` was paused in total until `now`. Call [`Paused::expire`] first.
    #[must_use]
    pub fn total(&self, now: Nanos, class: Class) -> Nanos {
        self.times[class.index()].total + self.since(class).map_or(Nanos::ZERO, |since| now.since(since))
    }

    /// Returns when the next pause expires.
    #[inline]
    #[must_use]
    pub const fn next_expiry(&self) -> Nanos {
        self.next_expiry
    }

    fn resume(&mut self, at: Nanos, class: Class, resumed: &mut Resumed) {
        if self.classes.contains(class) {
            self.classes.remove(class);
            let times = &mut self.times[class.index()];
            let paused_for = at.since(times.since);
            times.ended = at;
            times.total += paused_for;
            resumed.classes.insert(class);
            resumed.paused_for[class.index()] += paused_for;
        }
    }

    fn settle(&mut self) {
        self.blocked = ClassSet(self.classes.0 & !self.defied.0);
        self.next_expiry =
            self.classes.iter().map(|class| self.times[class.index()].until).min().unwrap_or(Nanos::NEVER);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_wire::units::MacAddr;
    use xoff_wire::{Header, MacControl, Pfc};

    use super::*;

    const C3: ClassSet = ClassSet(1 << 3);

    fn class(n: u8) -> Class {
        Class::new(n).unwrap()
    }

    fn times(quanta: u16) -> [Quanta; CLASSES] {
        [Quanta(quanta); CLASSES]
    }

    fn gigabit() -> Paused {
        Paused::new(BitRate::from_gbps(1)) // a quantum is 512 ns
    }

    #[test]
    fn pause_expires_exactly_after_its_quanta() {
        for quanta in [1_u16, 10, 100, 1000, 65535] {
            let mut paused = gigabit();
            paused.receive(Nanos(7), C3, &times(quanta));
            let end = Nanos(7 + u64::from(quanta) * 512);
            assert_eq!(paused.next_expiry(), end);
            assert_eq!(paused.expire(Nanos(end.0 - 1)), Resumed::default());
            assert_eq!(paused.classes(), C3);
            let resumed = paused.expire(end);
            assert_eq!(resumed.classes, C3);
            assert_eq!(resumed.paused_for[3], Nanos(u64::from(quanta) * 512));
            assert_eq!(paused.classes(), ClassSet::NONE);
            assert_eq!(paused.next_expiry(), Nanos::NEVER);
        }
    }

    #[test]
    fn zero_quanta_resume_at_once() {
        let mut paused = gigabit();
        paused.receive(Nanos(0), C3, &times(65535));
        let resumed = paused.receive(Nanos(100), C3, &times(0));
        assert_eq!((resumed.classes, resumed.paused_for[3]), (C3, Nanos(100)));
        assert_eq!(paused.classes(), ClassSet::NONE);
    }

    #[test]
    fn later_pause_time_replaces_earlier_one() {
        for (first, last) in [(100, 20), (20, 100)] {
            let mut paused = gigabit();
            paused.receive(Nanos(0), C3, &times(first));
            paused.receive(Nanos(512), C3, &times(last));
            assert_eq!(paused.next_expiry(), Nanos(512 + u64::from(last) * 512));
            assert_eq!(
                paused.since(class(3)),
                Some(Nanos(0)),
                "a new time for a paused class must not begin another pause"
            );
        }
    }

    #[test]
    fn zero_quanta_for_unpaused_class_are_ignored() {
        let mut paused = gigabit();
        assert_eq!(paused.receive(Nanos(5), ClassSet::ALL, &times(0)), Resumed::default());
    }

    #[test]
    fn pauses_of_eight_classes_expire_independently() {
        let mut paused = gigabit();
        let times = std::array::from_fn(|n| Quanta(10 * (u16::try_from(n).unwrap() + 1)));
        paused.receive(Nanos(0), ClassSet::ALL, &times);
        for n in 0..8_u8 {
            let end = u64::from(n + 1) * 5120;
            assert_eq!(paused.expire(Nanos(end - 1)).classes, ClassSet::NONE);
            assert_eq!(paused.expire(Nanos(end)).classes, [class(n)].into_iter().collect());
        }
    }

    #[test]
    fn pause_frame_after_expiry_begins_another_pause() {
        let mut paused = gigabit();
        paused.receive(Nanos(0), C3, &times(10));
        let resumed = paused.receive(Nanos(1_000_000), C3, &times(10));
        assert_eq!((resumed.classes, resumed.paused_for[3]), (C3, Nanos(5120)));
        assert_eq!(paused.since(class(3)), Some(Nanos(1_000_000)));
        assert_eq!(paused.ended(class(3)), Nanos(5120));
    }

    #[test]
    fn class_that_defies_a_pause_sends_but_stays_paused() {
        let mut paused = gigabit();
        paused.receive(Nanos(0), ClassSet(0b1_1000), &times(10));
        paused.defy(class(3), true);
        assert_eq!((paused.classes(), paused.blocked()), (ClassSet(0b1_1000), ClassSet(0b1_0000)));
        paused.receive(Nanos(5), C3, &times(20));
        assert_eq!(
            paused.blocked(),
            ClassSet(0b1_0000),
            "a refresh must not block a class that defies pauses"
        );
        assert_eq!(paused.expire(Nanos(5120)).classes, ClassSet(0b1_0000));
        paused.defy(class(3), false);
        assert_eq!(paused.blocked(), C3);
    }

    /// Checks steps 3, 4 and 14 of the article on DSCP-based PFC (docs/reproduction.md), at 400 Gb/s. The article
    /// writes the class-enable vector 0000 1000 as "CEV 0x1000".
    #[test] // proves: pause-timing
    fn pause_time_matches_article_on_dscp_based_pfc() {
        let frame_with = |quanta| {
            let pfc = Pfc::default().with(class(3), Quanta(quanta));
            MacControl::Pfc(pfc).encode(MacAddr([2, 0, 0, 0, 0, 9]))
        };
        let frame = frame_with(0xffff);
        assert_eq!(frame[12..16], [0x88, 0x08, 0x01, 0x01], "EtherType and opcode must be those of PFC");
        assert_eq!(frame[16..18], [0, 0b0000_1000], "the class-enable vector must name class 3 alone");
        assert_eq!(frame[24..26], [0xff, 0xff], "class 3 must have the maximum quanta");

        let rate = BitRate::from_gbps(400);
        assert_eq!(512 * 10_u64.pow(12) / rate.bits_per_second(), 1280, "a quantum must be 1,280 ps");
        let mut spine = Paused::new(rate);
        let mut obey = |now, bytes: &[u8]| {
            let header = Header::parse(bytes).unwrap();
            let Ok(MacControl::Pfc(pfc)) = MacControl::parse(&header, bytes) else {
                panic!("a PFC frame must be parsed as `Pfc`")
            };
            spine.receive(Nanos(now), pfc.classes, &pfc.times);
            (spine.classes(), spine.next_expiry())
        };
        let (paused, until) = obey(0, &frame);
        assert_eq!(paused, ClassSet(1 << 3), "the frame must pause class 3 alone");
        assert_eq!(until, Nanos(83_885), "the pause must last about 83.9 us");
        let (paused, until) = obey(50_000, &frame_with(0));
        assert_eq!((paused, until), (ClassSet::NONE, Nanos::NEVER), "zero quanta must resume the class");
    }
}
