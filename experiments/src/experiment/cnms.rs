//! Congestion notifications as they came by the wires of the hosts, decoded: about which flow, how much, and
//! from where.

use serde::Serialize;
use xoff_wire::units::{MacAddr, Nanos};
use xoff_wire::{Cnm, Header};

use crate::{Account, Counted, HostId};

/// Bytes of a unit of a CNM's queue lengths.
const UNIT: i64 = 64;

/// A CNM that came to a host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
    pub at_ms: f64,
    /// The flow that is to slow down, by its place among those asked for.
    #[serde(skip)]
    pub place: usize,
    pub flow: &'static str,
    /// Quantized feedback, 1 to 63.
    pub feedback: u8,
    /// How far the queue is beyond its set point.
    pub q_offset_bytes: i64,
    /// How much it has grown since the sample before.
    pub q_delta_bytes: i64,
    /// The port whose congestion point says so.
    pub port: String,
}

/// A flow: its name, its host, and its number there.
pub type Flow = (&'static str, HostId, u8);

/// All that came about these flows, in order. A flow is known by the CNM's destination and its CN-TAG.
pub fn told(account: &Account, begin: Nanos, flows: &[Flow]) -> Vec<Told> {
    let captured = account.hosts.iter().flat_map(|host| &host.cnms.captured);
    let mut told: Vec<Told> = captured
        .filter_map(|frame| {
            let at_ms = frame.at.since(begin).0 as f64 / 1e6;
            decode(frame.as_bytes(), at_ms, flows, &account.switches)
        })
        .collect();
    told.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
    told
}

fn decode(frame: &[u8], at_ms: f64, flows: &[Flow], switches: &[Counted]) -> Option<Told> {
    let header = Header::parse(frame).ok()?;
    let cnm = Cnm::parse(&header, frame).ok()?;
    let number = header.cn_tag?.0;
    let is_about = |(_, host, stream): &Flow| host.address() == header.dst && u16::from(*stream) == number;
    let place = flows.iter().position(is_about)?;
    Some(Told {
        at_ms,
        place,
        flow: flows[place].0,
        feedback: cnm.feedback,
        q_offset_bytes: UNIT * i64::from(cnm.q_offset),
        q_delta_bytes: UNIT * i64::from(cnm.q_delta),
        port: port(&cnm, switches),
    })
}

/// The name of the port that a congestion point is at; its address, where it is not one of these switches.
fn port(cnm: &Cnm, switches: &[Counted]) -> String {
    let [a, b, c, d, e, f, ..] = cnm.congestion_point.0;
    let address = MacAddr([a, b, c, d, e, f]);
    let mut ports = switches.iter().flat_map(|switch| switch.port_names.iter().zip(&switch.settings.ports));
    ports.find(|(_, port)| port.mac == address).map_or(address.to_string(), |(name, _)| name.clone())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_wire::CnTag;
    use xoff_wire::cnm::{CongestionPointId, Envelope, Msdu};
    use xoff_wire::units::{BitRate, Class};

    use super::*;
    use crate::Plan;

    // proves: experiments
    #[test]
    fn a_message_is_about_the_flow_of_that_number_at_that_host() {
        let mut plan = Plan::new(BitRate::from_mbps(100));
        let switch = plan.switch("switch");
        let [a, b] = ["a", "b"].map(|name| plan.host(name, switch));
        let flows = [("f1", a, 0), ("f6", a, 1), ("f2", b, 0)];
        let point = MacAddr([2, 9, 9, 9, 9, 9]);
        let cnm = Cnm {
            feedback: 17,
            congestion_point: CongestionPointId::new(point, Class::ALL[3]),
            q_offset: -2,
            q_delta: 100,
            priority: Class::ALL[3],
            destination: b.address(),
            msdu: Msdu::of(&[]),
        };
        let to = |dst: MacAddr, number: u16| {
            let frame = cnm.encode(&Envelope { dst, src: point, tag: None, cn_tag: Some(CnTag(number)) });
            decode(frame.as_bytes(), 1.5, &flows, &[])
        };
        let told = to(a.address(), 1).unwrap();
        let expected = Told {
            at_ms: 1.5,
            place: 1,
            flow: "f6",
            feedback: 17,
            q_offset_bytes: -128,
            q_delta_bytes: 6400,
            port: point.to_string(),
        };
        assert_eq!(told, expected);
        assert_eq!(to(b.address(), 0).unwrap().flow, "f2");
        assert_eq!(to(b.address(), 1), None);
    }
}
