//! Bytes in OFC's three tables of each port and class, from samples.

use std::collections::BTreeMap;

use xoff_sim::scheduled::AnySwitch;
use xoff_wire::units::{Class, PortId};

use super::build::Model;
use super::tables::decimal;

#[derive(Default)]
struct TableSamples {
    samples: u64,
    sum: u64,
    max: u64,
}

#[derive(Default)]
pub struct FlowTables(BTreeMap<(usize, PortId, Class), [TableSamples; 3]>);

impl FlowTables {
    pub fn sample(&mut self, model: &Model) {
        for (number, switch) in model.fabric.fabric().switches().iter().enumerate() {
            let AnySwitch::Dataplane(node) = switch else { continue };
            for class in Class::ALL {
                let Some(ofc) = node.switch().ofc(class) else { continue };
                for port in (0..=u8::MAX).map(PortId).take(node.counters().ports()) {
                    let bytes = ofc.table_bytes(port);
                    let tables = self.0.entry((number, port, class)).or_default();
                    let all = [bytes.flow_in_port, bytes.congested_flow, bytes.pause_frame];
                    tables.iter_mut().zip(all).for_each(|(table, bytes)| table.count(bytes as u64));
                }
            }
        }
    }

    /// Formats the mean and maximum bytes of each OFC table; cells are empty without samples.
    pub fn cells(&self, switch: usize, port: PortId, class: Class) -> [String; 6] {
        let Some([flows, congested, paused]) = self.0.get(&(switch, port, class)) else {
            return Default::default();
        };
        [flows.mean(), flows.max(), congested.mean(), congested.max(), paused.mean(), paused.max()]
    }
}

impl TableSamples {
    fn count(&mut self, bytes: u64) {
        self.samples += 1;
        self.sum += bytes;
        self.max = self.max.max(bytes);
    }

    fn mean(&self) -> String {
        decimal(self.sum as f64 / self.samples as f64)
    }

    fn max(&self) -> String {
        self.max.to_string()
    }
}
