//! Loops found by the bridge.

use xoff_wire::units::PortId;

use super::view::{PortView, SwitchView};

/// Returns the name of the other port of the last loop found at `port`.
pub(super) fn with(view: &SwitchView, port: PortId) -> Option<&str> {
    let other = view.counters.port(port).loop_with.get().checked_sub(1)?;
    view.ports.get(usize::try_from(other).ok()?).map(PortView::name)
}
