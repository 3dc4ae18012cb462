use xoff_wire::units::CLASSES;

use super::congested::BYTES_PER_CONGESTED_FLOW;
use super::flow_table::{BYTES_PER_INGRESS, FlowEntry};
use super::pause_frames::BYTES_PER_PAUSED_FLOW;
use crate::settings::{OfcSettings, PolicyKind, SwitchSettings};

/// Memory in bytes for each flow of an egress queue in which single flows can be paused.
pub const BYTES_PER_NESTED_FLOW: usize = 5;

/// Returns the bytes of OFC's tables, those of shadow policies included; zero without OFC.
#[must_use]
pub fn memory(settings: &SwitchSettings, slots: u64) -> u64 {
    let count = |kinds: &[PolicyKind]| kinds.iter().filter(|kind| **kind == PolicyKind::Ofc).count() as u64;
    let (ports, ofc) = (settings.ports.len() as u64, &settings.policy.ofc);
    let tables = ports * tables(ofc, ports);
    let queues = ports * u64::from(ofc.flows) * BYTES_PER_NESTED_FLOW as u64;
    let shadow = CLASSES as u64 * tables + slots * size_of::<u32>() as u64;
    count(&settings.policies) * (tables + queues) + count(&settings.shadows) * shadow
}

fn tables(settings: &OfcSettings, ports: u64) -> u64 {
    let flow = size_of::<FlowEntry>() as u64;
    let buckets = u64::from(settings.flows.next_power_of_two()) * size_of::<u32>() as u64;
    u64::from(settings.flows) * flow
        + buckets
        + ports * BYTES_PER_INGRESS as u64
        + u64::from(settings.congested_flows) * BYTES_PER_CONGESTED_FLOW as u64
        + u64::from(settings.paused_flows) * BYTES_PER_PAUSED_FLOW as u64
}
