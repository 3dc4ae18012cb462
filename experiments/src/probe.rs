use xoff_host::Stream;
use xoff_host::payload::{Headers, STAMP_LEN, Stamp, Template};
use xoff_wire::units::{Class, Nanos};

use crate::counted::Counted;
use crate::error::{FabricError, PROBE_PATIENCE, ProbeError};
use crate::line::Line;
use crate::plan::{HostId, Plan, PortOf};
use crate::running_fabric::{Clock, RunningFabric};

const CLASS: Class = Class::ALL[1];
const DSCP: u8 = 8;
const PORTS: std::ops::Range<u16> = 49_152..49_152 + 64;
const SEND_EVERY: Nanos = Nanos::from_millis(100);
const LOOK_EVERY: Nanos = Nanos::from_micros(200);

pub(crate) struct PortProbe<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) flow: [HostId; 2],
    pub(crate) by: PortOf,
}

impl PortProbe<'_> {
    pub(crate) fn source_port(
        &self,
        running: &dyn RunningFabric,
        switches: &[Counted],
    ) -> Result<u16, FabricError> {
        let PortProbe { plan, flow: [from, to], by } = *self;
        let ends: Vec<(PortOf, PortOf)> = plan.trunks_of(by.switch).collect();
        let came = || -> Vec<u64> {
            let of = |&(_, at): &(PortOf, PortOf)| switches[at.switch.index()].counters.class(at.port, CLASS);
            ends.iter().map(|end| of(end).rx_frames.get()).collect()
        };
        let name = |host: HostId| plan.port_name(plan.port_of(host)).to_owned();
        let switch = || plan.switch_name(by.switch).to_owned();
        let mut send = running.sender(from)?;
        for port in PORTS {
            let frame = self.frame(port);
            let way = find_path((running, plan.line()), &came, || send(&frame))?;
            match way.map(|place| ends[place].0) {
                None => {
                    return Err(ProbeError::Lost { from: name(from), to: name(to), switch: switch() }.into());
                }
                Some(way) if way == by => return Ok(port),
                Some(_) => {}
            }
        }
        let port = plan.port_name(by).to_owned();
        let tried = PORTS.len();
        Err(ProbeError::Elsewhere { tried, from: name(from), to: name(to), switch: switch(), port }.into())
    }

    fn frame(&self, source_port: u16) -> Vec<u8> {
        let [from, to] = self.flow;
        let template = Template::new(&Headers {
            dst: to.address(),
            via: self.plan.gateway(from),
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
        // Erase the stamp, so that hosts that already receive ignore the probe.
        frame[len - STAMP_LEN..].fill(0);
        frame
    }
}

fn find_path(
    (clock, line): (&(impl Clock + ?Sized), Line),
    came: &impl Fn() -> Vec<u64>,
    mut send: impl FnMut() -> Result<(), FabricError>,
) -> Result<Option<usize>, FabricError> {
    let [patience, send_every, look_every] =
        [PROBE_PATIENCE, SEND_EVERY, LOOK_EVERY].map(|time| line.span(time));
    let before = came();
    let (begin, mut sent, mut last) = (clock.now(), 0, None);
    loop {
        let came: Vec<u64> = came().iter().zip(&before).map(|(now, before)| now - before).collect();
        let (way, all) = (came.iter().position(|&count| count > 0), came.iter().sum::<u64>());
        let now = clock.now();
        let since = last.map(|last| now.since(last));
        if all == sent && sent > 0 || since.is_some_and(|since| since >= patience) {
            return Ok(way);
        }
        let is_due = since.is_none_or(|since| since >= send_every);
        if way.is_none() && is_due && now.since(begin) < patience {
            send()?;
            (sent, last) = (sent + 1, Some(now));
        }
        clock.wait(look_every);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct ManualClock(Cell<Nanos>);

    impl Clock for ManualClock {
        fn now(&self) -> Nanos {
            self.0.get()
        }

        fn wait(&self, span: Nanos) {
            self.0.set(self.now().after(span));
        }
    }

    #[test] // proves: cascade
    fn host_resends_lost_probe() {
        let (sent, looks_since) = (Cell::new(0), Cell::new(0));
        let came = || {
            looks_since.set(if sent.get() == 2 { looks_since.get() + 1 } else { 0 });
            vec![7, 5 + u64::from(looks_since.get() > 0) + u64::from(looks_since.get() > 9)]
        };
        let line = Line::from(Line::REFERENCE);
        let way = find_path((&ManualClock(Cell::new(Nanos::ZERO)), line), &came, || {
            sent.set(sent.get() + 1);
            Ok(())
        });
        assert_eq!((way.unwrap(), sent.get(), looks_since.get()), (Some(1), 2, 10));
    }
}
