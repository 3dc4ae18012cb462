//! Packet socket for MAC control and CNMs, which gets frames before a kernel bridge does. A multicast membership makes the device receive
//! 01:80:C2:00:00:01.
//!
//! Tagged MAC control must pause nothing, but the kernel removes tags. So the filter marks a tagged frame by truncating it. The receiver
//! gives such a frame a tag again, and the parser then rejects the frame.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use socket2::{Domain, SockFilter, Socket, Type};
use xoff_wire::mac_control::DESTINATION;
use xoff_wire::units::{MacAddr, Nanos};
use xoff_xdp::name_file_limit;

use crate::arrivals::Arrivals;
use crate::bpf::{ALL, IF_EQUAL, LOAD_HALF, LOAD_WORD, PROTOCOL, RETURN, VLAN_TAG_PRESENT};
use crate::guard::now;

const MAC_CONTROL: u32 = 0x8808;
const CNM: u32 = 0x22e7;
const CN_TAG: u32 = 0x22e9;
const FRAME_MAX: usize = 256;
/// Maximum number of frames per read, so that a flood does not occupy the real-time thread.
pub(crate) const AT_MOST: usize = 64;
const TAGGED_LEN: usize = 13;
/// Bytes after the addresses of a tagged MAC control frame, which replace the tag that the kernel removed: TPID, zeros (any tag makes MAC
/// control invalid), EtherType 0x8808.
const TAGGED_END: [u8; 6] = [0x81, 0, 0, 0, 0x88, 0x08];
const TAG_AT: usize = 12;

#[allow(clippy::cast_possible_truncation)] // small lengths
const FILTER: [SockFilter; 12] = {
    const INNER_TYPE: u32 = 16;
    [
        SockFilter::new(LOAD_HALF, 0, 0, PROTOCOL),
        SockFilter::new(IF_EQUAL, 5, 0, MAC_CONTROL), // to the check of VLAN_TAG_PRESENT
        SockFilter::new(IF_EQUAL, 7, 0, CNM),         // to the accepting return
        SockFilter::new(IF_EQUAL, 0, 7, CN_TAG),      // or to the end
        SockFilter::new(LOAD_HALF, 0, 0, INNER_TYPE),
        SockFilter::new(IF_EQUAL, 4, 0, CNM),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(LOAD_WORD, 0, 0, VLAN_TAG_PRESENT),
        SockFilter::new(IF_EQUAL, 1, 0, 0),
        SockFilter::new(RETURN, 0, 0, TAGGED_LEN as u32),
        SockFilter::new(RETURN, 0, 0, FRAME_MAX as u32),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    pub(crate) ifindex: u32,
    pub(crate) address: MacAddr,
}

impl Device {
    pub(crate) fn find(name: &str) -> io::Result<Option<Device>> {
        let interfaces = getifaddrs().map_err(|error| name_file_limit(error.into()))?;
        let mut named = interfaces.filter(|interface| interface.interface_name == name);
        Ok(named.find_map(|interface| {
            let link = *interface.address?.as_link_addr()?;
            let address = MacAddr(link.addr()?);
            Some(Device { ifindex: u32::try_from(link.ifindex()).ok()?, address })
        }))
    }
}

#[derive(Debug)]
pub(crate) struct Receiver {
    socket: Socket,
    control: Vec<u8>,
    arrivals: Arrivals,
}

impl Receiver {
    pub(crate) fn open(device: &Device) -> io::Result<Receiver> {
        let arrivals = Arrivals::new(now());
        let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking(), None)?;
        socket.attach_filter(&FILTER)?;
        setsockopt(&socket, ReceiveTimestampns, &true)?;
        let ifindex = i32::try_from(device.ifindex).map_err(io::Error::other)?;
        xoff_xdp::host::receive_only(socket.as_fd())?;
        xoff_xdp::host::join_group(socket.as_fd(), ifindex, DESTINATION)?;
        xoff_xdp::host::bind(socket.as_fd(), ifindex, ALL)?;
        Ok(Receiver { socket, control: nix::cmsg_space!(TimeSpec), arrivals })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn missed(&self) -> io::Result<u32> {
        xoff_xdp::host::missed(self.socket.as_fd())
    }

    pub(crate) fn receive(&mut self, mut take: impl FnMut(Nanos, &[u8])) -> io::Result<()> {
        let mut buffer = [0; FRAME_MAX];
        for _ in 0..AT_MOST {
            let polled_at = now();
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let flags = MsgFlags::MSG_DONTWAIT;
            let fd = self.socket.as_raw_fd();
            let (len, stamp) = match recvmsg::<()>(fd, &mut parts, Some(&mut self.control), flags) {
                Ok(message) => (message.bytes, stamp(&message)),
                Err(Errno::EAGAIN) => {
                    self.arrivals.empty(polled_at);
                    return Ok(());
                }
                Err(Errno::EINTR) => continue,
                Err(Errno::ENETDOWN) => return Ok(()), // the device is down, but may come up again
                Err(error) => return Err(error.into()),
            };
            let came = self.arrivals.came(now(), wall_clock(), stamp);
            if len == TAGGED_LEN {
                buffer[TAG_AT..TAG_AT + TAGGED_END.len()].copy_from_slice(&TAGGED_END);
                take(came, &buffer[..TAG_AT + TAGGED_END.len()]);
            } else {
                take(came, &buffer[..len]);
            }
        }
        Ok(())
    }
}

fn stamp(message: &nix::sys::socket::RecvMsg<'_, '_, ()>) -> Option<Nanos> {
    message.cmsgs().ok()?.find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(time) => Some(nanos(&time)),
        _ => None,
    })
}

fn wall_clock() -> Nanos {
    clock_gettime(ClockId::CLOCK_REALTIME).as_ref().map(nanos).unwrap_or_default()
}

fn nanos(time: &TimeSpec) -> Nanos {
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Nanos(part(time.tv_sec()) * 1_000_000_000 + part(time.tv_nsec()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;
    use std::thread;

    use nix::sched::{CloneFlags, unshare};
    use xoff_wire::units::{BitRate, ClassSet};
    use xoff_wire::{MacControl, MacControlError, Pfc};
    use xoff_xdp::PacketSender;

    use super::*;
    use crate::config::NicWishes;
    use crate::controller::PauseController;

    fn between(test: impl FnOnce(Device, Receiver, PacketSender) + Send + 'static) {
        let test = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let links = "ip link add v0 mtu 9000 type veth peer name v1 mtu 9000 && ip link set v0 up && \
                         ip link set v1 up";
            assert!(Command::new("sh").args(["-c", links]).status().unwrap().success());
            let [here, there] = ["v0", "v1"].map(|name| Device::find(name).unwrap().unwrap());
            let sender = PacketSender::open(there.ifindex.cast_signed()).unwrap();
            test(here, Receiver::open(&here).unwrap(), sender);
        });
        test.join().unwrap();
    }

    #[test] // proves: host-pauses
    fn agent_reads_at_most_64_control_frames_at_once() {
        between(|device, mut receiver, sender| {
            let frame = MacControl::Pfc(Pfc::default()).encode(device.address);
            (0..AT_MOST + 36).for_each(|_| sender.send(&frame).unwrap());
            let mut turn = || {
                let mut count = 0;
                receiver.receive(|_, _| count += 1).unwrap();
                count
            };
            assert_eq!([turn(), turn(), turn()], [AT_MOST, 36, 0]);
        });
    }

    #[test] // proves: host-pauses
    fn agent_treats_control_frames_as_listed_in_test_data() {
        between(|device, mut receiver, sender| {
            for (columns, frame) in xoff_explore::frames(include_str!("../../wire/data/control-frames.txt")) {
                let (name, speed) = (Some("v0".into()), Some(BitRate::from_gbps(1)));
                let lossless = Some(ClassSet::ALL);
                let wishes = NicWishes { device: name, speed, lossless, ..NicWishes::default() };
                let mut controller = PauseController::new(&wishes.settings().unwrap(), device.address);
                sender.send(&frame).unwrap();
                receiver.receive(|now, bytes| _ = controller.receive(now, bytes)).unwrap();
                let counts = controller.pauses(now());
                let classes = |of: fn(&xoff_host::ClassPauses) -> u64| -> String {
                    let counted = (0..).zip(&counts.classes).filter(|(_, it)| of(it) > 0);
                    counted.map(|(class, _): (u8, _)| class.to_string()).collect()
                };
                let (xoff, xon) = (classes(|it| it.xoff), classes(|it| it.xon));
                let pauses = match (xoff.as_str(), xon.as_str()) {
                    ("", "") => "none".into(),
                    (_, "") => format!("xoff={xoff}"),
                    _ => format!("xon={xon}{xoff}"),
                };
                let refused = MacControlError::ALL.into_iter().find(|it| counts.refused[it.index()] > 0);
                let refused = refused.map_or("-", MacControlError::name);
                assert_eq!([pauses.as_str(), refused], [columns[1], columns[3]], "{columns:?}");
            }
        });
    }
}
