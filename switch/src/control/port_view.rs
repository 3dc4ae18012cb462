use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use xoff_ebpf::{EbpfError, Mode};
use xoff_flow_control::counter::Counter;
use xoff_flow_control::counters::{ClassCounters, Counters};
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::{CLASSES, Class, MacAddr, Nanos, PortId};
use xoff_xdp::{
    Arrivals, DeviceDrops, Fallbacks, Look, Losses, Overlap, Port, PortDriver, Unread, XdpStatistics,
};

use super::current::Current;
use super::external_losses::{Acknowledged, ExternalLosses, LossClassifier, Reading, Sent};

#[derive(Debug)]
pub struct PortView {
    name: OnceLock<String>,
    pub device: DeviceName,
    pub worker: usize,
    is_there: AtomicBool,
    pub link: LinkCell,
    pub program: ProgramCell,
    pub program_detached: Counter,
    pub filter_detached: Counter,
    /// Reason why the egress filter is missing.
    pub unfiltered: Reason,
    pub returns: Counter,
    pub requeued: Counter,
    pub unfollowed: Reason,
    /// Reason why the port, whose device vanished, cannot be reopened on the device that now has the configured name.
    pub refused: Reason,
    pub short_mtu: Reason,
    pub removed_unread: Counter,
    pub acknowledged: Acknowledged,
    unseen: LossClassifier,
    devices: Mutex<Devices>,
    pub overspeed_bytes: Counter,
    /// For each class, percentage of the latest window (five seconds) for which the peer paused it.
    pub paused_percent: [Counter; CLASSES],
    pause_totals: [[PauseTotal; 4]; CLASSES],
}

#[derive(Debug, Default)]
pub struct Reason(Mutex<Option<String>>);

impl Reason {
    #[must_use]
    pub fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn replace(&self, why: Option<String>) -> Option<String> {
        std::mem::replace(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), why)
    }
}

#[derive(Clone, Debug)]
pub struct PortDevice {
    pub ifindex: u32,
    pub mac: MacAddr,
    pub native: bool,
    pub zero_copy: bool,
    pub fallbacks: Fallbacks,
    pub queues: u32,
    pub overlap: Overlap,
    pub driver: Arc<dyn PortDriver>,
}

impl PortDevice {
    fn none() -> PortDevice {
        PortDevice {
            ifindex: 0,
            mac: MacAddr::default(),
            native: false,
            zero_copy: false,
            fallbacks: Fallbacks::default(),
            queues: 0,
            overlap: Overlap::None,
            driver: Arc::new(NoDevice),
        }
    }

    #[must_use]
    pub fn of(port: &Port) -> PortDevice {
        let facts = port.facts();
        PortDevice {
            ifindex: facts.ifindex.unsigned_abs(),
            mac: facts.mac,
            native: facts.mode == Mode::Native,
            zero_copy: facts.zero_copy,
            fallbacks: facts.fallbacks.clone(),
            queues: facts.queues,
            overlap: Overlap::of(&facts.driver, facts.mode == Mode::Native),
            driver: port.monitor(),
        }
    }
}

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

#[derive(Debug)]
struct Devices {
    now: PortDevice,
    before: Counted,
    last: Counted,
    leaving: Option<Counted>,
}

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
        // Read the device before its sockets. Sockets count a loss first, so their values include all socket losses that the
        // device counts.
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

    fn read(&mut self) -> bool {
        let _ = (self.losses(), self.arrivals());
        let (sockets, device) = (self.sockets(), self.device());
        sockets.is_ok() && device.is_ok()
    }
}

impl PortView {
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
            filter_detached: Counter::default(),
            unfiltered: Reason::default(),
            returns: Counter::default(),
            requeued: Counter::default(),
            unfollowed: Reason::default(),
            refused: Reason::default(),
            short_mtu: Reason::default(),
            removed_unread: Counter::default(),
            acknowledged: Acknowledged::default(),
            unseen: LossClassifier::default(),
            devices: Mutex::new(Devices::of(now, Counted::default())),
            overspeed_bytes: Counter::default(),
            paused_percent: Default::default(),
            pause_totals: Default::default(),
        }
    }

    pub(super) fn unseen(
        &self,
        id: PortId,
        counters: &Counters,
        settings: &Current<SwitchSettings>,
        clock: fn() -> Nanos,
    ) -> ExternalLosses {
        self.unseen.look(id, || {
            let settings = settings.get();
            let (came, sent) = (self.arrivals().ok()?, Sent::read(counters, id));
            let losses = self.losses().ok()?;
            let (came, sent) = ([came, self.arrivals().ok()?], [sent, Sent::read(counters, id)]);
            Some(Reading { at: clock(), losses, came, sent, settings })
        })
    }

    #[must_use]
    pub fn named(self, name: &str) -> PortView {
        self.name.get_or_init(|| name.to_owned());
        self
    }

    #[must_use]
    pub fn spare(worker: usize) -> PortView {
        let place = PortView::new("", worker, PortDevice::none());
        place.is_there.store(false, Relaxed);
        place.link.renewed();
        place
    }

    #[must_use]
    pub fn is_there(&self) -> bool {
        self.is_there.load(Relaxed)
    }

    #[must_use]
    pub fn name(&self) -> &str {
        self.name.get().map_or("", String::as_str)
    }

    pub(super) fn missing_device(&self) -> String {
        let gone = format!("the device {} is gone", self.device.get());
        match self.refused.get() {
            Some(why) => format!("{gone}, and the device of the configured name cannot be opened: {why}"),
            None => gone,
        }
    }

    #[must_use]
    pub fn now(&self) -> PortDevice {
        self.devices().now.clone()
    }

    pub fn xdp_statistics(&self) -> io::Result<XdpStatistics> {
        self.devices().sockets()
    }

    pub fn device_drops(&self) -> Result<DeviceDrops, Unread> {
        self.devices().device()
    }

    /// Returns all losses of the port so far. An unreadable device keeps its last values.
    pub(super) fn losses(&self) -> io::Result<Losses> {
        self.devices().losses()
    }

    pub(super) fn arrivals(&self) -> io::Result<Arrivals> {
        self.devices().arrivals()
    }

    /// Stores the port's reopened device. Returns true if the device had vanished, false if only its queues had changed.
    pub(super) fn returned(&self, name: &str, device: PortDevice) -> bool {
        self.has_now(name, device);
        let was_missing = self.unfollowed.replace(None).is_none();
        self.returns.add(was_missing.into());
        was_missing
    }

    pub(super) fn is_closed(&self) {
        let name = self.device.get();
        self.has_now(&name, PortDevice::none());
        self.link.set(Link::Gone);
    }

    pub(super) fn added(&self, name: &str, device: (&str, PortDevice)) {
        self.name.get_or_init(|| name.to_owned());
        self.has_now(device.0, device.1);
        self.is_there.store(true, Relaxed);
    }

    pub(super) fn begin_to_leave(&self) {
        let mut devices = self.devices();
        if !devices.read() {
            self.removed_unread.add(1);
        }
        devices.leaving = Some(devices.last.clone());
    }

    pub(super) fn removed(&self) {
        let is_read = self.devices().read();
        if !is_read || self.link.get() == Link::Gone {
            self.removed_unread.add(1);
        }
        self.is_there.store(false, Relaxed);
        self.unfollowed.replace(None);
        self.short_mtu.replace(None);
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
        self.unfiltered.replace(None);
        self.refused.replace(None);
        self.link.renewed();
    }

    fn devices(&self) -> MutexGuard<'_, Devices> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub struct DeviceName(Mutex<String>);

impl DeviceName {
    fn new(name: &str) -> DeviceName {
        DeviceName(Mutex::new(name.to_owned()))
    }

    #[must_use]
    pub fn get(&self) -> String {
        self.lock().clone()
    }

    pub(super) fn replace(&self, name: &str) -> Option<String> {
        let mut now = self.lock();
        (*now != name).then(|| std::mem::replace(&mut *now, name.to_owned()))
    }

    fn lock(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// Frames can pass the link.
    #[default]
    Up,
    /// The link has no carrier, or is set down by the administrator.
    Down,
    /// The device was deleted or moved to another network namespace; the port is closed until a device of the same name is opened.
    Gone,
}

#[derive(Debug, Default)]
pub struct LinkCell {
    state: AtomicU8,
    losses: AtomicU64,
}

impl LinkCell {
    #[must_use]
    pub fn get(&self) -> Link {
        match self.state.load(Relaxed) {
            0 => Link::Up,
            1 => Link::Down,
            _ => Link::Gone,
        }
    }

    pub fn set(&self, link: Link) -> bool {
        let before = self.get();
        let changes = before != link && before != Link::Gone;
        if changes {
            self.state.store(link as u8, Relaxed);
            self.losses.fetch_add(u64::from(link != Link::Up), Relaxed);
        }
        changes
    }

    fn renewed(&self) {
        self.state.store(Link::Down as u8, Relaxed);
    }

    pub fn losses(&self) -> u64 {
        self.losses.load(Relaxed)
    }
}

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ProgramState {
    /// The XDP program receives the device's frames.
    #[default]
    Attached,
    /// The XDP program was removed and cannot be attached again: the port receives nothing.
    Detached,
    /// Another program has replaced the switch's XDP program: the port receives nothing.
    Replaced,
}

#[derive(Debug, Default)]
pub struct ProgramCell(AtomicU8);

impl ProgramCell {
    #[must_use]
    pub fn get(&self) -> ProgramState {
        match self.0.load(Relaxed) {
            0 => ProgramState::Attached,
            1 => ProgramState::Detached,
            _ => ProgramState::Replaced,
        }
    }

    pub(super) fn replace(&self, state: ProgramState) -> ProgramState {
        let before = self.get();
        self.0.store(state as u8, Relaxed);
        before
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PauseTimes {
    pub sent: u64,
    pub received: u64,
    pub stormed: u64,
    pub halted: u64,
}

impl PortView {
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

/// Largest total pause time returned so far; no later call returns less. While a worker ends a pause, a reading would
/// be too low: the worker first clears `since`, then adds to `finished`.
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
