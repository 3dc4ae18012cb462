//! Records calls at the boundary between driver and dataplane into a [`Sink`], without allocation, locks or system calls per frame. A
//! [`Tap`] reports drops; a wrapper of the [`PuntSink`] reports punts. The reports pass through rings, which the recorder empties after
//! each call.

use std::fmt;
use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};
use xoff_dataplane::driver::Boundary;
use xoff_dataplane::forward::{MemberState, MulticastTable};
use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::punt::{Punt, PuntSink};
use xoff_dataplane::routing::Fib;
use xoff_dataplane::switch::{Batch, PolicySwap, Revision, Switch};
use xoff_dataplane::tap::{FrameEvent, Sighting, Tap, TapId};
use xoff_flow_control::settings::{PipelineSettings, SwitchSettings, WhenFull};
use xoff_wire::units::{MacAddr, Nanos, PortId, PortSet, Site};

use crate::record::{HEAD_IN, HEAD_OUT, Passing, Record, kept};

const TAP: TapId = TapId(u64::MAX);
/// Maximum reports of drops, and of punts, per call. Recorder and replay both omit further ones.
const REPORTS_MAX: usize = 16 << 10;
const RECORD_MAX: usize = 4 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Stopped,
    /// The writer was too slow, and the ring of records was full.
    Overrun,
    /// The settings changed, by a reload or at a neighbor's request over LLDP.
    Settings,
    Policy,
    Routes,
    Unwritten,
}

impl Ending {
    pub const ALL: [Ending; 6] = [
        Ending::Stopped,
        Ending::Overrun,
        Ending::Settings,
        Ending::Policy,
        Ending::Routes,
        Ending::Unwritten,
    ];

    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Ending::Stopped => "the switch stopped",
            Ending::Overrun => "records came faster than the file could be written (overrun)",
            Ending::Settings => "the switch's settings changed",
            Ending::Policy => "the switch's policy changed",
            Ending::Routes => "the switch's routes changed",
            Ending::Unwritten => "the recording file could not be written",
        }
    }
}

pub trait Sink {
    /// Accepts a record. Returns false if there is no space; then no record may follow.
    fn put(&mut self, record: &[u8]) -> bool;

    fn end(&mut self, why: Ending);
}

pub(crate) struct Drops(Producer<Sighting>);

pub(crate) struct Punts {
    reports: Producer<(Punt, bool)>,
    before: Option<Box<dyn PuntSink>>,
}

impl fmt::Debug for Drops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Drops")
    }
}

impl fmt::Debug for Punts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Punts")
    }
}

impl Tap for Drops {
    fn ports(&self) -> PortSet {
        PortSet::ALL
    }

    fn see(&mut self, sighting: &Sighting, _frame: &Frame, _store: &dyn FrameStore) {
        if sighting.event.dropped().is_some() {
            let _ = self.0.push(*sighting); // excess reports are omitted
        }
    }
}

impl PuntSink for Punts {
    fn take(&mut self, punt: &Punt, frame: &Frame, store: &dyn FrameStore) -> bool {
        let is_taken = self.before.as_mut().is_some_and(|sink| sink.take(punt, frame, store));
        let _ = self.reports.push((*punt, is_taken)); // excess reports are omitted
        is_taken
    }
}

#[derive(Debug)]
pub(crate) struct Reports {
    drops: Consumer<Sighting>,
    punts: Option<Consumer<(Punt, bool)>>,
}

impl Reports {
    pub(crate) fn at(switch: &mut Switch, now: Nanos) -> Reports {
        let (producer, drops) = RingBuffer::new(REPORTS_MAX);
        let put = switch.batch(now).put_tap(TAP, Box::new(Drops(producer)));
        assert!(put.is_ok(), "a new switch must have no tap (frame observer)");
        Reports { drops, punts: None }
    }

    pub(crate) fn before(&mut self, sink: Option<Box<dyn PuntSink>>) -> Box<dyn PuntSink> {
        let (reports, punts) = RingBuffer::new(REPORTS_MAX);
        self.punts = Some(punts);
        Box::new(Punts { reports, before: sink })
    }

    /// Passes all reports to `note`: first drops, then punts, as a replay expects.
    pub(crate) fn drain(&mut self, mut note: impl FnMut(&Record<'_>)) {
        while let Ok(Sighting { port, class, event, .. }) = self.drops.pop() {
            match (event, class) {
                (FrameEvent::Received { dropped: Some(reason) }, Some(class)) => {
                    note(&Record::Refused(port, class, reason));
                }
                (FrameEvent::Dropped { reason, after }, Some(class)) => {
                    note(&Record::Dropped(port, class, reason, after));
                }
                _ => (), // frames without a class: their `Freed` record suffices
            }
        }
        while let Some(Ok((Punt { port, vid, reason, .. }, is_taken))) =
            self.punts.as_mut().map(Consumer::pop)
        {
            note(&Record::Punted(port, vid, reason, is_taken));
        }
    }
}

#[derive(Debug)]
struct RecordWriter<K> {
    sink: K,
    bytes: Vec<u8>,
    is_over: bool,
}

impl<K: Sink> RecordWriter<K> {
    fn note(&mut self, record: &Record<'_>) {
        if self.is_over {
            return;
        }
        self.bytes.clear();
        record.write(&mut self.bytes);
        if !self.sink.put(&self.bytes) {
            self.end(Ending::Overrun);
        }
    }

    fn end(&mut self, why: Ending) {
        if !self.is_over {
            self.is_over = true;
            self.sink.end(why);
        }
    }
}

#[derive(Debug)]
pub struct Recorder<K> {
    writer: RecordWriter<K>,
    reports: Reports,
    now: Nanos,
    is_begun: bool,
    is_due: bool,
    /// True if one forward call moves all frames, so that a second one would move none.
    moves_at_once: bool,
    has_moved: bool,
}

impl<K: Sink> Recorder<K> {
    /// Creates a recorder for a new switch, before the first call to it.
    pub fn new(switch: &mut Switch, settings: &SwitchSettings, now: Nanos, sink: K) -> Recorder<K> {
        let moves_at_once =
            settings.pipeline == PipelineSettings::default() && settings.when_full == WhenFull::Drop;
        Recorder {
            writer: RecordWriter { sink, bytes: Vec::with_capacity(RECORD_MAX), is_over: false },
            reports: Reports::at(switch, now),
            now,
            is_begun: false,
            is_due: false,
            moves_at_once,
            has_moved: false,
        }
    }

    /// Returns a wrapper of `sink` that records punts. The caller must install it.
    pub fn before(&mut self, sink: Option<Box<dyn PuntSink>>) -> Box<dyn PuntSink> {
        self.reports.before(sink)
    }

    pub fn into_sink(self) -> K {
        self.writer.sink
    }

    fn call(&mut self, call: &Record<'_>) {
        if !std::mem::replace(&mut self.is_begun, true) {
            self.writer.note(&Record::At(self.now));
        }
        self.has_moved = false;
        self.writer.note(call);
    }

    fn done(&mut self) {
        self.reports.drain(|record| self.writer.note(record));
    }

    fn recording_store<'a, S>(&'a mut self, store: &'a mut S) -> RecordingStore<'a, S, K> {
        RecordingStore { store, writer: &mut self.writer }
    }
}

impl<K: Sink> Boundary for Recorder<K> {
    fn batch<'switch>(&mut self, switch: &'switch mut Switch, now: Nanos) -> Batch<'switch> {
        (self.now, self.is_begun, self.is_due) = (now, false, switch.next_timer() <= now);
        switch.batch(now)
    }

    fn advance<S: FrameStore>(&mut self, batch: &mut Batch<'_>, store: &mut S) -> bool {
        if !self.is_due {
            return false; // not recorded, since no timer is due
        }
        self.call(&Record::Advance);
        let is_due = batch.advance(&mut self.recording_store(store));
        self.done();
        self.writer.note(&Record::Gave(is_due.into()));
        is_due
    }

    fn receive<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        let (slot, len) = (frame.slot(), frame.len());
        self.call(&Record::Receive(Passing {
            port,
            slot,
            len,
            bytes: kept(store.head(&frame), len, HEAD_IN),
        }));
        batch.receive(port, frame, &mut self.recording_store(store));
        self.done();
    }

    fn forward_all<S: FrameStore>(&mut self, batch: &mut Batch<'_>, store: &mut S) {
        if self.has_moved && self.moves_at_once {
            return; // nothing can move
        }
        self.call(&Record::Forward);
        let mut moved = 0;
        while batch.forward(&mut self.recording_store(store)) {
            moved += 1;
        }
        self.done();
        self.writer.note(&Record::Gave(moved));
        self.has_moved = true;
    }

    fn transmit<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        store: &mut S,
        most: u32,
        mut send: impl FnMut(&mut S, Frame),
    ) -> u32 {
        self.call(&Record::Transmit(port, most));
        let sent = batch.transmit(
            port,
            &mut self.recording_store(store),
            most,
            |RecordingStore { store, writer }, frame| {
                note_sent(writer, port, &frame, *store);
                send(store, frame);
            },
        );
        self.done();
        self.writer.note(&Record::Gave(sent));
        sent
    }

    fn announce<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        store: &mut S,
    ) -> Option<Frame> {
        self.call(&Record::Announce(port));
        let frame = batch.announce(port, &mut self.recording_store(store));
        if let Some(frame) = &frame {
            note_sent(&mut self.writer, port, frame, store);
        }
        self.done();
        self.writer.note(&Record::Gave(frame.is_some().into()));
        frame
    }

    fn release<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        self.call(&Record::Release(port, frame.slot()));
        batch.release(port, frame, &mut self.recording_store(store));
        self.done();
    }

    fn give_up<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        self.call(&Record::GiveUp(port, frame.slot()));
        batch.give_up(port, frame, &mut self.recording_store(store));
        self.done();
    }

    fn set_link<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, up: bool, store: &mut S) {
        self.call(&Record::SetLink(port, up));
        batch.set_link(port, up, &mut self.recording_store(store));
        self.done();
    }

    fn set_mac(&mut self, batch: &mut Batch<'_>, port: PortId, mac: MacAddr) {
        self.call(&Record::SetMac(port, mac));
        batch.set_mac(port, mac);
    }

    fn set_member(&mut self, batch: &mut Batch<'_>, port: PortId, state: MemberState) {
        self.call(&Record::SetMember(port, state));
        batch.set_member(port, state);
    }

    fn release_peers(&mut self, batch: &mut Batch<'_>) {
        self.call(&Record::LetPeersGo);
        batch.release_peers();
        self.done();
    }

    fn inject<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        bytes: &[u8],
        store: &mut S,
    ) -> bool {
        self.call(&Record::Tell(port, len_of(bytes), kept(bytes, u32::MAX, HEAD_IN)));
        let is_accepted = batch.inject(port, bytes, &mut self.recording_store(store));
        self.done();
        self.writer.note(&Record::Gave(is_accepted.into()));
        is_accepted
    }

    fn send_of_host<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        (site, port): (Site, PortId),
        bytes: &[u8],
        store: &mut S,
    ) {
        self.call(&Record::OfHost(site, port, len_of(bytes), kept(bytes, u32::MAX, HEAD_IN)));
        batch.send_of_host(site, port, bytes, &mut self.recording_store(store));
        self.done();
    }

    fn set_policy(&mut self, batch: &mut Batch<'_>, swap: Box<PolicySwap>) -> Box<PolicySwap> {
        self.writer.end(Ending::Policy);
        batch.set_policy(swap)
    }

    fn revise(&mut self, batch: &mut Batch<'_>, revision: Box<Revision>) -> Box<Revision> {
        self.writer.end(Ending::Settings);
        batch.revise(revision)
    }

    fn set_fib(&mut self, batch: &mut Batch<'_>, fib: Arc<Fib>) -> Arc<Fib> {
        self.writer.end(Ending::Routes);
        batch.set_fib(fib)
    }

    fn set_multicast(&mut self, batch: &mut Batch<'_>, table: Arc<MulticastTable>) -> Arc<MulticastTable> {
        self.writer.end(Ending::Settings);
        batch.set_multicast(table)
    }

    fn was_away(&mut self, switch: &mut Switch, now: Nanos) {
        self.writer.note(&Record::WasAway(now));
        switch.was_away(now);
    }
}

fn len_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

fn note_sent<S: FrameStore, K: Sink>(writer: &mut RecordWriter<K>, port: PortId, frame: &Frame, store: &S) {
    let bytes = kept(store.head(frame), frame.len(), HEAD_OUT);
    writer.note(&Record::Sent(Passing { port, slot: frame.slot(), len: frame.len(), bytes }));
}

struct RecordingStore<'a, S, K> {
    store: &'a mut S,
    writer: &'a mut RecordWriter<K>,
}

impl<S: FrameStore, K: Sink> FrameStore for RecordingStore<'_, S, K> {
    fn capacity(&self) -> u32 {
        self.store.capacity()
    }

    fn head(&self, frame: &Frame) -> &[u8] {
        self.store.head(frame)
    }

    fn read(&self, frame: &Frame, into: &mut [u8]) -> usize {
        self.store.read(frame, into)
    }

    fn head_mut(&mut self, frame: &Frame) -> &mut [u8] {
        self.store.head_mut(frame)
    }

    fn stage(&mut self, port: PortId, frame: &Frame) -> bool {
        self.store.stage(port, frame)
    }

    fn move_start(&mut self, frame: &mut Frame, by: i32) -> bool {
        let done = self.store.move_start(frame, by);
        self.writer.note(&Record::Moved(frame.slot(), by, done));
        done
    }

    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        let copy = self.store.copy(frame);
        self.writer.note(&Record::Copied(frame.slot(), copy.as_ref().map(Frame::slot)));
        copy
    }

    fn make(&mut self, bytes: &[u8]) -> Option<Frame> {
        let frame = self.store.make(bytes);
        self.writer.note(&Record::Made(false, len_of(bytes), frame.as_ref().map(Frame::slot)));
        frame
    }

    fn control(&mut self, bytes: &[u8]) -> Option<Frame> {
        let frame = self.store.control(bytes);
        self.writer.note(&Record::Made(true, len_of(bytes), frame.as_ref().map(Frame::slot)));
        frame
    }

    fn free(&mut self, frame: Frame) {
        self.writer.note(&Record::Freed(frame.slot()));
        self.store.free(frame);
    }
}
