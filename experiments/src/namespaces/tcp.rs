use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use derive_more::{Add, Sum};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpCongestion;

use xoff_lab::{LabError, Namespace};
use xoff_wire::units::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    Capable,
    Incapable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// RACK (RFC 8985), Linux' default: a segment is lost once a segment arrives that was sent a reordering window
    /// later.
    Rack,
    /// Three duplicate acknowledgements (`NewReno`, RFC 6582); reordering does not raise this number.
    Dupack,
    /// Time-outs alone, as in the transport of `DeTail`, whose paths lose no frames.
    Timeout,
}

impl LossDetection {
    pub const fn name(self) -> &'static str {
        match self {
            LossDetection::Rack => "rack",
            LossDetection::Dupack => "dupack",
            LossDetection::Timeout => "timeout",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub ecn: Ecn,
    pub detection: LossDetection,
    pub receive_buffer: Bytes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    pub written: u64,
    pub read: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Add, Sum)]
pub struct Counts {
    /// Packets received with a congestion mark (`IpExtInCEPkts`).
    pub marked: u64,
    /// Sent segments, retransmissions not counted (`TcpExtTCPOrigDataSent`).
    pub segments: u64,
    pub retransmitted: u64,
    /// Segments received out of order (`TcpExtTCPOFOQueue`).
    pub out_of_order: u64,
    /// Recoveries after duplicate acknowledgements (`TcpExtTCPRenoRecovery`).
    pub dupack_recoveries: u64,
    /// Recoveries after selective acknowledgements (`TcpExtTCPSackRecovery`).
    pub sack_recoveries: u64,
    /// Expired retransmission timers (`TcpExtTCPTimeouts`).
    pub timeouts: u64,
    pub refused: u64,
}

const PATIENCE: Duration = Duration::from_secs(10);
const PIECE: usize = 65_536;

const NEVER_SO_MANY: &str = "1000000";

const fn mode(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::Capable => "1",
        Ecn::Incapable => "0",
    }
}

/// Returns congestion controls in order of preference, without the kernel's default: it may ignore marks, as BBR does.
const fn controls(ecn: Ecn) -> &'static [&'static str] {
    match ecn {
        Ecn::Capable => &["dctcp", "cubic", "reno"],
        Ecn::Incapable => &["cubic", "reno"],
    }
}

/// Returns `net.ipv4` settings. Linux counts duplicate acknowledgements only without SACK. After reordering it requires
/// more than three, up to `tcp_max_reordering`.
const fn settings(detection: LossDetection) -> [(&'static str, &'static str); 4] {
    let (sack, reordering, most) = match detection {
        LossDetection::Rack => ("1", "3", "300"),
        LossDetection::Dupack => ("0", "3", "3"),
        LossDetection::Timeout => ("0", NEVER_SO_MANY, NEVER_SO_MANY),
    };
    [
        ("tcp_recovery", "1"),
        ("tcp_sack", sack),
        ("tcp_max_reordering", most), // first, because it limits the next
        ("tcp_reordering", reordering),
    ]
}

pub(super) fn prepare(host: &Namespace, options: &Options) -> Result<(), LabError> {
    host.sysctl("ipv4/tcp_ecn", mode(options.ecn))?;
    host.sysctl("ipv4/tcp_rmem", &format!("4096 {0} {0}", options.receive_buffer.0))?;
    let mut settings = settings(options.detection).into_iter();
    settings.try_for_each(|(name, value)| host.sysctl(&format!("ipv4/{name}"), value))
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    pub(super) sender: &'a Namespace,
    pub(super) receiver: &'a Namespace,
    pub(super) address: Ipv4Addr,
}

impl Pair<'_> {
    fn connect(&self) -> Result<[TcpStream; 2], LabError> {
        let Pair { sender, receiver, address } = *self;
        let listener = receiver.try_run(|| TcpListener::bind((address, 0)));
        let listener = listener.map_err(|error| failed("listen", receiver, error))?;
        let place = listener.local_addr().map_err(|error| failed("listen", receiver, error))?;
        let out = sender.try_run(|| TcpStream::connect_timeout(&place, PATIENCE));
        let out = out.map_err(|error| failed("connect", sender, error))?;
        let (into, _) = listener.accept().map_err(|error| failed("accept", receiver, error))?;
        Ok([out, into])
    }
}

pub(crate) struct Flows {
    congestion_control: &'static str,
    flows: Vec<Flow>,
    stop: Arc<AtomicBool>,
}

struct Flow {
    read: Arc<AtomicU64>,
    writer: JoinHandle<Result<u64, LabError>>,
    reader: JoinHandle<Result<(), LabError>>,
}

impl Flows {
    pub(super) fn start(pairs: &[Pair<'_>], ecn: Ecn) -> Result<Flows, LabError> {
        let connections = pairs.iter().map(|pair| Ok((*pair, pair.connect()?)));
        let connections = connections.collect::<Result<Vec<_>, LabError>>()?;
        let congestion_control =
            connections.first().map_or(controls(ecn)[0], |(_, [out, _])| best_control(out, ecn));
        for (Pair { sender, receiver, .. }, [out, into]) in &connections {
            set_up(out, congestion_control).map_err(|error| failed("set TCP up", sender, error))?;
            set_up(into, congestion_control).map_err(|error| failed("set TCP up", receiver, error))?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let flow = |(pair, [out, into]): (Pair<'_>, [TcpStream; 2])| Flow::start(pair, out, into, &stop);
        Ok(Flows { congestion_control, flows: connections.into_iter().map(flow).collect(), stop })
    }

    pub(crate) fn congestion_control(&self) -> &'static str {
        self.congestion_control
    }

    pub(crate) fn read(&self) -> Vec<u64> {
        self.flows.iter().map(|flow| flow.read.load(Ordering::Relaxed)).collect()
    }

    pub(crate) fn finish(self) -> Result<Vec<Volume>, LabError> {
        self.stop.store(true, Ordering::Relaxed);
        self.flows.into_iter().map(Flow::finish).collect()
    }
}

fn best_control(socket: &impl AsFd, ecn: Ecn) -> &'static str {
    let (&last, better) = controls(ecn).split_last().expect("there is one");
    let found = better.iter().find(|name| setsockopt(socket, TcpCongestion, &name.into()).is_ok());
    found.copied().unwrap_or(last)
}

fn set_up(socket: &TcpStream, congestion_control: &str) -> io::Result<()> {
    setsockopt(socket, TcpCongestion, &congestion_control.into())?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.set_read_timeout(Some(PATIENCE))
}

impl Flow {
    fn start(pair: Pair<'_>, out: TcpStream, into: TcpStream, stop: &Arc<AtomicBool>) -> Flow {
        let read = Arc::new(AtomicU64::new(0));
        let (stop, count) = (Arc::clone(stop), Arc::clone(&read));
        let (from, to) = (pair.sender.clone(), pair.receiver.clone());
        Flow {
            read,
            writer: thread::spawn(move || write(out, &stop).map_err(|error| failed("send", &from, error))),
            reader: thread::spawn(move || drain(into, &count).map_err(|error| failed("receive", &to, error))),
        }
    }

    fn finish(self) -> Result<Volume, LabError> {
        let panicked = "a transfer thread panicked";
        let written = self.writer.join().expect(panicked)?;
        self.reader.join().expect(panicked)?;
        Ok(Volume { written, read: self.read.load(Ordering::Relaxed) })
    }
}

fn write(mut out: TcpStream, stop: &AtomicBool) -> io::Result<u64> {
    let piece = vec![0; PIECE];
    let mut written = 0;
    while !stop.load(Ordering::Relaxed) {
        written += out.write(&piece)? as u64;
    }
    out.shutdown(Shutdown::Write)?;
    Ok(written)
}

fn drain(mut into: TcpStream, count: &AtomicU64) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match into.read(&mut piece)? {
            0 => return Ok(()),
            bytes => count.fetch_add(bytes as u64, Ordering::Relaxed),
        };
    }
}

const REFUSED: [&str; 5] = ["OfoPruned", "TCPBacklogDrop", "TCPOFODrop", "TCPRcvQDrop", "TCPZeroWindowDrop"];

pub(super) fn counts(host: &Namespace) -> Result<Counts, LabError> {
    let read = |file: &str| fs::read_to_string(format!("/proc/thread-self/net/{file}"));
    let text = host.try_run(|| Ok(read("snmp")? + &read("netstat")?));
    let text = text.map_err(|error| failed("read the TCP counters", host, error))?;
    let counter = |group, name| {
        let unknown = || failed(&format!("find {name}"), host, io::ErrorKind::NotFound.into());
        counter(&text, group, name).ok_or_else(unknown)
    };
    Ok(Counts {
        marked: counter("IpExt:", "InCEPkts")?,
        segments: counter("TcpExt:", "TCPOrigDataSent")?,
        retransmitted: counter("Tcp:", "RetransSegs")?,
        out_of_order: counter("TcpExt:", "TCPOFOQueue")?,
        dupack_recoveries: counter("TcpExt:", "TCPRenoRecovery")?,
        sack_recoveries: counter("TcpExt:", "TCPSackRecovery")?,
        timeouts: counter("TcpExt:", "TCPTimeouts")?,
        refused: REFUSED.iter().map(|name| counter("TcpExt:", name)).sum::<Result<u64, _>>()?,
    })
}

fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.split_whitespace().next() == Some(group));
    let place = lines.next()?.split_whitespace().position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(place)?.parse().ok()
}

fn failed(what: &str, host: &Namespace, source: io::Error) -> LabError {
    LabError::Io { what: what.to_owned(), namespace: host.name().to_owned(), source }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
