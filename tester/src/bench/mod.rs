//! The bench: one thread that polls all test ports, sends streams and single frames, and records received frames.

mod heartbeat;
mod host_socket;
mod line;
mod link;
mod pace;
mod pauses;
mod port;
mod records;
mod stream;
mod time;
mod timeline;

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xoff_traffic::emit::LinkError;
use xoff_traffic::station::nap;
use xoff_wire::units::{Class, Nanos};
use xoff_xdp::XdpError;
use xoff_xdp::clock::now;
use xoff_xdp::sleeper::Sleeper;

pub use port::{Reaction, TestPort};
pub use records::{Arrival, ControlFrame, OTHER_BYTES_MAX, OtherFrame, StreamId, Tally};
pub use stream::Flow;
pub use time::Moment;

use crate::report::Accuracy;
use crate::setup::{PortKind, Setup};
use host_socket::HostSocket;
use line::Line;
use pauses::{Hold, PauseLimit};
use stream::{Station, Stream};
use timeline::SentControl;

/// Longest sleep between two polls, which limits the uncertainty of arrival times.
const NAP_MAX: Nanos = Nanos::from_micros(40);
/// Time before a frame is due during which the bench polls without sleep.
const SPIN: Nanos = Nanos::from_micros(30);
/// Maximum time without a sleep: the kernel blocks real-time threads that never sleep for 50 ms each second.
const WORK_MAX: Nanos = Nanos::from_millis(2);
const REST: Nanos = Nanos::from_micros(150);
const STALL_MIN: Nanos = Nanos::from_micros(100);
const BATCH: usize = 64;
const QUIET: Nanos = Nanos::from_millis(20);
const LAST_FRAMES: Nanos = Nanos::from_millis(20);
const DRAIN_MAX: Nanos = Nanos::from_secs(2);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Void {
    /// The tester's machine disturbed the run; another run may succeed.
    #[error("{0}")]
    Disturbed(String),
    #[error("{0}")]
    NotPossible(String),
    /// The device fails a precondition of the case, such as forwarding.
    #[error("{0}")]
    Failed(String),
    #[error("the interface {0} was removed")]
    Removed(String),
    #[error("interrupted")]
    Interrupted,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Port(#[from] XdpError),
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("cannot wait for frames of the test ports: {0}")]
    Wait(#[from] io::Error),
}

#[derive(Debug)]
pub struct Bench {
    pub setup: Setup,
    pub accuracy: Accuracy,
    ports: Vec<TestPort>,
    streams: Vec<Stream>,
    holds: Vec<Hold>,
    pause_limits: Vec<PauseLimit>,
    obstacle: Option<Void>,
    heartbeat: Option<StreamId>,
    socket: Option<HostSocket>,
    epoch: u16,
    interrupt: Arc<AtomicBool>,
    /// True if polls continue after an interrupt.
    is_finishing: bool,
    wakers: Rc<[OwnedFd]>,
    stalls: Vec<(Nanos, Nanos)>,
    last_step: Nanos,
    /// End of the last intended sleep; until then, missing polls are no stall.
    asleep_until: Nanos,
    /// Maximum duration of the current run, which ends at `deadline`.
    limit: Nanos,
    deadline: Nanos,
}

impl Bench {
    pub fn open(setup: Setup, interrupt: Arc<AtomicBool>) -> Result<Bench, OpenError> {
        let ports: Vec<_> = setup.ports.iter().map(TestPort::open).collect::<Result<_, _>>()?;
        let wakers = ports.iter().map(|port| port.line.wakers()).collect::<Result<Vec<_>, _>>()?;
        Ok(Bench::new(setup, ports, wakers.into_iter().flatten().collect(), interrupt))
    }

    /// Creates a bench without interfaces: a case ends at its first wait, interrupted.
    #[must_use]
    pub fn closed(setup: Setup) -> Bench {
        let ports = setup.ports.iter().map(|port| TestPort::new(port, Line::Closed)).collect();
        Bench::new(setup, ports, Rc::new([]), Arc::new(AtomicBool::new(true)))
    }

    /// Returns whether the bench has no interfaces; a case must then start no program.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.ports.iter().any(|port| matches!(port.line, Line::Closed))
    }

    fn new(setup: Setup, ports: Vec<TestPort>, wakers: Rc<[OwnedFd]>, interrupt: Arc<AtomicBool>) -> Bench {
        Bench {
            accuracy: Accuracy::default(),
            streams: Vec::new(),
            holds: Vec::new(),
            pause_limits: vec![PauseLimit::default(); ports.len()],
            setup,
            ports,
            obstacle: None,
            heartbeat: None,
            socket: None,
            epoch: 0,
            interrupt,
            is_finishing: false,
            wakers,
            stalls: Vec::new(),
            last_step: now(),
            asleep_until: Nanos::ZERO,
            limit: Nanos::NEVER,
            deadline: Nanos::NEVER,
        }
    }

    #[must_use]
    pub fn now(&self) -> Nanos {
        now()
    }

    #[must_use]
    pub fn ports(&self) -> &[TestPort] {
        &self.ports
    }

    #[must_use]
    pub fn examines_nic(&self) -> bool {
        self.ports.iter().any(|port| port.settings.kind == PortKind::Kernel)
    }

    #[must_use]
    pub fn port(&self, port: usize) -> &TestPort {
        &self.ports[port]
    }

    /// Each case begins with [`Reaction::Obey`].
    pub fn react(&mut self, port: usize, reaction: Reaction) {
        self.ports[port].reaction = reaction;
    }

    pub fn only_count(&mut self, port: usize) {
        self.ports[port].keeps_arrivals = false;
    }

    pub fn stream(&mut self, flow: Flow) -> Result<StreamId, Void> {
        let mark = flow.mark.or_else(|| self.setup.mark(flow.class)).ok_or_else(|| {
            Void::NotPossible(format!(
                "the setup file's maps give no frame class {}; set `trust`",
                flow.class
            ))
        })?;
        let id = u8::try_from(self.streams.len()).map(StreamId);
        let id = id.map_err(|_| Void::Disturbed("the case needed more than 256 streams".into()))?;
        let station = |port: usize| {
            let port = &self.ports[port];
            Station { mac: port.mac(), vlan: port.settings.vlan }
        };
        let stations = [station(flow.from), station(flow.to)];
        self.streams.push(Stream::new(flow, id, self.epoch, now(), stations, mark));
        Ok(id)
    }

    pub fn stop(&mut self, stream: StreamId) {
        self.streams[usize::from(stream.0)].is_stopped = true;
    }

    pub fn stop_streams(&mut self, streams: &[StreamId]) {
        streams.iter().for_each(|stream| self.stop(*stream));
    }

    pub fn stop_all(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.is_stopped = true);
    }

    #[must_use]
    pub fn flow(&self, stream: StreamId) -> Flow {
        self.streams[usize::from(stream.0)].flow
    }

    #[must_use]
    pub fn sent(&self, stream: StreamId) -> u64 {
        self.streams[usize::from(stream.0)].sent
    }

    #[must_use]
    pub fn tally(&self, stream: StreamId) -> &Tally {
        &self.streams[usize::from(stream.0)].tally
    }

    #[must_use]
    pub fn missing(&self, stream: StreamId) -> u64 {
        self.tally(stream).lost(self.sent(stream))
    }

    /// Returns how many frames have not arrived, also unsent ones.
    #[must_use]
    pub fn outstanding(&self, stream: StreamId) -> u64 {
        let Stream { flow, tally, sent, is_stopped, .. } = &self.streams[usize::from(stream.0)];
        tally.lost(flow.count.filter(|_| !is_stopped).unwrap_or(*sent))
    }

    #[must_use]
    pub fn arrivals(&self, port: usize) -> &[Arrival] {
        &self.ports[port].arrivals
    }

    /// Returns the arrivals at the stream's destination, not copies flooded elsewhere.
    pub fn arrivals_of(&self, stream: StreamId) -> impl Iterator<Item = &Arrival> {
        self.arrivals(self.flow(stream).to).iter().filter(move |arrival| arrival.stream == stream)
    }

    #[must_use]
    pub fn controls(&self, port: usize) -> &[ControlFrame] {
        &self.ports[port].controls
    }

    #[must_use]
    pub fn others(&self, port: usize) -> &[OtherFrame] {
        &self.ports[port].others
    }

    /// Sends a frame (without FCS) at once. Returns the time of sending.
    pub fn send_now(&mut self, index: usize, bytes: &[u8]) -> Moment {
        self.require_permitted_pause(index, bytes);
        if self.obstacle.is_some() {
            return Moment { earliest: now(), latest: now() };
        }
        let len = u32::try_from(bytes.len()).expect("a frame has more than 4 GB");
        let port = &mut self.ports[index];
        let earliest = now();
        port.send(earliest, Class::default(), len, |frame| frame[..bytes.len()].copy_from_slice(bytes));
        port.line.flush();
        let when = Moment { earliest, latest: now() };
        port.sent.extend(SentControl::of(bytes, when));
        self.pause_limits[index].note(bytes, when, port.speed());
        when
    }

    #[must_use]
    pub fn has_paused(&self) -> bool {
        self.ports.iter().flat_map(|port| &port.sent).any(|frame| frame.is_xoff)
    }

    /// Permits the case to fail although the device may disobey pauses.
    pub fn disregard_pauses(&mut self) {
        self.ports.iter_mut().flat_map(|port| &mut port.sent).for_each(|frame| frame.is_xoff = false);
    }

    #[must_use]
    pub fn has_received_invalid_pfc(&self) -> bool {
        self.ports.iter().any(|port| port.has_invalid_pfc)
    }

    /// Polls, sends and records until `done` returns true. Returns false if `limit` passes first.
    pub fn run_until(&mut self, limit: Nanos, mut done: impl FnMut(&Bench) -> bool) -> Result<bool, Void> {
        let wakers = Rc::clone(&self.wakers);
        let mut sleeper = Sleeper::new(&wakers);
        let end = now().after(limit);
        loop {
            self.step()?;
            if done(self) {
                return Ok(true);
            }
            let time = now();
            if time >= end {
                return Ok(false);
            }
            self.nap(&mut sleeper, time, end);
        }
    }

    pub fn run_for(&mut self, time: Nanos) -> Result<(), Void> {
        self.run_until(time, |_| false).map(drop)
    }

    /// Returns the longest stall of the tester since `since`: time between two polls minus intended sleep.
    #[must_use]
    pub fn longest_stall(&self, since: Nanos) -> Nanos {
        let later = self.stalls.iter().rev().take_while(|(begin, length)| begin.after(*length) >= since);
        later.map(|(_, length)| *length).max().unwrap_or_default()
    }

    pub fn require_steady(&self, since: Nanos, limit: Nanos) -> Result<(), Void> {
        let stall = self.longest_stall(since);
        match stall > limit {
            true => Err(Void::Disturbed(format!(
                "the tester stalled for {} us; at most {} us are allowed",
                stall.0 / 1_000,
                limit.0 / 1_000
            ))),
            false => Ok(()),
        }
    }

    /// Returns the tolerance of arrival times: the 99th percentile of the tester's timing error, limited to eight times the median, but at
    /// least 20 us.
    #[must_use]
    pub fn tolerance(&self) -> Nanos {
        let Accuracy { error_p50_ns, error_p99_ns, .. } = self.accuracy;
        Nanos(error_p99_ns.min(8 * error_p50_ns)).max(Nanos::from_micros(20))
    }

    #[must_use]
    pub fn has_stamps(&self) -> bool {
        self.ports.iter().all(|port| port.unstamped == 0)
    }

    #[must_use]
    pub fn own_losses(&self) -> u64 {
        self.ports.iter().map(|port| port.line.lost()).sum()
    }

    pub fn limit(&mut self, limit: Nanos) {
        (self.limit, self.deadline) = (limit, now().after(limit));
    }

    /// Prepares a case: ends all pauses, forgets all records, and lets the device learn all addresses.
    pub fn begin_case(&mut self) -> Result<(), Void> {
        self.end_case()?;
        self.announce()?;
        self.streams.clear();
        self.heartbeat = None;
        self.socket = None;
        self.epoch = self.epoch.wrapping_add(1);
        self.ports.iter_mut().for_each(TestPort::forget);
        Ok(())
    }

    /// Ends a case: stops its streams, sends XON for all classes on all ports, and waits for the last frames. Also waits while the device
    /// pauses a test port, because the device could drop the next case's frames.
    pub fn end_case(&mut self) -> Result<(), Void> {
        self.stop_all();
        self.holds.clear();
        self.resume_everything();
        let received = |bench: &Bench| bench.streams.iter().map(|stream| stream.tally.frames).sum::<u64>();
        let quiet = self.stall_limit().min(DRAIN_MAX);
        let begin = now();
        while now().since(begin) < DRAIN_MAX {
            let before = received(self);
            self.run_for(quiet)?;
            if received(self) == before && !self.is_paused() {
                break;
            }
        }
        let time = now();
        self.ports.iter_mut().for_each(|port| port.end_pauses(time));
        Ok(())
    }

    pub fn is_paused(&mut self) -> bool {
        let time = now();
        self.ports.iter_mut().any(|port| !port.is_free(time))
    }

    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// After an interrupt, lets the case receive its last frames.
    pub fn finish(&mut self, void: Void) -> Result<(), Void> {
        match void {
            Void::Interrupted if !self.is_closed() => {
                self.is_finishing = true;
                Ok(())
            }
            void => Err(void),
        }
    }

    fn step(&mut self) -> Result<(), Void> {
        if let Some(void) = self.obstacle.take() {
            return Err(void);
        }
        if self.is_interrupted() && !self.is_finishing {
            return Err(Void::Interrupted);
        }
        let time = now();
        if time >= self.deadline {
            let seconds = self.limit.0 / 1_000_000_000;
            return Err(Void::Disturbed(format!("the case did not end within {seconds} s")));
        }
        let stall = time.since(self.last_step.max(self.asleep_until));
        if stall >= STALL_MIN {
            self.stalls.push((Nanos(time.0 - stall.0), stall));
        }
        self.last_step = time;
        self.refresh_holds(time)?;
        for index in 0..self.ports.len() {
            let (port, streams) = (&mut self.ports[index], &mut self.streams);
            port.receive(self.epoch, |arrival, endpoints, sent_at| {
                let stream = streams.get_mut(usize::from(arrival.stream.0));
                arrival.is_intact &= stream.as_ref().is_none_or(|stream| stream.endpoints == endpoints);
                // Copies at other ports were flooded and are no duplicates.
                if let Some(stream) = stream.filter(|stream| stream.flow.to == index) {
                    stream.tally.note(arrival, sent_at);
                }
            });
            self.transmit(index);
            self.ports[index].line.flush();
            if self.ports[index].line.is_removed() {
                return Err(Void::Removed(self.ports[index].settings.device.clone()));
            }
        }
        if let Some(socket) = &mut self.socket {
            let (streams, arrivals) = (&mut self.streams, &mut self.ports[socket.port].arrivals);
            socket.receive(self.epoch, |arrival, sent_at| {
                if let Some(stream) = streams.get_mut(usize::from(arrival.stream.0)) {
                    stream.tally.note(arrival, sent_at);
                }
                arrivals.push(*arrival);
            });
        }
        Ok(())
    }

    /// Sends frames that are due now, and none that becomes due during the call: the port must poll for pauses first.
    fn transmit(&mut self, index: usize) {
        let (port, time) = (&mut self.ports[index], now());
        let paused = port.paused(time);
        for _ in 0..BATCH {
            let ready = |stream: &&mut Stream| {
                stream.flow.from == index
                    && !stream.is_over()
                    && stream.due <= time
                    && !paused.contains(stream.flow.class)
                    && port.has_room(time, stream.flow.class)
            };
            let next = self.streams.iter_mut().filter(ready).min_by_key(|stream| stream.due);
            let Some(stream) = next else { return };
            let (class, size) = (stream.flow.class, stream.next_size());
            if !port.send(time, class, size, |frame| stream.write(time, frame)) {
                return;
            }
        }
    }

    fn nap(&mut self, sleeper: &mut Sleeper<'_>, time: Nanos, end: Nanos) {
        if time.since(self.asleep_until) >= WORK_MAX {
            nap(REST);
            self.asleep_until = time.after(REST);
            return;
        }
        let next = |stream: &Stream| stream.due.max(self.ports[stream.flow.from].line_free());
        let refreshes = self.holds.iter().map(|hold| hold.next);
        let due = self.streams.iter().filter(|stream| !stream.is_over()).map(next).chain(refreshes).min();
        let until =
            Nanos(due.unwrap_or(Nanos::NEVER).0.saturating_sub(SPIN.0)).min(end).min(time.after(NAP_MAX));
        if until > time {
            let _ = sleeper.sleep(until.since(time)); // a failed sleep only polls earlier
            self.asleep_until = until.min(now());
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.resume_everything();
        // Send the last XONs before the ports' sockets close: a closed socket discards unsent frames.
        let begin = now();
        while now().since(begin) < LAST_FRAMES && self.ports.iter().any(|port| !port.line.is_idle()) {
            self.ports.iter_mut().for_each(|port| port.line.flush());
            std::thread::yield_now();
        }
    }
}

fn tagged(bytes: &[u8], vlan: Option<u16>) -> Vec<u8> {
    let Some(vlan) = vlan else { return bytes.to_vec() };
    [&bytes[..12], &[0x81, 0x00], &vlan.to_be_bytes()[..], &bytes[12..]].concat()
}
