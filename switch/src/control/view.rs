//! What the control thread can see of a running switch, and by whom each part is written.

use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use xoff_dataplane::counter::{Counter, FineHistogram};
use xoff_dataplane::counters::{ClassCounters, Counters};
use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::units::{CLASSES, Class, MacAddr, Nanos, PortId};
use xoff_ebpf::Mode;
use xoff_xdp::{DeviceDrops, Port, PortDriver, Unread, XdpStatistics};

use super::current::Current;
use super::loss_books::LossBooks;
use super::mailbox::Mailbox;
use super::policy_cells::PolicyCells;
use super::watch::GoingOn;

/// A running switch, as seen from outside its workers.
#[derive(Debug)]
pub struct SwitchView {
    /// The switch's name.
    pub name: String,
    /// What the dataplane was told last.
    pub configured: Current<SwitchSettings>,
    /// The policy of each class now.
    pub policies: PolicyCells,
    /// Written by the workers.
    pub counters: Arc<Counters>,
    /// One for each port of `settings`.
    pub ports: Vec<PortView>,
    /// The threads that forward.
    pub workers: Vec<WorkerView>,
    /// A worker's longest pause between two loops through which nothing lossless is lost.
    pub stall_budget: Nanos,
    /// The clock that the workers tell time by.
    pub clock: fn() -> Nanos,
    /// When the switch was started, by that clock.
    pub started_at: Nanos,
    /// And by the wall clock, which may have been set since.
    pub started: SystemTime,
    /// What lossless classes have lost.
    pub books: LossBooks,
    /// What goes wrong now. Written by the control thread.
    pub going_on: GoingOn,
}

impl SwitchView {
    /// What the dataplane was told last.
    #[must_use]
    pub fn settings(&self) -> Arc<SwitchSettings> {
        self.configured.get()
    }

    /// The name of a port.
    #[must_use]
    pub fn name_of(&self, port: PortId) -> &str {
        self.ports[port.index()].name()
    }

    /// All ports, with what is seen of each.
    pub fn ports(&self) -> impl Iterator<Item = (PortId, &PortView)> {
        (0..=u8::MAX).map(PortId).zip(&self.ports)
    }

    /// How long the peer of `port` has been held, and has held it, for `class`, and how long the pipeline was halted for that
    /// queue; what lasts is included.
    pub(super) fn pause_times(&self, port: PortId, class: Class) -> PauseTimes {
        let counters = self.counters.class(port, class);
        let totals = &self.ports[port.index()].pause_totals[class.index()];
        let now = (self.clock)();
        PauseTimes {
            sent: totals[0].total(now, &counters.held_nanos, &counters.held_since),
            received: totals[1].total(now, &counters.paused_nanos, &counters.paused_since),
            stormed: totals[2].total(now, &counters.storm_nanos, &counters.storm_since),
            halted: totals[3].total(now, &counters.halted_nanos, &counters.halted_since),
        }
    }

    /// Least headroom left so far, over all lossless classes; `None` where no class is lossless.
    #[must_use]
    pub fn headroom_least_free(&self) -> Option<u64> {
        let ports =
            self.ports().flat_map(|(port, _)| Class::ALL.map(|class| self.headroom_free(port, class)));
        ports.flatten().min()
    }

    /// Least headroom left in the last five minutes, to the minute, in a lossless class.
    pub(super) fn headroom_free_recent(&self, port: PortId, class: Class) -> Option<u64> {
        let settings = self.settings().ports[port.index()].classes[class.index()];
        let counters = self.counters.class(port, class);
        let used = counters.headroom_recent.get((self.clock)().0).max(counters.headroom_bytes.get());
        settings.lossless.then(|| settings.headroom.0.saturating_sub(used))
    }

    /// Least headroom left so far in a lossless class.
    pub(super) fn headroom_free(&self, port: PortId, class: Class) -> Option<u64> {
        let settings = self.settings().ports[port.index()].classes[class.index()];
        let used = self.counters.class(port, class).headroom_watermark.get();
        settings.lossless.then(|| settings.headroom.0.saturating_sub(used))
    }

    /// All classes of all ports.
    pub(crate) fn classes(&self) -> impl Iterator<Item = (PortId, Class, &ClassCounters)> {
        let of = move |port| {
            Class::ALL.into_iter().map(move |class| (port, class, self.counters.class(port, class)))
        };
        self.ports().flat_map(move |(port, _)| of(port))
    }
}

/// A port and its device.
#[derive(Debug)]
pub struct PortView {
    /// The port's own name. Once it has one it keeps it, whatever becomes of the port.
    name: OnceLock<String>,
    /// The Linux interface, by the name that it has now.
    pub device: DeviceName,
    /// Index of the worker that owns the port.
    pub worker: usize,
    /// Written by the control thread as netlink tells.
    pub link: LinkCell,
    /// Written by the control thread, which looks after the program.
    pub program: ProgramCell,
    /// Times that the control thread found the program off its device.
    pub program_detached: Counter,
    /// Times that the device has come back since the start.
    pub returns: Counter,
    devices: Mutex<Devices>,
    /// Bytes that the peer sent beyond what the line rate allows. Written by the control thread.
    pub overspeed_bytes: Counter,
    pause_totals: [[PauseTotal; 4]; CLASSES],
}

/// What the device of a port turned out to be.
#[derive(Clone, Debug)]
pub struct PortDevice {
    /// Its index, in the network namespace of the switch.
    pub ifindex: u32,
    /// Its address.
    pub mac: MacAddr,
    /// Whether the XDP program runs in the driver; else in the network stack (generic).
    pub native: bool,
    /// Whether frames go in and out without a copy.
    pub zero_copy: bool,
    /// How many hardware queues have a socket.
    pub queues: u32,
    /// Answers for the sockets and the device.
    pub driver: Arc<dyn PortDriver>,
}

impl PortDevice {
    /// That of an open port.
    #[must_use]
    pub fn of(port: &Port) -> PortDevice {
        let facts = port.facts();
        PortDevice {
            ifindex: facts.ifindex.unsigned_abs(),
            mac: facts.mac,
            native: facts.mode == Mode::Native,
            zero_copy: facts.zero_copy,
            queues: facts.queues,
            driver: port.monitor(),
        }
    }
}

/// A port may have one device after the other.
#[derive(Debug)]
struct Devices {
    /// The one that it has, or had last.
    now: PortDevice,
    /// What those before it had lost, as far as that was read.
    before: (XdpStatistics, DeviceDrops),
}

impl PortView {
    /// A port whose link is up, on device `device`, of the worker of that index.
    #[must_use]
    pub fn new(device: &str, worker: usize, now: PortDevice) -> PortView {
        PortView {
            name: OnceLock::new(),
            device: DeviceName::new(device),
            worker,
            link: LinkCell::default(),
            program: ProgramCell::default(),
            program_detached: Counter::default(),
            returns: Counter::default(),
            devices: Mutex::new(Devices { now, before: Default::default() }),
            overspeed_bytes: Counter::default(),
            pause_totals: Default::default(),
        }
    }

    /// The same of that name.
    #[must_use]
    pub fn named(self, name: &str) -> PortView {
        self.name.get_or_init(|| name.to_owned());
        self
    }

    /// Its own name; none as long as nobody has taken the place.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.get().map_or("", String::as_str)
    }

    /// The device that it has, or had last.
    #[must_use]
    pub fn now(&self) -> PortDevice {
        self.devices().now.clone()
    }

    /// XDP statistics of its sockets, and of those that it had before.
    ///
    /// # Errors
    /// What the system says.
    pub fn xdp_statistics(&self) -> io::Result<XdpStatistics> {
        let Devices { now, before } = &*self.devices();
        Ok(now.driver.xdp_statistics()?.and(before.0))
    }

    /// What its device has dropped, and those that it had before.
    ///
    /// # Errors
    /// [`Unread`], with what they said last.
    pub fn device_drops(&self) -> Result<DeviceDrops, Unread> {
        let Devices { now, before } = &*self.devices();
        let counted = now.driver.device_drops();
        counted
            .map(|drops| drops.and(before.1))
            .map_err(|Unread { last, why }| Unread { last: last.and(before.1), why })
    }

    /// The device is back: another one to the kernel, and of that name.
    pub(super) fn returned(&self, name: &str, device: PortDevice) {
        let before = (
            self.xdp_statistics().unwrap_or_else(|_| self.devices().before.0),
            self.device_drops().unwrap_or_else(|unread| unread.last),
        );
        self.device.replace(name);
        *self.devices() = Devices { now: device, before };
        self.program.replace(ProgramState::Attached);
        self.link.returned();
        self.returns.add(1);
    }

    fn devices(&self) -> MutexGuard<'_, Devices> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a device. It may get another; it is still the port's.
#[derive(Debug)]
pub struct DeviceName(Mutex<String>);

impl DeviceName {
    fn new(name: &str) -> DeviceName {
        DeviceName(Mutex::new(name.to_owned()))
    }

    /// The name now.
    #[must_use]
    pub fn get(&self) -> String {
        self.lock().clone()
    }

    /// Gives it another name, and says which it had if that is not the same.
    pub(super) fn replace(&self, name: &str) -> Option<String> {
        let mut now = self.lock();
        (*now != name).then(|| std::mem::replace(&mut *now, name.to_owned()))
    }

    fn lock(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State of a link.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// Frames can pass.
    #[default]
    Up,
    /// No carrier, or switched off.
    Down,
    /// The device has been deleted or has left the switch's network namespace, and the kernel has closed the
    /// port's sockets with it: so it stays, until one of its name has been opened in its place.
    Gone,
}

/// A [`Link`] that one thread writes and any thread reads. What is gone stays gone, until another is in its place.
#[derive(Debug, Default)]
pub struct LinkCell(AtomicU8);

impl LinkCell {
    /// The state now.
    #[must_use]
    pub fn get(&self) -> Link {
        match self.0.load(Relaxed) {
            0 => Link::Up,
            1 => Link::Down,
            _ => Link::Gone,
        }
    }

    /// Sets the state, and says whether that changes it.
    pub fn set(&self, link: Link) -> bool {
        let before = self.get();
        let changes = before != link && before != Link::Gone;
        if changes {
            self.0.store(link as u8, Relaxed);
        }
        changes
    }

    /// Another device is in the place of the one that is gone; frames cannot pass yet.
    fn returned(&self) {
        self.0.store(Link::Down as u8, Relaxed);
    }
}

/// Whether frames that arrive at a device reach the switch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ProgramState {
    /// The port's XDP program receives them.
    #[default]
    Attached,
    /// The program was taken off, and cannot be attached again: nothing is received.
    Detached,
    /// Somebody else's program is in its place: nothing is received.
    Replaced,
}

/// A [`ProgramState`] that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub struct ProgramCell(AtomicU8);

impl ProgramCell {
    /// The state now.
    #[must_use]
    pub fn get(&self) -> ProgramState {
        match self.0.load(Relaxed) {
            0 => ProgramState::Attached,
            1 => ProgramState::Detached,
            _ => ProgramState::Replaced,
        }
    }

    /// Sets the state and returns the one before.
    pub(super) fn replace(&self, state: ProgramState) -> ProgramState {
        let before = self.get();
        self.0.store(state as u8, Relaxed);
        before
    }
}

/// A worker: a thread and what it tells.
#[derive(Debug)]
pub struct WorkerView {
    /// The core that it is pinned to, if it is.
    pub core: Option<usize>,
    /// How many slots its store has.
    pub slots: u32,
    /// Written by the worker.
    pub facts: Arc<WorkerFacts>,
    /// Messages to the worker.
    pub mailbox: Mailbox,
}

/// What a worker writes about itself.
#[derive(Debug, Default)]
pub struct WorkerFacts {
    /// Loops so far.
    pub loops: Counter,
    /// Most time between two loops of an awake worker, in nanoseconds.
    pub longest_gap: Counter,
    /// Gaps longer than the stall budget.
    pub stalls: Counter,
    /// Time between two loops, in nanoseconds.
    pub gaps: FineHistogram,
    /// From the start of the loop in which a threshold was crossed until the kernel has taken the frame
    /// that stops the peer, in nanoseconds: an upper bound of the reaction.
    pub pause_reaction: FineHistogram,
    /// From the last look before a pause frame came to when it was obeyed, in nanoseconds: an upper
    /// bound of how long frames of its class were still handed over.
    pub obey_reaction: FineHistogram,
    /// What the worker's ledger misses, as an absolute number: zero unless the switch has a bug.
    /// Written every second; exact in `/status`.
    pub frames_missing: Counter,
    /// Chunks of its packet memory that hold no frame: free ones, and those with the kernel to receive
    /// into. Written every second; exact in `/status`.
    pub chunks_free: Counter,
}

impl WorkerFacts {
    /// Counts a loop that began `gap` after the one before; time asleep does not belong to it. Only
    /// the worker calls it.
    #[inline]
    pub fn looped(&self, gap: Nanos, stall_budget: Nanos) {
        self.loops.add(1);
        self.gaps.record(gap.0);
        self.longest_gap.raise(gap.0);
        if gap > stall_budget {
            self.stalls.add(1);
        }
    }
}

/// Total times of pause, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct PauseTimes {
    /// By us: the peer was held.
    pub sent: u64,
    /// By the peer: we were held.
    pub received: u64,
    /// By the peer, for so long that it was a storm.
    pub stormed: u64,
    /// The whole pipeline, because this queue was full.
    pub halted: u64,
}

/// The most pause time shown so far. The worker ends a pause in two steps (no pause any more; its
/// length added to the total), and a reader that comes between them must not show time running
/// backwards.
#[derive(Debug, Default)]
struct PauseTotal(AtomicU64);

impl PauseTotal {
    fn total(&self, now: Nanos, finished: &Counter, since: &Counter) -> u64 {
        let finished = finished.get();
        let running = match since.get() {
            0 => 0,
            since => now.since(Nanos(since)).0,
        };
        let total = finished + running;
        self.0.fetch_max(total, Relaxed).max(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::tests::{FickleDriver, device};

    #[test]
    fn a_running_pause_counts_and_never_runs_backwards() {
        let (finished, since, total) = (Counter::default(), Counter::default(), PauseTotal::default());
        assert_eq!(total.total(Nanos(50), &finished, &since), 0);
        since.set(100);
        assert_eq!(total.total(Nanos(130), &finished, &since), 30);
        since.set(0); // the worker's first step of two
        assert_eq!(total.total(Nanos(140), &finished, &since), 30);
        finished.add(35);
        assert_eq!(total.total(Nanos(150), &finished, &since), 35);
    }

    #[test]
    fn what_is_gone_stays_gone_until_another_is_in_its_place() {
        let link = LinkCell::default();
        assert!(!link.set(Link::Up) && link.set(Link::Down) && link.set(Link::Gone));
        for later in [Link::Up, Link::Down, Link::Gone] {
            assert!(!link.set(later));
            assert_eq!(link.get(), Link::Gone);
        }
        link.returned();
        assert!(!link.set(Link::Down) && link.set(Link::Up));
    }

    #[test]
    fn what_devices_had_lost_is_not_forgotten_where_one_cannot_be_asked() {
        let of_a_device = || {
            let driver = FickleDriver::default();
            (Arc::clone(&driver.is_gone), device(1, driver))
        };
        let lost = |port: &PortView| port.xdp_statistics().map_or(0, |statistics| statistics.rx_dropped);
        let port = PortView::new("l0", 0, of_a_device().1);
        let (second_is_gone, second) = of_a_device();
        port.returned("l0", second);
        assert_eq!(lost(&port), 10);
        second_is_gone.store(true, Relaxed);
        port.returned("l0", of_a_device().1);
        assert_eq!(lost(&port), 10, "of the first and of the last");
    }

    #[test]
    fn a_gap_is_a_stall_beyond_the_budget_only() {
        let facts = WorkerFacts::default();
        facts.looped(Nanos(1000), Nanos(1000));
        assert_eq!(facts.stalls.get(), 0);
        facts.looped(Nanos(1001), Nanos(1000));
        assert_eq!((facts.stalls.get(), facts.longest_gap.get(), facts.loops.get()), (1, 1001, 2));
    }
}
