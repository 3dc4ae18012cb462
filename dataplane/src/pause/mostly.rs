//! Which classes a peer hardly ever lets send.
//!
//! A pause may be as short as it likes and come again as soon as it likes, so that how long one lasts says little.
//! What counts is the part of a window for which a class was paused. Windows follow each other from the
//! first pause on, and end where one went by in which no class was mostly paused, and none is paused at its end.

use super::Paused;
use crate::units::{CLASSES, Class, ClassSet, Nanos};

/// How long a window is.
pub(crate) const WINDOW: Nanos = Nanos::from_millis(10);

/// The classes that were paused for nine tenths of the last window, or for longer.
#[derive(Debug)]
pub(crate) struct MostlyPaused {
    classes: ClassSet,
    /// When the window began; `None` between pauses.
    since: Option<Nanos>,
    /// For how long each class had been paused by then.
    paused_for: [Nanos; CLASSES],
}

impl MostlyPaused {
    /// No class.
    pub(crate) const NONE: MostlyPaused =
        MostlyPaused { classes: ClassSet::NONE, since: None, paused_for: [Nanos::ZERO; CLASSES] };

    /// Those of the last window.
    #[inline]
    pub(crate) const fn classes(&self) -> ClassSet {
        self.classes
    }

    /// When a window ends.
    pub(crate) fn next_look(&self) -> Nanos {
        self.since.map_or(Nanos::NEVER, |since| since.after(WINDOW))
    }

    /// The peer has paused a class, or has let one go.
    pub(crate) fn pauses_changed(&mut self, now: Nanos, paused: &Paused) {
        if self.since.is_none() && !paused.classes().is_empty() {
            self.begin(now, paused);
        }
    }

    /// Ends a window. To be called where one is over; later is as good.
    pub(crate) fn look(&mut self, now: Nanos, paused: &Paused) {
        let Some(since) = self.since else { return };
        let is_mostly_paused = |class: &Class| {
            let of_window = paused.paused_for(now, *class).since(self.paused_for[class.index()]);
            u128::from(of_window.0) * 10 >= u128::from(now.since(since).0) * 9
        };
        self.classes = Class::ALL.into_iter().filter(is_mostly_paused).collect();
        self.since = None;
        if !self.classes.is_empty() || !paused.classes().is_empty() {
            self.begin(now, paused);
        }
    }

    fn begin(&mut self, now: Nanos, paused: &Paused) {
        self.since = Some(now);
        self.paused_for = Class::ALL.map(|class| paused.paused_for(now, class));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{BitRate, Quanta};

    const C3: ClassSet = ClassSet(1 << 3);

    struct Peer {
        now: Nanos,
        paused: Paused,
        mostly: MostlyPaused,
    }

    impl Peer {
        fn new() -> Peer {
            let paused = Paused::new(BitRate::from_mbps(1)); // a quantum is half a millisecond
            Peer { now: Nanos(5), paused, mostly: MostlyPaused::NONE }
        }

        /// The class is paused for so long, or may send for so long.
        fn goes_on(&mut self, time: Quanta, micros: u64) {
            self.paused.receive(self.now, C3, &[time; CLASSES]);
            self.mostly.pauses_changed(self.now, &self.paused);
            let end = self.now.after(Nanos::from_micros(micros));
            while self.mostly.next_look() <= end {
                self.now = self.mostly.next_look();
                self.mostly.look(self.now, &self.paused);
            }
            self.now = end;
        }

        fn is_paused_for(&mut self, micros: u64) {
            self.goes_on(Quanta(0xffff), micros);
        }

        fn may_send_for(&mut self, micros: u64) {
            self.goes_on(Quanta(0), micros);
        }
    }

    #[test]
    fn a_class_is_found_when_its_pause_has_lasted_for_a_window() {
        let mut peer = Peer::new();
        peer.is_paused_for(10_000 - 1);
        assert_eq!(peer.mostly.classes(), ClassSet::NONE);
        peer.is_paused_for(1);
        assert_eq!(peer.mostly.classes(), C3);
        peer.is_paused_for(100_000);
        assert_eq!(peer.mostly.classes(), C3);
        peer.may_send_for(10_000);
        assert_eq!((peer.mostly.classes(), peer.mostly.next_look()), (ClassSet::NONE, Nanos::NEVER));
    }

    #[test]
    fn nine_tenths_are_most_however_many_pauses_they_are() {
        for (pause, gap, found) in
            [(90, 10, C3), (89, 11, ClassSet::NONE), (9_990, 10, C3), (8_999, 1_001, ClassSet::NONE)]
        {
            let mut peer = Peer::new();
            for _ in 0..10 * 10_000 / (pause + gap) {
                peer.is_paused_for(pause);
                peer.may_send_for(gap);
                assert!(found == C3 || peer.mostly.classes() == found, "{pause} of {}", pause + gap);
            }
            assert_eq!(peer.mostly.classes(), found, "{pause} of {}", pause + gap);
        }
    }

    #[test]
    fn a_look_that_comes_late_takes_the_window_as_long_as_it_was() {
        let mut peer = Peer::new();
        peer.is_paused_for(9_000);
        peer.may_send_for(0);
        let look = |after: u64| {
            let mut mostly = MostlyPaused { paused_for: [Nanos::ZERO; CLASSES], ..MostlyPaused::NONE };
            mostly.since = Some(Nanos(5));
            mostly.look(Nanos(5).after(Nanos::from_micros(after)), &peer.paused);
            mostly.classes()
        };
        assert_eq!([look(10_000), look(10_001)], [C3, ClassSet::NONE]);
    }
}
