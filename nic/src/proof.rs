//! Times in which paused classes may have sent, because another program changed the queues. If the kernel did not announce a change, the
//! time counts from the last check, because the change may have followed the check at once.

use xoff_wire::units::{CLASSES, ClassSet, Nanos};

pub(crate) type Paused = [Nanos; CLASSES];

#[derive(Debug, Default)]
pub(crate) struct Proof {
    whole: Paused,
    last_unchanged: Paused,
}

impl Proof {
    pub(crate) const fn unchanged(&mut self, paused: Paused) {
        self.last_unchanged = paused;
    }

    pub(crate) const fn whole(&mut self, paused: Paused) {
        (self.whole, self.last_unchanged) = (paused, paused);
    }

    pub(crate) fn broken(&mut self, reach: ClassSet, announced: bool, paused: Paused) -> Paused {
        let since = if announced { self.last_unchanged } else { self.whole };
        let mut times = Paused::default();
        for class in reach.iter() {
            let index = class.index();
            times[index] = paused[index].since(since[index]);
        }
        self.whole(paused);
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const C3: usize = 3;

    fn paused(nanos: u64) -> Paused {
        let mut paused = Paused::default();
        (paused[C3], paused[4]) = (Nanos(nanos), Nanos(nanos));
        paused
    }

    #[test] // proves: host-guard
    fn pause_may_be_broken_from_last_poll_to_announced_change() {
        let mut proof = Proof::default();
        proof.whole(paused(100));
        proof.unchanged(paused(300));
        let times = proof.broken(ClassSet(1 << C3), true, paused(450));
        assert_eq!(
            (times[C3], times[4]),
            (Nanos(150), Nanos::ZERO),
            "class 4, whose queue the defect does not affect, must not count as unpaused"
        );
        assert_eq!(
            proof.broken(ClassSet::ALL, true, paused(450))[C3],
            Nanos::ZERO,
            "time in which the class was not paused must not count as a broken pause"
        );
    }

    #[test] // proves: host-guard
    fn pause_may_be_broken_from_last_check_to_unannounced_change() {
        let mut proof = Proof::default();
        proof.whole(paused(100));
        proof.unchanged(paused(300));
        assert_eq!(proof.broken(ClassSet::ALL, false, paused(450))[C3], Nanos(350));
    }
}
