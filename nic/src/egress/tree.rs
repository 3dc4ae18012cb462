use std::io;

use xoff_netlink::Conversation;
use xoff_netlink::tc::{Answer, Filter, Handle, HtbClass, Node, Place, Qdisc, Rate, Request, TcError};
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, ClassSet};
use xoff_xdp::PacketSender;

use super::classify::{self, Classes};
use super::defects::{Defects, Part};
use super::error::EgressError;
use super::settings::{OVERHEAD, longest_at, overrun};
use super::{EgressSettings, Leaf};

/// Major number of the tree's handles. The kernel itself assigns none below 0x8000.
const MAJOR: u16 = 0x786e;
const LEAVES: u16 = 0x7870;
const LINE_HANDLE: Handle = Handle::new(MAJOR, 1);
const CLASS_0: u16 = 0x10;

pub(super) const ROOT: Handle = Handle::new(MAJOR, 0);
const FILTER: Handle = Handle(1);

const WAKE: u16 = 1;
const CLASSIFY: u16 = 2;

const LEAST: u16 = 60 + OVERHEAD;
/// Maximum bytes of a frame that a token bucket can send: a longer one costs more tokens than fit in a bucket.
const LONGEST: u32 = 65_522;

#[derive(Debug)]
pub struct QueueDump {
    pub(super) qdiscs: Vec<Node>,
    classes: Vec<Node>,
    filters: Vec<Node>,
}

impl QueueDump {
    pub(super) fn read(tc: &mut Conversation, ifindex: i32) -> Result<QueueDump, TcError> {
        let qdiscs = tc.qdiscs(ifindex)?;
        // Read no filters if the agent's root qdisc is missing: the kernel refuses their dump.
        let filters = if Tree::is_in(&qdiscs) { tc.filters(ifindex, ROOT)? } else { Vec::new() };
        Ok(QueueDump { qdiscs, classes: tc.classes(ifindex)?, filters })
    }

    fn qdisc(&self, handle: Handle) -> Option<&Node> {
        self.qdiscs.iter().find(|node| node.handle == handle)
    }

    fn class(&self, handle: Handle) -> Option<&Node> {
        self.classes.iter().find(|node| node.handle == handle)
    }

    fn foreign_filters(&self) -> impl Iterator<Item = &Node> {
        let precedes = |node: &&Node| node.chain == 0 && node.priority() <= CLASSIFY;
        // Count other programs' BPF filters by their handles. For filters of other kinds, the kernel lists one node without handle for each
        // priority and protocol: count these nodes.
        self.filters.iter().filter(precedes).filter(|node| match node.is_program() {
            true => ![Handle::NONE, FILTER].contains(&node.handle),
            false => node.handle == Handle::NONE,
        })
    }

    fn foreign_classes(&self) -> Vec<Handle> {
        let mut parents = Class::ALL.map(class_handle).to_vec();
        let mut found = Vec::new();
        while let Some(parent) = parents.pop() {
            let below =
                self.classes.iter().filter(|node| node.parent == parent && node.handle.major() == MAJOR);
            for node in below {
                found.push(node.handle);
                parents.push(node.handle);
            }
        }
        found.reverse();
        found
    }
}

fn leaf_place(ifindex: i32, class: Class) -> Place {
    let handle = Handle::new(LEAVES + u16::from(class.get()), 0);
    Place { ifindex, parent: class_handle(class), handle }
}

fn class_handle(class: Class) -> Handle {
    Handle::new(MAJOR, CLASS_0 + u16::from(class.get()))
}

pub(crate) fn class_of(leaf: Handle) -> Option<Class> {
    Class::ALL.into_iter().find(|&class| leaf_place(0, class).handle == leaf)
}

#[derive(Debug)]
pub(super) struct Tree {
    device: String,
    ifindex: i32,
    wanted: Option<Leaf>,
    leaf: Leaf,
    limits: [u32; CLASSES],
    longest: u32,
    shaped: u64,
    burst: Bytes,
    ceils: [u64; CLASSES],
    filters: Option<[Filter; 2]>,
    stop: Vec<Request>,
    start: Vec<Request>,
    unlimit: Vec<Request>,
    waker: PacketSender,
}

impl Tree {
    pub(super) fn is_in(nodes: &[Node]) -> bool {
        nodes.iter().any(|node| node.handle == ROOT && node.parent == Handle::ROOT && node.kind == "htb")
    }

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
        tree.ceils = [tree.shaped; CLASSES];
        tree.filters = Some(filters(settings));
        Ok(tree)
    }

    pub(super) fn found(device: &str, ifindex: i32, nodes: &[Node], mtu: u32) -> Result<Tree, EgressError> {
        let limit = |class| {
            let leaf = nodes.iter().find(|node| node.handle == leaf_place(ifindex, class).handle);
            // In the options of a tbf, the limit follows a header of 4 bytes and two rates of 12 bytes.
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
            .map_err(|source| EgressError::system("cannot open a packet socket", device, source))?;
        let mut tree = Tree {
            device: device.to_owned(),
            ifindex,
            wanted: None,
            leaf,
            limits,
            longest: 0,
            shaped: 0,
            burst: Bytes::ZERO,
            ceils: [u64::MAX; CLASSES],
            filters: None,
            stop: Vec::new(),
            start: Vec::new(),
            unlimit: Vec::new(),
            waker,
        };
        tree.fit(mtu)?;
        Ok(tree)
    }

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

    pub(super) fn follow(
        &mut self,
        tc: &mut Conversation,
        mtu: u32,
        stopped: ClassSet,
    ) -> Result<(), EgressError> {
        let before = self.longest;
        if !self.fit(mtu)? {
            return Ok(());
        }
        let sent = self.resize(tc, stopped);
        if sent.is_err() {
            self.longest = before;
            self.prepare(self.leaf);
        }
        Ok(sent?)
    }

    /// Adapts the tree to other classes. Queue limits only rise, because a queue may be longer than a lower limit. They stay raised if the
    /// kernel refuses the change.
    pub(super) fn follow_classes(
        &mut self,
        tc: &mut Conversation,
        settings: &EgressSettings,
        stopped: ClassSet,
    ) -> Result<(), EgressError> {
        let limits = Class::ALL.map(|class| self.limits[class.index()].max(settings.limit(class)));
        let filters = filters(settings);
        let rises = |class: &Class| limits[class.index()] != self.limits[class.index()];
        let risen: Vec<Class> = Class::ALL.into_iter().filter(rises).collect();
        let sent = risen.into_iter().try_for_each(|class| {
            let limit = limits[class.index()];
            let leaf = self.leaf.creation(limit, self.longest, stopped.contains(class));
            tree(tc.send(&mut leaf.change(leaf_place(self.ifindex, class))))?;
            self.limits[class.index()] = limit;
            Ok(())
        });
        // Change the classifier last, when queue limits are high enough for the frames that it sends to other classes.
        let sent = sent.and_then(|()| tree(tc.send(&mut filters[1].put(self.place(ROOT, FILTER)))));
        if sent.is_ok() {
            self.filters = Some(filters);
        }
        self.prepare(self.leaf);
        sent
    }

    fn resize(&mut self, tc: &mut Conversation, stopped: ClassSet) -> Result<(), TcError> {
        tc.send(&mut self.line())?;
        for class in Class::ALL {
            tc.send(&mut self.class(class))?;
            tc.send(if stopped.contains(class) { self.stop(class) } else { self.start(class) })?;
        }
        Ok(())
    }

    fn prepare(&mut self, leaf: Leaf) {
        self.leaf = leaf;
        let tell = |stopped| {
            let message = |class| self.leaf_of(class, stopped).change(leaf_place(self.ifindex, class));
            Class::ALL.into_iter().map(message).collect()
        };
        (self.stop, self.start) = (tell(true), tell(false));
        self.unlimit = Class::ALL.into_iter().map(|class| self.class_at(class, u64::MAX)).collect();
    }

    pub(super) fn plant(&self, tc: &mut Conversation) -> Result<(), EgressError> {
        if Tree::is_in(&tc.qdiscs(self.ifindex)?) {
            return Ok(());
        }
        let place = Place { ifindex: self.ifindex, parent: Handle::ROOT, handle: ROOT };
        // Add only the root: `grow` adds the classifier last, so that no class gets frames before its queue exists.
        tree(tc.send(&mut Qdisc::Htb.replace(place)))
    }

    pub(super) fn grow(&mut self, tc: &mut Conversation) -> Result<(), EgressError> {
        tree(tc.send(&mut self.line()))?;
        for class in Class::ALL {
            tree(tc.send(&mut self.class(class)))?;
        }
        let leaf = self.choose(tc)?;
        self.prepare(leaf);
        let dump = QueueDump::read(tc, self.ifindex)?;
        self.repair(tc, &dump, self.defects(&dump, ClassSet::NONE, ClassSet::ALL), ClassSet::NONE)?;
        self.wake()
    }

    pub(super) fn defects(&self, dump: &QueueDump, stopped: ClassSet, doubted: ClassSet) -> Defects {
        let line = dump.class(LINE_HANDLE).is_some_and(|node| self.line_class().agrees_with(node));
        let class_is_whole = |class| {
            let node = dump.class(class_handle(class)).filter(|node| node.parent == LINE_HANDLE);
            node.is_some_and(|node| self.class_with(class, self.ceils[class.index()]).agrees_with(node))
        };
        let leaf_is_whole = |class| {
            let Place { parent, handle, .. } = leaf_place(self.ifindex, class);
            let node = dump.qdisc(handle).filter(|node| node.parent == parent);
            let is_silent = self.leaf == Leaf::Plug && doubted.contains(class);
            let expected = self.leaf_of(class, stopped.contains(class));
            !is_silent && node.is_some_and(|node| expected.agrees_with(node))
        };
        let filter_is_whole = |index: usize| {
            let mut ours = dump.filters.iter().filter(|node| node.handle == FILTER && node.chain == 0);
            self.filters.as_ref().is_none_or(|filters| ours.any(|node| filters[index].agrees_with(node)))
        };
        let is_alone = dump.foreign_filters().next().is_none() && dump.foreign_classes().is_empty();
        let whole = [
            (Part::Root, Tree::is_in(&dump.qdiscs)),
            (Part::Line, line),
            (Part::Waker, filter_is_whole(0)),
            (Part::Classifier, filter_is_whole(1)),
            (Part::Foreign, is_alone),
        ];
        let of_classes = Class::ALL.into_iter().flat_map(|class| {
            [(Part::Class(class), class_is_whole(class)), (Part::Leaf(class), leaf_is_whole(class))]
        });
        whole.into_iter().chain(of_classes).filter(|&(_, is_whole)| !is_whole).map(|(part, _)| part).collect()
    }

    /// Repairs `defects`: stopped classes first, so that their frames stay queued, and filters last.
    pub(super) fn repair(
        &self,
        tc: &mut Conversation,
        dump: &QueueDump,
        defects: Defects,
        stopped: ClassSet,
    ) -> Result<(), EgressError> {
        if defects.contains(Part::Foreign) {
            self.remove_foreign(tc, dump)?;
        }
        if defects.contains(Part::Root) {
            self.plant(tc)?;
        }
        if defects.contains(Part::Line) {
            tree(tc.send(&mut self.line()))?;
        }
        let others = Class::ALL.into_iter().filter(|&class| !stopped.contains(class));
        for class in stopped.iter().chain(others) {
            if defects.contains(Part::Class(class)) {
                let handle = class_handle(class);
                if dump.class(handle).is_some_and(|node| node.parent != LINE_HANDLE) {
                    tree(tc.send(&mut HtbClass::delete(self.place(ROOT, handle))))?;
                }
                tree(tc.send(&mut self.class(class)))?;
            }
            if defects.contains(Part::Leaf(class)) {
                self.put_leaf(tc, dump, class, stopped.contains(class))?;
            }
        }
        for (part, filter) in [Part::Waker, Part::Classifier].into_iter().zip(self.filters.iter().flatten()) {
            if defects.contains(part) {
                tree(tc.send(&mut filter.put(self.place(ROOT, FILTER))))?;
            }
        }
        Ok(())
    }

    pub(super) fn has_leaf(&self, dump: &QueueDump, class: Class) -> bool {
        let Place { parent, handle, .. } = leaf_place(self.ifindex, class);
        dump.qdisc(handle).is_some_and(|node| (node.kind.as_str(), node.parent) == (self.leaf.name(), parent))
    }

    fn put_leaf(
        &self,
        tc: &mut Conversation,
        dump: &QueueDump,
        class: Class,
        stopped: bool,
    ) -> Result<(), EgressError> {
        let place = leaf_place(self.ifindex, class);
        if let Some(node) = dump.qdisc(place.handle)
            && !self.has_leaf(dump, class)
        {
            tree(tc.send(&mut Qdisc::delete(Place { parent: node.parent, ..place })))?;
        }
        let made = self.leaf.creation(self.limits[class.index()], self.longest, stopped);
        tree(tc.send(&mut made.replace(place)))?;
        tree(tc.send(&mut self.leaf_of(class, stopped).change(place)))
    }

    fn remove_foreign(&self, tc: &mut Conversation, dump: &QueueDump) -> Result<(), EgressError> {
        let filters = dump.foreign_filters().map(|node| Filter::delete(self.ifindex, node));
        let classes = dump.foreign_classes().into_iter();
        let classes = classes.map(|handle| HtbClass::delete(self.place(ROOT, handle)));
        for mut request in filters.chain(classes) {
            match tc.send(&mut request) {
                Err(error) if error.is_not_found() => {} // removed together with another filter or class
                result => tree(result)?,
            }
        }
        Ok(())
    }

    /// Chooses the kind of class queues: tries each kind at class 0, which is served last.
    fn choose(&self, tc: &mut Conversation) -> Result<Leaf, EgressError> {
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
        Leaf::first(kinds, |leaf| {
            tc.send(&mut leaf.creation(self.limits[0], self.longest, false).replace(place))
        })
    }

    const fn place(&self, parent: Handle, handle: Handle) -> Place {
        Place { ifindex: self.ifindex, parent, handle }
    }

    fn leaf_of(&self, class: Class, stopped: bool) -> Qdisc {
        self.leaf.update(self.limits[class.index()], self.longest, stopped)
    }

    fn line(&self) -> Request {
        self.line_class().put(self.place(ROOT, LINE_HANDLE))
    }

    fn line_class(&self) -> HtbClass {
        let rate = self.rate(self.shaped);
        let burst = self.burst_bytes();
        HtbClass { rate, ceil: rate, burst, ceil_burst: burst, priority: 0, quantum: self.longest }
    }

    fn class(&self, class: Class) -> Request {
        self.class_at(class, self.ceils[class.index()])
    }

    fn class_at(&self, class: Class, bytes_per_second: u64) -> Request {
        self.class_with(class, bytes_per_second).put(self.place(LINE_HANDLE, class_handle(class)))
    }

    fn class_with(&self, class: Class, bytes_per_second: u64) -> HtbClass {
        // Guarantee only a minimum rate, so that priorities divide the line's rate.
        let own = self.rate(1);
        let unlimited = if self.shaped == 0 { 125_000_000_000 } else { self.shaped };
        let ceil = self.rate(bytes_per_second.clamp(1, unlimited));
        let priority = u32::from(7 - class.get());
        HtbClass {
            rate: own,
            ceil,
            burst: 0,
            ceil_burst: self.burst_bytes(),
            priority,
            quantum: self.longest,
        }
    }

    const fn rate(&self, bytes_per_second: u64) -> Rate {
        Rate { bytes_per_second, overhead: OVERHEAD, least: LEAST }
    }

    fn burst_bytes(&self) -> u32 {
        u32::try_from(self.burst.0).unwrap_or(u32::MAX).max(self.longest)
    }

    pub(super) fn renamed(&mut self, device: &str) {
        device.clone_into(&mut self.device);
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

    pub(super) fn limit(
        &mut self,
        tc: &mut Conversation,
        class: Class,
        rate: BitRate,
    ) -> Result<(), TcError> {
        let ceil = rate.bits_per_second() / 8;
        tc.send(&mut self.class_at(class, ceil))?;
        self.ceils[class.index()] = ceil;
        Ok(())
    }

    /// Sends a frame that makes the kernel poll the queues; the first filter drops the frame uncounted. Without this poll, a token bucket
    /// whose rate changed would wait as long as the old rate demands.
    pub(super) fn wake(&self) -> Result<(), EgressError> {
        if self.leaf == Leaf::Plug {
            return Ok(());
        }
        match self.waker.send(&classify::WAKE_FRAME) {
            // Ignore the error: a device that is down has no queued frames.
            Err(error) if error.kind() == io::ErrorKind::NetworkDown => Ok(()),
            result => {
                result.map_err(|source| EgressError::system("cannot wake the queues", &self.device, source))
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

fn filters(settings: &EgressSettings) -> [Filter; 2] {
    let waker = Filter { priority: WAKE, program: classify::wake_program(), answer: Answer::Verdict };
    let classes = Classes { control: ROOT.0, class: Class::ALL.map(|class| class_handle(class).0) };
    let program = classify::program(&settings.nic, &classes);
    [waker, Filter { priority: CLASSIFY, program, answer: Answer::Class }]
}

fn leaf_among(nodes: &[Node]) -> Option<Leaf> {
    let node = nodes.iter().find(|node| class_of(node.handle) == Some(Class::ALL[0]))?;
    Leaf::ALL.into_iter().find(|leaf| leaf.name() == node.kind)
}

pub(super) fn tree(result: Result<(), TcError>) -> Result<(), EgressError> {
    result.map_err(|source| EgressError::Tree { source })
}
