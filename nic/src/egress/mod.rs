//! What a device sends, class by class: the tree of queueing disciplines of a host that obeys PFC.
//!
//! ```text
//!   786e:  htb               which class, by DSCP or PCP (classify)
//!    └─ 786e:1               the line: just below its rate, so that nothing piles up where no pause reaches
//!        ├─ 786e:17          class 7, served first       └─ 7877: leaf
//!        ├─  ...                                             ...
//!        └─ 786e:10          class 0, served last        └─ 7870: leaf
//! ```
//!
//! Classes are served in strict priority, the highest first, as a switch's strict classes are: HTB gives each next to nothing for
//! itself, and lends what the line has in that order. A [leaf](Leaf) that is stopped keeps its frames; HTB goes on with the next
//! class. What waits in a leaf counts in its socket's send buffer, so a program that sends more sleeps: nothing is dropped
//! as long as the leaf's limit is larger than what the sockets together may keep waiting.
//!
//! How long a frame is counts as a line counts it: with FCS, preamble and gap, at least 64 bytes, and always as if it had a tag, because a
//! tag may be beside the frame where the shaper does not see it. So the shaped rate is never above the line's, and the device's
//! own ring, which cannot be stopped, stays empty.
//!
//! Frames of MAC control leave before all others, unshaped and never stopped.
//!
//! What was at the device before (the root queueing discipline, offloads, what may wait for neighbours) is written into the
//! [journal](Journal) before it is changed: the guard, the next agent or `xoff nic --restore` can put it back, however the agent ended.

mod before;
mod classify;
mod defects;
mod error;
mod leaf;
mod neighbours;
mod settings;
mod tree;

use std::thread;
use std::time::{Duration, Instant};

use nix::net::if_::{if_indextoname, if_nametoindex};
use xoff_dataplane::units::{BitRate, Bytes, CLASSES, Class, ClassSet};
use xoff_ebpf::Claim;
use xoff_netlink::Conversation;
use xoff_netlink::tc::{Handle, Node, Statistics};
use xoff_xdp::{Journal, Left, Offloads, Owner};

use before::Before;
use neighbours::NeighbourQueues;
use tree::Tree;

pub use defects::{Defects, Part};
pub use error::EgressError;
pub use leaf::Leaf;
pub use settings::EgressSettings;
pub use tree::QueueDump;
pub(crate) use tree::class_of;

/// Upper half of the sequence numbers of all requests about queues, by which their notifications are known.
pub(crate) const MARK: u16 = 0x786e;

/// What a leaf has done, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafCounts {
    /// Frames that have left it.
    pub frames: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Frames dropped because it was full, or because they were longer than the device's MTU was.
    pub dropped: u64,
    /// Frames that wait.
    pub waiting_frames: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
}

impl LeafCounts {
    /// Adds what a leaf has counted since `last`. One that has counted less is a new one, in the place of that.
    fn add(&mut self, last: &mut Statistics, now: Statistics) {
        let has_fewer_drops = now.drops.wrapping_sub(last.drops).cast_signed() < 0;
        if now.frames < last.frames || now.bytes < last.bytes || has_fewer_drops {
            *last = Statistics::default();
        }
        self.frames += now.frames - last.frames;
        self.bytes += now.bytes.saturating_sub(last.bytes);
        self.dropped += u64::from(now.drops.wrapping_sub(last.drops)); // the kernel has 32 bits of them
        (self.waiting_frames, self.waiting_bytes) = (now.qlen.into(), now.backlog.into());
        *last = now;
    }
}

/// The outcome of a comparison of a device's queues with the tree.
#[derive(Debug, Default)]
pub struct Mended {
    /// Parts that were missing or changed.
    pub found: Defects,
    /// Parts that still are so after the repair.
    pub left: Defects,
    /// Classes whose leaf was not there any more: frames queued in it are lost, and no counter is left that has them.
    pub deleted: ClassSet,
    /// The error that ended the repair early; `None` where the kernel took all of it.
    pub refused: Option<EgressError>,
}

/// The tree at a device, in the network namespace of the thread that made or found it; any thread may use it.
#[derive(Debug)]
pub struct Egress {
    tc: Conversation,
    tree: Tree,
    offloads: Offloads,
    neighbours: NeighbourQueues,
    before: Before,
    /// Keeps other processes from the device; `None` of a tree that was only [found](Egress::find), which is its maker's.
    claim: Option<Claim>,
    journal: Journal,
    /// What each leaf had counted when it was read last, and what this has counted in all.
    last: [Statistics; CLASSES],
    counts: [LeafCounts; CLASSES],
    /// Classes that were stopped and not started.
    stopped: ClassSet,
    warnings: Vec<String>,
    removed: bool,
}

impl Egress {
    /// How long removal waits for what is queued to leave.
    const DRAIN: Duration = Duration::from_millis(300);
    /// How long the device may still be in the hands of an agent that is dying, or of its guard, which puts it back.
    const HEIR: Duration = Duration::from_secs(1);

    /// Claims the device, and finds out what is to be put back afterwards. Nothing is changed before [`Egress::install`], but what a
    /// killed switch has left there is put back.
    ///
    /// # Errors
    /// [`EgressError`].
    pub fn prepare(settings: &EgressSettings) -> Result<Egress, EgressError> {
        let device = settings.nic.device.as_str();
        let ifindex = index_of(device)?;
        let mut egress = Egress::claimed(device, ifindex)?;
        let left = match egress.left()? {
            Left::Changes(before) => Some(before),
            _ => None,
        };
        // A killed switch's changes are put back by now: the device is as it was.
        let nodes = egress.tc.qdiscs(ifindex)?;
        // A tree is taken over, whatever was there before it.
        let theirs = (!Tree::is_in(&nodes)).then_some(nodes.as_slice());
        let (offloads, queues) = (&egress.offloads, &egress.neighbours);
        let before = match (left, theirs) {
            (Some(left), theirs) => left.unless_changed(device, theirs, offloads, queues)?,
            (None, Some(theirs)) => Before::of(device, theirs, offloads, queues)?,
            (None, None) => Before::default(),
        };
        egress.before = before;
        let mtu = xoff_xdp::mtu(device)?;
        egress.tree = Tree::new(device, ifindex, &nodes, settings, mtu)?;
        Ok(egress)
    }

    /// Builds the tree, with every class running and nobody limited. Where a killed one left a tree, it is taken over, and nothing
    /// that waits in it is lost.
    ///
    /// # Errors
    /// [`EgressError`]; the device is left as it was.
    pub fn install(mut self, settings: &EgressSettings) -> Result<Egress, EgressError> {
        self.removed = false; // who is dropped puts everything back
        self.build(settings)?;
        self.counts()?;
        self.counts = Default::default(); // a predecessor's are not its own
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
                "the driver of {device} keeps its offloads ({error}): superframes, or frames without checksum, may leave it \
                 (`ethtool -k {device}` shows which)"
            ));
        }
        if let Err(error) = self.neighbours.set(waiting) {
            self.warnings.push(format!(
                "what waits for a neighbour's address at {device} stays bounded as it is ({error}): frames beyond that are dropped \
                 (net.ipv4.neigh.{device}.unres_qlen_bytes)"
            ));
        }
        if let Ok(offloads) = self.offloads.read() {
            self.before.have_set(offloads);
            self.write_down()?;
        }
        self.tree.grow(&mut self.tc)
    }

    /// Writes into the journal what was before, and what is set.
    fn write_down(&self) -> Result<(), EgressError> {
        let Some(claim) = &self.claim else { return Ok(()) };
        let write = self.journal.write(claim, &self.before);
        write.map_err(|source| EgressError::system("write down what was at", self.tree.device(), source))
    }

    /// Reads what the last owner of the device has left. What a killed switch has left is put back.
    fn left(&mut self) -> Result<Left<Before>, EgressError> {
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

    /// The tree that is at a device, whoever made it; `None` where there is none.
    ///
    /// # Errors
    /// Where there is no such device, or the kernel does not answer.
    pub fn find(ifindex: i32) -> Result<Option<Egress>, EgressError> {
        let mut egress = Egress::found(&name_of(ifindex)?, ifindex)?;
        Ok(Tree::is_in(&egress.tc.qdiscs(ifindex)?).then_some(egress))
    }

    fn found(device: &str, ifindex: i32) -> Result<Egress, EgressError> {
        let mut tc = Conversation::marked(MARK)
            .map_err(|source| EgressError::system("talk to the kernel about", device, source))?;
        let tree = Tree::found(device, ifindex, &tc.qdiscs(ifindex)?, xoff_xdp::mtu(device)?)?;
        let offloads = offloads_of(device, ifindex)?;
        let refused = |source| EgressError::system("read the permanent address of", device, source);
        let journal = Journal::of(Owner::Host, offloads.permanent_address().map_err(refused)?);
        Ok(Egress {
            tc,
            tree,
            offloads,
            neighbours: NeighbourQueues::open(device),
            before: Before::default(),
            claim: None,
            journal,
            last: Default::default(),
            counts: Default::default(),
            stopped: ClassSet::NONE,
            warnings: Vec::new(),
            removed: true,
        })
    }

    /// Puts back what an agent or a switch that was killed has left at a device: starts all classes, and has everything as it was before.
    /// `None` where there is nothing to put back.
    ///
    /// # Errors
    /// Where somebody has the device, and as [`Egress::prepare`].
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

    /// Stops a class: when this returns no frame of it is taken from its leaf any more. One may be on its way through the driver.
    ///
    /// # Errors
    /// What the kernel says: the device, or the tree, may be gone.
    pub fn stop(&mut self, class: Class) -> Result<(), EgressError> {
        self.stopped.insert(class);
        Ok(self.tc.send(self.tree.stop(class))?)
    }

    /// Lets a class go on.
    ///
    /// # Errors
    /// As [`Egress::stop`].
    pub fn start(&mut self, class: Class) -> Result<(), EgressError> {
        self.tc.send(self.tree.start(class))?;
        self.stopped.remove(class);
        self.tree.wake()
    }

    /// Lets the leafs keep frames of the device's current MTU. To be called now and then. Where the kernel refuses, the tree stays one
    /// for the MTU before, and the next call tries again.
    ///
    /// # Errors
    /// [`EgressError::TooLong`], and as [`Egress::stop`].
    pub fn follow_mtu(&mut self) -> Result<(), EgressError> {
        let mtu = self.mtu()?;
        self.tree.follow(&mut self.tc, mtu, self.stopped)
    }

    /// Reads the device's queues.
    ///
    /// # Errors
    /// As [`Egress::stop`].
    pub fn dump(&mut self) -> Result<QueueDump, EgressError> {
        Ok(QueueDump::read(&mut self.tc, self.tree.ifindex())?)
    }

    /// Records that the guard opened these classes.
    pub fn opened(&mut self, classes: ClassSet) {
        self.stopped = ClassSet(self.stopped.0 & !classes.0);
    }

    /// Compares a [dump](Self::dump) with the tree as it was made, and repairs what is missing or changed: classes that were
    /// stopped are stopped again before frames are led to them. `doubted`: classes whose leaf somebody is known to have changed.
    ///
    /// # Errors
    /// [`EgressError::Replaced`] where somebody else's queueing discipline is at the root: that stays.
    pub fn mend(&mut self, dump: &QueueDump, doubted: ClassSet) -> Result<Mended, EgressError> {
        let is_theirs = |node: &&Node| node.parent == Handle::ROOT && node.handle != Handle::NONE;
        if !Tree::is_in(&dump.qdiscs)
            && let Some(root) = dump.qdiscs.iter().find(is_theirs)
        {
            let root = format!("{} {}", root.kind, root.handle);
            return Err(EgressError::Replaced { device: self.tree.device().to_owned(), root });
        }
        let found = self.tree.defects(dump, self.stopped, doubted);
        if found.is_empty() {
            return Ok(Mended::default());
        }
        let deleted: ClassSet =
            Class::ALL.into_iter().filter(|&class| !self.tree.has_leaf(dump, class)).collect();
        for class in deleted.iter() {
            self.last[class.index()] = Statistics::default(); // a new one counts from nothing
        }
        let repaired = self.tree.repair(&mut self.tc, dump, found, self.stopped);
        let repaired = repaired.and_then(|()| self.tree.wake());
        // A leaf that hides its state is in doubt until its repair has gone through.
        let doubted = if repaired.is_err() { doubted } else { ClassSet::NONE };
        let left = self.dump().map_or(found, |dump| self.tree.defects(&dump, self.stopped, doubted));
        Ok(Mended { found, left, deleted, refused: repaired.err() })
    }

    /// From here on classes are stopped and started for frames of the device's MTU by now. Whether that is another one than before.
    ///
    /// # Errors
    /// [`EgressError::TooLong`], or where the device is gone.
    pub fn fit(&mut self) -> Result<bool, EgressError> {
        let mtu = self.mtu()?;
        self.tree.fit(mtu)
    }

    fn mtu(&self) -> Result<u32, EgressError> {
        self.offloads
            .mtu()
            .map_err(|source| EgressError::system("read the MTU of", self.tree.device(), source))
    }

    /// Lets a class send no faster than that; the line's rate, or more, ends the limit.
    ///
    /// # Errors
    /// As [`Egress::stop`].
    pub fn limit(&mut self, class: Class, rate: BitRate) -> Result<(), EgressError> {
        Ok(self.tree.limit(&mut self.tc, class, rate)?)
    }

    /// What each leaf has counted since this was installed; of a tree that was only [found](Egress::find), since that was made.
    ///
    /// # Errors
    /// As [`Egress::stop`].
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

    /// Which kind of leaf the kernel had.
    #[must_use]
    pub fn leaf(&self) -> Leaf {
        self.tree.leaf()
    }

    /// Index of the device in its network namespace.
    #[must_use]
    pub fn ifindex(&self) -> i32 {
        self.tree.ifindex()
    }

    /// As [`EgressSettings::overrun`].
    #[must_use]
    pub fn overrun(&self) -> Bytes {
        self.tree.overrun()
    }

    /// What could not be set, in words.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Lets every class go on at the line's rate.
    ///
    /// # Errors
    /// As [`Egress::stop`].
    pub fn open(&mut self) -> Result<(), EgressError> {
        for class in Class::ALL {
            self.tc.send(self.tree.start(class))?;
            self.tc.send(self.tree.unlimit(class))?;
        }
        self.tree.wake()
    }

    /// Lets all go on, waits a moment for what is queued to leave, and puts back what was at the device before: each part of it,
    /// whatever becomes of the others.
    #[must_use]
    pub fn remove(mut self) -> Removed {
        self.put_back(true)
    }

    /// Puts the device back as it was. `had_tree`: the tree was built, so that another one in its place was put there by somebody.
    fn put_back(&mut self, had_tree: bool) -> Removed {
        self.removed = true;
        let mut removed = Removed::default();
        let device = match self.offloads.device() {
            Ok(Some(device)) => device,
            Ok(None) => {
                // It has gone, and all that was at it.
                self.claim.iter().for_each(Journal::clear);
                return removed;
            }
            Err(_) => self.tree.device().to_owned(),
        };
        let mut failed = Vec::new();
        match self.tc.qdiscs(self.tree.ifindex()) {
            Ok(nodes) if !Tree::is_in(&nodes) => {
                if had_tree {
                    let warning = format!("the queues of {device} were replaced; what is there now stays");
                    removed.warnings.push(warning);
                }
            }
            _ => {
                let done = self.empty(&mut removed);
                removed.warnings.extend(done.err().map(|error| error.to_string()));
                failed.extend(self.before.put_root_back(&mut self.tc, self.tree.ifindex()));
            }
        }
        failed.extend(self.before.put_rest_back(&device, &self.offloads, &self.neighbours));
        if failed.is_empty() {
            self.claim.iter().for_each(Journal::clear); // else `xoff nic --restore` may try again
        }
        removed.warnings.append(&mut failed);
        removed
    }

    /// Opens all, and waits until nothing is queued, or that has taken too long.
    fn empty(&mut self, removed: &mut Removed) -> Result<(), EgressError> {
        let _ = self.fit(); // under an MTU that is too long the class is opened with the old settings
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
        // Who only found the tree leaves it to who made it.
        if !self.removed && self.claim.is_some() {
            self.put_back(true);
        }
    }
}

/// How the removal of a tree ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Frames of each class that were still queued, and were lost.
    pub lost: [u64; CLASSES],
    /// Frames of each class that were dropped because it was full, in all.
    pub dropped: [u64; CLASSES],
    /// What could not be put back, in words.
    pub warnings: Vec<String>,
}

/// Claims the device, with patience for who had it before: what a dying process has, the kernel gives up one by one, so that its
/// guard hears of its death before the device is free.
fn claim_of(device: &str, ifindex: i32) -> Result<Claim, EgressError> {
    Ok(Claim::take_within(Egress::HEIR, device, ifindex)?)
}

fn offloads_of(device: &str, ifindex: i32) -> Result<Offloads, EgressError> {
    Offloads::open(ifindex).map_err(|source| EgressError::system("talk to the driver of", device, source))
}

fn name_of(ifindex: i32) -> Result<String, EgressError> {
    let name = if_indextoname(ifindex.cast_unsigned()).ok().and_then(|name| name.into_string().ok());
    name.ok_or_else(|| EgressError::NoSuchDevice { device: format!("of index {ifindex}") })
}

/// The index of a device in the network namespace of the calling thread.
///
/// # Errors
/// There is none of that name.
pub fn index_of(device: &str) -> Result<i32, EgressError> {
    let index = if_nametoindex(device).ok().and_then(|index| i32::try_from(index).ok());
    index.ok_or_else(|| EgressError::NoSuchDevice { device: device.to_owned() })
}
