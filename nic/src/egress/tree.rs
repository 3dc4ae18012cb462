//! The tree itself: its numbers, its messages, and the frame that wakes it.

use std::io;

use xoff_dataplane::units::{BitRate, Bytes, CLASSES, Class};
use xoff_tc::{Answer, Filter, Handle, HtbClass, Node, Place, Qdisc, Rate, Request, Tc, TcError};
use xoff_xdp::PacketSender;

use super::classify::{self, Classes};
use super::error::EgressError;
use super::{EgressSettings, Leaf};

/// Major number of the root of a host's queues, by which a tree that was left is known: the kernel makes up none below 0x8000.
const MAJOR: u16 = 0x786e;
/// Major number of the leaf of class 0; those of the others follow.
const LEAVES: u16 = 0x7870;
/// Minor numbers of the line and of class 0.
const LINE: u16 = 1;
const CLASS_0: u16 = 0x10;

pub(super) const ROOT: Handle = Handle::new(MAJOR, 0);

/// Turns of the filters at the root. What was before the tree is the last: no frame comes so far.
const WAKE: u16 = 1;
const CLASSIFY: u16 = 2;
pub(super) const BEFORE: u16 = 3;

/// What a frame costs beyond its bytes: FCS, preamble and gap, and a tag, which may not be in it.
const OVERHEAD: u16 = 4 + 8 + 12 + 4;
const LEAST: u16 = 60 + OVERHEAD;
/// Bytes beyond an MTU: Ethernet's header and two tags.
const HEADERS: u32 = 14 + 8;
/// Longest frame that costs less than a bucket can be made to ask for.
const LONGEST: u32 = 65_522;

/// Numbers of the leaf of a class.
fn leaf_place(ifindex: i32, class: Class) -> Place {
    let handle = Handle::new(LEAVES + u16::from(class.get()), 0);
    Place { ifindex, parent: class_handle(class), handle }
}

fn class_handle(class: Class) -> Handle {
    Handle::new(MAJOR, CLASS_0 + u16::from(class.get()))
}

/// Whose leaf has that number.
pub(super) fn class_of(leaf: Handle) -> Option<Class> {
    Class::ALL.into_iter().find(|&class| leaf_place(0, class).handle == leaf)
}

/// Messages of a tree, ready to be sent.
#[derive(Debug)]
pub(super) struct Tree {
    device: String,
    ifindex: i32,
    wanted: Option<Leaf>,
    leaf: Leaf,
    limits: [u32; CLASSES],
    longest: u32,
    /// What the shaper lets through and may be ahead by; 0 where the tree was found, and nobody limits.
    shaped: u64,
    burst: Bytes,
    stop: Vec<Request>,
    start: Vec<Request>,
    unlimit: Vec<Request>,
    waker: PacketSender,
}

impl Tree {
    /// Whether there is one among the queueing disciplines of a device.
    pub(super) fn is_in(nodes: &[Node]) -> bool {
        nodes.iter().any(|node| node.handle == ROOT && node.parent == Handle::ROOT && node.kind == "htb")
    }

    /// One that is to be made, or to be taken over from what is there.
    pub(super) fn new(
        device: &str,
        ifindex: i32,
        nodes: &[Node],
        settings: &EgressSettings,
        mtu: u32,
    ) -> Result<Tree, EgressError> {
        let limits = Class::ALL.map(|class| settings.limit(class));
        let leaf = leaf_among(nodes).unwrap_or(Leaf::Tbf);
        let mut tree = Tree::with(device, ifindex, leaf, limits, mtu)?;
        tree.wanted = settings.leaf;
        tree.shaped = settings.shaped_bytes_per_second();
        tree.burst = settings.burst;
        Ok(tree)
    }

    /// One that is there.
    pub(super) fn found(device: &str, ifindex: i32, nodes: &[Node], mtu: u32) -> Result<Tree, EgressError> {
        let limit = |class| {
            let leaf = nodes.iter().find(|node| node.handle == leaf_place(ifindex, class).handle);
            // The limit of a tbf is in its parameters, behind two rates.
            let limit =
                leaf.filter(|node| node.kind == Leaf::Tbf.name()).and_then(|node| node.options.get(28..32));
            let limit = limit.and_then(|bytes| bytes.first_chunk());
            limit.map_or(EgressSettings::LIMIT_LOSSLESS, |&bytes| u32::from_ne_bytes(bytes))
        };
        Tree::with(device, ifindex, leaf_among(nodes).unwrap_or(Leaf::Tbf), Class::ALL.map(limit), mtu)
    }

    fn with(
        device: &str,
        ifindex: i32,
        leaf: Leaf,
        limits: [u32; CLASSES],
        mtu: u32,
    ) -> Result<Tree, EgressError> {
        let waker = PacketSender::open(ifindex)
            .map_err(|source| EgressError::system("open a packet socket on", device, source))?;
        let mut tree = Tree {
            device: device.to_owned(),
            ifindex,
            wanted: None,
            leaf,
            limits,
            longest: 0,
            shaped: 0,
            burst: Bytes::ZERO,
            stop: Vec::new(),
            start: Vec::new(),
            unlimit: Vec::new(),
            waker,
        };
        tree.fit(mtu)?;
        Ok(tree)
    }

    /// Makes the messages for frames of that MTU. Whether it is another one than before.
    pub(super) fn fit(&mut self, mtu: u32) -> Result<bool, EgressError> {
        let longest = longest_at(mtu);
        if longest > LONGEST {
            return Err(EgressError::TooLong { device: self.device.clone(), mtu });
        }
        if longest == self.longest {
            return Ok(false);
        }
        self.longest = longest;
        self.prepare(self.leaf);
        Ok(true)
    }

    /// Makes the messages for leafs of that kind.
    fn prepare(&mut self, leaf: Leaf) {
        self.leaf = leaf;
        let (limits, longest, ifindex) = (self.limits, self.longest, self.ifindex);
        let place = |class| leaf_place(ifindex, class);
        let stop = |class: Class| leaf.stopped(limits[class.index()], longest, place(class));
        let start = |class: Class| leaf.started(limits[class.index()], longest, place(class));
        self.stop = Class::ALL.into_iter().map(stop).collect();
        self.start = Class::ALL.into_iter().map(start).collect();
        self.unlimit = Class::ALL.into_iter().map(|class| self.class_at(class, u64::MAX)).collect();
    }

    /// Puts the root down.
    pub(super) fn plant(&self, tc: &mut Tc) -> Result<(), EgressError> {
        if Tree::is_in(&tc.qdiscs(self.ifindex)?) {
            return Ok(());
        }
        let place = Place { ifindex: self.ifindex, parent: Handle::ROOT, handle: ROOT };
        // Nothing gets into a class before its leaf is in place: until there is a classifier, frames leave at once.
        tree(tc.send(&mut Qdisc::Htb.replace(place)))
    }

    /// Puts the rest on it, or changes it where it is there.
    pub(super) fn grow(&mut self, tc: &mut Tc, settings: &EgressSettings) -> Result<(), EgressError> {
        tree(tc.send(&mut self.line()))?;
        for class in Class::ALL {
            tree(tc.send(&mut self.class_at(class, self.shaped)))?;
        }
        let leaf = self.choose(tc)?;
        self.prepare(leaf);
        for class in Class::ALL {
            let place = leaf_place(self.ifindex, class);
            let made = leaf.made(self.limits[class.index()], self.longest);
            let there = tc.qdiscs(self.ifindex)?.into_iter().find(|node| node.handle == place.handle);
            match there {
                Some(node) if node.kind == leaf.name() => {}
                Some(_) => tree(tc.send(&mut Qdisc::delete(place)))?,
                None => {}
            }
            tree(tc.send(&mut made.replace(place)))?;
            tree(tc.send(&mut self.start[class.index()]))?;
        }
        let place = Place { ifindex: self.ifindex, parent: ROOT, handle: Handle(1) };
        let wake = Filter { priority: WAKE, program: classify::wake_program(), answer: Answer::Verdict };
        tree(tc.send(&mut wake.put(place)))?;
        let classes = Classes { control: ROOT.0, class: Class::ALL.map(|class| class_handle(class).0) };
        let program = classify::program(settings, &classes);
        let classify = Filter { priority: CLASSIFY, program, answer: Answer::Class };
        tree(tc.send(&mut classify.put(place)))?;
        self.wake()
    }

    /// The kind of leaf that is asked for or can be had: tried at the class that is looked at last.
    fn choose(&self, tc: &mut Tc) -> Result<Leaf, EgressError> {
        let place = leaf_place(self.ifindex, Class::ALL[0]);
        let there = tc.qdiscs(self.ifindex)?;
        let found = leaf_among(&there);
        let kinds = match self.wanted {
            Some(wanted) => vec![wanted],
            None => found.into_iter().chain(Leaf::ALL).collect(),
        };
        if found.is_some() && kinds.first() == found.as_ref() {
            return Ok(kinds[0]);
        }
        if found.is_some() {
            tree(tc.send(&mut Qdisc::delete(place)))?;
        }
        Leaf::first(kinds, |leaf| tc.send(&mut leaf.made(self.limits[0], self.longest).replace(place)))
    }

    pub(super) fn line(&self) -> Request {
        let rate = self.rate(self.shaped);
        let burst = self.burst_bytes();
        let line =
            HtbClass { rate, ceil: rate, burst, ceil_burst: burst, priority: 0, quantum: self.longest };
        line.put(Place { ifindex: self.ifindex, parent: ROOT, handle: Handle::new(MAJOR, LINE) })
    }

    fn class_at(&self, class: Class, bytes_per_second: u64) -> Request {
        // Next to nothing of its own, so that priorities decide about all the rest.
        let own = self.rate(1);
        let unlimited = if self.shaped == 0 { 125_000_000_000 } else { self.shaped };
        let ceil = self.rate(bytes_per_second.clamp(1, unlimited));
        let priority = u32::from(7 - class.get());
        let ceil_burst = self.burst_bytes();
        let class_of_htb =
            HtbClass { rate: own, ceil, burst: 0, ceil_burst, priority, quantum: self.longest };
        let parent = Handle::new(MAJOR, LINE);
        class_of_htb.put(Place { ifindex: self.ifindex, parent, handle: class_handle(class) })
    }

    const fn rate(&self, bytes_per_second: u64) -> Rate {
        Rate { bytes_per_second, overhead: OVERHEAD, least: LEAST }
    }

    fn burst_bytes(&self) -> u32 {
        u32::try_from(self.burst.0).unwrap_or(u32::MAX).max(self.longest)
    }

    pub(super) fn device(&self) -> &str {
        &self.device
    }

    pub(super) fn stop(&mut self, class: Class) -> &mut Request {
        &mut self.stop[class.index()]
    }

    pub(super) fn start(&mut self, class: Class) -> &mut Request {
        &mut self.start[class.index()]
    }

    pub(super) fn unlimit(&mut self, class: Class) -> &mut Request {
        &mut self.unlimit[class.index()]
    }

    pub(super) fn limit(&self, class: Class, rate: BitRate) -> Request {
        self.class_at(class, rate.bits_per_second() / 8)
    }

    /// Has the kernel look at the queues again. A bucket whose rate was changed still waits for the time that the old one
    /// asked for; whatever is sent through the device makes the kernel look. This frame goes no further: the tree's first filter
    /// takes it, so that nobody sees or counts it.
    pub(super) fn wake(&self) -> Result<(), EgressError> {
        if self.leaf == Leaf::Plug {
            return Ok(());
        }
        match self.waker.send(&classify::WAKE_FRAME) {
            // A device that is down has nothing that waits.
            Err(error) if error.kind() == io::ErrorKind::NetworkDown => Ok(()),
            result => {
                result.map_err(|source| EgressError::system("wake the queues of", &self.device, source))
            }
        }
    }

    pub(super) fn overrun(&self) -> Bytes {
        overrun(self.burst, self.longest)
    }

    pub(super) fn leaf(&self) -> Leaf {
        self.leaf
    }

    pub(super) fn ifindex(&self) -> i32 {
        self.ifindex
    }
}

/// The longest frame of an MTU.
pub(super) fn longest_at(mtu: u32) -> u32 {
    mtu.saturating_add(HEADERS)
}

/// See [`EgressSettings::overrun`].
pub(super) fn overrun(burst: Bytes, longest: u32) -> Bytes {
    let longest = Bytes(longest.into());
    burst.max(longest) + longest + Bytes(OVERHEAD.into())
}

/// The kind of the leafs that are there.
fn leaf_among(nodes: &[Node]) -> Option<Leaf> {
    let node = nodes.iter().find(|node| class_of(node.handle) == Some(Class::ALL[0]))?;
    Leaf::ALL.into_iter().find(|leaf| leaf.name() == node.kind)
}

pub(super) fn tree(result: Result<(), TcError>) -> Result<(), EgressError> {
    result.map_err(|source| EgressError::Tree { source })
}
