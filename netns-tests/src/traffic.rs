//! Traffic between hosts that obey pauses.
//!
//! All hosts announce their addresses and open their devices before any host sends, so that no frame is flooded. A run
//! ends when all sent frames have arrived, or none arrives for a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use xoff_flow_control::congestion::ReactionSettings;
use xoff_host::report::ReceivedStream;
use xoff_host::{HostReport, Obedience, Progress, Volume, announce, parse_streams, settle};
use xoff_traffic::{self, HostOptions};
use xoff_wire::units::{BitRate, Nanos};

use crate::{Host, stall};

const PATIENCE: Duration = Duration::from_secs(60);
/// Time without arrivals after which missing frames count as lost.
const QUIET: Duration = Duration::from_secs(1);
/// Number of frames that a host's ring holds: those of half a second at 200 Mb/s.
const RING: u32 = 8192;
const FOREVER: Nanos = Nanos::from_secs(3600);

/// Describes a stream of `count` frames for `xoff traffic`. `rate` counts bits per second on the line, such as `"50M"`.
#[must_use]
pub fn stream(to: &Host, class: u8, rate: &str, count: u64) -> String {
    format!("dst={},class={class},rate={rate},count={count}", to.mac())
}

pub struct Traffic<'a> {
    line: BitRate,
    qcn: Option<ReactionSettings>,
    hosts: Vec<(&'a Host, HostOptions, Vec<String>)>,
}

impl<'a> Traffic<'a> {
    #[must_use]
    pub fn at_mbps(line: u64) -> Traffic<'a> {
        Traffic { line: BitRate::from_mbps(line), qcn: None, hosts: Vec::new() }
    }

    /// Gives rate limiters and CN-TAGs to hosts that are added later.
    #[must_use]
    pub fn rate_limited(mut self) -> Traffic<'a> {
        self.qcn = Some(ReactionSettings::STANDARD);
        self
    }

    #[must_use]
    pub fn sink(self, host: &'a Host) -> Traffic<'a> {
        self.source(host, &[])
    }

    /// Adds a sender of `streams` in the syntax of `xoff traffic`. Each stream needs a `count`.
    #[must_use]
    pub fn source(self, host: &'a Host, streams: &[String]) -> Traffic<'a> {
        self.source_that(host, streams, Obedience::Obey)
    }

    #[must_use]
    pub fn source_that(self, host: &'a Host, streams: &[String], obedience: Obedience) -> Traffic<'a> {
        let options = HostOptions { obedience, ..self.options(host) };
        self.with(host, streams, options)
    }

    /// Adds a sender that obeys pauses of single flows (OFC).
    #[must_use]
    pub fn source_of_flows(self, host: &'a Host, streams: &[String]) -> Traffic<'a> {
        let options = HostOptions { obey_flows: true, ..self.options(host) };
        self.with(host, streams, options)
    }

    #[must_use]
    pub fn source_of_rates(self, host: &'a Host, streams: &[String]) -> Traffic<'a> {
        let options = HostOptions { obey_rates: true, ..self.options(host) };
        self.with(host, streams, options)
    }

    fn options(&self, host: &Host) -> HostOptions {
        HostOptions {
            line: self.line,
            linger: Some(FOREVER),
            end_markers: false, // reports are settled with each other; a sink may end before markers arrive
            ring: RING,
            qcn: self.qcn,
            ..HostOptions::new(host.device().name())
        }
    }

    fn with(mut self, host: &'a Host, streams: &[String], options: HostOptions) -> Traffic<'a> {
        self.hosts.push((host, options, streams.to_vec()));
        self
    }

    #[must_use]
    pub fn start(self) -> RunningTraffic {
        self.introduce();
        let start =
            |(host, options, streams): (&Host, _, Vec<_>)| TrafficHost::start(host, options, &streams);
        let hosts: Vec<TrafficHost> = self.hosts.into_iter().map(start).collect();
        for host in &hosts {
            host.go.send(()).expect("the host ended before the start of traffic");
        }
        RunningTraffic { hosts }
    }

    fn introduce(&self) {
        for (host, ..) in &self.hosts {
            let hello = announce::gratuitous_arp(host.mac());
            host.send(hello);
            for (other, ..) in self.hosts.iter().filter(|(other, ..)| other.number() != host.number()) {
                other.tap().wait(1, |bytes| bytes == hello);
            }
        }
    }

    #[must_use]
    pub fn run(self) -> Reports {
        self.start().finish()
    }
}

struct TrafficHost {
    number: u8,
    expected: u64,
    progress: Arc<Progress>,
    go: mpsc::Sender<()>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<HostReport>,
}

impl TrafficHost {
    fn start(host: &Host, options: HostOptions, streams: &[String]) -> TrafficHost {
        let streams = parse_streams(streams).unwrap_or_else(|error| panic!("{error}"));
        let expected = streams.iter().map(|stream| stream.count.expect("the stream has no count")).sum();
        let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
        let (report, opened) = mpsc::channel();
        let (go, may_go) = mpsc::channel();
        let (halt, count) = (Arc::clone(&stop), Arc::clone(&progress));
        let thread = host.namespace().spawn_thread(move || {
            let host = xoff_traffic::Host::open(options).unwrap_or_else(|error| panic!("{error}"));
            report.send(()).expect("the harness ended before the host's device was open");
            may_go.recv().expect("the harness ended without starting the host");
            host.run(&streams, &halt, &count).unwrap_or_else(|error| panic!("{error}"))
        });
        opened.recv().expect("the host could not open its device");
        TrafficHost { number: host.number(), expected, progress, go, stop, thread }
    }
}

pub struct RunningTraffic {
    hosts: Vec<TrafficHost>,
}

impl RunningTraffic {
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.total(|progress| &progress.sent)
    }

    #[must_use]
    pub fn received(&self) -> u64 {
        self.total(|progress| &progress.received)
    }

    #[must_use]
    pub fn received_at(&self, host: &Host, class: usize) -> u64 {
        let running_host = self.hosts.iter().find(|running_host| running_host.number == host.number());
        running_host.expect("the host must take part in the traffic").progress.received[class].frames.get()
    }

    pub fn wait_received(&self, frames: u64) {
        self.wait(&format!("{frames} frames to arrive"), || self.received() >= frames);
    }

    #[must_use]
    pub fn finish(self) -> Reports {
        let expected = self.hosts.iter().map(|host| host.expected).sum();
        self.wait("all frames to be sent", || self.sent() >= expected);
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

    pub fn wait(&self, what: &str, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            let ended = self.hosts.iter().any(|host| host.thread.is_finished());
            assert!(!ended, "a host ended while the test was waiting for {what}");
            assert!(
                start.elapsed() < PATIENCE,
                "timeout after {PATIENCE:?} while waiting for {what}: {} frames sent, {} received",
                self.sent(),
                self.received()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[derive(Debug)]
pub struct Reports {
    numbers: Vec<u8>,
    reports: Vec<HostReport>,
}

impl Reports {
    #[must_use]
    pub fn of(&self, host: &Host) -> &HostReport {
        let place = self.numbers.iter().position(|&number| number == host.number());
        &self.reports[place.expect("the host must have taken part in the traffic")]
    }

    #[must_use]
    pub fn received(&self, from: &Host, stream: u8, to: &Host) -> &ReceivedStream {
        let key = (u16::from(from.number()), stream);
        let received = &self.of(to).received;
        received
            .iter()
            .find(|it| (it.sender, it.stream) == key)
            .expect("the receiver must have a report of the stream")
    }

    /// Asserts that streams of these classes arrived complete, once and in order, and no host dropped a frame.
    pub fn assert_lossless(&self, classes: &[u8]) {
        for report in &self.reports {
            let streams = report.received.iter().filter(|stream| classes.contains(&stream.class));
            let wrong: Vec<String> = streams.filter_map(ReceivedStream::violation).collect();
            assert!(wrong.is_empty(), "at {}: {wrong:#?}", report.address);
            assert_eq!(report.drops.total, 0, "at {}: {:?}", report.address, report.drops);
        }
    }
}
