//! What a network leaves when its process is killed: programs that still run in its namespaces, its devices in namespaces that were
//! there before, and the file of its socket.
//!
//! Every namespace that a network makes carries a mark with it, a text at its loopback device: the network's name, and the process
//! that holds it with the time of its start. A namespace whose process is no more has nothing in it but what is left over. Only
//! processes in such namespaces are ended; of namespaces that were there before (containers, `ip netns`) the network's devices are
//! marked, and only these are taken away. Processes have numbers in a PID namespace: marks from another one say nothing here.

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

/// First word of every mark.
const WORD: &str = "xoff-lab";
/// How long programs have to end by themselves.
pub const TERM_WITHIN: Duration = Duration::from_secs(2);
/// How long the kernel has to end them.
const KILL_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A process, told apart from others that had its number before or get it later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    pid: i32,
    /// In clock ticks since the machine was started.
    started: u64,
    /// Whoever started it, or took it over; of no account where it is read from a mark.
    parent: i32,
}

impl Process {
    /// The process with this number; `None` where there is none, or it has ended and nobody has asked how.
    fn of(pid: i32) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in brackets and may be anything.
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
            let _ = kill(Pid::from_raw(self.pid), signal); // or it has ended just now
        }
    }
}

/// Whose a namespace is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The network's name.
    pub name: String,
    /// The process that holds it.
    holder: Process,
    /// The PID namespace in which that has its number.
    space: u64,
}

impl Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{WORD} {} {} {} {}", self.name, self.holder.pid, self.holder.started, self.space)
    }
}

impl Mark {
    /// Of a network of this process.
    ///
    /// # Errors
    /// Where `/proc` does not tell of it.
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

/// The PID namespace of this process.
fn space() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// Processes by the network namespace in which they live.
fn processes() -> BTreeMap<u64, Vec<Process>> {
    let mut all: BTreeMap<u64, Vec<Process>> = BTreeMap::new();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        // Who it is first: another that gets its number later has started later, and is never meant.
        let process = Process::of(pid);
        let namespace = fs::metadata(format!("/proc/{pid}/ns/net"));
        if let (Ok(namespace), Some(process)) = (namespace, process) {
            all.entry(namespace.ino()).or_default().push(process);
        }
    }
    all
}

/// Ends every process in these namespaces, by inode, while somebody holds them, but those that are spared and their children: asks
/// first. Says how many there were.
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

/// Every network namespace in which somebody lives, or that `ip netns` knows. Each is held open, so that no other gets its inode.
fn namespaces() -> BTreeMap<u64, Namespace> {
    let lived_in = processes().into_values().filter_map(|members| {
        members.iter().find_map(|member| File::open(format!("/proc/{}/ns/net", member.pid)).ok())
    });
    let named = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let named = named.filter_map(|entry| File::open(entry.path()).ok());
    let namespaces = lived_in.chain(named).filter_map(|file| Namespace::existing("leftover", file).ok());
    namespaces.map(|namespace| (namespace.inode(), namespace)).collect()
}

/// Ends what networks have left whose processes are no more. Says which networks these were.
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
                    // Or it went with its other end.
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

/// Ends what `members` finds, until it finds nobody.
fn end(members: impl Fn() -> BTreeSet<Process>) -> usize {
    let mut known = BTreeSet::new();
    for (signal, within) in [(Signal::SIGTERM, TERM_WITHIN), (Signal::SIGKILL, KILL_WITHIN)] {
        let deadline = Instant::now() + within;
        let mut told = BTreeSet::new();
        loop {
            let now = members();
            if now.is_empty() {
                return known.len();
            }
            for process in &now {
                known.insert(*process);
                // What stands still would not hear it.
                if told.insert(*process) {
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
    known.len()
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
        // In another PID namespace somebody else may have that number, or nobody.
        let elsewhere = |mark: &mut Mark| (mark.holder.started, mark.space) = (mark.holder.started + 1, 1);
        set_mark(&foreign, "lo", &mark("elsewhere", elsewhere)).unwrap();
        let start = |namespace: &Namespace| {
            // One that does not hear TERM has to be killed.
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
        // Somebody has to live there, or nobody finds it.
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
