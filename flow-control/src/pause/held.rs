//! Transmit half of PFC (802.1Q 36.1.3.1, PFC request): classes that this switch pauses at its peer.

use xoff_wire::units::{CLASSES, Class, ClassSet, Nanos};

/// Classes that this switch pauses at the peer, and those that its last pause frame paused.
#[derive(Clone, Debug)]
pub struct Held {
    wanted: ClassSet,
    announced: ClassSet,
    /// Classes that the peer may treat as paused because of earlier frames, such as pauses of flows.
    suspected: ClassSet,
    /// Boxed to keep this struct small.
    since: Box<[Nanos; CLASSES]>,
    refresh: Nanos,
    next_refresh: Nanos,
    refresh_due: bool,
}

/// Content of one pause frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Announcement {
    pub xoff: ClassSet,
    pub xon: ClassSet,
    pub refreshed: ClassSet,
}

impl Announcement {
    /// Returns the class-enable vector of the pause frame: all classes that it pauses or resumes.
    #[must_use]
    pub const fn vector(&self) -> ClassSet {
        ClassSet(self.xoff.0 | self.xon.0 | self.refreshed.0)
    }
}

impl Held {
    /// Creates a state without pauses; `refresh` is the interval at which pauses are repeated.
    #[must_use]
    pub fn new(refresh: Nanos) -> Held {
        Held {
            wanted: ClassSet::NONE,
            announced: ClassSet::NONE,
            suspected: ClassSet::NONE,
            since: Box::new([Nanos::ZERO; CLASSES]),
            refresh,
            next_refresh: Nanos::NEVER,
            refresh_due: false,
        }
    }

    /// Changes the interval at which pauses are refreshed.
    pub fn set_refresh(&mut self, now: Nanos, refresh: Nanos) {
        self.refresh = refresh;
        if self.next_refresh != Nanos::NEVER {
            self.next_refresh = self.next_refresh.min(now.after(refresh));
        }
    }

    /// Pauses `class`; returns false if it was paused already.
    pub fn xoff(&mut self, now: Nanos, class: Class) -> bool {
        let changed = !self.wanted.contains(class);
        if changed {
            self.wanted.insert(class);
            self.since[class.index()] = now;
        }
        changed
    }

    /// Ends the pause of `class`; returns how long the pause lasted.
    pub fn xon(&mut self, now: Nanos, class: Class) -> Option<Nanos> {
        self.wanted.contains(class).then(|| {
            self.wanted.remove(class);
            now.since(self.since[class.index()])
        })
    }

    /// Forgets the last pause frame after a link loss. Returns classes that the peer may still treat as paused.
    pub fn forget_announced(&mut self) -> ClassSet {
        let announced = ClassSet(self.announced.0 | self.suspected.0);
        self.announced = ClassSet::NONE;
        self.suspected = ClassSet::NONE;
        self.refresh_due = false;
        self.next_refresh = Nanos::NEVER;
        announced
    }

    /// Schedules an XON for `class`, which the peer may treat as paused. No XON is sent while this switch pauses the
    /// class.
    pub fn suspect(&mut self, class: Class) {
        self.suspected.insert(class);
    }

    /// Returns classes that this switch pauses at the peer.
    #[must_use]
    pub const fn classes(&self) -> ClassSet {
        self.wanted
    }

    /// Returns the start of `class`'s current pause.
    #[must_use]
    pub fn since(&self, class: Class) -> Option<Nanos> {
        self.wanted.contains(class).then(|| self.since[class.index()])
    }

    /// Returns whether a pause frame is due.
    #[inline]
    #[must_use]
    pub const fn due(&self) -> bool {
        self.wanted.0 != self.announced.0 || self.suspected.0 & !self.wanted.0 != 0 || self.refresh_due
    }

    /// Advances the time to `now`; refreshes of pauses may fall due.
    #[inline]
    pub fn advance(&mut self, now: Nanos) {
        if now >= self.next_refresh {
            self.refresh_due = !self.announced.is_empty();
            self.next_refresh = Nanos::NEVER;
        }
    }

    /// Returns the pause frame that is due, if any. It names all paused classes, so that they share one refresh timer.
    pub fn announce(&mut self, now: Nanos) -> Option<Announcement> {
        if !self.due() {
            return None;
        }
        let (wanted, announced) = (self.wanted.0, self.announced.0);
        let announcement = Announcement {
            xoff: ClassSet(wanted & !announced),
            xon: ClassSet((announced | self.suspected.0) & !wanted),
            refreshed: ClassSet(wanted & announced),
        };
        self.announced = self.wanted;
        self.suspected = ClassSet::NONE;
        self.refresh_due = false;
        self.next_refresh = if self.wanted.is_empty() { Nanos::NEVER } else { now.after(self.refresh) };
        Some(announcement)
    }

    /// Returns when a pause is refreshed next.
    #[inline]
    #[must_use]
    pub const fn next_refresh(&self) -> Nanos {
        self.next_refresh
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn class(n: u8) -> Class {
        Class::new(n).unwrap()
    }

    fn set(classes: &[u8]) -> ClassSet {
        classes.iter().map(|&n| class(n)).collect()
    }

    #[test] // proves: pause-frames
    fn pause_frame_carries_changed_and_paused_classes() {
        let mut held = Held::new(Nanos(100));
        assert!(held.xoff(Nanos(0), class(3)));
        assert!(!held.xoff(Nanos(1), class(3)), "a second XOFF must not count as a new pause");
        let first = held.announce(Nanos(1)).unwrap();
        assert_eq!(first, Announcement { xoff: set(&[3]), ..Announcement::default() });
        assert!(!held.due());
        held.xoff(Nanos(10), class(4));
        held.xoff(Nanos(11), class(5));
        assert_eq!(held.xon(Nanos(12), class(5)), Some(Nanos(1)));
        let second = held.announce(Nanos(12)).unwrap();
        assert_eq!(second, Announcement { xoff: set(&[4]), refreshed: set(&[3]), xon: ClassSet::NONE });
        assert_eq!(held.xon(Nanos(50), class(3)), Some(Nanos(50)));
        let third = held.announce(Nanos(50)).unwrap();
        assert_eq!(third, Announcement { xon: set(&[3]), refreshed: set(&[4]), xoff: ClassSet::NONE });
        assert_eq!(third.vector(), set(&[3, 4]));
    }

    #[test] // proves: pause-frames
    fn xon_is_not_sent_without_xoff() {
        let mut held = Held::new(Nanos(100));
        assert_eq!(held.xon(Nanos(0), class(3)), None);
        assert_eq!(held.announce(Nanos(0)), None);
    }

    #[test]
    fn xon_is_sent_for_class_that_peer_may_wrongly_hold_paused() {
        let mut held = Held::new(Nanos(100));
        held.xoff(Nanos(0), class(3));
        held.announce(Nanos(0));
        held.suspect(class(3));
        assert!(!held.due(), "no XON may be due while this switch still pauses the class");
        held.suspect(class(4));
        let announcement = held.announce(Nanos(1)).unwrap();
        assert_eq!(announcement, Announcement { xon: set(&[4]), refreshed: set(&[3]), xoff: ClassSet::NONE });
    }

    #[test]
    fn unsent_pause_ends_with_xon_if_peer_may_hold_class_paused() {
        let mut held = Held::new(Nanos(100));
        held.xoff(Nanos(0), class(3));
        held.suspect(class(3));
        held.xon(Nanos(1), class(3));
        assert_eq!(
            held.announce(Nanos(1)).unwrap().xon,
            set(&[3]),
            "the class that the peer may still hold paused must get an XON"
        );
        assert!(!held.due());
    }

    #[test]
    fn xoff_is_sent_even_if_peer_may_still_hold_class_paused() {
        let mut held = Held::new(Nanos(100));
        held.suspect(class(3));
        held.xoff(Nanos(0), class(3));
        let announcement = held.announce(Nanos(0)).unwrap();
        assert_eq!(announcement, Announcement { xoff: set(&[3]), ..Announcement::default() });
        assert_eq!(held.next_refresh(), Nanos(100));
    }

    #[test]
    fn after_link_loss_only_current_pauses_are_sent_again() {
        let mut held = Held::new(Nanos(100));
        held.xoff(Nanos(0), class(3));
        held.xoff(Nanos(0), class(4));
        held.announce(Nanos(0));
        assert_eq!(held.forget_announced(), set(&[3, 4]));
        assert_eq!(held.next_refresh(), Nanos::NEVER);
        held.xon(Nanos(10), class(4));
        let anew = held.announce(Nanos(20)).unwrap();
        assert_eq!(anew, Announcement { xoff: set(&[3]), ..Announcement::default() });
        assert_eq!(held.since(class(3)), Some(Nanos(0)), "link loss must not move the start of the pause");
    }

    #[test]
    fn paused_class_is_refreshed_until_xon() {
        let mut held = Held::new(Nanos(100));
        held.xoff(Nanos(0), class(3));
        held.announce(Nanos(5));
        assert_eq!(held.next_refresh(), Nanos(105));
        held.advance(Nanos(104));
        assert!(!held.due());
        held.advance(Nanos(105));
        assert_eq!(held.announce(Nanos(106)).unwrap().refreshed, set(&[3]));
        assert_eq!(held.next_refresh(), Nanos(206));
        held.xon(Nanos(150), class(3));
        held.announce(Nanos(150));
        assert_eq!(held.next_refresh(), Nanos::NEVER);
        held.advance(Nanos(1000));
        assert!(!held.due());
    }
}
