//! For how long classes may have sent while they were paused, because somebody had changed the queues.
//!
//! The kernel announces changes, so the queues were whole up to the last time that nothing had been announced. A defect that nobody
//! announced may be as old as the last check.

use xoff_dataplane::units::{CLASSES, ClassSet, Nanos};

/// How long each class had been paused in all.
pub(crate) type Paused = [Nanos; CLASSES];

/// Up to when it is certain that what was stopped did not send.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    /// When the queues were found whole.
    whole: Paused,
    /// When no change had been announced since.
    quiet: Paused,
}

impl Proof {
    /// No change has been announced so far.
    pub(crate) const fn quiet(&mut self, paused: Paused) {
        self.quiet = paused;
    }

    /// The queues were whole, and are.
    pub(crate) const fn whole(&mut self, paused: Paused) {
        (self.whole, self.quiet) = (paused, paused);
    }

    /// The frames of these classes may have left until now, and do not any more, or still may: for how long that was in pauses of each.
    pub(crate) fn broken(&mut self, reach: ClassSet, announced: bool, paused: Paused) -> Paused {
        let since = if announced { self.quiet } else { self.whole };
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

    #[test]
    fn announced_defect_counts_since_the_last_quiet() {
        let mut proof = Proof::default();
        proof.whole(paused(100));
        proof.quiet(paused(300));
        let times = proof.broken(ClassSet(1 << C3), true, paused(450));
        assert_eq!((times[C3], times[4]), (Nanos(150), Nanos::ZERO), "class 4 is not reached");
        assert_eq!(
            proof.broken(ClassSet::ALL, true, paused(450))[C3],
            Nanos::ZERO,
            "it was not paused since"
        );
    }

    #[test]
    fn unannounced_defect_counts_since_the_last_look() {
        let mut proof = Proof::default();
        proof.whole(paused(100));
        proof.quiet(paused(300));
        assert_eq!(proof.broken(ClassSet::ALL, false, paused(450))[C3], Nanos(350));
    }
}
