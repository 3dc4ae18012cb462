//! Sockets for control frames at hosts without agent: the kernel counts frames without a socket as lost (`rx_dropped`).

use std::io;
use std::os::fd::AsFd as _;

use socket2::{Domain, SockFilter, Socket, Type};

use crate::{Device, LabError};

const ETHER_TYPES: [u16; 3] = [0x8808, 0x22e7, 0x22e9];
const NOTHING: SockFilter = SockFilter::new(0x06, 0, 0, 0);

/// Sockets that discard control frames, one for each EtherType: a socket for all EtherTypes would hide real losses.
#[derive(Debug)]
pub(super) struct ControlSink(#[expect(dead_code, reason = "only kept open")] [Socket; ETHER_TYPES.len()]);

impl ControlSink {
    pub(super) fn at(device: &Device) -> Result<ControlSink, LabError> {
        let open = |ether_type| -> io::Result<Socket> {
            let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
            socket.attach_filter(&[NOTHING])?;
            xoff_xdp::host::bind(socket.as_fd(), device.ifindex(), ether_type)?;
            Ok(socket)
        };
        let [mac_control, cnm, tagged] = ETHER_TYPES;
        let sockets = device.namespace().try_run(|| Ok([open(mac_control)?, open(cnm)?, open(tagged)?]));
        sockets.map(ControlSink).map_err(|source| LabError::Io {
            what: format!("open the sockets for control frames to {}", device.name()),
            namespace: device.namespace().name().to_owned(),
            source,
        })
    }
}
