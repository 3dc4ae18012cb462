//! Leftovers of a killed network: programs, devices in namespaces that existed before, and its socket.
//!
//! Each namespace has a mark at its loopback device: the network's name, and its process with start time. If that process is dead, all
//! processes in the namespace are ended. In a namespace that existed before, only marked devices are deleted. Marks from another PID
//! namespace are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Device, LabError, Namespace, marks};

const WORD: &str = "xoff-lab";
/// Time for programs to end after SIGTERM.
pub const TERM_WITHIN: Duration = Duration::from_secs(2);
const KILL_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A process; its start time distinguishes reused ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    pid: i32,
    /// Clock ticks since boot.
    started: u64,
    /// Unused in a mark.
    parent: i32,
}

impl Process {
    fn of(pid: i32) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ended = ["Z", "X"].contains(fields.first()?);
        let parent = fields.get(1)?.parse().ok()?;
        (!ended).then_some(Process { pid, started: fields.get(19)?.parse().ok()?, parent })
    }

    fn is_alive(self) -> bool {
        Process::of(self.pid).is_some_and(|now| now.started == self.started)
    }

    fn signal(self, signal: Signal) {
        if self.is_alive() {
            let _ = kill(Pid::from_raw(self.pid), signal); // fails harmlessly if it has just ended
        }
    }
}

/// Mark of a namespace's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Network name.
    pub name: String,
    holder: Process,
    space: u64,
}

impl Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{WORD} {} {} {} {}", self.name, self.holder.pid, self.holder.started, self.space)
    }
}

impl Mark {
    /// Creates this process's mark.
    ///
    /// # Errors
    /// Fails if `/proc` lacks this process.
    pub fn of(name: &str) -> io::Result<Mark> {
        let holder = i32::try_from(std::process::id()).ok().and_then(Process::of);
        let holder = holder.ok_or_else(|| io::Error::other("this process is not in /proc"))?;
        Ok(Mark { name: name.to_owned(), holder, space: space()? })
    }

    fn is_dead(&self) -> bool {
        space().is_ok_and(|space| space == self.space) && !self.holder.is_alive()
    }

    fn read(text: &str) -> Option<Mark> {
        let fields: Vec<&str> = text.split(' ').collect();
        let [word, name, pid, started, space] = fields[..] else { return None };
        let holder = Process { pid: pid.parse().ok()?, started: started.parse().ok()?, parent: 0 };
        let space = space.parse().ok()?;
        (word == WORD).then(|| Mark { name: name.to_owned(), holder, space })
    }
}

fn space() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

fn processes() -> BTreeMap<u64, Vec<Process>> {
    let mut all: BTreeMap<u64, Vec<Process>> = BTreeMap::new();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        // Identify the process before signalling: a reused id has a later start and is never affected.
        let process = Process::of(pid);
        let namespace = fs::metadata(format!("/proc/{pid}/ns/net"));
        if let (Ok(namespace), Some(process)) = (namespace, process) {
            all.entry(namespace.ino()).or_default().push(process);
        }
    }
    all
}

/// Ends every process in these namespaces, except `spared` ones and their children; returns their number. The caller holds the namespaces.
pub fn end_members(namespaces: &BTreeSet<u64>, spared: &BTreeSet<i32>) -> usize {
    let members = || -> BTreeSet<Process> {
        let mut all = processes();
        let is_spared = |of: &Process| spared.contains(&of.pid) || spared.contains(&of.parent);
        all.values_mut().for_each(|members| members.retain(|member| !is_spared(member)));
        all.into_iter()
            .filter(|(inode, _)| namespaces.contains(inode))
            .flat_map(|(_, members)| members)
            .collect()
    };
    end(members)
}

/// Opens every namespace of a process or `ip netns`, so no inode is reused.
fn namespaces() -> BTreeMap<u64, Namespace> {
    let lived_in = processes().into_values().filter_map(|members| {
        members.iter().find_map(|member| File::open(format!("/proc/{}/ns/net", member.pid)).ok())
    });
    let named = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let named = named.filter_map(|entry| File::open(entry.path()).ok());
    let namespaces = lived_in.chain(named).filter_map(|file| Namespace::existing("leftover", file).ok());
    namespaces.map(|namespace| (namespace.inode(), namespace)).collect()
}

/// Ends leftovers of dead networks; returns their names.
pub fn sweep() -> BTreeSet<String> {
    let own = fs::metadata("/proc/self/ns/net").map(|namespace| namespace.ino()).unwrap_or(0);
    let namespaces = namespaces();
    let (mut names, mut left) = (BTreeSet::new(), BTreeSet::new());
    for (inode, namespace) in &namespaces {
        for (device, mark) in marks(namespace).unwrap_or_default() {
            let Some(mark) = Mark::read(&mark).filter(Mark::is_dead) else { continue };
            match device.as_str() {
                "lo" if *inode == own => continue,
                "lo" => _ = left.insert(*inode),
                device => {
                    let deleted = Device::find(namespace, device).and_then(|device| device.delete());
                    // fails harmlessly if the device was deleted with its other end
                    deleted.unwrap_or_else(|error: LabError| tracing::debug!("{error}"));
                }
            }
            names.insert(mark.name);
        }
    }
    if !left.is_empty() {
        end_members(&left, &BTreeSet::new());
    }
    names
}

fn end(members: impl Fn() -> BTreeSet<Process>) -> usize {
    let mut found = BTreeSet::new();
    for (signal, within) in [(Signal::SIGTERM, TERM_WITHIN), (Signal::SIGKILL, KILL_WITHIN)] {
        let deadline = Instant::now() + within;
        let mut signalled = BTreeSet::new();
        loop {
            let now = members();
            if now.is_empty() {
                return found.len();
            }
            for process in &now {
                found.insert(*process);
                // A stopped process handles signals only after SIGCONT.
                if signalled.insert(*process) {
                    process.signal(signal);
                    process.signal(Signal::SIGCONT);
                }
            }
            if Instant::now() >= deadline {
                break;
            }
            thread::sleep(LOOK_EVERY);
        }
    }
    tracing::warn!("{} processes did not end", members().len());
    found.len()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::{Lab, VethOptions, set_mark};

    #[test]
    fn a_mark_is_read_as_it_was_written_and_nothing_else_is_one() {
        let mut mark = Mark::of("a-b_c").unwrap();
        mark.holder.parent = 0;
        assert_eq!(Mark::read(&mark.to_string()), Some(mark.clone()));
        assert!(mark.holder.is_alive());
        for other in ["", "xoff-lab a 1 2", "xoff-lab a 1 2 x", "lab a 1 2 3", "xoff-lab a 1 2 3 4"] {
            assert_eq!(Mark::read(other), None, "{other}");
        }
    }

    #[test]
    fn a_process_that_starts_later_under_the_same_number_is_another() {
        let this = Mark::of("").unwrap().holder;
        assert!(!Process { started: this.started + 1, ..this }.is_alive());
    }

    // proves: lab-lifecycle
    #[test]
    fn members_end_and_nobody_else_and_only_marks_of_the_dead_count() {
        let lab = Lab::new();
        let [ours, held, foreign] = ["ours", "held", "foreign"].map(|name| lab.namespace(name).unwrap());
        let mark = |name: &str, change: fn(&mut Mark)| {
            let mut mark = Mark::of(name).unwrap();
            change(&mut mark);
            mark.to_string()
        };
        set_mark(&ours, "lo", &mark("gone", |mark| mark.holder.started += 1)).unwrap();
        set_mark(&held, "lo", &mark("held", |_| ())).unwrap();
        // In another PID namespace the id may be another process's.
        let foreign_pid = |mark: &mut Mark| (mark.holder.started, mark.space) = (mark.holder.started + 1, 1);
        set_mark(&foreign, "lo", &mark("elsewhere", foreign_pid)).unwrap();
        let start = |namespace: &Namespace| {
            let mut command = Command::new("sh");
            command.args(["-c", "trap '' TERM; echo; exec sleep 1000"]).stdout(Stdio::piped());
            let mut child = namespace.spawn(command).unwrap();
            let mut line = String::new();
            std::io::BufRead::read_line(
                &mut std::io::BufReader::new(child.stdout.take().unwrap()),
                &mut line,
            )
            .unwrap();
            child
        };
        let mut children = [&ours, &held, &foreign].map(start);
        let swept = sweep();
        assert!(
            swept.contains("gone") && !swept.contains("held") && !swept.contains("elsewhere"),
            "{swept:?}"
        );
        let ended = children.each_mut().map(|child| child.try_wait().unwrap().is_some());
        assert_eq!(ended, [true, false, false]);
        assert!(end_members(&BTreeSet::from([held.inode()]), &BTreeSet::new()) >= 1);
        assert_eq!(children.each_mut().map(|child| child.try_wait().unwrap().is_some()), [true, true, false]);
        let spared = BTreeSet::from([i32::try_from(children[2].id()).unwrap()]);
        assert_eq!(end_members(&BTreeSet::from([foreign.inode()]), &spared), 0);
        end_members(&BTreeSet::from([foreign.inode()]), &BTreeSet::new());
        children.each_mut().iter_mut().for_each(|child| _ = child.wait().unwrap());
    }

    // proves: lab-lifecycle
    #[test]
    fn a_device_that_a_dead_network_has_left_goes_and_no_other() {
        let mut lab = Lab::new();
        let [one, other] = ["one", "other"].map(|name| lab.namespace(name).unwrap());
        let mut wire = |device: &str| {
            lab.veth(one.end(device), other.end(device), &VethOptions::default()).unwrap();
        };
        ["left", "held", "plain"].into_iter().for_each(&mut wire);
        let mut mark = Mark::of("dead-wire").unwrap();
        set_mark(&one, "held", &mark.to_string()).unwrap();
        mark.holder.started += 1;
        set_mark(&one, "left", &mark.to_string()).unwrap();
        // A namespace without processes would not be found.
        let mut command = Command::new("sleep");
        command.arg("1000");
        let mut lives_there = one.spawn(command).unwrap();
        assert!(sweep().contains("dead-wire"));
        let found = ["left", "held", "plain"].map(|device| Device::find(&one, device).is_ok());
        assert_eq!(found, [false, true, true]);
        assert!(lives_there.try_wait().unwrap().is_none(), "who lives beside it lives on");
        lives_there.kill().unwrap();
        lives_there.wait().unwrap();
    }
}
