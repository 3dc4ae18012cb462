//! Bulk transfers by the kernel's TCP, and what its counters say of them.
//!
//! Linux takes no notice of pauses, but its TCP slows down where a switch marks or drops, or where segments come out of order
//! and it takes them for lost. How much a sender may have on its way is bounded by the receiver's buffer.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::iter::Sum;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::ops::Add;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpCongestion;
use xoff_dataplane::units::Bytes;

use crate::lab::{LabError, Namespace};

/// A connection that does not move for so long is given up.
const PATIENCE: Duration = Duration::from_secs(10);
const PIECE: usize = 65_536;

/// Whether TCP tells the network that it understands marks (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Every connection asks for it.
    Capable,
    /// None does.
    Incapable,
}

impl Ecn {
    /// The value of `net.ipv4.tcp_ecn`.
    const fn mode(self) -> &'static str {
        match self {
            Ecn::Capable => "1",
            Ecn::Incapable => "0",
        }
    }

    /// What congestion control is to be, the best first. The kernel's own choice may be one that takes no
    /// notice of marks, as BBR; every kernel has reno.
    const fn controls(self) -> &'static [&'static str] {
        match self {
            Ecn::Capable => &["dctcp", "cubic", "reno"],
            Ecn::Incapable => &["cubic", "reno"],
        }
    }
}

/// By what TCP finds segments that it has to send again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// By time (RACK, RFC 8985), what Linux does by itself: one is lost where others that were sent a while after it have come. That
    /// while grows, by quarters of the least round-trip time and to one round-trip time at most, where segments are found to have come
    /// late after all.
    Rack,
    /// By three duplicate acknowledgements (`NewReno`, RFC 6582), and never by more.
    Dupack,
    /// By time-outs alone, whatever the order of acknowledgements: the transport of `DeTail`, whose paths are lossless.
    Timeout,
}

/// More than any window has segments.
const NEVER_SO_MANY: &str = "1000000";

impl LossDetection {
    /// What results call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            LossDetection::Rack => "rack",
            LossDetection::Dupack => "dupack",
            LossDetection::Timeout => "timeout",
        }
    }

    /// Settings of `net.ipv4` that make it so. Linux counts duplicate acknowledgements where there is no SACK; since 6.17 it finds
    /// losses of connections with SACK by RACK alone, whatever `tcp_recovery` is. Once it has seen segments out of order it wants
    /// more duplicate acknowledgements than three, up to `tcp_max_reordering`.
    const fn settings(self) -> [(&'static str, &'static str); 4] {
        let (sack, reordering, most) = match self {
            LossDetection::Rack => ("1", "3", "300"),
            LossDetection::Dupack => ("0", "3", "3"),
            LossDetection::Timeout => ("0", NEVER_SO_MANY, NEVER_SO_MANY),
        };
        [
            ("tcp_recovery", "1"),
            ("tcp_sack", sack),
            ("tcp_max_reordering", most), // first: it bounds the other
            ("tcp_reordering", reordering),
        ]
    }
}

/// How TCP of hosts is set up.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether it asks for marks.
    pub ecn: Ecn,
    /// What it takes for lost.
    pub detection: LossDetection,
    /// Of each connection.
    pub receive_buffer: Bytes,
}

impl Options {
    /// Sets a host up, before its connections.
    ///
    /// # Errors
    /// Where the kernel refuses a setting.
    pub fn prepare(&self, host: &Namespace) -> Result<(), LabError> {
        host.sysctl("ipv4/tcp_ecn", self.ecn.mode())?;
        host.sysctl("ipv4/tcp_rmem", &format!("4096 {0} {0}", self.receive_buffer.0))?;
        let mut settings = self.detection.settings().into_iter();
        settings.try_for_each(|(name, value)| host.sysctl(&format!("ipv4/{name}"), value))
    }
}

/// The ends of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// Who sends.
    pub sender: &'a Namespace,
    /// To whom.
    pub receiver: &'a Namespace,
    /// Of the receiver.
    pub address: Ipv4Addr,
}

impl Pair<'_> {
    /// Both ends of a new connection: the sender's, the receiver's.
    fn connect(&self) -> Result<[TcpStream; 2], LabError> {
        let Pair { sender, receiver, address } = *self;
        let listener = receiver.run(|| TcpListener::bind((address, 0)));
        let listener = listener.map_err(|error| failed("listen", receiver, error))?;
        let place = listener.local_addr().map_err(|error| failed("listen", receiver, error))?;
        let out = sender.run(|| TcpStream::connect_timeout(&place, PATIENCE));
        let out = out.map_err(|error| failed("connect", sender, error))?;
        let (into, _) = listener.accept().map_err(|error| failed("accept", receiver, error))?;
        Ok([out, into])
    }
}

/// Flows that run until they are told to end.
pub struct Transfer {
    /// Their congestion control: the best that the kernel has.
    pub congestion_control: &'static str,
    flows: Vec<Flow>,
    stop: Arc<AtomicBool>,
}

struct Flow {
    read: Arc<AtomicU64>,
    writer: JoinHandle<Result<u64, LabError>>,
    reader: JoinHandle<Result<(), LabError>>,
}

/// Bytes of one flow, when it had ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Taken by the sender's TCP.
    pub written: u64,
    /// Given out by the receiver's TCP, to the end of the flow.
    pub read: u64,
}

impl Transfer {
    /// Connects all pairs, and then lets all of them send.
    ///
    /// # Errors
    /// Where a connection does not come about.
    pub fn start(pairs: &[Pair<'_>], ecn: Ecn) -> Result<Transfer, LabError> {
        let connections = pairs.iter().map(|pair| Ok((*pair, pair.connect()?)));
        let connections = connections.collect::<Result<Vec<_>, LabError>>()?;
        let congestion_control =
            connections.first().map_or(ecn.controls()[0], |(_, [out, _])| best_control(out, ecn));
        for (Pair { sender, receiver, .. }, [out, into]) in &connections {
            set_up(out, congestion_control).map_err(|error| failed("set TCP up", sender, error))?;
            set_up(into, congestion_control).map_err(|error| failed("set TCP up", receiver, error))?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let flow = |(pair, [out, into]): (Pair<'_>, [TcpStream; 2])| Flow::start(pair, out, into, &stop);
        Ok(Transfer { congestion_control, flows: connections.into_iter().map(flow).collect(), stop })
    }

    /// Bytes that receivers have read of each flow.
    pub fn read(&self) -> impl Iterator<Item = u64> {
        self.flows.iter().map(|flow| flow.read.load(Ordering::Relaxed))
    }

    /// Ends the flows, and waits until all that was written has been read.
    ///
    /// # Errors
    /// What a flow ended with before.
    pub fn finish(self) -> Result<Vec<Volume>, LabError> {
        self.stop.store(true, Ordering::Relaxed);
        self.flows.into_iter().map(Flow::finish).collect()
    }
}

/// The first that the kernel has, tried out on a socket.
fn best_control(socket: &impl AsFd, ecn: Ecn) -> &'static str {
    let (&last, better) = ecn.controls().split_last().expect("there is one");
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
        let panicked = "it does not panic";
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

/// What the kernel of a host has counted since the host was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// IP packets that came marked "congestion experienced" (`IpExtInCEPkts`).
    pub marked: u64,
    /// TCP segments with data, each counted once (`TcpExtTCPOrigDataSent`).
    pub segments: u64,
    /// Those sent again (`TcpRetransSegs`).
    pub retransmitted: u64,
    /// TCP segments that came before an earlier one (`TcpExtTCPOFOQueue`).
    pub out_of_order: u64,
    /// Times that TCP slowed down for a loss that it had found by duplicate acknowledgements (`TcpExtTCPRenoRecovery`).
    pub dupack_recoveries: u64,
    /// The same by what SACK said (`TcpExtTCPSackRecovery`).
    pub sack_recoveries: u64,
    /// Retransmissions because nothing was acknowledged in time (`TcpExtTCPTimeouts`).
    pub timeouts: u64,
    /// Segments that came and found no room in a receive buffer.
    pub refused: u64,
}

/// Of `TcpExt`: each is a segment, but for `OfoPruned`, which may be several.
const REFUSED: [&str; 5] = ["OfoPruned", "TCPBacklogDrop", "TCPOFODrop", "TCPRcvQDrop", "TCPZeroWindowDrop"];

impl Counts {
    /// Of this host.
    ///
    /// # Errors
    /// Where the kernel does not show them.
    pub fn of(host: &Namespace) -> Result<Counts, LabError> {
        let read = |file: &str| fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        let text = host.run(|| Ok(read("snmp")? + &read("netstat")?));
        let text = text.map_err(|error| failed("read the counters", host, error))?;
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
}

impl Add for Counts {
    type Output = Counts;
    fn add(self, other: Counts) -> Counts {
        Counts {
            marked: self.marked + other.marked,
            segments: self.segments + other.segments,
            retransmitted: self.retransmitted + other.retransmitted,
            out_of_order: self.out_of_order + other.out_of_order,
            dupack_recoveries: self.dupack_recoveries + other.dupack_recoveries,
            sack_recoveries: self.sack_recoveries + other.sack_recoveries,
            timeouts: self.timeouts + other.timeouts,
            refused: self.refused + other.refused,
        }
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(hosts: I) -> Counts {
        hosts.fold(Counts::default(), Add::add)
    }
}

/// Of pairs of lines, names and values, that begin with the name of their group.
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
