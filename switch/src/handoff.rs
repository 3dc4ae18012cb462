//! What workers pass to each other: frames on their way to another worker's port, slots on their way
//! home, and addresses learned.
//!
//! One bounded queue for each ordered pair of workers; nothing is shared by three. What a queue can
//! be asked in each of its states:
//!
//! | state | sender | receiver |
//! |---|---|---|
//! | empty | may send | gets nothing, may sleep after it has said so and looked again |
//! | some  | may send | takes the oldest |
//! | full  | keeps its message, which stays counted at its ingress | takes the oldest |
//!
//! Prohibited: to take a message from the dataplane without room for it here (it would be lost), and
//! to sleep without looking once more after [`Bell::close_eyes`] (a message might wait forever).
//!
//! Returns and frames have queues of their own, so that a receiver that cannot take frames can still
//! get its slots back: otherwise two workers that wait for each other would wait for good.

use std::io;
use std::iter;
use std::sync::Arc;

use crossbeam::queue::ArrayQueue;
use xoff_dataplane::driver::Progress;
use xoff_dataplane::forward::FdbUpdate;
use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::switch::{Batch, Handover, Return, Switch, WorkerId};
use xoff_dataplane::units::Nanos;
use xoff_xdp::Store;

use crate::bell::Bell;

/// Messages that fit between two workers in each direction and kind: a few batches.
pub(crate) const CAPACITY: usize = 1024;

/// From one worker to another.
#[derive(Debug)]
struct Link {
    frames: ArrayQueue<Handover>,
    returns: ArrayQueue<Return>,
    /// Chunks that were added to a frame on its way and are freed where they came from.
    chunks: ArrayQueue<Frame>,
    learned: ArrayQueue<FdbUpdate>,
}

impl Link {
    fn new() -> Link {
        Link {
            frames: ArrayQueue::new(CAPACITY),
            returns: ArrayQueue::new(CAPACITY),
            chunks: ArrayQueue::new(CAPACITY),
            learned: ArrayQueue::new(CAPACITY),
        }
    }
}

impl Drop for Link {
    /// Frames that were on their way when the switch stopped end with its packet memory; the ledger
    /// has them as handed over.
    fn drop(&mut self) {
        let frames = iter::from_fn(|| self.frames.pop()).map(|handover| handover.frame);
        let returns = iter::from_fn(|| self.returns.pop()).map(|back| back.frame);
        let chunks = iter::from_fn(|| self.chunks.pop());
        frames.chain(returns).chain(chunks).for_each(|frame| {
            let _ = frame.into_parts();
        });
    }
}

/// Every link and bell of a switch.
#[derive(Debug)]
pub struct Exchange {
    /// By sender, then receiver.
    links: Vec<Vec<Link>>,
    bells: Vec<Bell>,
}

impl Exchange {
    /// Between `workers` workers.
    ///
    /// # Errors
    /// Where the system gives no more descriptors.
    pub fn new(workers: usize) -> io::Result<Arc<Exchange>> {
        let links = (0..workers).map(|_| (0..workers).map(|_| Link::new()).collect()).collect();
        let bells = (0..workers).map(|_| Bell::new()).collect::<io::Result<_>>()?;
        Ok(Arc::new(Exchange { links, bells }))
    }

    /// This worker's own bell.
    #[must_use]
    pub fn bell(&self, worker: WorkerId) -> &Bell {
        &self.bells[worker.index()]
    }

    /// Wakes every worker: something that is not a message concerns all.
    pub fn wake_all(&self) {
        self.bells.iter().for_each(Bell::wake);
    }

    fn others(&self, me: WorkerId) -> impl Iterator<Item = WorkerId> + use<> {
        (0..=u8::MAX).take(self.bells.len()).map(WorkerId).filter(move |&other| other != me)
    }
}

/// One worker's end of the exchange.
#[derive(Debug)]
pub struct Handoff {
    exchange: Arc<Exchange>,
    me: WorkerId,
    others: Vec<WorkerId>,
}

impl Handoff {
    /// The end of worker `me`.
    #[must_use]
    pub fn new(exchange: Arc<Exchange>, me: WorkerId) -> Handoff {
        let others = exchange.others(me).collect();
        Handoff { exchange, me, others }
    }

    /// This worker's bell.
    #[must_use]
    pub fn bell(&self) -> &Bell {
        self.exchange.bell(self.me)
    }

    /// Sends what the dataplane has for the others, as far as there is room, and takes what they sent.
    pub fn exchange(&self, now: Nanos, switch: &mut Switch, store: &mut Store) -> Progress {
        if self.others.is_empty() {
            return Progress::default();
        }
        let mut batch = switch.batch(now);
        let taken = self.take(&mut batch, store);
        Progress { is_busy: taken.is_busy | self.send(&mut batch, store), ..taken }
    }

    fn send(&self, batch: &mut Batch<'_>, store: &mut Store) -> bool {
        let mut any = self.send_chunks(store);
        any |= self.send_learned(batch);
        for &to in &self.others {
            let link = self.to(to);
            any |= fill(&link.returns, || batch.give_back(to)) | fill(&link.frames, || batch.hand_over(to));
        }
        if any {
            self.others.iter().for_each(|&to| self.exchange.bell(to).ring());
        }
        any
    }

    fn to(&self, to: WorkerId) -> &Link {
        &self.exchange.links[self.me.index()][to.index()]
    }

    fn from(&self, from: WorkerId) -> &Link {
        &self.exchange.links[from.index()][self.me.index()]
    }

    /// What is learned waits until all others have room for it: one that missed a move would send to the old
    /// port.
    fn send_learned(&self, batch: &mut Batch<'_>) -> bool {
        let mut any = false;
        let room = || self.others.iter().all(|&to| !self.to(to).learned.is_full());
        while room()
            && let Some(update) = batch.next_learned()
        {
            for &to in &self.others {
                self.to(to).learned.push(update).expect("a queue with one sender was not full");
            }
            any = true;
        }
        any
    }

    fn send_chunks(&self, store: &mut Store) -> bool {
        let mut any = false;
        let room = || self.others.iter().all(|&to| !self.to(to).chunks.is_full());
        while room()
            && let Some((home, chunk)) = store.take_foreign()
        {
            let home = WorkerId(u8::try_from(home).expect("as many shares as workers"));
            let taken = self.to(home).chunks.push(chunk);
            taken.expect("a queue with one sender was not full");
            any = true;
        }
        any
    }

    fn take(&self, batch: &mut Batch<'_>, store: &mut Store) -> Progress {
        let mut taken = Progress::default();
        for &from in &self.others {
            let link = self.from(from);
            let mut messages = drain(&link.chunks, |chunk| store.free(chunk));
            messages += drain(&link.returns, |back| batch.take_back(back, store));
            let frames = drain(&link.frames, |handover| batch.take_over(handover, store));
            // What is learned is sent before frames and taken after them: a reply never overtakes it.
            messages += drain(&link.learned, |update| batch.hear_learned(&update));
            taken.is_busy |= messages + frames > 0;
            taken.received += frames;
        }
        taken
    }

    /// Whether a message waits for this worker.
    #[must_use]
    pub fn waiting(&self) -> bool {
        self.others.iter().any(|&from| {
            let link = self.from(from);
            !(link.frames.is_empty()
                && link.returns.is_empty()
                && link.chunks.is_empty()
                && link.learned.is_empty())
        })
    }
}

fn fill<T>(queue: &ArrayQueue<T>, mut next: impl FnMut() -> Option<T>) -> bool {
    let mut any = false;
    // One sender: what is free stays free until it is used here.
    while !queue.is_full() {
        let Some(message) = next() else { break };
        if queue.push(message).is_err() {
            unreachable!("a queue with one sender was not full");
        }
        any = true;
    }
    any
}

/// Says how many there were.
fn drain<T>(queue: &ArrayQueue<T>, take: impl FnMut(T)) -> u32 {
    let messages = iter::from_fn(|| queue.pop()).take(CAPACITY);
    messages.map(take).map(|()| 1).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use xoff_config::{Config, Machine};
    use xoff_dataplane::counters::Counters;
    use xoff_dataplane::switch::Workers;
    use xoff_dataplane::units::PortId;

    use super::*;

    /// More than fit between two workers.
    const CHUNKS: u32 = 1100;
    pub(crate) const NOW: Nanos = Nanos(1000);

    pub(crate) struct Node {
        pub(crate) switch: Switch,
        pub(crate) store: Store,
        pub(crate) handoff: Handoff,
    }

    /// A frame from `src` to `dst` comes in by `port`.
    pub(crate) fn receive(switch: &mut Switch, store: &mut Store, [port, dst, src]: [u8; 3], len: u32) {
        let frame = store.allocate(len).unwrap();
        let head = store.head_mut(&frame);
        head.fill(0);
        head[..14].copy_from_slice(&[2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src, 0x88, 0xb5]);
        let mut batch = switch.batch(NOW);
        batch.receive(PortId(port), frame, store);
        while batch.forward(store) {}
    }

    impl Node {
        fn exchange(&mut self) -> bool {
            self.handoff.exchange(NOW, &mut self.switch, &mut self.store).is_busy
        }

        fn receive(&mut self, port: u8, dst: u8, src: u8, len: u32) {
            receive(&mut self.switch, &mut self.store, [port, dst, src], len);
        }

        fn send_all(&mut self, port: u8) -> usize {
            let mut frames = Vec::new();
            let mut batch = self.switch.batch(NOW);
            batch.transmit(PortId(port), &mut self.store, u32::MAX, |_, frame| frames.push(frame));
            let count = frames.len();
            frames.into_iter().for_each(|frame| batch.release(PortId(port), frame, &mut self.store));
            count
        }
    }

    /// Two workers, a port each; host n is behind port n - 1.
    pub(crate) fn two_workers(port_b: &str) -> (Node, Node) {
        let text = format!(
            "[[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"1G\"\nmtu = 9000\n\
             [[port]]\nname = \"b\"\ndevice = \"b\"\nspeed = \"1G\"\nmtu = 9000\n{port_b}\
             [[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"a\"\n\
             [[fdb.static]]\nmac = \"02:00:00:00:00:02\"\nport = \"b\"\n"
        );
        let config = Config::from_toml("test", &text, Machine::default()).unwrap();
        let exchange = Exchange::new(2).unwrap();
        let counters = Counters::new(2);
        let mut nodes = Store::plain(&[CHUNKS, CHUNKS]).into_iter().enumerate().map(|(index, store)| {
            let me = WorkerId(u8::try_from(index).unwrap());
            let workers = Workers::new([WorkerId(0), WorkerId(1)].into(), me);
            Node {
                switch: Switch::new(&config.switch, 2 * CHUNKS, workers, Arc::clone(&counters)),
                store,
                handoff: Handoff::new(Arc::clone(&exchange), me),
            }
        });
        (nodes.next().unwrap(), nodes.next().unwrap())
    }

    #[test]
    fn a_frame_crosses_and_its_chunk_and_account_come_home() {
        let (mut a, mut b) = two_workers("");
        let class = xoff_dataplane::units::Class::ALL[0];
        a.receive(0, 2, 1, 100);
        assert_eq!(a.store.free_chunks(), CHUNKS - 1);
        assert!(a.exchange() && b.exchange());
        assert_eq!(b.send_all(1), 1);
        assert_eq!(a.switch.buffer().ingress(PortId(0), class).0, 104, "until it has left");
        assert!(b.exchange() && a.exchange());
        assert_eq!(a.switch.buffer().ingress(PortId(0), class).0, 0);
        assert_eq!((a.store.free_chunks(), b.store.free_chunks()), (CHUNKS, CHUNKS));
        assert_eq!((a.switch.ledger().missing(), b.switch.ledger().missing()), (0, 0));
        assert!(!a.exchange() && !b.exchange());
    }

    #[test]
    fn a_chunk_that_a_tag_needed_on_the_way_goes_back_to_who_gave_it() {
        let (mut a, mut b) = two_workers("tagged = [1]\nuntagged = []\npvid = \"none\"\n");
        a.receive(0, 2, 1, 4000);
        assert_eq!(a.store.free_chunks(), CHUNKS - 3, "the first of three is full");
        assert!(a.exchange() && b.exchange());
        assert_eq!(b.send_all(1), 1);
        for _ in 0..3 {
            b.exchange();
            a.exchange();
        }
        assert_eq!((a.store.free_chunks(), b.store.free_chunks()), (CHUNKS, CHUNKS));
    }

    #[test]
    fn a_full_queue_keeps_frames_where_they_are_counted() {
        let (mut a, mut b) = two_workers("");
        for _ in 0..CHUNKS {
            a.receive(0, 2, 1, 60);
        }
        assert!(a.exchange());
        assert_eq!(a.switch.ledger().handed_over, CAPACITY as u64);
        assert_eq!(a.switch.ledger().held, u64::from(CHUNKS) - CAPACITY as u64);
        assert!(a.switch.waits_for_workers());
        b.exchange();
        assert_eq!(b.switch.ledger().taken_over, CAPACITY as u64);
        assert_eq!(b.switch.ledger().missing(), 0);
        a.exchange();
        assert!(!a.switch.waits_for_workers());
    }

    #[test]
    fn what_is_learned_waits_for_room_and_none_is_lost() {
        let (mut a, mut b) = two_workers("");
        let learn = |a: &mut Node, stations: std::ops::Range<usize>| {
            for [.., high, low] in stations.map(usize::to_be_bytes) {
                let frame = a.store.allocate(60).unwrap();
                let head = a.store.head_mut(&frame);
                head[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 1, high, low, 0x88, 0xb5]);
                let mut batch = a.switch.batch(NOW);
                batch.receive(PortId(0), frame, &mut a.store);
                while batch.forward(&mut a.store) {}
            }
            a.exchange();
        };
        learn(&mut a, 0..CAPACITY - 24);
        learn(&mut a, CAPACITY - 24..CAPACITY + 76);
        assert!(a.switch.waits_for_workers(), "so that the worker looks again soon");
        assert!(b.exchange() && a.exchange() && b.exchange());
        assert!(!a.switch.waits_for_workers());
        assert_eq!(b.switch.bridge().fdb().learned_at(PortId(0)), CAPACITY + 76);
    }

    #[test]
    fn a_bell_rings_only_for_a_worker_that_sleeps() {
        let bell = Bell::new().unwrap();
        bell.ring();
        assert!(bell.event().read().is_err(), "awake: nothing to wake");
        bell.close_eyes();
        bell.ring();
        assert_eq!(bell.event().read().unwrap(), 1);
        bell.open_eyes();
    }

    #[test]
    fn a_worker_that_is_about_to_sleep_is_woken_too() {
        let bell = Bell::new().unwrap();
        bell.wake(); // between its look at the stop flag and close_eyes
        bell.close_eyes();
        assert_eq!(bell.event().read().unwrap(), 1, "its sleep ends at once");
    }

    #[test]
    fn frames_on_their_way_may_end_with_the_switch() {
        let (mut a, b) = two_workers("");
        a.receive(0, 2, 1, 60);
        assert!(a.exchange());
        assert_eq!(a.switch.ledger().handed_over, 1);
        drop((a, b)); // a handle that is lost would panic
    }
}
