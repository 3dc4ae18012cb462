//! Response times, from the first XOFF until the class is stopped. If the pause ends before the stop, the response time ends when the agent
//! notices the end of the pause.

use xoff_wire::units::{CLASSES, Class, ClassSet, Nanos};

#[derive(Debug, Default)]
pub(crate) struct PendingStops {
    /// Arrival time, by class, of the first XOFF that no stop has followed. For a stopped class: of the first XOFF in its last batch of
    /// frames. If the guard process starts that class, the response time begins there.
    at: [Nanos; CLASSES],
    unanswered: ClassSet,
    batch: ClassSet,
}

impl PendingStops {
    pub(crate) const fn begin(&mut self) {
        self.batch = ClassSet::NONE;
    }

    pub(crate) fn xoff(&mut self, came: Nanos, class: Class, stopped: bool) {
        if !self.unanswered.contains(class) && !self.batch.contains(class) {
            self.at[class.index()] = came;
        }
        self.batch.insert(class);
        if !stopped {
            self.unanswered.insert(class);
        }
    }

    pub(crate) const fn opened(&mut self, class: Class) {
        self.unanswered.insert(class);
    }

    pub(crate) fn stopped(&mut self, now: Nanos, class: Class) -> Option<Nanos> {
        let pending = self.unanswered.contains(class);
        self.unanswered.remove(class);
        pending.then(|| now.since(self.at[class.index()]))
    }

    pub(crate) fn resumed(&mut self, now: Nanos, paused: ClassSet) -> impl Iterator<Item = Nanos> + use<> {
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

    fn resumed(pending: &mut PendingStops, now: u64, paused: ClassSet) -> Vec<Nanos> {
        pending.resumed(Nanos(now), paused).collect()
    }

    #[test]
    fn response_time_lasts_from_first_xoff_to_stop_of_class() {
        let mut pending = PendingStops::default();
        pending.begin();
        pending.xoff(Nanos(10), C3, false);
        pending.xoff(Nanos(20), C3, false);
        assert_eq!(pending.stopped(Nanos(50), C3), Some(Nanos(40)));
        assert_eq!(resumed(&mut pending, 60, PAUSED), []);
        pending.begin();
        pending.xoff(Nanos(70), C3, true); // the XOFF refreshes a pause
        assert_eq!(resumed(&mut pending, 80, ClassSet::NONE), []);
    }

    #[test] // proves: host-service
    fn response_time_of_resumed_class_lasts_until_xoff_is_read() {
        let mut pending = PendingStops::default();
        pending.begin();
        pending.xoff(Nanos(10), C3, false);
        assert_eq!(resumed(&mut pending, 5_000, ClassSet::NONE), [Nanos(4_990)]);
        assert_eq!(resumed(&mut pending, 6_000, ClassSet::NONE), []);
    }

    #[test] // proves: host-service
    fn response_time_lasts_until_refused_stop_of_class_succeeds() {
        let mut pending = PendingStops::default();
        pending.begin();
        pending.xoff(Nanos(10), C3, false);
        assert_eq!(
            resumed(&mut pending, 20, PAUSED),
            [],
            "a stop that the kernel refused must not count as done"
        );
        pending.begin();
        pending.xoff(Nanos(30), C3, false);
        assert_eq!(pending.stopped(Nanos(50), C3), Some(Nanos(40)));
        pending.begin();
        pending.xoff(Nanos(100), C3, true);
        pending.opened(C3);
        assert_eq!(pending.stopped(Nanos(190), C3), Some(Nanos(90)));
    }
}
