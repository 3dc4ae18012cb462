//! Delay line, which replaces a link's cable: delays and loses frames as configured, and counts all frames.
//!
//! ```text
//!   node -- veth == AF_XDP port -- delay line -- AF_XDP port == veth -- node
//! ```
//!
//! While one node's device is down, the other node's device has no carrier.

mod carrier;
mod counts;
pub mod impairment;
mod relay;
mod waiting;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use xoff_ebpf::Mode;
use xoff_flow_control::classify::Classifier;
use xoff_wire::units::{BitRate, Bytes, ClassSet, Nanos};
use xoff_xdp::{Losses, Monitor, Overlap, Port, PortDriver as _, PortOptions, Share, Store, XdpError};

use crate::{Device, LabError};
use carrier::Carrier;
use counts::Counts;
pub use counts::{Carried, LostFrames};
pub use impairment::Impairment;
use relay::{PORTS, Relay, RelayParts};

#[derive(Clone, Debug)]
pub struct LineSettings {
    pub options: [PortOptions; 2],
    pub memory: Share,
    /// Maximum layer-1 bytes on the line in each direction.
    pub capacity: Bytes,
    /// Maximum of delay plus jitter for which the line has memory.
    pub delay_max: Nanos,
    pub classifier: Classifier,
    pub lossless: ClassSet,
    /// Maximum rate at which late frames leave.
    pub rate: BitRate,
    pub impairments: [Impairment; 2],
    pub seed: u64,
}

#[derive(Debug)]
pub struct LineState {
    impairments: Mutex<[Impairment; 2]>,
    version: AtomicU64,
    is_down: AtomicBool,
    carries: AtomicBool,
    stop: AtomicBool,
    counts: [Counts; 2],
    monitors: [Arc<Monitor>; 2],
    overlaps: [Overlap; 2],
    pub(crate) delay_max: Nanos,
    /// Impairments in the lab's file by direction; switches have headroom for them.
    pub(crate) planned: [Impairment; 2],
    failure: OnceLock<String>,
}

impl LineState {
    #[must_use]
    pub fn impairments(&self) -> [Impairment; 2] {
        *self.impairments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_impairments(&self, impairments: [Impairment; 2]) {
        *self.impairments.lock().unwrap_or_else(PoisonError::into_inner) = impairments;
        self.version.fetch_add(1, Relaxed);
    }

    /// Takes the line down or up. The line's thread obeys within 20 ms.
    pub fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Relaxed);
    }

    #[must_use]
    pub fn carries(&self) -> bool {
        self.carries.load(Relaxed)
    }

    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.get().cloned()
    }

    fn fail(&self, why: String) {
        self.carries.store(false, Relaxed);
        let _ = self.failure.set(why); // only the first failure counts
    }

    #[must_use]
    pub fn carried(&self) -> [Carried; 2] {
        let losses = |end: usize| {
            let monitor = &self.monitors[end];
            let device = monitor.device_drops().unwrap_or_else(|unread| unread.last);
            Losses::of(&monitor.xdp_statistics().unwrap_or_default(), &device, self.overlaps[end])
        };
        let ends = [losses(0), losses(1)];
        [0, 1].map(|from| {
            let received = ends[from].total() - ends[from].sent;
            self.counts[from].read(received + ends[1 - from].sent)
        })
    }
}

struct Ending(Arc<LineState>);

impl Drop for Ending {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail("its thread panicked".into());
        }
    }
}

#[derive(Debug)]
pub struct Line {
    state: Arc<LineState>,
    thread: Option<JoinHandle<()>>,
}

impl Line {
    /// Starts a delay line between the devices `line` in a separate namespace. Their veth peers are the nodes' devices `nodes`.
    pub fn start(line: [&Device; 2], nodes: [&Device; 2], settings: LineSettings) -> Result<Line, LabError> {
        let namespace = line[0].namespace();
        let LineSettings {
            options,
            memory,
            capacity,
            delay_max,
            classifier,
            lossless,
            rate,
            impairments,
            seed,
        } = settings;
        let carrier = Carrier::open(line, nodes)?;
        let (store, ports) =
            namespace.try_run(|| open(&options, &memory)).map_err(|source| LabError::Io {
                what: format!("open the delay line of {} and {}", line[0].name(), line[1].name()),
                namespace: namespace.name().to_owned(),
                source,
            })?;
        let state = Arc::new(LineState {
            impairments: Mutex::new(impairments),
            version: AtomicU64::new(0),
            is_down: AtomicBool::new(false),
            carries: AtomicBool::new(true),
            stop: AtomicBool::new(false),
            counts: Default::default(),
            monitors: ports.each_ref().map(Port::monitor),
            overlaps: ports.each_ref().map(|port| {
                let facts = port.facts();
                Overlap::of(&facts.driver, facts.mode == Mode::Native)
            }),
            delay_max,
            planned: impairments,
            failure: OnceLock::new(),
        });
        let parts = RelayParts { store, ports, carrier, classifier, lossless, capacity, rate, seed };
        let (relay, shared) = (Relay::new(parts, Arc::clone(&state)), Arc::clone(&state));
        let thread = namespace.spawn_thread(move || {
            let ending = Ending(shared);
            if let Err(error) = relay.run() {
                ending.0.fail(error.to_string());
            }
        });
        Ok(Line { state, thread: Some(thread) })
    }

    #[must_use]
    pub fn state(&self) -> &Arc<LineState> {
        &self.state
    }

    /// Requests the end of the thread, without waiting for it.
    pub fn stop(&self) {
        self.state.stop.store(true, Relaxed);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic has been printed
        }
    }
}

fn open(options: &[PortOptions; 2], memory: &Share) -> io::Result<(Store, [Port; 2])> {
    let mut store = Store::cut(&[*memory]).map_err(io::Error::other)?.remove(0);
    let mut port = |end: usize| -> Result<Port, XdpError> {
        let port = Port::open(&mut store, PORTS[end], &options[end])?;
        port.monitor().begin();
        Ok(port)
    };
    let ports = [port(0).map_err(io::Error::other)?, port(1).map_err(io::Error::other)?];
    Ok((store, ports))
}
