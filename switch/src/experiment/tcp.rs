//! Bulk transfers by the kernel's TCP, from several hosts to one, and what its counters say of them.
//!
//! Linux takes no notice of pauses, but its TCP slows down where a switch marks or drops. How much a
//! sender may have on its way is bounded by the receiver's buffer.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpCongestion;
use xoff_dataplane::units::Bytes;

use crate::lab::{LabError, Namespace};

/// Where the receiver listens.
const PORT: u16 = 5001;
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

/// Sets TCP of a host up.
///
/// # Errors
/// Where the kernel refuses a setting.
pub fn prepare(host: &Namespace, ecn: Ecn, receive_buffer: Bytes) -> Result<(), LabError> {
    host.sysctl("ipv4/tcp_ecn", ecn.mode())?;
    host.sysctl("ipv4/tcp_rmem", &format!("4096 {0} {0}", receive_buffer.0))
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
    /// Connects every sender to the receiver, and then lets all of them send.
    ///
    /// # Errors
    /// Where a connection does not come about.
    pub fn start(
        senders: &[&Namespace],
        receiver: &Namespace,
        address: Ipv4Addr,
        ecn: Ecn,
    ) -> Result<Transfer, LabError> {
        let listener = receiver.run(|| TcpListener::bind((address, PORT)));
        let listener = listener.map_err(|error| failed("listen", receiver, error))?;
        let congestion_control = best_control(&listener, ecn);
        let mut ends = Vec::new();
        for &sender in senders {
            let out = sender.run(|| TcpStream::connect_timeout(&(address, PORT).into(), PATIENCE));
            let out = out.map_err(|error| failed("connect", sender, error))?;
            let (into, _) = listener.accept().map_err(|error| failed("accept", receiver, error))?;
            set_up(&out, congestion_control).map_err(|error| failed("set TCP up", sender, error))?;
            set_up(&into, congestion_control).map_err(|error| failed("set TCP up", receiver, error))?;
            ends.push((sender, out, into));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let flow = |(sender, out, into)| Flow::start(sender, receiver, out, into, &stop);
        Ok(Transfer { congestion_control, flows: ends.into_iter().map(flow).collect(), stop })
    }

    /// Bytes that the receiver has read of each flow.
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
    fn start(
        sender: &Namespace,
        receiver: &Namespace,
        out: TcpStream,
        into: TcpStream,
        stop: &Arc<AtomicBool>,
    ) -> Flow {
        let read = Arc::new(AtomicU64::new(0));
        let (stop, count) = (Arc::clone(stop), Arc::clone(&read));
        let (from, to) = (sender.clone(), receiver.clone());
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
    /// TCP segments sent again (`TcpRetransSegs`).
    pub retransmitted: u64,
    /// TCP segments that came before an earlier one (`TcpExtTCPOFOQueue`).
    pub out_of_order: u64,
}

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
            retransmitted: counter("Tcp:", "RetransSegs")?,
            out_of_order: counter("TcpExt:", "TCPOFOQueue")?,
        })
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
mod tests {
    use super::*;
    use crate::lab::{Lab, VethOptions};

    #[test]
    fn a_counter_is_found_by_group_and_name() {
        let text = "Ip: A B\nIp: 1 2\nTcp: A RetransSegs\nTcp: 3 4\nTcpExt: A B\nTcpExt: 5 6\n";
        assert_eq!(counter(text, "Tcp:", "RetransSegs"), Some(4));
        assert_eq!(counter(text, "TcpExt:", "A"), Some(5));
        assert_eq!(counter(text, "Tcp:", "B"), None);
        assert_eq!(counter(text, "IpExt:", "InCEPkts"), None);
    }

    #[test]
    fn all_that_was_written_is_read() {
        let mut lab = Lab::new();
        let (a, b) = (lab.namespace("a").unwrap(), lab.namespace("b").unwrap());
        let to = Ipv4Addr::new(10, 0, 0, 2);
        lab.veth(
            a.end("eth0").address([10, 0, 0, 1], 24),
            b.end("eth0").address(to, 24),
            &VethOptions::default(),
        )
        .unwrap();
        for host in [&a, &b] {
            prepare(host, Ecn::Incapable, Bytes(100_000)).unwrap();
        }
        let transfer = Transfer::start(&[&a, &a], &b, to, Ecn::Incapable).unwrap();
        while transfer.read().any(|bytes| bytes == 0) {
            thread::sleep(Duration::from_millis(1));
        }
        for flow in transfer.finish().unwrap() {
            assert!(flow.read > 0);
            assert_eq!(flow.written, flow.read);
        }
        assert_eq!(Counts::of(&b).unwrap().marked, 0);
    }
}
