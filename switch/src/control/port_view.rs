//! What the control thread can see of a port: its device, which may be one after the other, and whether it is there at all.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use xoff_dataplane::counter::Counter;
use xoff_dataplane::counters::{ClassCounters, Counters};
use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::units::{CLASSES, Class, MacAddr, Nanos, PortId};
use xoff_ebpf::{EbpfError, Mode};
use xoff_xdp::{Arrivals, DeviceDrops, Look, Losses, Overlap, Port, PortDriver, Unread, XdpStatistics};

use super::current::Current;
use super::unseen::{Acknowledged, Judge, Reading, Sent, Unseen};

/// A port and its device.
#[derive(Debug)]
pub struct PortView {
    /// The port's own name. Once it has one it keeps it, whatever becomes of the port.
    name: OnceLock<String>,
    /// The Linux interface, by the name that it has now.
    pub device: DeviceName,
    /// Index of the worker that owns the port.
    pub worker: usize,
    /// Written by the control thread, which adds ports and takes them away.
    is_there: AtomicBool,
    /// Written by the control thread as netlink tells.
    pub link: LinkCell,
    /// Written by the control thread, which looks after the program.
    pub program: ProgramCell,
    /// Times that the control thread found the program off its device.
    pub program_detached: Counter,
    /// Times that the device has come back since the start.
    pub returns: Counter,
    /// Times that its device had another number of receive queues than its sockets.
    pub requeued: Counter,
    /// Why its sockets do not follow the receive queues of its device; `None` where they do. Written by the control thread.
    pub unfollowed: Reason,
    /// Times that the port was taken away and its last drop counters could not be read.
    pub removed_unread: Counter,
    /// Of these, those that somebody knows of.
    pub acknowledged: Acknowledged,
    /// What is known of the classes of frames that were lost unseen. Written by the control thread.
    unseen: Judge,
    devices: Mutex<Devices>,
    /// Bytes that the peer sent beyond what the line rate allows. Written by the control thread.
    pub overspeed_bytes: Counter,
    pause_totals: [[PauseTotal; 4]; CLASSES],
}

/// Why something is not as it should be, in words, if it is not.
#[derive(Debug, Default)]
pub struct Reason(Mutex<Option<String>>);

impl Reason {
    /// The words now.
    #[must_use]
    pub fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Exchanges them.
    pub(super) fn replace(&self, why: Option<String>) -> Option<String> {
        std::mem::replace(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), why)
    }
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
    /// What of its sockets' losses the device counts, too.
    pub overlap: Overlap,
    /// Answers for the sockets and the device.
    pub driver: Arc<dyn PortDriver>,
}

impl PortDevice {
    /// That of a place without a port.
    fn none() -> PortDevice {
        PortDevice {
            ifindex: 0,
            mac: MacAddr::default(),
            native: false,
            zero_copy: false,
            queues: 0,
            overlap: Overlap::None,
            driver: Arc::new(NoDevice),
        }
    }

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
            overlap: Overlap::of(&facts.driver, facts.mode == Mode::Native),
            driver: port.monitor(),
        }
    }
}

/// Answers where there is no device: nothing is lost there.
#[derive(Debug)]
struct NoDevice;

impl PortDriver for NoDevice {
    fn xdp_statistics(&self) -> io::Result<XdpStatistics> {
        Ok(XdpStatistics::default())
    }

    fn device_drops(&self) -> Result<DeviceDrops, Unread> {
        Ok(DeviceDrops::default())
    }

    fn look(&self) -> Look {
        Look::Gone
    }

    fn attach_again(&self) -> Result<(), EbpfError> {
        Ok(())
    }
}

/// A port may have one device after the other.
#[derive(Debug)]
struct Devices {
    /// The one that it has, or had last.
    now: PortDevice,
    /// Counted at the devices before it, as far as that was read.
    before: Counted,
    /// Counted at all of them at the last reading that succeeded.
    last: Counted,
    /// Counters when the removal of the port began: receive losses after that are ignored, transmit losses still count.
    leaving: Option<Counted>,
}

/// Losses and arrivals at a port.
#[derive(Clone, Debug, Default)]
struct Counted {
    sockets: XdpStatistics,
    device: DeviceDrops,
    losses: Losses,
    arrivals: Arrivals,
}

impl Devices {
    fn of(now: PortDevice, before: Counted) -> Devices {
        Devices { now, last: before.clone(), before, leaving: None }
    }

    fn sockets(&mut self) -> io::Result<XdpStatistics> {
        let read = self.now.driver.xdp_statistics()?.and(self.before.sockets);
        self.last.sockets = self.leaving.as_ref().map_or(read, |leaving| read.but_received(leaving.sockets));
        Ok(self.last.sockets)
    }

    fn device(&mut self) -> Result<DeviceDrops, Unread> {
        let (before, leaving) = (self.before.device, self.leaving.as_ref());
        let all = |drops: DeviceDrops| {
            let drops = drops.and(before);
            leaving.map_or(drops, |leaving| drops.but_received(leaving.device))
        };
        let read = self.now.driver.device_drops();
        let read = read.map(all).map_err(|Unread { last, why }| Unread { last: all(last), why });
        self.last.device = *read.as_ref().unwrap_or_else(|unread| &unread.last);
        read
    }

    fn losses(&mut self) -> io::Result<Losses> {
        // In this order: a socket counts a loss before its device does, and no such loss may seem to be the device's alone.
        let device = self.now.driver.device_drops().unwrap_or_else(|unread| unread.last);
        let sockets = self.now.driver.xdp_statistics()?;
        let read = Losses::of(&sockets, &device, self.now.overlap).and(self.before.losses);
        let read = self.leaving.as_ref().map_or(read, |leaving| read.but_received(leaving.losses));
        self.last.losses = self.last.losses.max(read);
        Ok(self.last.losses)
    }

    fn arrivals(&mut self) -> io::Result<Arrivals> {
        let read = self.now.driver.arrivals()?.and(&self.before.arrivals);
        self.last.arrivals.clone_from(&read);
        Ok(read)
    }

    /// Reads all of them; what cannot be read is as it was read last. Returns whether sockets and device could be read.
    fn read(&mut self) -> bool {
        let _ = (self.losses(), self.arrivals());
        let (sockets, device) = (self.sockets(), self.device());
        sockets.is_ok() && device.is_ok()
    }
}

impl PortView {
    /// A port whose link is up, on device `device`, of the worker of that index.
    #[must_use]
    pub fn new(device: &str, worker: usize, now: PortDevice) -> PortView {
        PortView {
            name: OnceLock::new(),
            device: DeviceName::new(device),
            worker,
            is_there: AtomicBool::new(true),
            link: LinkCell::default(),
            program: ProgramCell::default(),
            program_detached: Counter::default(),
            returns: Counter::default(),
            requeued: Counter::default(),
            unfollowed: Reason::default(),
            removed_unread: Counter::default(),
            acknowledged: Acknowledged::default(),
            unseen: Judge::default(),
            devices: Mutex::new(Devices::of(now, Counted::default())),
            overspeed_bytes: Counter::default(),
            pause_totals: Default::default(),
        }
    }

    /// Reads the port's counters, and returns the frames that it lost unseen up to now. `counters` and `settings` are the switch's.
    pub(super) fn unseen(
        &self,
        id: PortId,
        counters: &Counters,
        settings: &Current<SwitchSettings>,
        clock: fn() -> Nanos,
    ) -> Unseen {
        self.unseen.look(id, || {
            let settings = settings.get();
            let (came, sent) = (self.arrivals().ok()?, Sent::read(counters, id));
            let losses = self.losses().ok()?;
            let (came, sent) = ([came, self.arrivals().ok()?], [sent, Sent::read(counters, id)]);
            Some(Reading { at: clock(), losses, came, sent, settings })
        })
    }

    /// The same of that name.
    #[must_use]
    pub fn named(self, name: &str) -> PortView {
        self.name.get_or_init(|| name.to_owned());
        self
    }

    /// A place of the worker of that index for a port that may come.
    #[must_use]
    pub fn spare(worker: usize) -> PortView {
        let place = PortView::new("", worker, PortDevice::none());
        place.is_there.store(false, Relaxed);
        place.link.renewed();
        place
    }

    /// Whether there is a port; else only its place.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.is_there.load(Relaxed)
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
        self.devices().sockets()
    }

    /// What its device has dropped, and those that it had before.
    ///
    /// # Errors
    /// [`Unread`], with what they said last.
    pub fn device_drops(&self) -> Result<DeviceDrops, Unread> {
        self.devices().device()
    }

    /// Returns the frames that its sockets and its device lost, and those that it had before, each counted once. If the device cannot be
    /// read, its counters are those of the last reading.
    ///
    /// # Errors
    /// The sockets cannot be read.
    pub(super) fn losses(&self) -> io::Result<Losses> {
        self.devices().losses()
    }

    /// Frames that its XDP program has seen, and those that it had before.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn arrivals(&self) -> io::Result<Arrivals> {
        self.devices().arrivals()
    }

    /// Attaches the reopened device. Returns true if the device had been gone, false if its queues had changed.
    pub(super) fn returned(&self, name: &str, device: PortDevice) -> bool {
        self.has_now(name, device);
        let was_gone = self.unfollowed.replace(None).is_none();
        self.returns.add(was_gone.into());
        was_gone
    }

    /// The port is to be closed, and opened again on the same device.
    pub(super) fn is_closed(&self) {
        let name = self.device.get();
        self.has_now(&name, PortDevice::none());
        self.link.set(Link::Gone);
    }

    /// The place has a port now, of that name, on a device.
    pub(super) fn added(&self, name: &str, device: (&str, PortDevice)) {
        self.name.get_or_init(|| name.to_owned());
        self.has_now(device.0, device.1);
        self.is_there.store(true, Relaxed);
    }

    /// Frames that the port receives from now on are not the switch's, and their loss counts no more.
    pub(super) fn begin_to_leave(&self) {
        let mut devices = self.devices();
        if !devices.read() {
            self.removed_unread.add(1);
        }
        devices.leaving = Some(devices.last.clone());
    }

    /// The port is there no more. Its losses are not forgotten, nor that they could not be read.
    pub(super) fn removed(&self) {
        let is_read = self.devices().read();
        if !is_read || self.link.get() == Link::Gone {
            self.removed_unread.add(1);
        }
        self.is_there.store(false, Relaxed);
        self.unfollowed.replace(None);
        self.has_now("", PortDevice::none());
        self.devices().leaving = None;
    }

    fn has_now(&self, name: &str, device: PortDevice) {
        self.device.replace(name);
        let mut devices = self.devices();
        devices.read();
        let leaving = devices.leaving.take();
        *devices = Devices { leaving, ..Devices::of(device, std::mem::take(&mut devices.last)) };
        drop(devices);
        self.program.replace(ProgramState::Attached);
        self.link.renewed();
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

    /// Another device is in its place; frames cannot pass yet.
    fn renewed(&self) {
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

impl PortView {
    /// Those of a class, with what lasts included.
    pub(super) fn pause_times(&self, now: Nanos, class: Class, counters: &ClassCounters) -> PauseTimes {
        let totals = &self.pause_totals[class.index()];
        PauseTimes {
            sent: totals[0].total(now, &counters.held_nanos, &counters.held_since),
            received: totals[1].total(now, &counters.paused_nanos, &counters.paused_since),
            stormed: totals[2].total(now, &counters.storm_nanos, &counters.storm_since),
            halted: totals[3].total(now, &counters.halted_nanos, &counters.halted_since),
        }
    }
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
#[allow(clippy::unwrap_used)]
mod tests;
