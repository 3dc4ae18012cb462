//! A second process beside the agent, which opens what the agent can no longer open.
//!
//! The kernel keeps a queue stopped whoever stopped it, dead or alive. So the agent says to its guard, over a pair of sockets, until
//! when each class is stopped, before it stops it. The guard opens a class that is overdue (the agent was stopped, or got no
//! processor), and says so; where the agent's end of the sockets is closed, by whatever death, it lets all classes go on and puts
//! the device back. Who is killed together with its guard leaves the tree to the next start.
//!
//! ```text
//!   agent --stopped until, started, farewell--> guard --its own netlink socket--> the kernel
//!         <------- class that it opened -------
//! ```
//!
//! Agent and guard are the same program: the agent starts itself again with a hidden command, which calls [`stand`]. A guard that died
//! is replaced ([`Guard::look_after`]), and told what the one before knew.

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
use xoff_dataplane::units::{CLASSES, Class, ClassSet, Nanos};
use xoff_ebpf::EbpfError;

use crate::egress::{self, Egress, EgressError};

/// How long after its end a class is overdue: the agent ends a pause itself, as soon as it gets a processor.
pub const GRACE: Nanos = Nanos::from_millis(5);

/// The time that agent and guard mean: the machine's monotonic clock.
///
/// # Panics
/// Never on Linux, which has that clock.
#[must_use]
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has a monotonic clock");
    let [seconds, nanos] = [time.tv_sec(), time.tv_nsec()].map(i64::cast_unsigned);
    Nanos(seconds * 1_000_000_000 + nanos)
}

/// What the agent says: when a class is to go on; in the past: it goes on already. Or that it has put the device back itself.
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

/// What became of a guard since it was last looked after.
#[derive(Debug)]
pub struct Looked {
    /// Classes that it opened because they were overdue: who still wants them stopped has to stop them again.
    pub opened: ClassSet,
    /// `None`: it lives, or it has died so soon that its turn has not come. Else it had died, and another one was to be started:
    /// is there, or will be tried again.
    pub replaced: Option<io::Result<()>>,
}

/// The agent's end.
#[derive(Debug)]
pub struct Guard {
    command: Command,
    child: Child,
    socket: UnixStream,
    until: [Nanos; CLASSES],
    /// It has died, and there is no other one yet.
    lost: bool,
    /// No other one is started before.
    next_start: Nanos,
}

impl Guard {
    /// A guard that cannot live is not started again more often than that.
    pub const START_EVERY: Nanos = Nanos::from_secs(1);
    /// How long one that was dismissed may take to end.
    const PATIENCE: Duration = Duration::from_secs(1);

    /// Starts a guard before anything is changed of its device: `command` is to call [`stand`] with that device. It is started in the
    /// network namespace of the calling thread, and gets no signals of the terminal.
    ///
    /// # Errors
    /// What the system says.
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
        command.stdin(Stdio::null()); // nobody else has its end of the sockets
        Ok((child, ours))
    }

    /// Says that a class is stopped until then, on the clock of [`now`]. To be said before it is stopped, and at every change of
    /// that time. [`Nanos::ZERO`]: it goes on; to be said after it was started.
    pub fn tell(&mut self, class: Class, until: Nanos) {
        if self.until[class.index()] == until {
            return;
        }
        self.until[class.index()] = until;
        self.say(Message::Until(class, until));
    }

    fn say(&mut self, message: Message) {
        // Dead, or so long without a processor that it has not read hundreds of messages: it is replaced.
        self.lost |= self.socket.write_all(&message.to_bytes()).is_err();
    }

    /// Readable where there is something to [look after](Guard::look_after); `None` while there is no guard.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.lost).then(|| self.socket.as_fd())
    }

    /// Reads what the guard has said, and replaces it where it has died, [`Guard::START_EVERY`] at most.
    pub fn look_after(&mut self, now: Nanos) -> Looked {
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
        Looked { opened, replaced }
    }

    fn replace(&mut self) -> io::Result<()> {
        let _ = self.child.kill(); // it may be dead already
        let _ = self.child.wait();
        (self.child, self.socket) = Guard::spawn(&mut self.command)?;
        self.lost = false;
        for (class, until) in Class::ALL.into_iter().zip(self.until) {
            self.say(Message::Until(class, until));
        }
        Ok(())
    }

    /// Process number of the guard.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it: the agent has put the device back itself. One that does not go in time (it may be stopped) is killed.
    ///
    /// # Errors
    /// What the system says.
    pub fn dismiss(mut self) -> io::Result<()> {
        self.say(Message::Farewell);
        self.socket.shutdown(Shutdown::Write)?;
        self.socket.set_nonblocking(false)?;
        self.socket.set_read_timeout(Some(Guard::PATIENCE))?;
        while self.socket.read(&mut [0; 64]).is_ok_and(|len| len > 0) {} // its end of the sockets ends with it
        let _ = self.child.kill();
        self.child.wait().map(|_| ())
    }
}

/// The guard's end: to be called by the process that [`Guard::start`] starts. Its standard input is the pair's other
/// socket. Returns when its work is over.
///
/// # Errors
/// Where there is no tree to guard, or the device cannot be put back.
pub fn stand(device: &str) -> Result<(), EgressError> {
    let system = |doing| move |source| EgressError::system(doing, device, source);
    // It ends after its agent. The kernel itself says SIGHUP to one that was stopped when its agent died.
    let unheard = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&unheard)).map_err(system("guard"))?;
    }
    // It is there before anything is changed of the device, whose name may be another one when it is needed.
    let ifindex = egress::index_of(device)?;
    let mut egress = None;
    let agent =
        io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from).map_err(system("hear about"))?;
    agent.set_nonblocking(true).map_err(system("hear about"))?;
    let mut watch = Watch { agent, heard: Vec::new(), until: [Nanos::ZERO; CLASSES] };
    loop {
        match watch.hear() {
            Heard::Nothing => {}
            Heard::Farewell => return Ok(()),
            Heard::End => return put_back(ifindex, device),
        }
        if egress.is_none() && watch.deadlines().next().is_some() {
            egress = Egress::find(ifindex)?;
        }
        for class in watch.overdue(now()) {
            let Some(egress) = &mut egress else {
                watch.until[class.index()] = Nanos::ZERO; // without queues nothing is stopped
                continue;
            };
            let _ = egress.fit(); // under an MTU that is too long the class is opened with the old settings
            // Announced first, so that the agent does not take the opening for tampering.
            let mut tell = || _ = watch.agent.write_all(&[class.get()]); // the agent's death is heard next
            tell();
            egress.start(class)?;
            tell();
            watch.until[class.index()] = Nanos::ZERO;
        }
        watch.wait();
    }
}

/// As heir of the agent: where another agent has the device by now, the tree is that one's.
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
struct Watch {
    agent: UnixStream,
    /// The beginning of a message.
    heard: Vec<u8>,
    until: [Nanos; CLASSES],
}

enum Heard {
    Nothing,
    Farewell,
    End,
}

impl Watch {
    /// Reads all that there is.
    fn hear(&mut self) -> Heard {
        let mut bytes = [0; 64 * Message::LEN];
        loop {
            let len = match self.agent.read(&mut bytes) {
                Ok(0) => return Heard::End,
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Heard::Nothing,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Heard::End,
            };
            self.heard.extend(&bytes[..len]);
            let (messages, rest) = self.heard.as_chunks();
            for &message in messages {
                match Message::from_bytes(message) {
                    Some(Message::Until(class, until)) => self.until[class.index()] = until,
                    Some(Message::Farewell) => return Heard::Farewell,
                    None => {}
                }
            }
            self.heard = rest.to_vec();
        }
    }

    /// When each class that is stopped is overdue.
    fn deadlines(&self) -> impl Iterator<Item = (Class, Nanos)> {
        let stopped = Class::ALL.into_iter().zip(self.until).filter(|&(_, until)| until != Nanos::ZERO);
        stopped.map(|(class, until)| (class, until.after(GRACE)))
    }

    fn overdue(&self, now: Nanos) -> Vec<Class> {
        self.deadlines().filter(|&(_, deadline)| deadline <= now).map(|(class, _)| class).collect()
    }

    /// Until something is heard, or a class is overdue.
    fn wait(&self) {
        let next = self.deadlines().map(|(_, deadline)| deadline.since(now()).0).min();
        let timeout = next.map_or(PollTimeout::NONE, |nanos| {
            PollTimeout::try_from(nanos.div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX)
        });
        let _ = poll(&mut [PollFd::new(self.agent.as_fd(), PollFlags::POLLIN)], timeout); // what is there is read next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let until = Message::Until(Class::ALL[5], Nanos(0x0102_0304_0506_0708));
        for message in [until, Message::Until(Class::ALL[0], Nanos::ZERO), Message::Farewell] {
            assert_eq!(Message::from_bytes(message.to_bytes()), Some(message));
        }
        assert_eq!(Message::from_bytes([8; 16]), None);
    }

    #[test]
    fn a_class_is_overdue_after_its_grace_and_no_sooner() {
        let (agent, _other) = UnixStream::pair().expect("sockets");
        let mut watch = Watch { agent, heard: Vec::new(), until: [Nanos::ZERO; CLASSES] };
        watch.until[3] = Nanos::from_millis(10);
        let deadline = Nanos::from_millis(10) + GRACE;
        assert_eq!(watch.overdue(Nanos(deadline.0 - 1)), []);
        assert_eq!(watch.overdue(deadline), [Class::ALL[3]]);
    }
}
