//! XOFFs whose classes have yet to be stopped: how long a host takes to obey is measured from the first of them, however it
//! ends. A class that goes on before its thread had looked was asked to stop all the same; one whose stop the kernel refused is
//! not stopped; and one that the guard opened meanwhile has to be stopped again.

use xoff_dataplane::units::{CLASSES, Class, ClassSet, Nanos};

#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// When the first XOFF came that is not answered, or else the first of the last batch.
    at: [Nanos; CLASSES],
    unanswered: ClassSet,
    batch: ClassSet,
}

impl Asked {
    /// All that has come is about to be read.
    pub(crate) const fn begin(&mut self) {
        self.batch = ClassSet::NONE;
    }

    /// An XOFF came; the queue is `stopped` already or is not.
    pub(crate) fn xoff(&mut self, came: Nanos, class: Class, stopped: bool) {
        if !self.unanswered.contains(class) && !self.batch.contains(class) {
            self.at[class.index()] = came;
        }
        self.batch.insert(class);
        if !stopped {
            self.unanswered.insert(class);
        }
    }

    /// The queue of a class that is to be stopped was opened by somebody else.
    pub(crate) const fn opened(&mut self, class: Class) {
        self.unanswered.insert(class);
    }

    /// The queue is stopped at `now`; how long that took.
    pub(crate) fn stopped(&mut self, now: Nanos, class: Class) -> Option<Nanos> {
        let asked = self.unanswered.contains(class);
        self.unanswered.remove(class);
        asked.then(|| now.since(self.at[class.index()]))
    }

    /// All is done at `now`, and these are still to be stopped; how long each of the others took to be looked at.
    pub(crate) fn let_go(&mut self, now: Nanos, paused: ClassSet) -> impl Iterator<Item = Nanos> + use<> {
        let over = ClassSet(self.unanswered.0 & !paused.0);
        self.unanswered = ClassSet(self.unanswered.0 & paused.0);
        let at = self.at;
        over.iter().map(move |class| now.since(at[class.index()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const C3: Class = Class::ALL[3];
    const PAUSED: ClassSet = ClassSet(1 << 3);

    fn let_go(asked: &mut Asked, now: u64, paused: ClassSet) -> Vec<Nanos> {
        asked.let_go(Nanos(now), paused).collect()
    }

    #[test]
    fn from_the_first_xoff_to_the_stopped_queue() {
        let mut asked = Asked::default();
        asked.begin();
        asked.xoff(Nanos(10), C3, false);
        asked.xoff(Nanos(20), C3, false);
        assert_eq!(asked.stopped(Nanos(50), C3), Some(Nanos(40)));
        assert_eq!(let_go(&mut asked, 60, PAUSED), []);
        asked.begin();
        asked.xoff(Nanos(70), C3, true); // a refresh
        assert_eq!(let_go(&mut asked, 80, ClassSet::NONE), []);
    }

    #[test]
    fn what_is_let_go_before_it_was_looked_at_took_so_long_at_least() {
        let mut asked = Asked::default();
        asked.begin();
        asked.xoff(Nanos(10), C3, false);
        assert_eq!(let_go(&mut asked, 5_000, ClassSet::NONE), [Nanos(4_990)]);
        assert_eq!(let_go(&mut asked, 6_000, ClassSet::NONE), []);
    }

    #[test]
    fn a_stop_that_was_refused_or_undone_counts_until_it_is_done() {
        let mut asked = Asked::default();
        asked.begin();
        asked.xoff(Nanos(10), C3, false);
        assert_eq!(let_go(&mut asked, 20, PAUSED), [], "refused");
        asked.begin();
        asked.xoff(Nanos(30), C3, false);
        assert_eq!(asked.stopped(Nanos(50), C3), Some(Nanos(40)));
        asked.begin();
        asked.xoff(Nanos(100), C3, true);
        asked.opened(C3);
        assert_eq!(asked.stopped(Nanos(190), C3), Some(Nanos(90)));
    }
}
