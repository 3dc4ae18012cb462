//! Removes what killed labs left: programs, devices in existing namespaces, and the socket.
//!
//! A mark holds the lab's name, process id and start time. A lab marks the loopback device of each namespace that it creates, and its
//! devices in other namespaces. If the process is dead, the next lab ends processes in its namespaces, and deletes its devices in others.

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
/// Maximum wait after SIGTERM, before SIGKILL.
pub const TERM_WITHIN: Duration = Duration::from_secs(2);
const KILL_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    pid: i32,
    started: u64,
    /// Parent's process id; unused in a [`Mark`].
    parent: i32,
}

impl Process {
    fn of(pid: i32) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The program name in parentheses may contain any character.
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
            let _ = kill(Pid::from_raw(self.pid), signal); // fails if the process has just ended
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
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
    pub fn of(name: &str) -> io::Result<Mark> {
        let holder = i32::try_from(std::process::id()).ok().and_then(Process::of);
        let holder = holder.ok_or_else(|| io::Error::other("/proc lacks this process"))?;
        Ok(Mark { name: name.to_owned(), holder, space: space()? })
    }

    fn is_dead(&self) -> bool {
        space().is_ok_and(|space| space == self.space) && !self.holder.is_alive()
    }

    pub(super) fn read(text: &str) -> Option<Mark> {
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
        // A process that reuses the id of an ended one has a later start time.
        let process = Process::of(pid);
        let namespace = fs::metadata(format!("/proc/{pid}/ns/net"));
        if let (Ok(namespace), Some(process)) = (namespace, process) {
            all.entry(namespace.ino()).or_default().push(process);
        }
    }
    all
}

/// Ends the processes in `namespaces`, except those in `spared` and children of this process; returns their number. The caller must
/// keep the namespaces open.
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

/// Opens all namespaces; returns them by inode number, which the kernel cannot reuse while they are open.
fn namespaces() -> BTreeMap<u64, Namespace> {
    let lived_in = processes().into_values().filter_map(|members| {
        members.iter().find_map(|member| File::open(format!("/proc/{}/ns/net", member.pid)).ok())
    });
    let named = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let named = named.filter_map(|entry| File::open(entry.path()).ok());
    let namespaces = lived_in.chain(named).filter_map(|file| Namespace::existing("leftover", file).ok());
    namespaces.map(|namespace| (namespace.inode(), namespace)).collect()
}

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
                    // Only log the error: the device may have been deleted with its veth peer.
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
    tracing::warn!("{} processes of a lab did not end after SIGKILL", members().len());
    found.len()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::{Lab, VethOptions, set_mark};

    #[test]
    fn process_mark_of_lab_is_parsed_as_written() {
        let mut mark = Mark::of("a-b_c").unwrap();
        mark.holder.parent = 0;
        assert_eq!(Mark::read(&mark.to_string()), Some(mark.clone()));
        assert!(mark.holder.is_alive());
        for other in ["", "xoff-lab a 1 2", "xoff-lab a 1 2 x", "lab a 1 2 3", "xoff-lab a 1 2 3 4"] {
            assert_eq!(Mark::read(other), None, "{other}");
        }
    }

    #[test]
    fn process_that_reuses_a_marked_id_is_not_the_marked_one() {
        let this = Mark::of("").unwrap().holder;
        assert!(!Process { started: this.started + 1, ..this }.is_alive());
    }

    #[test] // proves: lab-lifecycle
    fn cleanup_ends_only_processes_of_killed_labs() {
        let lab = Lab::new();
        let [ours, held, foreign] = ["ours", "held", "foreign"].map(|name| lab.namespace(name).unwrap());
        let mark = |name: &str, change: fn(&mut Mark)| {
            let mut mark = Mark::of(name).unwrap();
            change(&mut mark);
            mark.to_string()
        };
        set_mark(&ours, "lo", &mark("gone", |mark| mark.holder.started += 1)).unwrap();
        set_mark(&held, "lo", &mark("held", |_| ())).unwrap();
        // The cleanup must ignore marks from another PID namespace, where ids name other processes.
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

    #[test] // proves: lab-lifecycle
    fn cleanup_deletes_only_devices_of_killed_labs() {
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
        // Run a process in the namespace, because the cleanup finds namespaces by their processes.
        let mut command = Command::new("sleep");
        command.arg("1000");
        let mut lives_there = one.spawn(command).unwrap();
        assert!(sweep().contains("dead-wire"));
        let found = ["left", "held", "plain"].map(|device| Device::find(&one, device).is_ok());
        assert_eq!(found, [false, true, true]);
        assert!(lives_there.try_wait().unwrap().is_none(), "processes outside the dead network must survive");
        lives_there.kill().unwrap();
        lives_there.wait().unwrap();
    }
}
