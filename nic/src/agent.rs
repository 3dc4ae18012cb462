//! Thread of the agent `xoff nic`, which applies each change of the [`PauseController`] by a netlink message.

mod check;
mod device;
mod reclaim;

use std::io;
use std::os::fd::BorrowedFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use xoff_flow_control::settings::Dcbx;
use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, Nanos, PortId};
use xoff_xdp::{DeviceReader, PacketSender, XdpError, check_agent_privileges, name_file_limit};

use self::reclaim::Reclaim;
use crate::backlog::{BacklogPause, BacklogWatch};
use crate::config::NicSettings;
use crate::controller::{COUNT_EVERY, Change, PauseController};
use crate::dcbx::{self, LldpThread};
use crate::egress::{Egress, EgressError, EgressSettings, LeafCounts, Removed};
use crate::guard::{self, Guard};
use crate::link::LinkMonitor;
use crate::pending_stops::PendingStops;
use crate::proof::Proof;
use crate::response::{NEAR_TIMEOUT, Response};
use crate::sockets::{Device, Receiver};
use crate::stacked::Stacked;
use crate::view::{NicView, list};

const LOOK_EVERY: Nanos = Nanos::from_secs(1);
const CHECK_EVERY: Nanos = Nanos::from_millis(1);
/// Real-time priority of the agent: above most programs, below the kernel's threads.
pub(crate) const PRIORITY: i32 = 40;

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(
        "no interface `{0}` with an Ethernet address in this namespace; `ip link` lists the existing ones"
    )]
    NoDevice(String),
    #[error("the interface {0} was removed; start the agent again when it is back")]
    DeviceRemoved(String),
    #[error("{0}")]
    NoMacControl(String),
    #[error(transparent)]
    NotPrivileged(XdpError),
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error("{device}: {fault}: {source}{}", remedy(source))]
    System { fault: &'static str, device: String, source: io::Error },
}

impl AgentError {
    pub(crate) fn refused(fault: &'static str, device: &str, source: io::Error) -> AgentError {
        AgentError::System { fault, device: device.to_owned(), source: name_file_limit(source) }
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as root, or with CAP_NET_ADMIN and CAP_NET_RAW",
        _ => "",
    }
}

#[derive(Debug)]
pub struct Agent {
    reader: DeviceReader,
    controller: PauseController,
    egress: Egress,
    guard: Guard,
    receiver: Receiver,
    link: LinkMonitor,
    view: Arc<NicView>,
    watch: Option<BacklogWatch>,
    lldp: Option<LldpThread>,
    pending_stops: PendingStops,
    stopped_at: [Nanos; CLASSES],
    next_look: Nanos,
    next_count: Nanos,
    proof: Proof,
    check_at: Nanos,
    check_from: Nanos,
    doubted: ClassSet,
    reclaim: Reclaim,
    logged_pause: Nanos,
    logged_response: Nanos,
}

impl Agent {
    /// Installs the agent's queues at a device in the calling thread's network namespace. `guard` is a command that calls
    /// [`guard::run_guard`].
    ///
    /// # Errors
    /// Fails if the device does not exist, or if the kernel refuses a step; the device then stays as it was.
    pub fn open(settings: &NicSettings, guard: Command) -> Result<Agent, AgentError> {
        let name = &settings.device;
        let refused = |fault| move |source| AgentError::refused(fault, name, source);
        let device = Device::find(name).map_err(refused("cannot find the interface"))?;
        let device = device.ok_or_else(|| AgentError::NoDevice(name.clone()))?;
        match Stacked::at(name) {
            Some(Stacked::Deaf(reason)) => return Err(AgentError::NoMacControl(reason)),
            Some(Stacked::Joined(reason)) => tracing::warn!("{reason}"),
            None => {}
        }
        check_agent_privileges().map_err(AgentError::NotPrivileged)?;
        let receiver = Receiver::open(&device).map_err(refused("cannot receive MAC control"))?;
        let link = LinkMonitor::open(device.ifindex).map_err(refused("cannot watch the link"))?;
        let reader = DeviceReader::open(device.ifindex.cast_signed());
        let reader = reader.map_err(refused("cannot watch the interface"))?;
        let of_device = EgressSettings::new(settings.clone());
        let egress = Egress::prepare(&of_device)?;
        // Start the guard first: it restores the device if this process dies.
        let guard = Guard::start(guard).map_err(refused("cannot start the guard of the queues"))?;
        let egress = egress.install(&of_device)?;
        let response = Response::new(settings.speed, egress.overrun());
        let view = Arc::new(NicView::new(settings.clone(), device.ifindex, egress.leaf().name(), response));
        view.address.set(device.address.to_number());
        let watch = settings.pause_above.map(|above| {
            let ifindex = i32::try_from(device.ifindex).map_err(io::Error::other)?;
            let pause = BacklogPause::new(settings, above);
            BacklogWatch::start(pause, PacketSender::open(ifindex)?, Arc::clone(&view))
        });
        let lldp = (settings.dcbx != Dcbx::Off).then(|| LldpThread::start(device.ifindex, Arc::clone(&view)));
        for warning in egress.warnings() {
            tracing::warn!("{warning}");
        }
        Ok(Agent {
            reader,
            controller: PauseController::new(settings, device.address),
            egress,
            guard,
            receiver,
            link,
            watch: watch.transpose().map_err(refused("cannot send pauses"))?,
            lldp: lldp.transpose().map_err(refused("cannot send and receive LLDP"))?,
            pending_stops: PendingStops::default(),
            stopped_at: [Nanos::ZERO; CLASSES],
            next_look: Nanos::ZERO,
            next_count: Nanos::ZERO,
            proof: Proof::default(),
            check_at: Nanos::NEVER,
            check_from: Nanos::ZERO,
            doubted: ClassSet::NONE,
            reclaim: Reclaim::NEW,
            logged_pause: NEAR_TIMEOUT,
            logged_response: Nanos::ZERO,
            view,
        })
    }

    #[must_use]
    pub fn view(&self) -> Arc<NicView> {
        Arc::clone(&self.view)
    }

    /// Obeys pauses until `stop` becomes readable or the agent fails. Then restores the device.
    pub fn run(mut self, stop: BorrowedFd<'_>) -> (Removed, Result<(), AgentError>) {
        self.hurry();
        self.logged_response = self.view.expected_response();
        tracing::info!(
            peer_response = %text(self.logged_response),
            "the agent assumes that the switch's port is configured with this `peer_response`"
        );
        let outcome = self.obey(stop).and_then(|()| self.check_at_end());
        let Agent { egress, guard, watch, lldp, view, .. } = self;
        drop(watch); // sends XON to the switch
        drop(lldp); // sends a shutdown LLDPDU
        let removed = egress.remove();
        for (class, &dropped) in Class::ALL.into_iter().zip(&removed.dropped) {
            view.count_dropped(class, dropped);
        }
        let _ = guard.dismiss(); // the device is restored, so nothing is left to guard
        removed.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        (removed, outcome)
    }

    fn hurry(&self) {
        let _ = set_timerslack(1); // nanoseconds; if the kernel refuses, pauses end 50 us late
        if !self.view.settings.real_time {
            return;
        }
        match xoff_xdp::host::run_in_real_time(PRIORITY) {
            Ok(()) => self.view.real_time.store(true, Relaxed),
            Err(error) => tracing::warn!(
                "no real-time priority ({error}): give the process CAP_SYS_NICE, and a control group with real-time \
                 runtime; otherwise a busy machine obeys pauses milliseconds late"
            ),
        }
        if let Err(error) = mlockall(MlockAllFlags::MCL_CURRENT) {
            tracing::warn!(
                "memory is not locked ({error}): give the process CAP_IPC_LOCK, or raise `ulimit -l`"
            );
        }
    }

    fn obey(&mut self, stop: BorrowedFd<'_>) -> Result<(), AgentError> {
        loop {
            let now = guard::now();
            if now >= self.next_look {
                self.next_look = now.after(LOOK_EVERY);
                self.look(now)?;
                self.view.looks.add(1);
            } else if now >= self.check_at {
                self.check(now)?;
            }
            if now >= self.next_count || self.controller.needs_first_report() {
                self.count();
                let limited = !self.controller.counted().is_empty();
                self.next_count = if limited { now.after(COUNT_EVERY) } else { self.next_look };
            }
            self.act(now)?;
            self.publish(now);
            if self.wait(stop)? {
                return Ok(());
            }
            self.read_link_events()?;
            self.receive()?;
        }
    }

    fn wait(&mut self, stop: BorrowedFd<'_>) -> Result<bool, AgentError> {
        let deadline =
            self.controller.next_deadline().min(self.next_look).min(self.next_count).min(self.check_at);
        let guard = self.guard.fd().unwrap_or(stop);
        let mut on = [stop, guard, self.receiver.descriptor(), self.link.descriptor()]
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let span = Duration::from_nanos(deadline.since(guard::now()).0);
        let waited = ppoll(&mut on, Some(TimeSpec::from(span)), None);
        let [is_over, guard_speaks] = [0, 1].map(|index| on[index].any().unwrap_or(true));
        match waited {
            Ok(_) => {
                if guard_speaks {
                    self.next_look = Nanos::ZERO;
                }
                Ok(is_over)
            }
            Err(Errno::EINTR) => Ok(false),
            Err(error) => Err(self.refused("cannot wait for frames")(error.into())),
        }
    }

    /// Reads link events. Call this before frames are read: a link loss must not end pauses that arrive after it.
    fn read_link_events(&mut self) -> Result<(), AgentError> {
        let now = guard::now();
        let changes = self.link.read().map_err(self.refused("cannot watch the link"))?;
        if changes.of_link {
            self.next_look = Nanos::ZERO;
        }
        if changes.lost {
            self.controller.link_lost(guard::now());
            tracing::info!("link down; the switch's pauses are cleared");
        }
        if changes.of_queues {
            self.doubted = ClassSet(self.doubted.0 | changes.leafs.0);
            self.check_at = now.max(self.check_from);
        } else if self.check_at == Nanos::NEVER && self.view.defects().is_empty() {
            self.proof.unchanged(self.paused(now));
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(), AgentError> {
        let stopped = self.controller.stopped();
        let (controller, pending) = (&mut self.controller, &mut self.pending_stops);
        pending.begin();
        let received = self.receiver.receive(|came, frame| {
            controller
                .receive(came, frame)
                .iter()
                .for_each(|class| pending.xoff(came, class, stopped.contains(class)));
        });
        received.map_err(self.refused("cannot receive MAC control"))?;
        self.act(guard::now())
    }

    fn act(&mut self, now: Nanos) -> Result<(), AgentError> {
        self.notify_guard(now);
        while let Some(change) = self.controller.next_change(now) {
            let done = match change {
                Change::Stop(class) => self.egress.stop(class),
                Change::Start(class) => self.egress.start(class),
                Change::Limit(class, rate) => self.egress.limit(class, rate),
            };
            match done {
                Ok(()) => {
                    self.settle(change, true);
                    self.done(now, change);
                }
                Err(error) => {
                    self.settle(change, false);
                    self.controller.refused(now, change);
                    self.log_refusal(&error)?;
                }
            }
        }
        let resumed = self.pending_stops.resumed(guard::now(), self.controller.paused());
        resumed.for_each(|time| self.view.response.record(time));
        self.notify_guard(now);
        Ok(())
    }

    fn settle(&self, change: Change, is_done: bool) {
        let (Change::Stop(class) | Change::Start(class) | Change::Limit(class, _)) = change;
        let unsettled = self.view.unsettled.get();
        let bit = 1 << class.get();
        self.view.unsettled.set(if is_done { unsettled & !bit } else { unsettled | bit });
    }

    fn done(&mut self, now: Nanos, change: Change) {
        match change {
            Change::Stop(class) => {
                self.stopped_at[class.index()] = now;
                if let Some(time) = self.pending_stops.stopped(guard::now(), class) {
                    self.view.response.record(time);
                }
            }
            Change::Start(class) => {
                let lasted = now.since(self.stopped_at[class.index()]);
                self.view.counters.class(PortId(0), class).paused_durations.record(lasted.0);
            }
            Change::Limit(..) => {}
        }
    }

    fn notify_guard(&mut self, now: Nanos) {
        for class in Class::ALL {
            match self.controller.paused_until(class).filter(|until| *until > now) {
                Some(until) => self.guard.send_deadline(class, until),
                None if self.controller.stopped().contains(class) => {} // sent when the class is resumed
                None => self.guard.send_deadline(class, Nanos::ZERO),
            }
        }
    }

    fn look(&mut self, now: Nanos) -> Result<(), AgentError> {
        self.follow_device()?;
        match self.egress.follow_mtu() {
            Err(error @ EgressError::TooLong { .. }) => Err(error)?,
            Err(error) => self.log_refusal(&error)?,
            Ok(()) => {}
        }
        self.follow_switch(now)?;
        self.check(now)?;
        let missed = self.receiver.missed().map_err(self.refused("cannot receive MAC control"))?;
        if missed > 0 {
            self.view.missed.add(missed.into());
            tracing::warn!(
                missed,
                "pause frames or CNMs were lost: they arrived faster than the agent read them"
            );
        }
        self.log_times(now);
        Ok(())
    }

    fn follow_switch(&mut self, now: Nanos) -> Result<(), AgentError> {
        let view = Arc::clone(&self.view);
        let own = &view.settings;
        if own.dcbx != Dcbx::Willing {
            return Ok(());
        }
        // Do not wait for the lock, because its owner, the LLDP thread, has no real-time priority: try again in a second.
        let Ok(announced) = view.announced.try_lock().map(|announced| announced.clone()) else {
            return Ok(());
        };
        let next = dcbx::follow(own, announced.as_ref());
        if next == *view.in_force.get() {
            return Ok(());
        }
        self.count(); // drops so far belong to the classes before this change
        if let Err(error) = self.egress.follow_classes(&EgressSettings::new(next.clone())) {
            return self.log_refusal(&error);
        }
        self.controller.set_lossless(now, next.lossless);
        let source = if dcbx::followed(own, announced.as_ref()).is_some() {
            "the agent uses the lossless classes and DSCP map of the switch (DCBX)"
        } else {
            "no switch to follow (DCBX): the agent uses the configured lossless classes and DSCP map"
        };
        tracing::info!(event = "dcbx-followed", lossless = %list(next.lossless), "{source}");
        view.follow(next);
        Ok(())
    }

    fn check_guard(&mut self, now: Nanos) -> ClassSet {
        let events = self.guard.check(now);
        match events.replaced {
            None => {}
            Some(Ok(())) => {
                self.view.guards_lost.add(1);
                tracing::warn!("the guard process ended unexpectedly; the agent started another one");
            }
            Some(Err(error)) => tracing::error!(
                "the guard process ended, and another one cannot be started: {}; the agent tries again in a second",
                name_file_limit(error)
            ),
        }
        if !events.opened.is_empty() {
            tracing::warn!(
                classes = %list(events.opened),
                "the guard process started classes whose pause was over: the agent did not run in time"
            );
            self.egress.opened(events.opened);
            let again = ClassSet(events.opened.0 & self.controller.stopped().0);
            for class in again.iter() {
                self.controller.opened(class);
                self.pending_stops.opened(class); // if still paused, the class is stopped next
            }
        }
        events.opened
    }

    fn log_times(&mut self, now: Nanos) {
        let pauses = self.controller.pauses(now).classes;
        let longest = Class::ALL.into_iter().max_by_key(|class| pauses[class.index()].longest);
        if let Some(class) = longest.filter(|class| pauses[class.index()].longest > self.logged_pause) {
            let pause = pauses[class.index()].longest;
            self.logged_pause = Nanos(2 * pause.0);
            tracing::warn!(
                %class,
                pause_ms = pause.0 / 1_000_000,
                "a pause was almost as long as transports' timeouts: RoCE's is 4.096 us x 2^timeout (67 ms at 14, \
                 1 s at 18); TCP retransmits after 200 ms or more"
            );
        }
        let response = self.view.response.needed();
        if response > self.logged_response {
            tracing::warn!(
                "this host took {} to obey a pause; the agent assumes that the switch's port allows only {}: give that port \
                 `peer_response = \"{}\"`, or the switch may drop frames of this host",
                text(response),
                text(self.logged_response),
                text(response)
            );
            self.logged_response = Nanos(2 * response.0);
        }
    }

    fn count(&mut self) {
        let Ok(counts) = self.egress.counts() else { return }; // the next change reports the error
        for (class, LeafCounts { frames, bytes, dropped, waiting_frames, waiting_bytes }) in
            Class::ALL.into_iter().zip(counts)
        {
            let (index, of_class) = (class.index(), self.view.counters.class(PortId(0), class));
            of_class.tx_frames.set(frames);
            of_class.tx_bytes.set(bytes + 4 * frames); // adds the FCS, which the kernel does not count
            of_class.egress_bytes.set(waiting_bytes);
            of_class.egress_watermark.raise(waiting_bytes);
            self.view.waiting_frames[index].set(waiting_frames);
            if self.view.count_dropped(class, dropped) {
                tracing::warn!(%class, dropped, "the queue of a class was full, and this host dropped frames");
            }
            self.controller.report_sent(class, Bytes(bytes));
        }
    }

    fn publish(&self, now: Nanos) {
        let counts = self.controller.pauses(now);
        let port = self.view.counters.port(PortId(0));
        port.pfc_frames_received.set(counts.pfc_frames);
        port.rate_frames_received.set(counts.rate_frames);
        port.pause_frames_received.set(counts.pause_frames);
        port.pause_frames_ignored.set(counts.ignored);
        port.malformed_control.iter().zip(counts.refused).for_each(|(counter, count)| counter.set(count));
        port.pause_peer.set(self.controller.peer().map_or(0, |peer| peer.to_number()));
        let (cnms, by_class, refused) = self.controller.notices();
        port.cnms_received.set(cnms);
        port.malformed_cnms.iter().zip(refused).for_each(|(counter, &count)| counter.set(count));
        for class in Class::ALL {
            let (index, of_class) = (class.index(), &port.classes[class.index()]);
            let pauses = counts.classes[index];
            of_class.xoff_received.set(pauses.xoff);
            of_class.xon_received.set(pauses.xon);
            let since = self.controller.paused_since(class);
            let running = since.map_or(Nanos::ZERO, |since| now.since(since));
            of_class.paused_since.set(since.map_or(0, |since| since.0.max(1)));
            of_class.paused_nanos.set(pauses.paused.since(running).0);
            let rate = self.controller.rate(class);
            let limited = rate < self.view.settings.speed;
            of_class.rate_obeyed.set(if limited { rate.bits_per_second() } else { 0 });
            self.view.cnms[index].set(by_class[index]);
            self.view.longest_pause[index].set(pauses.longest.0);
        }
    }

    fn log_refusal(&mut self, error: &EgressError) -> Result<(), AgentError> {
        let refused = self.view.refused.get() + 1;
        self.view.refused.set(refused);
        self.expect_device()?;
        if refused.is_power_of_two() {
            tracing::error!(
                refused,
                "a queue could not be changed: {error}; check whether another program has changed the device's queues"
            );
        }
        Ok(())
    }

    fn refused(&self, fault: &'static str) -> impl Fn(io::Error) -> AgentError + use<> {
        let device = self.view.device.get();
        move |source| AgentError::refused(fault, &device, source)
    }
}

fn text(time: Nanos) -> String {
    xoff_config::quantity::time(time)
}
