use xoff_flow_control::counter::Counter;
use xoff_wire::units::{MacAddr, PortId};

use super::view::{PortView, SwitchView};

/// Returns the other port of the last loop at `port`.
pub(super) fn with(view: &SwitchView, port: PortId) -> Option<&str> {
    name(view, &view.counters.port(port).loop_with)
}

pub(super) fn addresses(view: &SwitchView, port: PortId) -> Vec<String> {
    macs(&view.counters.port(port).loop_macs)
}

pub(super) fn duplicate_with(view: &SwitchView, port: PortId) -> Option<&str> {
    name(view, &view.counters.port(port).duplicate_with)
}

pub(super) fn duplicates(view: &SwitchView, port: PortId) -> Vec<String> {
    macs(&view.counters.port(port).duplicate_macs)
}

fn name<'a>(view: &'a SwitchView, with: &Counter) -> Option<&'a str> {
    let other = with.get().checked_sub(1)?;
    view.ports.get(usize::try_from(other).ok()?).map(PortView::name)
}

fn macs(numbers: &[Counter]) -> Vec<String> {
    let numbers = numbers.iter().map(Counter::get).filter(|&number| number != 0);
    numbers.map(|number| MacAddr::from_number(number).to_string()).collect()
}
