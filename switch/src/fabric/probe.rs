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
/// So long a frame may take to the next switch.
const PATIENCE: Duration = Duration::from_secs(5);
/// One that is not there by then is sent again: it may be lost, as any of its class.
const SEND_EVERY: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// Why nobody knows which way a flow takes.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The host's device.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A frame did not arrive.
    #[error("no frame from {from} to {to} left {switch} for another switch within {} s", PATIENCE.as_secs())]
    Lost {
        /// Who sent it.
        from: String,
        /// Who was to receive it.
        to: String,
        /// The switch.
        switch: String,
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

/// A UDP source port with which frames from one host to the other leave a switch by this port, which leads to another. Where a frame
/// went is known where it came: a switch counts it before it goes on.
pub(super) fn source_port(
    fabric: &Fabric,
    views: &[Arc<SwitchView>],
    [from, to]: [HostId; 2],
    by: PortOf,
) -> Result<u16, FabricError> {
    let plan = fabric.plan();
    let link = fabric.device(from).namespace().run(|| Link::open("eth0")).map_err(ProbeError::from)?;
    let came = |at: PortOf| views[at.switch.0].counters.class(at.port, CLASS).rx_frames.get();
    let ends: Vec<(PortOf, PortOf)> = plan.trunks_of(by.switch).collect();
    let name = |host: HostId| plan.port_name(plan.port_of(host)).to_owned();
    let switch = || plan.switch_name(by.switch).to_owned();
    for port in PORTS {
        let frame = frame(fabric, [from, to], port);
        let before: Vec<u64> = ends.iter().map(|&(_, end)| came(end)).collect();
        let went = || {
            ends.iter().zip(&before).find(|((_, end), before)| came(*end) > **before).map(|(end, _)| end.0)
        };
        let way = find_out(&went, || link.send(&frame).map_err(ProbeError::from))?;
        match way {
            None => {
                return Err(ProbeError::Lost { from: name(from), to: name(to), switch: switch() }.into());
            }
            Some(way) if way == by => return Ok(port),
            Some(_) => {}
        }
    }
    let port = plan.port_name(by).to_owned();
    Err(ProbeError::Elsewhere { from: name(from), to: name(to), switch: switch(), port }.into())
}

/// Sends a frame until it is known where it went.
fn find_out(
    went: &impl Fn() -> Option<PortOf>,
    mut send: impl FnMut() -> Result<(), ProbeError>,
) -> Result<Option<PortOf>, ProbeError> {
    let end = Instant::now() + PATIENCE;
    let mut due = Instant::now();
    loop {
        let now = Instant::now();
        if now >= due {
            send()?;
            due = now + SEND_EVERY;
        }
        let way = went();
        if way.is_some() || now >= end {
            return Ok(way);
        }
        thread::sleep(LOOK_EVERY);
    }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;

    use xoff_dataplane::units::PortId;

    use super::super::SwitchId;
    use super::*;

    #[test]
    fn a_frame_that_is_lost_is_sent_again() {
        let by = PortOf { switch: SwitchId(0), port: PortId(2) };
        let sent = Cell::new(0);
        let way = find_out(&|| (sent.get() == 2).then_some(by), || {
            sent.set(sent.get() + 1);
            Ok(())
        });
        assert_eq!((way.unwrap(), sent.get()), (Some(by), 2));
    }
}
