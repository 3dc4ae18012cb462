//! Queues of a host that obeys PFC: a tree of queueing disciplines with a queue for each class.
//!
//! ```text
//!     786e:  htb          classifier by DSCP or PCP (classify)
//!     └─ 786e:1           shaper just below the line's rate, so that frames wait in the tree, where pauses apply
//!        ├─ 786e:17       class 7, served first        └─ 7877: leaf
//!        ├─  ...                                          ...
//!        └─ 786e:10       class 0, served last         └─ 7870: leaf
//! ```
//!
//! HTB guarantees each class almost no rate of its own. It lends the line's rate in strict priority to classes whose
//! [leafs](Leaf) are not stopped. Queued frames count in the send buffer of their socket, so a program that fills the buffer
//! sleeps. No frame is dropped as long as a leaf's limit exceeds the send buffers of all sockets.
//!
//! The shaper counts at least 64 bytes a frame (with FCS), plus preamble, gap and a tag. So the device's own ring, which cannot be
//! stopped, stays empty. MAC control and LLDP frames leave first, unshaped and never stopped.
//!
//! Before any change, the [journal](Journal) records the device's state. The guard, the next agent or `xoff nic restore` can
//! restore the device from it.

mod classify;
mod defects;
mod error;
mod leaf;
mod neighbours;
mod saved;
mod settings;
mod tree;

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::net::if_::{if_indextoname, if_nametoindex};
use xoff_ebpf::Claim;
use xoff_netlink::Conversation;
use xoff_netlink::tc::{Handle, Node, Statistics};
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, ClassSet};
use xoff_xdp::{Journal, Left, Offloads, Owner};

use neighbours::NeighbourQueues;
use saved::SavedState;
use tree::Tree;

pub use defects::{Defects, Part};
pub use error::EgressError;
pub use leaf::Leaf;
pub use settings::EgressSettings;
pub use tree::QueueDump;
pub(crate) use tree::class_of;

pub(crate) const MARK: u16 = 0x786e;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafCounts {
    pub frames: u64,
    pub bytes: u64,
    /// Frames dropped because the class's queue was full or the frame too long.
    pub dropped: u64,
    pub waiting_frames: u64,
    pub waiting_bytes: u64,
}

impl LeafCounts {
    fn add(&mut self, last: &mut Statistics, now: Statistics) {
        let has_fewer_drops = now.drops.wrapping_sub(last.drops).cast_signed() < 0;
        if now.frames < last.frames || now.bytes < last.bytes || has_fewer_drops {
            *last = Statistics::default();
        }
        self.frames += now.frames - last.frames;
        self.bytes += now.bytes.saturating_sub(last.bytes);
        self.dropped += u64::from(now.drops.wrapping_sub(last.drops)); // the kernel's counter has 32 bits
        (self.waiting_frames, self.waiting_bytes) = (now.qlen.into(), now.backlog.into());
        *last = now;
    }
}

#[derive(Debug, Default)]
pub struct Repair {
    pub found: Defects,
    pub left: Defects,
    /// Classes whose queue another program deleted. The queue's frames are lost and counted nowhere.
    pub deleted: ClassSet,
    pub refused: Option<EgressError>,
}

#[derive(Debug)]
pub struct Egress {
    tc: Conversation,
    tree: Tree,
    offloads: Offloads,
    neighbours: NeighbourQueues,
    before: SavedState,
    /// Exclusive claim on the device; `None` for a [found](Egress::find) tree of another process.
    claim: Option<Claim>,
    journal: Journal,
    last: [Statistics; CLASSES],
    counts: [LeafCounts; CLASSES],
    stopped: ClassSet,
    refused_offloads: Vec<&'static str>,
    warnings: Vec<String>,
    removed: bool,
}

impl Egress {
    const DRAIN: Duration = Duration::from_millis(300);
    const HEIR: Duration = Duration::from_secs(1);

    /// Claims the device, undoes what a killed xoff switch changed at it, and reads its state. Changes nothing else.
    pub fn prepare(settings: &EgressSettings) -> Result<Egress, EgressError> {
        let device = settings.nic.device.as_str();
        let ifindex = index_of(device)?;
        let mut egress = Egress::claimed(device, ifindex)?;
        let left = match egress.left()? {
            Left::Changes(before) => Some(before),
            _ => None,
        };
        // Read the qdiscs only after a killed switch's changes have been undone, so that the agent saves the device's own qdiscs.
        let nodes = egress.tc.qdiscs(ifindex)?;
        // Do not save a killed agent's queues as the device's own: the journal has the state before them.
        let theirs = (!Tree::is_in(&nodes)).then_some(nodes.as_slice());
        let (offloads, queues) = (&egress.offloads, &egress.neighbours);
        let before = match (left, theirs) {
            (Some(left), theirs) => left.unless_changed(device, theirs, offloads, queues)?,
            (None, Some(theirs)) => SavedState::of(device, theirs, offloads, queues)?,
            (None, None) => SavedState::default(),
        };
        egress.before = before;
        let mtu = xoff_xdp::mtu(device)?;
        egress.tree = Tree::new(device, ifindex, &nodes, settings, mtu)?;
        Ok(egress)
    }

    /// Builds the tree with every class started, or adopts a killed agent's tree with its queued frames.
    ///
    /// # Errors
    /// Fails if the kernel refuses a part; the device then stays as it was.
    pub fn install(mut self, settings: &EgressSettings) -> Result<Egress, EgressError> {
        self.removed = false; // from here on, dropping `egress` restores the device
        self.build(settings)?;
        self.counts()?;
        self.counts = Default::default(); // excludes the counts of a killed agent
        Ok(self)
    }

    fn build(&mut self, settings: &EgressSettings) -> Result<(), EgressError> {
        let waiting = self.before.let_wait(settings.limit_lossless);
        self.write_down()?;
        self.tree.plant(&mut self.tc)?;
        let device = &settings.nic.device;
        let single = self.offloads.single_frames();
        if let Err(error) = single {
            self.warnings.push(format!(
                "the driver of {device} refuses to turn offloads off ({error}): superframes, or frames without checksum, may leave it \
                 (`ethtool -k {device}` lists the offloads)"
            ));
        }
        self.refused_offloads = self.offloads.unwanted().unwrap_or_default();
        if let Err(error) = self.neighbours.set(waiting) {
            self.warnings.push(format!(
                "the limit of packets that wait for a neighbour's address at {device} cannot be raised ({error}): further packets \
                 are dropped (net.ipv4.neigh.{device}.unres_qlen_bytes)"
            ));
        }
        if let Ok(offloads) = self.offloads.read() {
            self.before.have_set(offloads);
            self.write_down()?;
        }
        self.tree.grow(&mut self.tc)
    }

    /// Turns off offloads that another program turned on, and returns their names. [`remove`](Self::remove) restores that program's
    /// settings.
    pub fn repair_offloads(&mut self) -> Result<Vec<&'static str>, EgressError> {
        let device = self.tree.device().to_owned();
        let refused = |source| EgressError::system("cannot turn offloads off again", &device, source);
        let found = self.changed_offloads().map_err(refused)?;
        if found.is_empty() {
            return Ok(found);
        }
        self.before.adopt(&self.offloads.read().map_err(refused)?);
        self.write_down()?;
        self.offloads.single_frames().map_err(refused)?;
        self.before.have_set(self.offloads.read().map_err(refused)?);
        self.write_down()?;
        match self.changed_offloads().map_err(refused)? {
            left if left.is_empty() => Ok(found),
            left => Err(refused(io::Error::other(format!("the driver keeps {}", left.join(", "))))),
        }
    }

    fn changed_offloads(&self) -> io::Result<Vec<&'static str>> {
        let mut changed = self.offloads.unwanted()?;
        changed.retain(|name| !self.refused_offloads.contains(name));
        Ok(changed)
    }

    pub fn renamed(&mut self, device: &str) {
        self.tree.renamed(device);
    }

    fn write_down(&self) -> Result<(), EgressError> {
        let Some(claim) = &self.claim else { return Ok(()) };
        let write = self.journal.write(claim, &self.before);
        write.map_err(|source| EgressError::system("cannot record the settings", self.tree.device(), source))
    }

    fn left(&mut self) -> Result<Left<SavedState>, EgressError> {
        let Some(claim) = &self.claim else { return Ok(Left::Nothing) };
        let left = self.journal.left(claim);
        match &left {
            Left::Other => {
                let (device, ifindex) = (self.tree.device().to_owned(), self.tree.ifindex());
                self.claim = None;
                xoff_xdp::restore_port(&device)?;
                self.claim = Some(claim_of(&device, ifindex)?);
            }
            Left::Unreadable(warning) => self.warnings.push(warning.clone()),
            Left::Nothing | Left::Changes(_) => {}
        }
        Ok(left)
    }

    fn claimed(device: &str, ifindex: i32) -> Result<Egress, EgressError> {
        let claim = claim_of(device, ifindex)?;
        let mut egress = Egress::found(device, ifindex)?;
        egress.claim = Some(claim);
        Ok(egress)
    }

    /// Finds the agent's queues at a device, even if another process created them.
    pub fn find(ifindex: i32) -> Result<Option<Egress>, EgressError> {
        let mut egress = Egress::found(&name_of(ifindex)?, ifindex)?;
        Ok(Tree::is_in(&egress.tc.qdiscs(ifindex)?).then_some(egress))
    }

    fn found(device: &str, ifindex: i32) -> Result<Egress, EgressError> {
        let mut tc = Conversation::marked(MARK)
            .map_err(|source| EgressError::system("cannot open a netlink socket", device, source))?;
        let tree = Tree::found(device, ifindex, &tc.qdiscs(ifindex)?, xoff_xdp::mtu(device)?)?;
        let offloads = offloads_of(device, ifindex)?;
        let refused = |source| EgressError::system("cannot read the permanent address", device, source);
        let journal = Journal::of(Owner::Host, offloads.permanent_address().map_err(refused)?);
        Ok(Egress {
            tc,
            tree,
            offloads,
            neighbours: NeighbourQueues::open(device),
            before: SavedState::default(),
            claim: None,
            journal,
            last: Default::default(),
            counts: Default::default(),
            stopped: ClassSet::NONE,
            refused_offloads: Vec::new(),
            warnings: Vec::new(),
            removed: true,
        })
    }

    pub fn restore(ifindex: i32) -> Result<Option<Removed>, EgressError> {
        let mut egress = Egress::claimed(&name_of(ifindex)?, ifindex)?;
        let left = egress.left()?;
        let has_tree = Tree::is_in(&egress.tc.qdiscs(ifindex)?);
        match left {
            Left::Nothing if !has_tree => return Ok(None),
            Left::Changes(before) => egress.before = before,
            Left::Nothing | Left::Other | Left::Unreadable(_) => {}
        }
        let mut removed = egress.put_back(has_tree);
        removed.warnings.append(&mut egress.warnings);
        Ok(Some(removed))
    }

    /// Stops a class. Afterwards no frame leaves the class's queue, but the driver may still send one.
    pub fn stop(&mut self, class: Class) -> Result<(), EgressError> {
        self.stopped.insert(class);
        Ok(self.tc.send(self.tree.stop(class))?)
    }

    pub fn start(&mut self, class: Class) -> Result<(), EgressError> {
        self.tc.send(self.tree.start(class))?;
        self.stopped.remove(class);
        self.tree.wake()
    }

    /// Adapts the tree to the device's current MTU; call this periodically. If the kernel refuses a change, the tree keeps the previous
    /// MTU, and a later repair undoes the accepted changes.
    pub fn follow_mtu(&mut self) -> Result<(), EgressError> {
        let mtu = self.mtu()?;
        self.tree.follow(&mut self.tc, mtu, self.stopped)
    }

    /// Adapts classifier and queue limits to the lossless classes and maps in `settings`, without losing frames. If the kernel refuses, the
    /// previous classifier stays.
    pub fn follow_classes(&mut self, settings: &EgressSettings) -> Result<(), EgressError> {
        self.tree.follow_classes(&mut self.tc, settings, self.stopped)
    }

    pub fn dump(&mut self) -> Result<QueueDump, EgressError> {
        Ok(QueueDump::read(&mut self.tc, self.tree.ifindex())?)
    }

    pub fn opened(&mut self, classes: ClassSet) {
        self.stopped = ClassSet(self.stopped.0 & !classes.0);
    }

    /// Repairs the parts of the tree that are missing or changed in `dump`. `doubted` are classes whose queue another program changed.
    ///
    /// If another program's qdisc is the root, replaces it only if `takes_root` is true. [`remove`](Self::remove) then restores it, or the
    /// default root if it had classes or children.
    pub fn repair(&mut self, dump: &QueueDump, doubted: ClassSet, takes_root: bool) -> Repair {
        let found = self.tree.defects(dump, self.stopped, doubted);
        if found.is_empty() {
            return Repair::default();
        }
        let deleted: ClassSet =
            Class::ALL.into_iter().filter(|&class| !self.tree.has_leaf(dump, class)).collect();
        if let Err(refused) = self.make_room(dump, takes_root) {
            return Repair { found, left: found, deleted, refused: Some(refused) };
        }
        for class in deleted.iter() {
            self.last[class.index()] = Statistics::default(); // the counters of a new leaf start at zero
        }
        let repaired = self.tree.repair(&mut self.tc, dump, found, self.stopped);
        let repaired = repaired.and_then(|()| self.tree.wake());
        let doubted = if repaired.is_err() { doubted } else { ClassSet::NONE };
        let left = self.dump().map_or(found, |dump| self.tree.defects(&dump, self.stopped, doubted));
        Repair { found, left, deleted, refused: repaired.err() }
    }

    fn make_room(&mut self, dump: &QueueDump, takes_root: bool) -> Result<(), EgressError> {
        let is_theirs = |node: &&Node| node.parent == Handle::ROOT && node.handle != Handle::NONE;
        let theirs = dump.qdiscs.iter().find(is_theirs).filter(|_| !Tree::is_in(&dump.qdiscs));
        let Some(theirs) = theirs else { return Ok(()) };
        let device = self.tree.device().to_owned();
        if !takes_root {
            let root = format!("{} {}", theirs.kind, theirs.handle);
            return Err(EgressError::Replaced { device, root });
        }
        self.before.save_root(&device, &dump.qdiscs);
        self.write_down()
    }

    pub fn fit(&mut self) -> Result<bool, EgressError> {
        let mtu = self.mtu()?;
        self.tree.fit(mtu)
    }

    fn mtu(&self) -> Result<u32, EgressError> {
        self.offloads
            .mtu()
            .map_err(|source| EgressError::system("cannot read the MTU", self.tree.device(), source))
    }

    /// Limits a class to `rate`; the line rate or more removes the limit.
    pub fn limit(&mut self, class: Class, rate: BitRate) -> Result<(), EgressError> {
        Ok(self.tree.limit(&mut self.tc, class, rate)?)
    }

    pub fn counts(&mut self) -> Result<[LeafCounts; CLASSES], EgressError> {
        for counts in &mut self.counts {
            (counts.waiting_frames, counts.waiting_bytes) = (0, 0);
        }
        for node in self.tc.qdiscs(self.tree.ifindex())? {
            let Some(class) = tree::class_of(node.handle) else { continue };
            let (counts, last) = (&mut self.counts[class.index()], &mut self.last[class.index()]);
            counts.add(last, node.statistics);
        }
        Ok(self.counts)
    }

    #[must_use]
    pub fn leaf(&self) -> Leaf {
        self.tree.leaf()
    }

    #[must_use]
    pub fn ifindex(&self) -> i32 {
        self.tree.ifindex()
    }

    #[must_use]
    pub fn overrun(&self) -> Bytes {
        self.tree.overrun()
    }

    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub fn open(&mut self) -> Result<(), EgressError> {
        for class in Class::ALL {
            for sent in [self.tc.send(self.tree.start(class)), self.tc.send(self.tree.unlimit(class))] {
                // Some classes are missing if the agent was killed before it made them.
                sent.or_else(|error| if error.is_not_found() { Ok(()) } else { Err(error) })?;
            }
        }
        self.tree.wake()
    }

    /// Starts all classes, waits up to 300 ms until their frames are sent, then restores the device.
    #[must_use]
    pub fn remove(mut self) -> Removed {
        self.put_back(true)
    }

    /// Restores the device. Another program's root qdisc stays, with a warning if the agent had installed its queues (`had_tree`).
    fn put_back(&mut self, had_tree: bool) -> Removed {
        self.removed = true;
        let mut removed = Removed::default();
        let device = match self.offloads.device() {
            Ok(Some(device)) => device,
            Ok(None) => {
                self.claim.iter().for_each(Journal::clear);
                return removed;
            }
            Err(_) => self.tree.device().to_owned(),
        };
        let mut failed = Vec::new();
        match self.tc.qdiscs(self.tree.ifindex()) {
            Ok(nodes) if !Tree::is_in(&nodes) => {
                if had_tree {
                    let warning =
                        format!("another program replaced the queues of {device}; they are left as they are");
                    removed.warnings.push(warning);
                }
            }
            _ => {
                let done = self.empty(&mut removed);
                removed.warnings.extend(done.err().map(|error| error.to_string()));
                removed.warnings.extend(self.before.lost_root());
                failed.extend(self.before.put_root_back(&mut self.tc, self.tree.ifindex()));
            }
        }
        failed.extend(self.before.put_rest_back(&device, &self.offloads, &self.neighbours));
        if failed.is_empty() {
            self.claim.iter().for_each(Journal::clear); // kept after a failure, so that `xoff nic restore` may try again
        }
        removed.warnings.append(&mut failed);
        removed
    }

    fn empty(&mut self, removed: &mut Removed) -> Result<(), EgressError> {
        let _ = self.fit(); // if the MTU is too long, the class starts with its old settings
        self.open()?;
        let deadline = Instant::now() + Self::DRAIN;
        loop {
            let counts = self.counts()?;
            removed.lost = counts.map(|counts| counts.waiting_frames);
            removed.dropped = counts.map(|counts| counts.dropped);
            if removed.lost == [0; CLASSES] || Instant::now() >= deadline {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        if !self.removed && self.claim.is_some() {
            self.put_back(true);
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub lost: [u64; CLASSES],
    pub dropped: [u64; CLASSES],
    pub warnings: Vec<String>,
}

/// Claims a device; waits for a previous owner that is still closing its claim.
fn claim_of(device: &str, ifindex: i32) -> Result<Claim, EgressError> {
    Ok(Claim::take_within(Egress::HEIR, device, ifindex)?)
}

fn offloads_of(device: &str, ifindex: i32) -> Result<Offloads, EgressError> {
    Offloads::open(ifindex)
        .map_err(|source| EgressError::system("cannot open an ethtool socket", device, source))
}

fn name_of(ifindex: i32) -> Result<String, EgressError> {
    let device = format!("with index {ifindex}");
    match if_indextoname(ifindex.cast_unsigned()) {
        Ok(name) => Ok(name.to_string_lossy().into_owned()),
        Err(error) => Err(not_found(&device, error)),
    }
}

pub fn index_of(device: &str) -> Result<i32, EgressError> {
    let index = if_nametoindex(device).map_err(|error| not_found(device, error))?;
    i32::try_from(index).map_err(|_| EgressError::NoSuchDevice { device: device.to_owned() })
}

/// Returns the error for a failed look-up: the device does not exist, or the kernel refused, perhaps at the limit of open files.
fn not_found(device: &str, error: Errno) -> EgressError {
    match error {
        Errno::ENODEV | Errno::ENXIO | Errno::EINVAL => {
            EgressError::NoSuchDevice { device: device.to_owned() }
        }
        error => EgressError::system("cannot find the interface", device, error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // proves: host-guard
    fn refused_device_lookup_is_not_reported_as_missing_device() {
        assert!(matches!(not_found("eth0", Errno::ENODEV), EgressError::NoSuchDevice { .. }));
        let refused = not_found("eth0", Errno::EMFILE);
        assert!(matches!(refused, EgressError::System { .. }), "{refused}");
        assert!(refused.to_string().contains("raise the limit of open files"), "{refused}");
    }
}
