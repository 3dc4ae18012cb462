//! Queues in memory by which a switch's workers exchange frames.

use std::collections::VecDeque;

use xoff_dataplane::driver::{Environment, Progress};
use xoff_dataplane::forward::FdbUpdate;
use xoff_dataplane::switch::{Handover, Return, Switch, WorkerId};
use xoff_wire::units::Nanos;

use super::batches::Batches;
use super::ring::Ring;
use super::store::MemoryStore;

const CAPACITY: usize = 64;

#[derive(Debug)]
struct Link {
    frames: VecDeque<Handover>,
    returns: VecDeque<Return>,
    learned: VecDeque<FdbUpdate>,
}

impl Link {
    fn new() -> Link {
        Link {
            frames: VecDeque::with_capacity(CAPACITY),
            returns: VecDeque::with_capacity(CAPACITY),
            learned: VecDeque::with_capacity(CAPACITY),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Take the frame handles apart, because dropping a handle panics.
        let frames = self.frames.drain(..).map(|handover| handover.frame);
        frames.chain(self.returns.drain(..).map(|back| back.frame)).for_each(|frame| _ = frame.into_parts());
    }
}

/// Queues between all workers of a switch, by sender and receiver.
#[derive(Debug)]
pub struct Links(Vec<Vec<Link>>);

impl Links {
    /// Creates queues for `workers` workers.
    pub fn new(workers: usize) -> Links {
        Links((0..workers).map(|_| (0..workers).map(|_| Link::new()).collect()).collect())
    }

    /// Returns the workers from 0 to the highest one that owns a port.
    pub fn ends(owners: &[WorkerId]) -> impl Iterator<Item = WorkerId> {
        (0..=owners.iter().map(|owner| owner.0).max().unwrap_or(0)).map(WorkerId)
    }

    /// Returns whether all queues are empty.
    pub fn are_empty(&self) -> bool {
        let is_empty =
            |link: &Link| link.frames.is_empty() && link.returns.is_empty() && link.learned.is_empty();
        self.0.iter().flatten().all(is_empty)
    }

    /// Returns the queues to and from the worker `me`.
    pub fn of(&mut self, me: usize, batches: Batches) -> Exchange<'_> {
        Exchange { links: &mut self.0, me, batches }
    }
}

/// Queues to and from a worker.
#[derive(Debug)]
pub struct Exchange<'a> {
    links: &'a mut Vec<Vec<Link>>,
    me: usize,
    batches: Batches,
}

impl Environment<Ring, MemoryStore> for Exchange<'_> {
    fn exchange(&mut self, now: Nanos, switch: &mut Switch, store: &mut MemoryStore) -> Progress {
        let Exchange { links, me, batches } = self;
        let (me, mut moved, mut received) = (*me, 0, 0);
        let others = (0..links.len()).filter(move |other| *other != me);
        let mut batch = switch.batch(now);
        for from in others.clone() {
            let link = &mut links[from][me];
            for back in link.returns.drain(..) {
                batch.take_back(back, store);
                batches.taken(&mut batch);
                moved += 1;
            }
            for handover in link.frames.drain(..) {
                batch.take_over(handover, store);
                batches.taken(&mut batch);
                received += 1;
            }
            for update in link.learned.drain(..) {
                batch.apply_learned(&update);
                moved += 1;
            }
        }
        while links[me].iter().all(|link| link.learned.len() < CAPACITY)
            && let Some(update) = batch.next_learned()
        {
            others.clone().for_each(|to| links[me][to].learned.push_back(update));
            moved += 1;
        }
        for to in others {
            let (link, id) = (
                &mut links[me][to],
                WorkerId(u8::try_from(to).expect("the number of workers must fit in 8 bits")),
            );
            while link.returns.len() < CAPACITY
                && let Some(back) = batch.give_back(id)
            {
                link.returns.push_back(back);
                moved += 1;
            }
            while link.frames.len() < CAPACITY
                && let Some(handover) = batch.hand_over(id)
            {
                link.frames.push_back(handover);
                moved += 1;
            }
        }
        Progress { is_busy: moved + received > 0, received }
    }
}
