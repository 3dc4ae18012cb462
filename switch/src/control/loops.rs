use xoff_wire::units::PortId;

use super::view::{PortView, SwitchView};

pub(super) fn with(view: &SwitchView, port: PortId) -> Option<&str> {
    let other = view.counters.port(port).loop_with.get().checked_sub(1)?;
    view.ports.get(usize::try_from(other).ok()?).map(PortView::name)
}
