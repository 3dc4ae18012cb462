use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::punt::{Punt, PuntSink};
use xoff_dataplane::switch::{Batch, Switch, Workers};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::{Nanos, PortId, Site};

use crate::books::books;
use crate::memory::Memory;
use crate::record::{HEAD_OUT, Passing, Record, is_call, kept};
use crate::recorder::Reports;

const CALLS_BEFORE: usize = 8;
const HEAD_LEAST: usize = 128;
const FRAME_MAX: u32 = 16 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Identical {
        calls: u64,
        /// Received and sent.
        frames: u64,
    },
    Differs(Box<Difference>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the call, from 1.
    pub call: u64,
    /// Time of the call on the recorded driver's clock.
    pub at: Nanos,
    /// Descriptions of the last calls; the final one is the call with differing answers.
    pub before: Vec<String>,
    pub recorded: String,
    pub replayed: String,
}

/// Error: the records contain a call that this switch cannot repeat.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("call {call} of the recording cannot be repeated: {why}")]
pub struct Broken {
    pub call: u64,
    pub why: String,
}

/// Dataplane with its own frame memory, on which recorded calls are repeated.
#[derive(Debug)]
pub struct Replay {
    switch: Switch,
    counters: Arc<Counters>,
    reports: Reports,
    store: ReplayStore,
    now: Nanos,
    calls: u64,
    frames: u64,
    before: VecDeque<Vec<u8>>,
    names: Vec<String>,
}

type Takes = Arc<Mutex<VecDeque<bool>>>;

type Unequal = (Option<Vec<u8>>, Option<Vec<u8>>);

#[derive(Debug)]
struct Taker(Takes);

impl PuntSink for Taker {
    fn take(&mut self, _punt: &Punt, _frame: &Frame, _store: &dyn FrameStore) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(false)
    }
}

#[derive(Debug)]
struct ReplayStore {
    memory: Memory,
    /// For each slot, the port whose driver holds its frame.
    given: Vec<Option<PortId>>,
    expected: VecDeque<Vec<u8>>,
    takes: Takes,
    sent: u64,
    scratch: Vec<u8>,
    difference: Option<Unequal>,
}

impl Replay {
    #[must_use]
    pub fn new(settings: &SwitchSettings, slots: u32) -> Replay {
        let ports = settings.ports.len();
        let counters = Counters::with_shadows(ports, settings.shadows.len());
        let mut switch = Switch::new(settings, slots, Workers::single(ports), Arc::clone(&counters));
        let mut reports = Reports::at(&mut switch, Nanos::ZERO);
        let takes = Takes::default();
        let sink = reports.before(Some(Box::new(Taker(Arc::clone(&takes)))));
        switch.batch(Nanos::ZERO).put_punt_sink(sink);
        let store = ReplayStore {
            memory: Memory::new(slots),
            given: vec![None; slots as usize],
            expected: VecDeque::new(),
            takes,
            sent: 0,
            scratch: Vec::new(),
            difference: None,
        };
        let names = settings.ports.iter().map(|port| port.name.clone()).collect();
        let (now, calls, frames, before) = (Nanos::ZERO, 0, 0, VecDeque::new());
        Replay { switch, counters, reports, store, now, calls, frames, before, names }
    }

    /// Repeats all calls of `records`, except the last one if the recording is truncated (`is_cut`).
    pub fn run<E: From<Broken>>(
        &mut self,
        records: impl Iterator<Item = Result<Vec<u8>, E>>,
        is_cut: bool,
    ) -> Result<Outcome, E> {
        let mut records = records.peekable();
        while let Some(call) = records.next() {
            let call = call?;
            while let Some(Ok(answer)) =
                records.next_if(|next| next.as_ref().is_ok_and(|next| !is_call(next)))
            {
                self.store.expected.push_back(answer);
            }
            if is_cut && records.peek().is_none() {
                break;
            }
            self.calls += 1;
            let made = self.make(&call).map_err(|why| Broken { call: self.calls, why });
            let is_same = made?;
            if self.before.len() > CALLS_BEFORE {
                self.before.pop_front();
            }
            self.before.push_back(call);
            if !is_same {
                return Ok(Outcome::Differs(Box::new(self.difference())));
            }
        }
        Ok(Outcome::Identical { calls: self.calls, frames: self.frames })
    }

    /// Returns the first difference of the final counts: the recorded and the replayed line.
    #[must_use]
    pub fn differing_books(&self, recorded: &str) -> Option<(String, String)> {
        let replayed = books(&self.switch, &self.counters);
        let (mut ours, mut theirs) = (replayed.lines(), recorded.lines());
        loop {
            match (theirs.next(), ours.next()) {
                (None, None) => return None,
                (theirs, ours) if theirs == ours => (),
                (theirs, ours) => {
                    let [theirs, ours] =
                        [theirs, ours].map(|line| line.unwrap_or("no further line").to_owned());
                    return Some((theirs, ours));
                }
            }
        }
    }

    fn difference(&mut self) -> Difference {
        let (recorded, replayed) = self.store.difference.take().unwrap_or_default();
        let describe = |record: &[u8]| match Record::read(record) {
            Some(record) => record.describe(&self.names),
            None => "malformed bytes in place of a record".into(),
        };
        let of = |answer: Option<Vec<u8>>| {
            answer.map_or_else(|| "no further answer to this call".into(), |answer| describe(&answer))
        };
        Difference {
            call: self.calls,
            at: self.now,
            before: self.before.iter().map(|call| describe(call)).collect(),
            recorded: of(recorded),
            replayed: of(replayed),
        }
    }

    fn make(&mut self, call: &[u8]) -> Result<bool, String> {
        let call = Record::read(call).ok_or("the bytes of the record are malformed")?;
        self.check(&call)?;
        let (switch, store, now) = (&mut self.switch, &mut self.store, self.now);
        match call {
            Record::At(at) => {
                self.now = at;
                drop(switch.batch(at));
            }
            Record::WasAway(at) => switch.was_away(at),
            call => {
                store.expect_punts();
                let gave = store.call(&mut switch.batch(now), &call)?;
                self.reports.drain(|record| _ = store.answer(record));
                gave.into_iter().for_each(|gave| _ = store.answer(&Record::Gave(gave)));
            }
        }
        self.frames += u64::from(matches!(call, Record::Receive(_))) + std::mem::take(&mut store.sent);
        if store.difference.is_none()
            && let Some(left) = store.expected.pop_front()
        {
            store.difference = Some((Some(left), None));
        }
        Ok(store.difference.is_none())
    }

    fn check(&self, call: &Record<'_>) -> Result<(), String> {
        let is_port = |port: PortId| match port.index() < self.names.len() {
            true => Ok(()),
            false => Err(format!("the switch has no port {}", port.0)),
        };
        match *call {
            Record::At(at) | Record::WasAway(at) if at < self.now => {
                Err("the time of the call is earlier than that of the previous call".into())
            }
            Record::Receive(Passing { port, slot, len, bytes }) => {
                is_port(port)?;
                let is_frame =
                    (1..=FRAME_MAX).contains(&len) && bytes.len() >= (len as usize).min(HEAD_LEAST);
                match is_frame && bytes.len() <= len as usize && self.store.memory.is_free(slot) {
                    true => Ok(()),
                    false => Err(format!("a frame of {len} bytes cannot arrive in slot {slot}")),
                }
            }
            Record::Release(port, slot) | Record::GiveUp(port, slot) => {
                is_port(port)?;
                match self.store.given.get(slot as usize) {
                    Some(Some(at)) if *at == port => Ok(()),
                    _ => Err(format!("the port's driver has no frame in slot {slot}")),
                }
            }
            Record::Tell(port, len, bytes) | Record::OfHost(_, port, len, bytes) => {
                is_port(port)?;
                if let Record::OfHost(Site::Port(at), ..) = *call {
                    is_port(at)?;
                }
                match len <= FRAME_MAX && bytes.len() <= len as usize {
                    true => Ok(()),
                    false => Err(format!("a frame of {len} bytes is too long or incomplete")),
                }
            }
            Record::Transmit(port, _) | Record::Announce(port) => is_port(port),
            Record::SetLink(port, _) | Record::SetMac(port, _) | Record::SetMember(port, _) => is_port(port),
            _ => Ok(()),
        }
    }
}

impl ReplayStore {
    fn call(&mut self, batch: &mut Batch<'_>, call: &Record<'_>) -> Result<Option<u32>, String> {
        Ok(match *call {
            Record::Advance => Some(batch.advance(self).into()),
            Record::Receive(Passing { port, slot, len, bytes }) => {
                let frame = self.memory.put(slot, bytes, len);
                batch.receive(port, frame, self);
                None
            }
            Record::Forward => {
                let mut moved = 0;
                while batch.forward(self) {
                    moved += 1;
                }
                Some(moved)
            }
            Record::Transmit(port, most) => {
                Some(batch.transmit(port, self, most, |store, frame| store.sent(port, frame)))
            }
            Record::Announce(port) => {
                let frame = batch.announce(port, self);
                let is_there = frame.is_some();
                frame.into_iter().for_each(|frame| self.sent(port, frame));
                Some(is_there.into())
            }
            Record::Release(port, slot) => {
                let frame = self.take_back(slot)?;
                batch.release(port, frame, self);
                None
            }
            Record::GiveUp(port, slot) => {
                let frame = self.take_back(slot)?;
                batch.give_up(port, frame, self);
                None
            }
            Record::SetLink(port, up) => {
                batch.set_link(port, up, self);
                None
            }
            Record::SetMac(port, mac) => {
                batch.set_mac(port, mac);
                None
            }
            Record::SetMember(port, state) => {
                batch.set_member(port, state);
                None
            }
            Record::LetPeersGo => {
                batch.release_peers();
                None
            }
            Record::Tell(port, len, bytes) => Some(batch.inject(port, &whole(bytes, len), self).into()),
            Record::OfHost(site, port, len, bytes) => {
                batch.send_of_host(site, port, &whole(bytes, len), self);
                None
            }
            _ => return Err("the record is an answer, not a call".into()),
        })
    }

    fn answer(&mut self, answer: &Record<'_>) -> bool {
        if self.difference.is_some() {
            return false;
        }
        self.scratch.clear();
        answer.write(&mut self.scratch);
        let expected = self.expected.pop_front();
        let is_same = expected.as_deref() == Some(&self.scratch[..]);
        if !is_same {
            self.difference = Some((expected, Some(self.scratch.clone())));
        }
        is_same
    }

    /// Returns the frame store's recorded answer to this request. If the recording has another answer or none, notes a
    /// difference and returns `None`.
    fn given<T>(&mut self, is: impl FnOnce(&Record<'_>) -> Option<T>, request: &Record<'_>) -> Option<T> {
        let given = self.expected.front().and_then(|next| Record::read(next)).and_then(|next| is(&next));
        match given {
            Some(_) if self.difference.is_none() => drop(self.expected.pop_front()),
            _ => _ = self.answer(request),
        }
        given.filter(|_| self.difference.is_none())
    }

    fn free_slot(&mut self, given: Option<Option<u32>>) -> Option<u32> {
        given.flatten().filter(|slot| self.memory.is_free(*slot))
    }

    fn sent(&mut self, port: PortId, frame: Frame) {
        let bytes = kept(self.memory.head(&frame), frame.len(), HEAD_OUT).to_vec();
        self.answer(&Record::Sent(Passing { port, slot: frame.slot(), len: frame.len(), bytes: &bytes }));
        self.sent += 1;
        let (slot, _) = frame.into_parts();
        self.given[slot as usize] = Some(port);
    }

    fn take_back(&mut self, slot: u32) -> Result<Frame, String> {
        self.given[slot as usize] = None;
        self.memory.frame(slot).ok_or_else(|| format!("slot {slot} has no frame"))
    }

    fn expect_punts(&mut self) {
        let punted = self.expected.iter().filter_map(|next| match Record::read(next) {
            Some(Record::Punted(.., is_taken)) => Some(is_taken),
            _ => None,
        });
        *self.takes.lock().unwrap_or_else(PoisonError::into_inner) = punted.collect();
    }
}

fn whole(bytes: &[u8], len: u32) -> Vec<u8> {
    let mut whole = bytes.to_vec();
    whole.resize(len as usize, 0);
    whole
}

impl FrameStore for ReplayStore {
    fn capacity(&self) -> u32 {
        self.memory.capacity()
    }

    fn head(&self, frame: &Frame) -> &[u8] {
        self.memory.head(frame)
    }

    fn head_mut(&mut self, frame: &Frame) -> &mut [u8] {
        self.memory.head_mut(frame)
    }

    fn move_start(&mut self, frame: &mut Frame, by: i32) -> bool {
        let slot = frame.slot();
        let is = |next: &Record<'_>| match *next {
            Record::Moved(of, far, done) if (of, far) == (slot, by) => Some(done),
            _ => None,
        };
        self.given(is, &Record::Moved(slot, by, true)).unwrap_or(false) && self.memory.move_start(frame, by)
    }

    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        let from = frame.slot();
        let is = |next: &Record<'_>| match *next {
            Record::Copied(of, to) if of == from => Some(to),
            _ => None,
        };
        let given = self.given(is, &Record::Copied(from, None));
        let slot = self.free_slot(given)?;
        Some(self.memory.put_copy(frame, slot))
    }

    fn make(&mut self, bytes: &[u8]) -> Option<Frame> {
        self.make_as(false, bytes)
    }

    fn control(&mut self, bytes: &[u8]) -> Option<Frame> {
        self.make_as(true, bytes)
    }

    fn free(&mut self, frame: Frame) {
        self.answer(&Record::Freed(frame.slot()));
        self.memory.free(frame);
    }
}

impl ReplayStore {
    fn make_as(&mut self, is_control: bool, bytes: &[u8]) -> Option<Frame> {
        let len = u32::try_from(bytes.len()).ok()?;
        let is = |next: &Record<'_>| match *next {
            Record::Made(of, long, slot) if (of, long) == (is_control, len) => Some(slot),
            _ => None,
        };
        let given = self.given(is, &Record::Made(is_control, len, None));
        let slot = self.free_slot(given)?;
        Some(self.memory.put(slot, bytes, len))
    }
}
