//! Credit arbiter of an output: grants inputs their requested frames in round robin, while the output has credits for
//! the cells.

use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
pub(super) struct Arbiter {
    free: u32,
    /// Number of cells of each requested frame, by input.
    requests: BTreeMap<u16, VecDeque<u8>>,
    turns: VecDeque<u16>,
}

impl Arbiter {
    pub(super) const fn new(credits: u32) -> Arbiter {
        Arbiter { free: credits, requests: BTreeMap::new(), turns: VecDeque::new() }
    }

    pub(super) fn request(&mut self, input: u16, cells: u8) {
        let requests = self.requests.entry(input).or_default();
        if requests.is_empty() {
            self.turns.push_back(input);
        }
        requests.push_back(cells);
    }

    pub(super) const fn give_back(&mut self, cells: u8) {
        self.free += cells as u32;
    }

    /// Grants the next frame: takes its credits, and returns its input. If it needs more credits than are free, smaller
    /// frames behind it wait, too.
    pub(super) fn grant(&mut self) -> Option<u16> {
        let input = *self.turns.front()?;
        let requests = self.requests.get_mut(&input)?;
        self.free = self.free.checked_sub((*requests.front()?).into())?;
        requests.pop_front();
        self.turns.pop_front();
        if !requests.is_empty() {
            self.turns.push_back(input);
        }
        Some(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(arbiter: &mut Arbiter) -> Vec<u16> {
        std::iter::from_fn(|| arbiter.grant()).collect()
    }

    #[test] // proves: sim-scheduled
    fn arbiter_grants_frames_round_robin_within_credits() {
        let mut arbiter = Arbiter::new(9);
        for (input, cells) in [(1, 3), (1, 3), (1, 3), (2, 2), (3, 4)] {
            arbiter.request(input, cells);
        }
        assert_eq!(grants(&mut arbiter), [1, 2, 3], "3, 2 and 4 cells of 9");
        arbiter.give_back(2);
        assert_eq!(grants(&mut arbiter), [], "2 credits must not suffice for a frame of 3 cells");
        arbiter.request(2, 1);
        assert_eq!(grants(&mut arbiter), [], "a smaller frame must not overtake a waiting one");
        arbiter.give_back(1);
        assert_eq!(grants(&mut arbiter), [1]);
        arbiter.give_back(4);
        assert_eq!(grants(&mut arbiter), [2, 1]);
        arbiter.give_back(255);
        assert_eq!(grants(&mut arbiter), []);
    }
}
