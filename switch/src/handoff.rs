//! Queues between workers: frames for another worker's port, slots of sent or dropped frames for their owner, and
//! learned addresses.
//!
//! Each ordered pair of workers has one bounded queue per kind of message. While a queue is full, messages wait in the
//! sender's dataplane, where a frame still counts at its ingress port.
//!
//! Returned slots have a separate queue: otherwise two workers with full queues could wait for each other forever.

use std::io;
use std::iter;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use rtrb::{Consumer, Producer, PushError, RingBuffer};
use xoff_config::memory::HANDOVER_QUEUE;
use xoff_dataplane::driver::Progress;
use xoff_dataplane::forward::FdbUpdate;
use xoff_dataplane::switch::{Batch, Handover, Return, Switch, WorkerId};
use xoff_wire::units::Nanos;
use xoff_xdp::Store;

use crate::bell::Bell;

pub(crate) const CAPACITY: usize = HANDOVER_QUEUE as usize;

#[derive(Debug)]
pub struct Bells(Box<[Bell]>);

impl Bells {
    pub fn new(workers: usize) -> io::Result<Arc<Bells>> {
        let bells = (0..workers).map(|_| Bell::new()).collect::<io::Result<_>>()?;
        Ok(Arc::new(Bells(bells)))
    }

    #[must_use]
    pub fn of(&self, worker: WorkerId) -> &Bell {
        &self.0[worker.index()]
    }

    pub fn wake_all(&self) {
        self.0.iter().for_each(Bell::wake);
    }

    fn workers(&self) -> impl Iterator<Item = WorkerId> + use<> {
        (0..=u8::MAX).take(self.0.len()).map(WorkerId)
    }
}

/// Message in a queue. Dropping the queue does not drop its messages: their frames are freed with the buffer memory.
type Message<T> = ManuallyDrop<T>;

#[derive(Debug)]
struct Outgoing {
    frames: Producer<Message<Handover>>,
    returns: Producer<Message<Return>>,
    learned: Producer<Message<FdbUpdate>>,
}

#[derive(Debug)]
struct Incoming {
    frames: Consumer<Message<Handover>>,
    returns: Consumer<Message<Return>>,
    learned: Consumer<Message<FdbUpdate>>,
}

fn queues() -> (Outgoing, Incoming) {
    let (to_frames, frames) = RingBuffer::new(CAPACITY);
    let (to_returns, returns) = RingBuffer::new(CAPACITY);
    let (to_learned, learned) = RingBuffer::new(CAPACITY);
    let outgoing = Outgoing { frames: to_frames, returns: to_returns, learned: to_learned };
    (outgoing, Incoming { frames, returns, learned })
}

impl Incoming {
    fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.returns.is_empty() && self.learned.is_empty()
    }
}

#[derive(Debug)]
struct OtherWorker {
    worker: WorkerId,
    to: Outgoing,
    from: Incoming,
}

#[derive(Debug)]
pub struct Handoff {
    bells: Arc<Bells>,
    me: WorkerId,
    others: Vec<OtherWorker>,
}

impl Handoff {
    #[must_use]
    pub fn for_each(bells: &Arc<Bells>) -> Vec<Handoff> {
        let mut handoffs: Vec<Handoff> =
            bells.workers().map(|me| Handoff { bells: Arc::clone(bells), me, others: Vec::new() }).collect();
        for high in 1..handoffs.len() {
            for low in 0..high {
                let (up, down) = (queues(), queues());
                let [low, high] =
                    handoffs.get_disjoint_mut([low, high]).expect("a queue must connect different workers");
                low.others.push(OtherWorker { worker: high.me, to: up.0, from: down.1 });
                high.others.push(OtherWorker { worker: low.me, to: down.0, from: up.1 });
            }
        }
        handoffs
    }

    #[must_use]
    pub fn bell(&self) -> &Bell {
        self.bells.of(self.me)
    }

    pub fn exchange(&mut self, now: Nanos, switch: &mut Switch, store: &mut Store) -> Progress {
        if self.others.is_empty() {
            return Progress::default();
        }
        let mut batch = switch.batch(now);
        let taken = self.take(&mut batch, store);
        Progress { is_busy: taken.is_busy | self.send(&mut batch, store), ..taken }
    }

    fn send(&mut self, batch: &mut Batch<'_>, store: &mut Store) -> bool {
        let mut any = self.send_learned(batch);
        for OtherWorker { worker, to, .. } in &mut self.others {
            any |= fill(&mut to.returns, || batch.give_back(*worker));
            any |= fill(&mut to.frames, || next_settled(batch, store, *worker));
        }
        if any {
            self.others.iter().for_each(|other| self.bells.of(other.worker).ring());
        }
        any
    }

    /// Sends each learned address to all other workers or, while one of their queues is full, to none: a worker that
    /// missed a move would send to the old port.
    fn send_learned(&mut self, batch: &mut Batch<'_>) -> bool {
        let mut any = false;
        while self.others.iter().all(|other| !other.to.learned.is_full())
            && let Some(update) = batch.next_learned()
        {
            for other in &mut self.others {
                push(&mut other.to.learned, update);
            }
            any = true;
        }
        any
    }

    fn take(&mut self, batch: &mut Batch<'_>, store: &mut Store) -> Progress {
        let mut taken = Progress::default();
        for OtherWorker { from, .. } in &mut self.others {
            let mut messages = drain(&mut from.returns, |back| batch.take_back(back, store));
            let frames = drain(&mut from.frames, |handover| batch.take_over(handover, store));
            // Take learned addresses after frames. The sender queues a frame's source address before the frame, so this worker knows it
            // before a reply arrives.
            messages += drain(&mut from.learned, |update| batch.apply_learned(&update));
            taken.is_busy |= messages + frames > 0;
            taken.received += frames;
        }
        taken
    }

    #[must_use]
    pub fn waiting(&self) -> bool {
        self.others.iter().any(|other| !other.from.is_empty())
    }
}

fn next_settled(batch: &mut Batch<'_>, store: &mut Store, worker: WorkerId) -> Option<Handover> {
    batch.next_handover(worker).filter(|&slot| store.can_settle(slot))?;
    let handover = batch.hand_over(worker)?;
    let is_settled = store.settle(&handover.frame);
    debug_assert!(is_settled, "the store must move a frame to cells if `can_settle` found enough");
    Some(handover)
}

fn fill<T>(queue: &mut Producer<Message<T>>, mut next: impl FnMut() -> Option<T>) -> bool {
    let mut any = false;
    while !queue.is_full()
        && let Some(message) = next()
    {
        push(queue, message);
        any = true;
    }
    any
}

fn push<T>(queue: &mut Producer<Message<T>>, message: T) {
    if let Err(PushError::Full(_)) = queue.push(Message::new(message)) {
        unreachable!("the queue must have the room that its only producer checked");
    }
}

fn drain<T>(queue: &mut Consumer<Message<T>>, take: impl FnMut(T)) -> u32 {
    let messages = iter::from_fn(|| queue.pop().ok()).take(CAPACITY);
    messages.map(Message::into_inner).map(take).map(|()| 1).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use xoff_config::{Config, Machine};
    use xoff_dataplane::frame::FrameStore as _;
    use xoff_dataplane::switch::{HANDOVERS_MAX, Workers};
    use xoff_flow_control::counters::Counters;
    use xoff_flow_control::drop_reason::DropReason;
    use xoff_wire::units::{Class, PortId};

    use xoff_xdp::Share;

    use super::*;

    const FRAMES: u32 = 1100;
    const CELLS: u32 = 2 * FRAMES;
    pub(crate) const NOW: Nanos = Nanos(1000);

    pub(crate) struct Node {
        pub(crate) switch: Switch,
        pub(crate) store: Store,
        pub(crate) handoff: Handoff,
        counters: Arc<Counters>,
    }

    pub(crate) fn receive(switch: &mut Switch, store: &mut Store, [port, dst, src]: [u8; 3], len: u32) {
        let mut bytes = vec![0; len as usize];
        bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src, 0x88, 0xb5]);
        let frame = store.make(&bytes).unwrap();
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

    pub(crate) fn two_workers(port_b: &str) -> (Node, Node) {
        let text = format!(
            "[[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"1G\"\nmtu = 9000\n\
             [[port]]\nname = \"b\"\ndevice = \"b\"\nspeed = \"1G\"\nmtu = 9000\n{port_b}\
             [[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"a\"\n\
             [[fdb.static]]\nmac = \"02:00:00:00:00:02\"\nport = \"b\"\n"
        );
        let config = Config::from_toml("test", &text, Machine::default()).unwrap();
        let handoffs = Handoff::for_each(&Bells::new(2).unwrap());
        let counters = Counters::new(2);
        let share = Share { frames: FRAMES, cells: CELLS, ..Share::default() };
        let stores = Store::cut(&[share, share]).unwrap();
        let mut nodes = stores.into_iter().zip(handoffs).map(|(store, handoff)| {
            let workers = Workers::new([WorkerId(0), WorkerId(1)].into(), handoff.me);
            let switch = Switch::new(&config.switch, 2 * FRAMES, workers, Arc::clone(&counters));
            Node { switch, store, handoff, counters: Arc::clone(&counters) }
        });
        (nodes.next().unwrap(), nodes.next().unwrap())
    }

    #[test] // proves: workers
    fn sent_handover_frame_frees_its_cells_and_ingress_bytes() {
        let (mut a, mut b) = two_workers("");
        let class = xoff_wire::units::Class::ALL[0];
        a.receive(0, 2, 1, 100);
        assert_eq!((a.store.free_frames(), a.store.free_cells()), (FRAMES - 1, CELLS - 2));
        assert!(a.exchange() && b.exchange());
        assert_eq!(b.send_all(1), 1);
        assert_eq!(
            a.switch.buffer().ingress(PortId(0), class).0,
            104,
            "the frame must count at its ingress until its worker learns that it was sent"
        );
        assert!(b.exchange() && a.exchange());
        assert_eq!(a.switch.buffer().ingress(PortId(0), class).0, 0);
        for store in [&a.store, &b.store] {
            assert_eq!((store.free_frames(), store.free_cells()), (FRAMES, CELLS));
        }
        assert_eq!((a.switch.ledger().missing(), b.switch.ledger().missing()), (0, 0));
        assert!(!a.exchange() && !b.exchange());
    }

    #[test]
    fn frames_for_full_handover_queue_are_held_by_sending_worker() {
        let (mut a, mut b) = two_workers("");
        for n in 0..FRAMES {
            a.receive(0, 2, 1, 60);
            if n % 128 == 127 {
                assert!(a.exchange() || n >= 1024);
            }
        }
        a.exchange();
        assert_eq!(a.switch.ledger().handed_over, CAPACITY as u64);
        assert_eq!(a.switch.ledger().held, u64::from(FRAMES) - CAPACITY as u64);
        assert!(a.switch.waits_for_workers());
        b.exchange();
        assert_eq!(b.switch.ledger().taken_over, CAPACITY as u64);
        assert_eq!(b.switch.ledger().missing(), 0);
        a.exchange();
        assert!(!a.switch.waits_for_workers());
    }

    #[test] // proves: shared-memory
    fn handover_queue_limits_only_lossy_frames() {
        let (mut a, _b) = two_workers("");
        let dropped = |a: &Node, class: usize| {
            let drops = &a.counters.class(PortId(0), Class::ALL[class]).drops;
            drops[DropReason::HandoverFull.index()].get()
        };
        for more in [HANDOVERS_MAX, 1] {
            (0..more).for_each(|_| a.receive(0, 2, 1, 60));
            assert_eq!(
                dropped(&a, 0),
                u64::from(more == 1),
                "the handover queue must drop only the frame beyond its limit"
            );
        }
        let frame =
            a.store.make(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0x60, 1, 0x88, 0xb5]).unwrap();
        let mut batch = a.switch.batch(NOW);
        batch.receive(PortId(0), frame, &mut a.store);
        while batch.forward(&mut a.store) {}
        drop(batch);
        assert_eq!((dropped(&a, 3), a.switch.ledger().held), (0, u64::from(HANDOVERS_MAX) + 1));
        assert_eq!((a.switch.ledger().dropped, a.switch.ledger().missing()), (1, 0));
    }

    #[test] // proves: workers
    fn learned_addresses_wait_while_queue_to_worker_is_full() {
        let (mut a, mut b) = two_workers("");
        let learn = |a: &mut Node, stations: std::ops::Range<usize>| {
            for [.., high, low] in stations.map(usize::to_be_bytes) {
                let mut bytes = [0; 60];
                bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 1, high, low, 0x88, 0xb5]);
                let frame = a.store.make(&bytes).unwrap();
                let mut batch = a.switch.batch(NOW);
                batch.receive(PortId(0), frame, &mut a.store);
                while batch.forward(&mut a.store) {}
            }
            a.exchange();
        };
        learn(&mut a, 0..CAPACITY - 24);
        learn(&mut a, CAPACITY - 24..CAPACITY + 76);
        assert!(
            a.switch.waits_for_workers(),
            "the worker must wait while the queue to the other worker is full"
        );
        assert!(b.exchange() && a.exchange() && b.exchange());
        assert!(!a.switch.waits_for_workers());
        assert_eq!(b.switch.bridge().fdb().learned_at(PortId(0)), CAPACITY + 76);
    }

    #[test]
    fn bell_wakes_only_a_sleeping_worker() {
        let bell = Bell::new().unwrap();
        bell.ring();
        assert!(bell.event().read().is_err(), "ringing must not wake an awake worker");
        bell.close_eyes();
        bell.ring();
        assert_eq!(bell.event().read().unwrap(), 1);
        bell.open_eyes();
    }

    #[test]
    fn bell_rung_before_worker_sleeps_ends_that_sleep() {
        let bell = Bell::new().unwrap();
        bell.wake(); // between its check and close_eyes
        bell.close_eyes();
        assert_eq!(bell.event().read().unwrap(), 1, "a wake-up before a sleep must end the sleep at once");
    }

    #[test]
    fn dropping_workers_with_queued_frames_does_not_panic() {
        let (mut a, b) = two_workers("");
        a.receive(0, 2, 1, 60);
        assert!(a.exchange());
        assert_eq!(a.switch.ledger().handed_over, 1);
        drop((a, b)); // a lost handle would panic
    }
}
