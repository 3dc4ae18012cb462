//! Traffic host: an interface, a sender, a sink, and the loop that drives them.
//!
//! Under traffic, the loop sleeps a little longer, so that frames are processed in batches and the switch under test
//! keeps its core. Frames in the kernel can no longer be paused, so the loop hands over only a few at a time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_flow_control::congestion::ReactionSettings;
use xoff_host::habits::{CATCH_UP, NAP, commit};
use xoff_host::report::UnsortedReport;
use xoff_host::{
    Choice, END_MARKERS, Gate, HostParts, HostReport, Notices, Obedience, Progress, Sender, SenderSettings,
    Sink, Stream, announce,
};
use xoff_wire::units::{BitRate, Bytes, Class, MacAddr, Nanos};
use xoff_wire::{Cnm, Header, MacControl};
use xoff_xdp::{Facts, XdpError};

use super::station::{Station, nap};
use xoff_xdp::clock::now;
use xoff_xdp::sleeper::Sleeper;

/// Maximum time until the host notices `stop`.
const SLEEP_MAX: Nanos = Nanos::from_millis(20);
/// Maximum time in which a stopped host still sends end markers, and receives pending frames.
const FAREWELL: Nanos = Nanos::from_millis(100);
const ANNOUNCE_INTERVAL: Nanos = Nanos::from_secs(1);
/// Time for which a host still receives after its last stream, and after each later data frame.
const LINGER: Nanos = Nanos::from_millis(500);
const GAP_MAX: Nanos = Nanos::from_secs(1);

#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // each is a choice of its own
pub struct HostOptions {
    pub device: String,
    /// MAC address; `None` for the interface's address.
    pub address: Option<MacAddr>,
    /// Identifier of the sending host in its frames; `None` means the last two bytes of its MAC address.
    pub id: Option<u16>,
    pub line: BitRate,
    /// Maximum duration of the run. `None`: until the last stream has ended, or the host is stopped.
    pub duration: Option<Nanos>,
    /// Time without received data after which the host ends. `None`: 500 ms after its last stream; without streams,
    /// never.
    pub linger: Option<Nanos>,
    pub obedience: Obedience,
    /// True if 802.3x PAUSE frames pause all classes; false if they are only counted.
    pub obey_802_3x: bool,
    pub obey_flows: bool,
    pub obey_rates: bool,
    pub catch_up: Nanos,
    pub promiscuous: bool,
    /// True if the host announces its address to switches by gratuitous ARP.
    pub announce: bool,
    /// True if streams send end markers. Reports corrected by [`settle`](xoff_host::report::settle) do not need them.
    pub end_markers: bool,
    pub busy: bool,
    /// Minimum sleep under traffic. Longer sleeps make larger batches, but delay obedience to pauses.
    pub nap: Nanos,
    /// Settings of rate limiters. With `None`, streams have no CN-TAG, and received CNMs are only counted.
    pub qcn: Option<ReactionSettings>,
    pub ring: u32,
}

impl HostOptions {
    #[must_use]
    pub fn new(device: &str) -> HostOptions {
        HostOptions {
            device: device.to_owned(),
            address: None,
            id: None,
            line: BitRate::from_gbps(10),
            duration: None,
            linger: None,
            obedience: Obedience::Obey,
            obey_802_3x: false,
            obey_flows: false,
            obey_rates: false,
            catch_up: CATCH_UP,
            promiscuous: false,
            announce: true,
            end_markers: true,
            busy: false,
            nap: NAP,
            qcn: None,
            ring: 4096,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error(transparent)]
    Station(#[from] XdpError),
    #[error("waiting for frames on `{device}` failed: {source}")]
    Wait { device: String, source: io::Error },
}

#[derive(Debug)]
pub struct Host {
    options: HostOptions,
    station: Station,
    address: MacAddr,
    id: u16,
    ready: Nanos,
}

impl Host {
    /// Opens the interface in the calling thread's network namespace, and begins to receive.
    pub fn open(options: HostOptions) -> Result<Host, HostError> {
        let station = Station::open(&options.device, options.ring)?;
        let address = options.address.unwrap_or(station.address());
        let [.., high, low] = address.0;
        let id = options.id.unwrap_or(u16::from_be_bytes([high, low]));
        Ok(Host { options, station, address, id, ready: now() })
    }

    #[must_use]
    pub const fn address(&self) -> MacAddr {
        self.address
    }

    #[must_use]
    pub const fn id(&self) -> u16 {
        self.id
    }

    #[must_use]
    pub fn facts(&self) -> &Facts {
        self.station.facts()
    }

    /// Sends `streams` and receives, until the run ends or `stop` is set.
    pub fn run(
        self,
        streams: &[Stream],
        stop: &AtomicBool,
        progress: &Arc<Progress>,
    ) -> Result<HostReport, HostError> {
        let device = self.options.device.clone();
        let wakers = self.station.wakers().map_err(|source| HostError::Wait { device, source })?;
        let mut run = Run::new(self, streams, progress, Sleeper::new(&wakers));
        while !run.step(stop)? {}
        Ok(run.report(streams))
    }
}

struct Run<'fd> {
    options: HostOptions,
    station: Station,
    sleeper: Sleeper<'fd>,
    address: MacAddr,
    sender: Sender,
    id: u16,
    has_streams: bool,
    sink: Sink,
    gate: Gate,
    notices: Notices,
    frames: Vec<Frame>,
    commit: Bytes,
    begin: Nanos,
    now: Nanos,
    due: Nanos,
    longest_gap: Nanos,
    gaps: Histogram<u64>,
    last_data: Option<Nanos>,
    ending: Option<Nanos>,
    interrupted: Option<Nanos>,
    announced: u64,
    next_announcement: Nanos,
}

fn gate(options: &HostOptions) -> Gate {
    let gate = Gate::new(options.line, options.obedience, options.obey_802_3x);
    let gate = if options.obey_flows { gate.obeying_flows(options.line) } else { gate };
    if options.obey_rates { gate.obeying_rates(options.line) } else { gate }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transmitted {
    Batch,
    Until(Nanos),
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Received {
    /// The maximum number of frames was received at once; more may be pending.
    More,
    /// All pending frames were received, at least one of them data.
    Data,
    NoData,
}

impl<'fd> Run<'fd> {
    fn new(host: Host, streams: &[Stream], progress: &Arc<Progress>, sleeper: Sleeper<'fd>) -> Run<'fd> {
        let Host { options, station, address, id, ready } = host;
        let now = now();
        let settings = SenderSettings {
            address,
            id,
            line: options.line,
            catch_up: options.catch_up,
            end_markers: if options.end_markers { END_MARKERS } else { 0 },
            qcn: options.qcn,
        };
        Run {
            sender: Sender::new(streams, settings, now, Arc::clone(progress)),
            id,
            has_streams: !streams.is_empty(),
            sink: Sink::new(address, options.promiscuous, ready, Arc::clone(progress)),
            gate: gate(&options),
            notices: Notices::new(options.qcn.is_some()),
            frames: Vec::with_capacity(station.receive_max()),
            commit: commit(options.line),
            begin: now,
            now,
            due: now,
            longest_gap: Nanos::ZERO,
            gaps: Histogram::new_with_bounds(1, GAP_MAX.0, 2).expect("the histogram's bounds must be valid"),
            last_data: None,
            ending: None,
            interrupted: None,
            announced: 0,
            next_announcement: if options.announce { now } else { Nanos::NEVER },
            options,
            station,
            sleeper,
            address,
        }
    }

    fn step(&mut self, stop: &AtomicBool) -> Result<bool, HostError> {
        self.now = now();
        self.longest_gap = self.longest_gap.max(self.now.since(self.due));
        self.due = self.now;
        let received = self.receive();
        self.sender.advance(self.now);
        self.announce();
        let transmitted = self.transmit();
        self.station.flush();
        if self.station.is_removed() {
            return Ok(true);
        }
        if stop.load(Ordering::Relaxed) && self.interrupted.is_none() {
            self.interrupted = Some(self.now);
            self.end();
        }
        if self.options.duration.is_some_and(|duration| self.now >= self.begin.after(duration)) {
            self.end();
        }
        if transmitted == Transmitted::All && self.has_streams {
            self.ending.get_or_insert(self.now);
        }
        if self.is_over(transmitted, received) {
            return Ok(true);
        }
        if !self.options.busy {
            self.wait(transmitted, received)?;
        }
        Ok(false)
    }

    fn end(&mut self) {
        if self.ending.is_none() {
            self.ending = Some(self.now);
        }
        self.sender.stop();
    }

    fn is_over(&self, transmitted: Transmitted, received: Received) -> bool {
        let idle_for = |since: Nanos, linger: Nanos| {
            self.now.since(since.max(self.last_data.unwrap_or_default())) >= linger
        };
        if let Some(interrupted) = self.interrupted {
            let done = transmitted == Transmitted::All && received != Received::More;
            return done || self.now.since(interrupted) >= FAREWELL;
        }
        match (self.ending, self.options.linger) {
            (Some(ending), linger) => {
                idle_for(ending, linger.unwrap_or(if self.has_streams { LINGER } else { Nanos::ZERO }))
            }
            (None, Some(linger)) if !self.has_streams => {
                self.last_data.is_some_and(|last| idle_for(last, linger))
            }
            (None, _) => false,
        }
    }

    fn receive(&mut self) -> Received {
        let mut data = false;
        let more = self.station.receive(&mut self.frames);
        for frame in self.frames.drain(..) {
            let head = self.station.store().head(&frame);
            if let Ok(header) = Header::parse(head) {
                if MacControl::is_mac_control(&header) {
                    self.gate.receive(self.now, &header, head);
                } else if Cnm::is_cnm(&header) {
                    let notice = self.notices.receive(self.now, self.address, &header, head);
                    if let Some((rpid, feedback)) = notice
                        && !self.sender.notified(self.now, rpid, feedback)
                    {
                        self.notices.note_unknown();
                    }
                } else {
                    data |= self.sink.receive(self.now, &header, head, frame.len());
                }
            }
            self.station.store_mut().free(frame);
        }
        if data {
            self.last_data = Some(self.now);
        }
        match (more, data) {
            (true, _) => Received::More,
            (false, true) => Received::Data,
            (false, false) => Received::NoData,
        }
    }

    fn transmit(&mut self) -> Transmitted {
        if let Some(flows) = self.gate.changed_flows(self.now) {
            self.sender.hold_flows(|class, flow| flows.holds(class, flow));
        }
        loop {
            if self.station.committed() >= self.commit {
                return Transmitted::Batch;
            }
            let paused = self.gate.paused(self.now);
            match self.sender.choose(self.now, paused) {
                Choice::Send(turn) => {
                    let Some(frame) = self.station.allocate(turn.frame_len()) else {
                        return Transmitted::Batch;
                    };
                    let bytes = Bytes::on_line(turn.frame_len());
                    self.gate.sent(self.now, self.sender.class(&turn), bytes);
                    self.sender.send(&turn, self.now, self.station.store_mut().head_mut(&frame));
                    self.station.send(frame);
                }
                Choice::Wait(until) => return Transmitted::Until(until),
                Choice::Done => return Transmitted::All,
            }
        }
    }

    fn announce(&mut self) {
        if self.now < self.next_announcement || self.gate.paused(self.now).contains(Class::default()) {
            return;
        }
        self.next_announcement = self.now.after(ANNOUNCE_INTERVAL);
        let bytes = announce::gratuitous_arp(self.address);
        let Some(frame) = self.station.allocate(announce::LEN) else { return };
        self.station.store_mut().head_mut(&frame)[..bytes.len()].copy_from_slice(&bytes);
        self.station.send(frame);
        self.announced += 1;
    }

    fn wait(&mut self, transmitted: Transmitted, received: Received) -> Result<(), HostError> {
        let has_room = matches!(transmitted, Transmitted::Batch) && self.station.committed() < self.commit;
        if has_room || matches!(received, Received::More) {
            return Ok(());
        }
        let now = now();
        let nap_end = now.after(self.options.nap);
        if matches!(received, Received::Data) {
            nap(self.options.nap);
            self.woke(nap_end);
            return Ok(());
        }
        let next_send = match transmitted {
            Transmitted::Batch => nap_end,
            Transmitted::Until(until) => until,
            Transmitted::All => Nanos::NEVER,
        };
        let unsent = if self.station.committed() == Bytes::ZERO { Nanos::NEVER } else { nap_end };
        let until = [next_send, unsent, self.gate.next_change(), self.next_announcement, self.next_end()]
            .into_iter()
            .fold(now.after(SLEEP_MAX), Nanos::min)
            .max(nap_end);
        let device = || self.options.device.clone();
        self.sleeper
            .sleep(until.since(now))
            .map_err(|source| HostError::Wait { device: device(), source })?;
        self.woke(until);
        Ok(())
    }

    fn woke(&mut self, until: Nanos) {
        let now = now();
        if now >= until {
            self.gaps.saturating_record(now.since(until).0);
        }
        self.due = until.min(now);
    }

    fn next_end(&self) -> Nanos {
        match self.options.duration {
            Some(duration) if self.ending.is_none() => self.begin.after(duration),
            _ => Nanos::NEVER,
        }
    }

    fn report(self, streams: &[Stream]) -> HostReport {
        let now = now();
        let report = HostParts {
            address: self.address,
            id: self.id,
            line: self.options.line,
            streams,
            sender: &self.sender,
            sink: &self.sink,
            gate: &self.gate,
            notices: &self.notices,
        }
        .report(self.begin, now);
        HostReport {
            device: self.options.device.clone(),
            longest_gap_ns: self.longest_gap.0,
            usual_gap_ns: self.gaps.value_at_quantile(0.5),
            unsorted: UnsortedReport { announcements_sent: self.announced, ..report.unsorted },
            drops: self.station.drops(),
            device_gone: self.station.is_removed(),
            ..report
        }
    }
}
