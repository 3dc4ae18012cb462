//! LLDP and DCBX of a host, in a separate thread so that no LLDPDU delays a pause. With `dcbx = "willing"`, the host takes the
//! classes of its DCBX neighbor, if there is exactly one.

use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::os::fd::AsFd as _;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::unistd::gethostname;
use socket2::{Domain, SockFilter, Socket, Type};
use xoff_flow_control::settings::{ClassSettings, Dcbx, FlowControl, Lldp, PortSettings, Service};
use xoff_switch::lldp::announcement::Announcement;
use xoff_switch::lldp::dcbx::{self, Speaker};
use xoff_switch::lldp::timer::TTL;
use xoff_switch::lldp::{LineLimit, Port};
use xoff_wire::dcbx::selector;
use xoff_wire::lldp::{LLDP, NEAREST_BRIDGE, STATION};
use xoff_wire::units::{Bytes, Class, MacAddr, Nanos, PortId};
use xoff_xdp::{DeviceReader, DeviceState, PacketSender};

use crate::bpf::{ALL, IF_EQUAL, LOAD_HALF, LOAD_WORD, PROTOCOL, RETURN, VLAN_TAG_PRESENT};
use crate::config::NicSettings;
use crate::guard::now;
use crate::sockets::AT_MOST;
use crate::view::NicView;

const LOOK_EVERY: Nanos = Nanos::from_secs(1);
/// Time after link up in which a willing host announces no classes, because it awaits those of the switch.
const UNDECIDED_FOR: Nanos = Nanos::from_secs(3);
/// Sleep after each full batch of frames, so that a flood occupies no core.
const AFTER_FLOOD: Duration = Duration::from_millis(10);
const FRAME_MAX: usize = 9_216;
const HEADER: u32 = 14;

pub(crate) const PORT: PortId = PortId(0);

pub(crate) fn followed<'a>(
    own: &NicSettings,
    announced: Option<&'a Announcement>,
) -> Option<&'a Announcement> {
    let is_readable = |it: &&Announcement| it.pfc.is_some() || !it.applications.is_empty();
    let is_willing = |it: &&Announcement| it.pfc.is_some_and(|pfc| pfc.willing);
    announced.filter(is_readable).filter(|it| own.dcbx == Dcbx::Willing && !is_willing(it))
}

pub(crate) fn follow(own: &NicSettings, announced: Option<&Announcement>) -> NicSettings {
    let mut settings = own.clone();
    let Some(announced) = followed(own, announced) else { return settings };
    if let Some(pfc) = announced.pfc {
        settings.lossless = pfc.classes;
    }
    for application in announced.applications.iter().filter(|it| it.selector == selector::DSCP) {
        if let Some(class) = settings.dscp_to_class.get_mut(usize::from(application.protocol)) {
            *class = application.class;
        }
    }
    settings
}

pub(crate) fn is_followed(view: &NicView) -> bool {
    let announced = view.neighbors.announcement(PORT);
    followed(&view.settings, announced.as_ref()).is_some()
        && *view.in_force.get() == follow(&view.settings, announced.as_ref())
}

/// Describes the host as a switch's port, so that the switch's code can build and compare DCBX announcements.
pub(crate) fn port(settings: &NicSettings, address: MacAddr, mtu: u32) -> PortSettings {
    let lossless = settings.lossless;
    let class = |class: Class| ClassSettings {
        lossless: lossless.contains(class),
        service: Service::Strict,
        ..ClassSettings::lossy(Bytes::ZERO)
    };
    PortSettings {
        mtu_frame: mtu.saturating_add(HEADER),
        trust: settings.trust,
        default_class: settings.default_class,
        pcp_to_class: settings.pcp_to_class,
        dscp_to_class: settings.dscp_to_class,
        flow_control: FlowControl::Pfc { obey: lossless, send: lossless },
        lldp: if settings.dcbx == Dcbx::Off { Lldp::Off } else { Lldp::Switch },
        dcbx: settings.dcbx,
        gfc_peer: settings.obey_rates,
        ..PortSettings::plain(&settings.device, address, settings.speed, Class::ALL.map(class))
    }
}

#[derive(Debug)]
pub(crate) struct LldpThread {
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl LldpThread {
    pub(crate) fn start(ifindex: u32, view: Arc<NicView>) -> io::Result<LldpThread> {
        let ifindex = i32::try_from(ifindex).map_err(io::Error::other)?;
        let reader = DeviceReader::open(ifindex)?;
        let device = reader.read()?.ok_or(io::ErrorKind::NotFound)?;
        let socket = receiver(ifindex)?;
        let sender = PacketSender::open(ifindex)?;
        let (stopped, stop) = io::pipe()?;
        let system = gethostname().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned());
        let host = LldpHost {
            reader,
            device,
            view,
            socket,
            sender,
            system,
            last_frame: Vec::new(),
            next_look: Nanos::ZERO,
            decides_at: Nanos::ZERO,
            is_undecided: false,
            lines: LineLimit::default(),
        };
        let thread = thread::Builder::new().name("xoff-lldp".into()).spawn(move || host.run(&stopped))?;
        Ok(LldpThread { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for LldpThread {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Debug)]
struct LldpHost {
    reader: DeviceReader,
    device: DeviceState,
    view: Arc<NicView>,
    socket: Socket,
    sender: PacketSender,
    system: String,
    last_frame: Vec<u8>,
    next_look: Nanos,
    decides_at: Nanos,
    is_undecided: bool,
    lines: LineLimit,
}

impl LldpHost {
    fn run(mut self, stopped: &PipeReader) {
        loop {
            let deadline = self.look(now());
            let mut on = [stopped.as_fd(), self.socket.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            let span = Duration::from_nanos(deadline.since(now()).0);
            let _ = ppoll(&mut on, Some(TimeSpec::from(span)), None); // a signal only ends the wait early
            if on[0].any().unwrap_or(true) {
                break;
            }
            if self.receive() == AT_MOST {
                thread::sleep(AFTER_FLOOD);
            }
        }
        self.send_shutdown();
    }

    fn send_shutdown(&self) {
        let is_on = self.view.neighbors.lock()[PORT.index()].timer.is_on();
        if is_on {
            let _ = self.sender.send(&self.frame(&self.settings(), 0)); // without link, the announcement expires
        }
    }

    fn look(&mut self, now: Nanos) -> Nanos {
        if now >= self.next_look {
            self.next_look = now.after(LOOK_EVERY);
            self.follow_link(now);
        }
        if is_followed(&self.view) {
            self.decides_at = Nanos::ZERO;
        }
        self.is_undecided = now < self.decides_at;
        let settings = self.settings();
        let frame = self.frame(&settings, TTL);
        let view = Arc::clone(&self.view);
        let sends = self.update(now, &settings, |port, last_frame| {
            let has_aged = !port.age(now).is_empty();
            let is_new = *last_frame != frame;
            if is_new {
                *last_frame = frame;
                port.timer.changed(now);
            }
            (port.timer.sends(now), has_aged || is_new)
        });
        let sent = sends.then(|| self.sender.send(&self.last_frame));
        let port = &mut view.neighbors.lock()[PORT.index()];
        match sent {
            Some(Ok(())) => port.counts.frames_out += 1,
            Some(Err(_)) => {
                port.counts.not_sent += 1;
                port.timer.again(now);
            }
            None => {}
        }
        port.timer.next().min(port.table.next_expiry()).min(self.next_look)
    }

    /// Applies `change` to the port's LLDP state. If `change` returns `(_, true)`, neighbors' announcements have changed: compares them
    /// with the settings, and publishes the one that a willing host obeys. Logs after unlocking.
    fn update<T>(
        &mut self,
        now: Nanos,
        settings: &PortSettings,
        change: impl FnOnce(&mut Port, &mut Vec<u8>) -> (T, bool),
    ) -> T {
        let view = Arc::clone(&self.view);
        let mut ports = view.neighbors.lock();
        let port = &mut ports[PORT.index()];
        let (result, has_changed) = change(port, &mut self.last_frame);
        let mut reason = None;
        if has_changed {
            reason = port.compare(settings).then(|| port.not_compared(settings).unwrap_or_default());
            *view.announced.lock().unwrap_or_else(PoisonError::into_inner) = port.table.followed();
        }
        drop(ports);
        if let Some(reason) = reason.filter(|_| self.lines.is_allowed(now)) {
            tracing::warn!(
                event = "dcbx-ambiguous",
                "{reason}; this host takes the classes of none of them: turn DCBX off at all but one neighbor"
            );
        }
        result
    }

    fn follow_link(&mut self, now: Nanos) {
        let device = match self.reader.read() {
            Ok(Some(device)) => device,
            Ok(None) => DeviceState { is_running: false, ..self.device.clone() },
            Err(_) => return, // the kernel lacks memory: read again in a second
        };
        if (device.address, &device.name) != (self.device.address, &self.device.name) {
            self.send_shutdown(); // neighbors would otherwise keep the previous chassis or port until its TTL ends
        }
        self.device = device;
        let is_up = self.device.is_running;
        let settings = self.settings();
        let begins = self.update(now, &settings, |port, _| match (port.timer.is_on(), is_up) {
            (false, true) => {
                port.timer.begin(now);
                (true, false)
            }
            (true, false) => {
                port.timer.end();
                port.table.clear();
                (false, true)
            }
            (false, false) | (true, true) => (false, false),
        });
        if begins {
            let is_willing = self.view.settings.dcbx == Dcbx::Willing;
            self.decides_at = if is_willing { now.after(UNDECIDED_FOR) } else { Nanos::ZERO };
        }
    }

    fn settings(&self) -> PortSettings {
        let port = port(&self.view.in_force.get(), self.device.address, self.device.mtu);
        PortSettings { dcbx: if self.is_undecided { Dcbx::Off } else { port.dcbx }, ..port }
    }

    fn frame(&self, settings: &PortSettings, ttl: u16) -> Vec<u8> {
        let (mac, system) = (self.device.address, self.system.as_str());
        let device = &self.device.name;
        let speaker = Speaker { chassis: mac, mac, system, device, capabilities: STATION };
        dcbx::frame(&speaker, settings, ttl)
    }

    fn receive(&mut self) -> usize {
        let settings = self.settings();
        let mut buffer = vec![0; FRAME_MAX];
        for count in 0..AT_MOST {
            let Ok(len) = (&self.socket).read(&mut buffer) else { return count };
            let now = now();
            self.update(now, &settings, |port, _| {
                let is_on = port.timer.is_on();
                if is_on {
                    port.receive(now, &buffer[..len]);
                }
                ((), is_on)
            });
        }
        AT_MOST
    }
}

/// Opens a socket that receives untagged LLDPDUs, even beside another LLDP daemon or at a kernel bridge's port.
fn receiver(ifindex: i32) -> io::Result<Socket> {
    let filter = [
        SockFilter::new(LOAD_HALF, 0, 0, PROTOCOL),
        SockFilter::new(IF_EQUAL, 0, 3, LLDP.0.into()),
        SockFilter::new(LOAD_WORD, 0, 0, VLAN_TAG_PRESENT),
        SockFilter::new(IF_EQUAL, 0, 1, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
        SockFilter::new(RETURN, 0, 0, 0),
    ];
    let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking(), None)?;
    socket.attach_filter(&filter)?;
    xoff_xdp::host::receive_only(socket.as_fd())?;
    xoff_xdp::host::join_group(socket.as_fd(), ifindex, NEAREST_BRIDGE)?;
    xoff_xdp::host::bind(socket.as_fd(), ifindex, ALL)?;
    Ok(socket)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_flow_control::settings::Trust;
    use xoff_switch::lldp::mismatch::{self, MismatchKind};
    use xoff_wire::dcbx::{Application, PfcState};
    use xoff_wire::units::{BitRate, ClassSet};

    use super::*;
    use crate::config::NicWishes;

    fn settings(dcbx: Dcbx, trust: Trust) -> NicSettings {
        let wishes = NicWishes {
            device: Some("eth0".into()),
            speed: Some(BitRate::from_gbps(1)),
            dcbx: Some(dcbx),
            trust: Some(trust),
            ..NicWishes::default()
        };
        wishes.settings().unwrap()
    }

    fn announced(willing: bool, classes: u8) -> Announcement {
        Announcement {
            pfc: Some(PfcState { willing, classes: ClassSet(classes), ..PfcState::default() }),
            applications: vec![
                Application { class: Class::ALL[4], selector: selector::DSCP, protocol: 26 },
                Application { class: Class::ALL[4], selector: selector::UDP_PORT, protocol: 27 },
                Application { class: Class::ALL[4], selector: selector::DSCP, protocol: 64 },
            ],
            dcbx: vec!["ieee"],
            ..Announcement::default()
        }
    }

    #[test] // proves: host-dcbx
    fn willing_host_takes_classes_and_dscp_map_of_its_switch() {
        let of = |own: &NicSettings, announced: Option<&Announcement>| {
            let settings = follow(own, announced);
            (settings.lossless.0, [26, 27].map(|dscp| settings.dscp_to_class[dscp].get()))
        };
        let own = (0b1000, [3, 3]);
        let willing = settings(Dcbx::Willing, Trust::Dscp);
        assert_eq!(of(&willing, Some(&announced(false, 0b11_0000))), (0b11_0000, [4, 3]));
        assert_eq!(of(&willing, Some(&announced(false, 0))), (0, [4, 3]));
        assert_eq!(of(&willing, Some(&announced(true, 0b11_0000))), own, "both are willing");
        assert_eq!(of(&willing, None), own, "the switch is gone");
        assert_eq!(of(&willing, Some(&Announcement::default())), own);
        assert_eq!(of(&settings(Dcbx::Compare, Trust::Dscp), Some(&announced(false, 0b11_0000))), own);
    }

    #[test] // proves: host-dcbx
    fn host_announces_own_classes_and_compares_those_of_switch() {
        use MismatchKind::{Application, Dscp, Pfc};
        let port = port(&settings(Dcbx::Willing, Trust::Dscp), MacAddr([2, 0, 0, 0, 0, 9]), 1_500);
        let kinds = |announced: &Announcement| {
            mismatch::all(&port, announced).into_iter().map(|it| it.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&announced(false, 0b11_0000)), [Pfc, Dscp, Application]);
        assert_eq!(kinds(&Announcement { applications: Vec::new(), ..announced(false, 0b1000) }), []);
        assert_eq!((port.sends(), port.mtu_frame, port.dcbx), (ClassSet(0b1000), 1_514, Dcbx::Willing));
    }
}
