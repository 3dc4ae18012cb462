//! What a switch would have to know to prove that it lost nothing, and does not: a counter that cannot be read is
//! not zero.

use xoff_dataplane::units::PortId;

use super::view::{Link, PortView, SwitchView};

/// Each gap at a port in words, with the port's name.
pub(super) fn gaps(view: &SwitchView) -> impl Iterator<Item = String> {
    view.places().flat_map(|(id, port)| {
        let name = view.name_of(id);
        of_port(port).into_iter().map(move |gap| format!("{name}: {gap}"))
    })
}

/// Whether what the port lost cannot be told.
pub(super) fn has_gaps(view: &SwitchView, id: PortId) -> bool {
    !of_port(&view.ports[id.index()]).is_empty()
}

fn of_port(port: &PortView) -> Vec<String> {
    let gone = (port.link.get() == Link::Gone)
        .then(|| format!("its device {} is gone, with its last drop counters", port.device.get()));
    let device = port.device_drops().err().map(|unread| unread.to_string()).filter(|_| gone.is_none());
    let sockets = port.xdp_statistics().err();
    let sockets = sockets.map(|error| format!("the drop counters of its sockets cannot be read: {error}"));
    let detached = Some(port.program_detached.get()).filter(|&times| times > 0);
    let detached = detached.map(|times| match times {
        1 => "its XDP program was taken off once, and what came meanwhile is not counted".into(),
        times => {
            format!("its XDP program was taken off {times} times, and what came meanwhile is not counted")
        }
    });
    let returned = Some(port.returns.get()).filter(|&times| times > 0);
    let returned = returned.map(|times| match times {
        1 => "its device was gone once, with its last drop counters".into(),
        times => format!("its device was gone {times} times, with its last drop counters"),
    });
    let removed = (port.removed_unread.get() > 0)
        .then(|| "it was taken away while its last drop counters could not be read".into());
    [gone, returned, removed, device, sockets, detached].into_iter().flatten().collect()
}
