//! Guard: a second process, which opens queues that the agent failed to open.
//!
//! The kernel keeps a queue stopped after the agent's death. So the agent sends the guard the end of each stop in advance. The guard opens
//! an overdue class and notifies the agent. If the agent dies, the guard restores the device. If both are killed, the next agent adopts the
//! queues.
//!
//! ```text
//!   agent --stopped until, started, farewell--> guard --its own netlink socket--> the kernel
//!         <------- class that it opened -------
//! ```

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use xoff_ebpf::EbpfError;
use xoff_wire::units::{CLASSES, Class, ClassSet, Nanos};

use crate::egress::{Egress, EgressError};

/// Time after a pause's end at which the guard opens the class, if the agent has not.
pub const GRACE: Nanos = Nanos::from_millis(5);

/// Returns the time on the monotonic clock, which agent and guard share.
///
/// # Panics
///
/// If the system has no such clock; Linux has it.
#[must_use]
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC is missing");
    let [seconds, nanos] = [time.tv_sec(), time.tv_nsec()].map(i64::cast_unsigned);
    Nanos(seconds * 1_000_000_000 + nanos)
}

/// Message to the guard: the time until which a class stays stopped (zero if it is not stopped), or a farewell after the agent restored the
/// device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Until(Class, Nanos),
    Farewell,
}

impl Message {
    const LEN: usize = 16;
    const FAREWELL: u8 = 0xff;

    fn to_bytes(self) -> [u8; Message::LEN] {
        let mut bytes = [0; Message::LEN];
        match self {
            Message::Until(class, until) => {
                bytes[0] = class.get();
                bytes[8..].copy_from_slice(&until.0.to_ne_bytes());
            }
            Message::Farewell => bytes[0] = Message::FAREWELL,
        }
        bytes
    }

    fn from_bytes(bytes: [u8; Message::LEN]) -> Option<Message> {
        let [first, .., u0, u1, u2, u3, u4, u5, u6, u7] = bytes;
        if first == Message::FAREWELL {
            return Some(Message::Farewell);
        }
        let until = Nanos(u64::from_ne_bytes([u0, u1, u2, u3, u4, u5, u6, u7]));
        Class::new(first).map(|class| Message::Until(class, until))
    }
}

#[derive(Debug)]
pub struct GuardEvents {
    /// Classes that the guard opened; the agent must stop those again that are still paused.
    pub opened: ClassSet,
    pub replaced: Option<io::Result<()>>,
}

#[derive(Debug)]
pub struct Guard {
    command: Command,
    child: Child,
    socket: UnixStream,
    until: [Nanos; CLASSES],
    lost: bool,
    next_start: Nanos,
}

impl Guard {
    pub const START_EVERY: Nanos = Nanos::from_secs(1);
    const PATIENCE: Duration = Duration::from_secs(1);

    /// Starts a guard in the calling thread's network namespace; call this before the agent changes the device. `command` must call
    /// [`run_guard`].
    pub fn start(mut command: Command) -> io::Result<Guard> {
        command.process_group(0).stdout(Stdio::null());
        let (child, socket) = Guard::spawn(&mut command)?;
        let next_start = now().after(Guard::START_EVERY);
        Ok(Guard { command, child, socket, until: [Nanos::ZERO; CLASSES], lost: false, next_start })
    }

    fn spawn(command: &mut Command) -> io::Result<(Child, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let child = command.stdin(OwnedFd::from(theirs)).spawn()?;
        command.stdin(Stdio::null()); // closes the agent's copy of the guard's socket
        Ok((child, ours))
    }

    /// Sends the guard the time until which a class stays stopped, on the clock of [`now`]. Call this before the class is stopped, and with
    /// [`Nanos::ZERO`] after it is started.
    pub fn send_deadline(&mut self, class: Class, until: Nanos) {
        if self.until[class.index()] == until {
            return;
        }
        self.until[class.index()] = until;
        self.say(Message::Until(class, until));
    }

    fn say(&mut self, message: Message) {
        // A write fails if the guard died or left hundreds of messages unread; [`Guard::check`] then replaces the guard.
        self.lost |= self.socket.write_all(&message.to_bytes()).is_err();
    }

    /// Returns a file descriptor that becomes readable when [`Guard::check`] should be called.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.lost).then(|| self.socket.as_fd())
    }

    pub fn check(&mut self, now: Nanos) -> GuardEvents {
        let mut opened = ClassSet::NONE;
        let mut classes = [0; 64];
        loop {
            match self.socket.read(&mut classes) {
                Ok(0) => self.lost = true,
                Ok(len) => {
                    classes[..len]
                        .iter()
                        .filter_map(|&class| Class::new(class))
                        .for_each(|class| opened.insert(class));
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => self.lost = true,
            }
            break;
        }
        let replaced = (self.lost && now >= self.next_start).then(|| {
            self.next_start = now.after(Guard::START_EVERY);
            self.replace()
        });
        GuardEvents { opened, replaced }
    }

    fn replace(&mut self) -> io::Result<()> {
        let _ = self.child.kill(); // fails harmlessly if the guard is dead already
        let _ = self.child.wait();
        (self.child, self.socket) = Guard::spawn(&mut self.command)?;
        self.lost = false;
        for (class, until) in Class::ALL.into_iter().zip(self.until) {
            self.say(Message::Until(class, until));
        }
        Ok(())
    }

    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn dismiss(mut self) -> io::Result<()> {
        self.say(Message::Farewell);
        self.socket.shutdown(Shutdown::Write)?;
        self.socket.set_nonblocking(false)?;
        self.socket.set_read_timeout(Some(Guard::PATIENCE))?;
        while self.socket.read(&mut [0; 64]).is_ok_and(|len| len > 0) {} // the read ends when the guard has closed its socket
        let _ = self.child.kill();
        self.child.wait().map(|_| ())
    }
}

/// Runs the guard until the agent sends a farewell or dies. `ifindex` finds the device even after a rename; `device` is for messages.
pub fn run_guard(device: &str, ifindex: i32) -> Result<(), EgressError> {
    let system = |fault| move |source| EgressError::system(fault, device, source);
    // Ignore signals: the guard must outlive its agent. The kernel sends SIGHUP to a stopped guard whose agent died.
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&ignored)).map_err(system("cannot register signal handlers"))?;
    }
    let mut egress = None;
    let agent = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map(UnixStream::from)
        .map_err(system("cannot receive deadlines from the agent"))?;
    agent.set_nonblocking(true).map_err(system("cannot receive deadlines from the agent"))?;
    let mut watch = DeadlineWatch { agent, partial: Vec::new(), until: [Nanos::ZERO; CLASSES] };
    loop {
        match watch.receive() {
            Received::Nothing => {}
            Received::Farewell => return Ok(()),
            Received::End => return put_back(ifindex, device),
        }
        if egress.is_none() && watch.deadlines().next().is_some() {
            egress = Egress::find(ifindex)?;
        }
        for class in watch.overdue(now()) {
            let Some(egress) = &mut egress else {
                watch.until[class.index()] = Nanos::ZERO; // without the agent's queues, no class is stopped
                continue;
            };
            let _ = egress.fit(); // fails if the MTU is too long: the class then starts with its old settings
            // Notify the agent before the class is opened, so that the agent does not report a change by another program.
            let mut tell = || _ = watch.agent.write_all(&[class.get()]); // the next read detects a dead agent
            tell();
            egress.start(class)?;
            tell();
            watch.until[class.index()] = Nanos::ZERO;
        }
        watch.wait();
    }
}

fn put_back(ifindex: i32, device: &str) -> Result<(), EgressError> {
    match Egress::restore(ifindex) {
        Ok(removed) => {
            let warnings = removed.unwrap_or_default().warnings;
            let device = device.to_owned();
            if warnings.is_empty() { Ok(()) } else { Err(EgressError::NotPutBack { device, warnings }) }
        }
        Err(EgressError::Claimed(EbpfError::AnotherXoff { .. }) | EgressError::NoSuchDevice { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

#[derive(Debug)]
struct DeadlineWatch {
    agent: UnixStream,
    partial: Vec<u8>,
    until: [Nanos; CLASSES],
}

enum Received {
    Nothing,
    Farewell,
    End,
}

impl DeadlineWatch {
    fn receive(&mut self) -> Received {
        let mut bytes = [0; 64 * Message::LEN];
        loop {
            let len = match self.agent.read(&mut bytes) {
                Ok(0) => return Received::End,
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Received::Nothing,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Received::End,
            };
            self.partial.extend(&bytes[..len]);
            let (messages, rest) = self.partial.as_chunks();
            for &message in messages {
                match Message::from_bytes(message) {
                    Some(Message::Until(class, until)) => self.until[class.index()] = until,
                    Some(Message::Farewell) => return Received::Farewell,
                    None => {}
                }
            }
            self.partial = rest.to_vec();
        }
    }

    fn deadlines(&self) -> impl Iterator<Item = (Class, Nanos)> {
        let stopped = Class::ALL.into_iter().zip(self.until).filter(|&(_, until)| until != Nanos::ZERO);
        stopped.map(|(class, until)| (class, until.after(GRACE)))
    }

    fn overdue(&self, now: Nanos) -> Vec<Class> {
        self.deadlines().filter(|&(_, deadline)| deadline <= now).map(|(class, _)| class).collect()
    }

    fn wait(&self) {
        let next = self.deadlines().map(|(_, deadline)| deadline.since(now()).0).min();
        let timeout = next.map_or(PollTimeout::NONE, |nanos| {
            PollTimeout::try_from(nanos.div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX)
        });
        let _ = poll(&mut [PollFd::new(self.agent.as_fd(), PollFlags::POLLIN)], timeout); // then pending bytes are read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_agent_to_guard_are_decoded_as_encoded() {
        let until = Message::Until(Class::ALL[5], Nanos(0x0102_0304_0506_0708));
        for message in [until, Message::Until(Class::ALL[0], Nanos::ZERO), Message::Farewell] {
            assert_eq!(Message::from_bytes(message.to_bytes()), Some(message));
        }
        assert_eq!(Message::from_bytes([8; 16]), None);
    }

    #[test]
    fn guard_counts_class_as_overdue_5_ms_after_its_pause_ends() {
        let (agent, _other) = UnixStream::pair().expect("sockets");
        let mut watch = DeadlineWatch { agent, partial: Vec::new(), until: [Nanos::ZERO; CLASSES] };
        watch.until[3] = Nanos::from_millis(10);
        let deadline = Nanos::from_millis(10) + GRACE;
        assert_eq!(watch.overdue(Nanos(deadline.0 - 1)), []);
        assert_eq!(watch.overdue(deadline), [Class::ALL[3]]);
    }
}
