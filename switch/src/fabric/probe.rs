//! Which of several equal ways a flow takes through routers, found out as operators do who spread RoCE by UDP source ports: by
//! trying.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use xoff_dataplane::units::{Class, Nanos};
use xoff_hosts::Stream;
use xoff_hosts::payload::{Headers, STAMP_LEN, Stamp, Template};

use super::plan::{HostId, PortOf};
use super::{Fabric, FabricError};
use crate::control::SwitchView;
use crate::traffic::emit::{Link, LinkError};

/// Of trials: no stream of an experiment has it, and no kernel sends in it.
const CLASS: Class = Class::ALL[1];
const DSCP: u8 = 8;
/// The first of the dynamic ports, with which streams begin, too.
const PORTS: std::ops::Range<u16> = 49_152..49_152 + 64;
/// So long a frame may take to the other end.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// Why nobody knows which way a flow takes.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The host's device.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A frame did not arrive.
    #[error("a frame from {from} did not arrive at {to} within {} s", PATIENCE.as_secs())]
    Lost {
        /// Who sent it.
        from: String,
        /// Who was to receive it.
        to: String,
    },
    /// All went elsewhere.
    #[error("of {} flows from {from} to {to} none leaves {switch} by {port}", PORTS.len())]
    Elsewhere {
        /// Who sent them.
        from: String,
        /// Who was to receive them.
        to: String,
        /// The switch.
        switch: String,
        /// Its port.
        port: String,
    },
}

/// A UDP source port with which frames from one host to the other leave a switch by this port.
pub(super) fn source_port(
    fabric: &Fabric,
    views: &[Arc<SwitchView>],
    [from, to]: [HostId; 2],
    by: PortOf,
) -> Result<u16, FabricError> {
    let plan = fabric.plan();
    let link = fabric.device(from).namespace().run(|| Link::open("eth0")).map_err(ProbeError::from)?;
    let sent = |at: PortOf| views[at.switch.0].counters.class(at.port, CLASS).tx_frames.get();
    let (near, far) = (by, plan.port_of(to));
    let name = |host: HostId| plan.port_name(plan.port_of(host)).to_owned();
    for port in PORTS {
        let before = [near, far].map(sent);
        link.send(&frame(fabric, [from, to], port)).map_err(ProbeError::from)?;
        let end = Instant::now() + PATIENCE;
        while sent(far) == before[1] {
            if Instant::now() >= end {
                return Err(ProbeError::Lost { from: name(from), to: name(to) }.into());
            }
            thread::sleep(LOOK_EVERY);
        }
        if sent(near) > before[0] {
            return Ok(port);
        }
    }
    let (switch, port) = (plan.switch_name(by.switch).to_owned(), plan.port_name(by).to_owned());
    Err(ProbeError::Elsewhere { from: name(from), to: name(to), switch, port }.into())
}

/// The shortest frame of the flow.
fn frame(fabric: &Fabric, [from, to]: [HostId; 2], source_port: u16) -> Vec<u8> {
    let template = Template::new(&Headers {
        dst: to.address(),
        via: fabric.plan().gateway(from),
        src: from.address(),
        tag: None,
        cn_tag: None,
        dscp: DSCP,
        ecn: 0,
        source_port,
        destination_port: Stream::default().destination_port,
    });
    let len = template.len_min(false);
    let mut frame = vec![0; len];
    let stamp = Stamp {
        sender: from.number(),
        stream: u8::MAX,
        class: CLASS,
        end: false,
        sequence: 0,
        sent: Nanos::ZERO,
        flow: None,
    };
    template.write(&mut frame, len, &stamp);
    // No frame of a stream, should its receiver be there already.
    frame[len - STAMP_LEN..].fill(0);
    frame
}
