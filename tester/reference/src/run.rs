//! Runs the switch on interfaces over AF_XDP, in one thread that polls all ports.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use xoff_dataplane::frame::FrameStore as _;
use xoff_traffic::station::Station;
use xoff_wire::units::{Bytes, Nanos};
use xoff_xdp::XdpError;
use xoff_xdp::clock::now;
use xoff_xdp::host::run_in_real_time;
use xoff_xdp::sleeper::Sleeper;

use crate::links::Links;
use crate::switch::{Settings, Switch};

const RING: u32 = 4_096;
const PRIORITY: i32 = 1;
/// Maximum unsent bytes that a port has handed to the kernel, where a pause cannot stop them.
const COMMITTED_MAX: Bytes = Bytes(20_000);
const LINKS_INTERVAL_NS: u64 = 5_000_000;
const COUNTERS_INTERVAL_NS: u64 = 50_000_000;
/// Longest sleep between two polls within `BUSY_NS` after a frame; otherwise, `SLEEP` is the longest.
const NAP: Nanos = Nanos(25_000);
const SLEEP: Nanos = Nanos(500_000);
const BUSY_NS: u64 = 20_000_000;
/// Maximum time without a sleep: the kernel throttles a real-time thread that never sleeps.
const WORK_NS: u64 = 750_000;
const REST: Duration = Duration::from_micros(60);

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Port(#[from] XdpError),
    #[error("cannot read the links of the ports: {0}")]
    Links(#[source] io::Error),
    #[error("cannot wait for frames: {0}")]
    Wait(#[source] io::Error),
    #[error("cannot write the counters to `{}`: {source}", .path.display())]
    Counters { path: PathBuf, source: io::Error },
    #[error("interface `{0}` was removed")]
    Removed(String),
}

/// Runs a switch on `devices` until `stop` is set. Writes the switch's counters to the file `counters` every 50 ms.
///
/// # Errors
/// If a port cannot be opened or was removed, if links cannot be read, or if counters cannot be written.
pub fn run(
    settings: Settings,
    devices: &[String],
    counters: Option<&Path>,
    stop: &AtomicBool,
) -> Result<(), RunError> {
    let stations = devices.iter().map(|device| Station::open(device, RING));
    let mut stations = stations.collect::<Result<Vec<_>, _>>()?;
    let mut links = Links::open(devices).map_err(RunError::Links)?;
    let ports = stations.iter().map(|station| (station.facts().device.clone(), station.address().0));
    let mut switch = Switch::new(settings, ports);
    let mut wakers = Vec::new();
    for station in &stations {
        wakers.extend(station.wakers().map_err(RunError::Wait)?);
    }
    let mut sleeper = Sleeper::new(&wakers);
    if let Err(error) = run_in_real_time(PRIORITY) {
        eprintln!("cannot get real-time priority, so the switch may stall: {error}");
    }
    let (mut received, mut busy_until, mut rest_due, mut links_due, mut counters_due) =
        (Vec::new(), 0, 0, 0, 0);
    println!("ready");
    while !stop.load(Ordering::Relaxed) {
        let mut is_busy = false;
        for (at, station) in stations.iter_mut().enumerate() {
            station.receive(&mut received);
            let at_ns = now().0;
            for frame in received.drain(..) {
                let mut bytes = vec![0; frame.len() as usize];
                station.store().read(&frame, &mut bytes);
                station.store_mut().free(frame);
                switch.receive(at, bytes, at_ns);
                is_busy = true;
            }
        }
        let at_ns = now().0;
        if at_ns >= links_due {
            links_due = at_ns + LINKS_INTERVAL_NS;
            links.read(|at, is_up| switch.set_link(at, is_up, at_ns)).map_err(RunError::Links)?;
        }
        switch.poll(at_ns);
        for (at, station) in stations.iter_mut().enumerate() {
            is_busy |= transmit(&mut switch, at, station)?;
        }
        if let Some(path) = counters.filter(|_| at_ns >= counters_due) {
            counters_due = at_ns + COUNTERS_INTERVAL_NS;
            write(&switch, path)?;
        }
        if is_busy || switch.has_frames() {
            busy_until = at_ns + BUSY_NS;
        }
        if !is_busy {
            let span = if at_ns < busy_until { NAP } else { SLEEP };
            sleeper.sleep(span).map_err(RunError::Wait)?;
            rest_due = at_ns + WORK_NS;
        } else if at_ns >= rest_due {
            thread::sleep(REST);
            rest_due = at_ns + WORK_NS;
        }
    }
    counters.map_or(Ok(()), |path| write(&switch, path))
}

fn transmit(switch: &mut Switch, at: usize, station: &mut Station) -> Result<bool, RunError> {
    if station.is_removed() {
        return Err(RunError::Removed(station.facts().device.clone()));
    }
    let mut has_sent = false;
    while station.committed() < COMMITTED_MAX {
        let Some(bytes) = switch.transmit(at, now().0) else { break };
        let frame =
            station.store_mut().make(&bytes).expect("frame memory must hold more than COMMITTED_MAX bytes");
        station.send(frame);
        has_sent = true;
    }
    station.flush();
    Ok(has_sent)
}

fn write(switch: &Switch, path: &Path) -> Result<(), RunError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let refused = |source| RunError::Counters { path: path.to_owned(), source };
    fs::write(&new, switch.counters()).and_then(|()| fs::rename(&new, path)).map_err(refused)
}
