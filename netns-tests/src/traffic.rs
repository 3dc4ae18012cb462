//! Traffic between hosts that obey pauses, and what became of it.
//!
//! Every host has made itself known, and has opened its device, before any of them sends: no frame of a test is
//! flooded because its receiver came late. A run is over when all that was sent has arrived, or when nothing has
//! for a while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use xoff_dataplane::congestion::ReactionSettings;
use xoff_dataplane::units::{BitRate, Nanos};
use xoff_host::report::ReceivedStream;
use xoff_host::{HostReport, Obedience, Progress, Volume, announce, parse_streams, settle};
use xoff_traffic::{self, HostOptions};

use crate::{Host, stall};

/// How long a run may take: much longer than it ever does.
const PATIENCE: Duration = Duration::from_secs(60);
/// What has not arrived when nothing has arrived for so long is lost.
const QUIET: Duration = Duration::from_secs(1);
/// Frames that a host can receive while it is stalled: half a second's worth at 200 Mb/s.
const RING: u32 = 8192;
/// Until the harness says so, no host ends.
const FOREVER: Nanos = Nanos::from_secs(3600);

/// Frames of `class` to `to`, at `rate` (bits per second of the line, such as `"50M"`).
#[must_use]
pub fn stream(to: &Host, class: u8, rate: &str, count: u64) -> String {
    format!("dst={},class={class},rate={rate},count={count}", to.mac())
}

/// Hosts that are going to talk.
pub struct Traffic<'a> {
    line: BitRate,
    qcn: Option<ReactionSettings>,
    hosts: Vec<(&'a Host, HostOptions, Vec<String>)>,
}

impl<'a> Traffic<'a> {
    /// Over lines of this rate.
    #[must_use]
    pub fn at_mbps(line: u64) -> Traffic<'a> {
        Traffic { line: BitRate::from_mbps(line), qcn: None, hosts: Vec::new() }
    }

    /// Hosts that join from here on have a rate limiter for each stream, and CN-TAGs.
    #[must_use]
    pub fn rate_limited(mut self) -> Traffic<'a> {
        self.qcn = Some(ReactionSettings::STANDARD);
        self
    }

    /// `host` receives.
    #[must_use]
    pub fn sink(self, host: &'a Host) -> Traffic<'a> {
        self.source(host, &[])
    }

    /// `host` receives, and sends `streams` as `xoff traffic` takes them, each with a count.
    #[must_use]
    pub fn source(self, host: &'a Host, streams: &[String]) -> Traffic<'a> {
        self.source_that(host, streams, Obedience::Obey)
    }

    /// The same for a host that answers to pauses in its own way.
    #[must_use]
    pub fn source_that(self, host: &'a Host, streams: &[String], obedience: Obedience) -> Traffic<'a> {
        let options = HostOptions { obedience, ..self.options(host) };
        self.with(host, streams, options)
    }

    /// The same for a host that obeys lists of flows.
    #[must_use]
    pub fn source_of_flows(self, host: &'a Host, streams: &[String]) -> Traffic<'a> {
        let options = HostOptions { obey_flows: true, ..self.options(host) };
        self.with(host, streams, options)
    }

    /// The same for a host that keeps the rates that it is asked for.
    #[must_use]
    pub fn source_of_rates(self, host: &'a Host, streams: &[String]) -> Traffic<'a> {
        let options = HostOptions { obey_rates: true, ..self.options(host) };
        self.with(host, streams, options)
    }

    fn options(&self, host: &Host) -> HostOptions {
        HostOptions {
            line: self.line,
            linger: Some(FOREVER),
            end_markers: false, // reports are settled with each other, and a sink may end before they come
            ring: RING,
            qcn: self.qcn,
            ..HostOptions::new(host.device().name())
        }
    }

    fn with(mut self, host: &'a Host, streams: &[String], options: HostOptions) -> Traffic<'a> {
        self.hosts.push((host, options, streams.to_vec()));
        self
    }

    /// All send now.
    #[must_use]
    pub fn start(self) -> Talk {
        self.introduce();
        let start = |(host, options, streams): (&Host, _, Vec<_>)| Talker::start(host, options, &streams);
        let hosts: Vec<Talker> = self.hosts.into_iter().map(start).collect();
        for host in &hosts {
            host.go.send(()).expect("the host waits for it");
        }
        Talk { hosts }
    }

    /// Every host tells where it is, and has been heard by all others: by every switch between them, too.
    fn introduce(&self) {
        for (host, ..) in &self.hosts {
            let hello = announce::gratuitous_arp(host.mac());
            host.send(hello);
            for (other, ..) in self.hosts.iter().filter(|(other, ..)| other.number() != host.number()) {
                other.tap().wait(1, |bytes| bytes == hello);
            }
        }
    }

    /// All send now, until it is over.
    #[must_use]
    pub fn run(self) -> Reports {
        self.start().finish()
    }
}

/// A host on its thread.
struct Talker {
    number: u8,
    expected: u64,
    progress: Arc<Progress>,
    go: mpsc::Sender<()>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<HostReport>,
}

impl Talker {
    fn start(host: &Host, options: HostOptions, streams: &[String]) -> Talker {
        let streams = parse_streams(streams).unwrap_or_else(|error| panic!("{error}"));
        let expected = streams.iter().map(|stream| stream.count.expect("a stream needs a count")).sum();
        let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
        let (report, opened) = mpsc::channel();
        let (go, may_go) = mpsc::channel();
        let (halt, count) = (Arc::clone(&stop), Arc::clone(&progress));
        let thread = host.namespace().spawn_thread(move || {
            let host = xoff_traffic::Host::open(options).unwrap_or_else(|error| panic!("{error}"));
            report.send(()).expect("the harness waits for it");
            may_go.recv().expect("the harness lets it go");
            host.run(&streams, &halt, &count).unwrap_or_else(|error| panic!("{error}"))
        });
        opened.recv().expect("the host has opened its device");
        Talker { number: host.number(), expected, progress, go, stop, thread }
    }
}

/// Traffic under way.
pub struct Talk {
    hosts: Vec<Talker>,
}

impl Talk {
    /// How many frames have been sent by all hosts.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.total(|progress| &progress.sent)
    }

    /// How many frames have arrived at all hosts.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.total(|progress| &progress.received)
    }

    /// How many frames of a class have arrived at one host.
    #[must_use]
    pub fn received_at(&self, host: &Host, class: usize) -> u64 {
        let talker = self.hosts.iter().find(|talker| talker.number == host.number());
        talker.expect("the host takes part").progress.received[class].frames.get()
    }

    /// Waits until so many frames have arrived at all hosts together.
    pub fn wait_received(&self, frames: u64) {
        self.wait(&format!("{frames} frames to arrive"), || self.received() >= frames);
    }

    /// Waits until all is sent, and what can arrive has arrived.
    #[must_use]
    pub fn finish(self) -> Reports {
        let expected = self.hosts.iter().map(|host| host.expected).sum();
        self.wait("everything to be sent", || self.sent() >= expected);
        let mut last = (self.received(), Instant::now());
        self.wait("frames to stop arriving", || {
            let received = self.received();
            if received != last.0 {
                last = (received, Instant::now());
            }
            received >= expected || last.1.elapsed() >= QUIET
        });
        self.hosts.iter().for_each(|host| host.stop.store(true, Ordering::Relaxed));
        let (numbers, threads): (Vec<_>, Vec<_>) =
            self.hosts.into_iter().map(|host| (host.number, host.thread)).unzip();
        let mut reports: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        settle(&mut reports);
        reports.iter().for_each(|report| stall::note_host(report, RING));
        Reports { numbers, reports }
    }

    fn total(&self, volumes: impl Fn(&Progress) -> &[Volume]) -> u64 {
        self.hosts.iter().flat_map(|host| volumes(&host.progress)).map(|volume| volume.frames.get()).sum()
    }

    /// Waits until `done`; panics with `what` where that takes too long.
    pub fn wait(&self, what: &str, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            let ended = self.hosts.iter().any(|host| host.thread.is_finished());
            assert!(!ended, "a host has ended while the others waited for {what}");
            assert!(
                start.elapsed() < PATIENCE,
                "waited {PATIENCE:?} in vain for {what}: {} sent, {} received",
                self.sent(),
                self.received()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What every host says at the end; senders and sinks know of each other.
#[derive(Debug)]
pub struct Reports {
    numbers: Vec<u8>,
    reports: Vec<HostReport>,
}

impl Reports {
    /// What one host says.
    #[must_use]
    pub fn of(&self, host: &Host) -> &HostReport {
        let place = self.numbers.iter().position(|&number| number == host.number());
        &self.reports[place.expect("the host took part")]
    }

    /// What `to` received of stream number `stream` of `from`.
    #[must_use]
    pub fn received(&self, from: &Host, stream: u8, to: &Host) -> &ReceivedStream {
        let key = (u16::from(from.number()), stream);
        let received = &self.of(to).received;
        received.iter().find(|it| (it.sender, it.stream) == key).expect("the stream was sent there")
    }

    /// Every stream of these classes came once, in order and whole, and no host dropped anything.
    pub fn assert_lossless(&self, classes: &[u8]) {
        for report in &self.reports {
            let streams = report.received.iter().filter(|stream| classes.contains(&stream.class));
            let wrong: Vec<String> = streams.filter_map(ReceivedStream::violation).collect();
            assert!(wrong.is_empty(), "at {}: {wrong:#?}", report.address);
            assert_eq!(report.drops.total, 0, "at {}: {:?}", report.address, report.drops);
        }
    }
}
