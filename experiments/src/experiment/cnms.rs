use serde::Serialize;
use xoff_wire::units::{MacAddr, Nanos};
use xoff_wire::{Cnm, Header};

use crate::{Account, Counted, HostId};

const UNIT: i64 = 64;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReceivedCnm {
    pub at_ms: f64,
    #[serde(skip)]
    pub flow_index: usize,
    pub flow: &'static str,
    pub feedback: u8,
    pub q_offset_bytes: i64,
    pub q_delta_bytes: i64,
    pub port: String,
}

pub type FlowKey = (&'static str, HostId, u8);

/// Decodes the CNMs (QCN) that hosts captured, in the order of arrival. A CNM's destination and CN-TAG identify the
/// flow.
pub fn received_cnms(account: &Account, begin: Nanos, flows: &[FlowKey]) -> Vec<ReceivedCnm> {
    let captured = account.hosts.iter().flat_map(|host| &host.cnms.captured);
    let mut cnms: Vec<ReceivedCnm> = captured
        .filter_map(|frame| {
            let at_ms = frame.at.since(begin).0 as f64 / 1e6;
            decode(frame.as_bytes(), at_ms, flows, &account.switches)
        })
        .collect();
    cnms.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
    cnms
}

fn decode(frame: &[u8], at_ms: f64, flows: &[FlowKey], switches: &[Counted]) -> Option<ReceivedCnm> {
    let header = Header::parse(frame).ok()?;
    let cnm = Cnm::parse(&header, frame).ok()?;
    let number = header.cn_tag?.0;
    let is_about = |(_, host, stream): &FlowKey| host.address() == header.dst && u16::from(*stream) == number;
    let flow_index = flows.iter().position(is_about)?;
    Some(ReceivedCnm {
        at_ms,
        flow_index,
        flow: flows[flow_index].0,
        feedback: cnm.feedback,
        q_offset_bytes: UNIT * i64::from(cnm.q_offset),
        q_delta_bytes: UNIT * i64::from(cnm.q_delta),
        port: port(&cnm, switches),
    })
}

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

    #[test] // proves: experiments
    fn cnm_is_assigned_to_flow_by_destination_and_tag() {
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
        let received = to(a.address(), 1).unwrap();
        let expected = ReceivedCnm {
            at_ms: 1.5,
            flow_index: 1,
            flow: "f6",
            feedback: 17,
            q_offset_bytes: -128,
            q_delta_bytes: 6400,
            port: point.to_string(),
        };
        assert_eq!(received, expected);
        assert_eq!(to(b.address(), 0).unwrap().flow, "f2");
        assert_eq!(to(b.address(), 1), None);
    }
}
