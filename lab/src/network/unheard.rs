//! What switches say to hosts that have no agent: MAC control and congestion notifications, which nobody takes there. The kernel counts
//! frames that nobody takes among those that it lost (`rx_dropped`), and nobody could tell them from others. So a packet socket takes
//! them, whose filter keeps nothing of them, and what is counted then is lost indeed.

use std::io;
use std::os::fd::AsFd as _;

use socket2::{Domain, SockFilter, Socket, Type};

use crate::{Device, LabError};

/// MAC control, CNMs, and CNMs behind a CN-TAG.
const ETHER_TYPES: [u16; 3] = [0x8808, 0x22e7, 0x22e9];
/// Keeps nothing of a frame (`return 0`).
const NOTHING: SockFilter = SockFilter::new(0x06, 0, 0, 0);

/// Sockets of a device, one for each EtherType: one for all would take what somebody else should have taken, too.
#[derive(Debug)]
pub(super) struct Unheard(
    #[expect(dead_code, reason = "open is all that they are")] [Socket; ETHER_TYPES.len()],
);

impl Unheard {
    /// Takes what comes to a device from now on.
    pub(super) fn at(device: &Device) -> Result<Unheard, LabError> {
        let open = |ether_type| -> io::Result<Socket> {
            let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
            socket.attach_filter(&[NOTHING])?;
            xoff_xdp::host::bind(socket.as_fd(), device.ifindex(), ether_type)?;
            Ok(socket)
        };
        let [mac_control, cnm, tagged] = ETHER_TYPES;
        let sockets = device.namespace().run(|| Ok([open(mac_control)?, open(cnm)?, open(tagged)?]));
        sockets.map(Unheard).map_err(|source| LabError::Io {
            what: format!("take what switches say to {}", device.name()),
            namespace: device.namespace().name().to_owned(),
            source,
        })
    }
}
