use xoff_ebpf::Place;
use xoff_wire::units::PortId;

use super::view::{PortView, ProgramState, SwitchView};

pub(super) fn found(view: &SwitchView, id: PortId, port: &PortView, place: Place) {
    let refused = match place {
        Place::Empty => port.now().driver.attach_again().err(),
        Place::Ours | Place::Taken(_) => None,
    };
    let state = match place {
        Place::Ours => ProgramState::Attached,
        Place::Empty if refused.is_none() => ProgramState::Attached,
        Place::Empty => ProgramState::Detached,
        Place::Taken(_) => ProgramState::Replaced,
    };
    let before = port.program.replace(state);
    if before == ProgramState::Attached && place != Place::Ours {
        port.program_detached.add(1);
    } else if before == state {
        return;
    }
    let (name, device) = (view.name_of(id), port.device.get());
    match (place, refused) {
        (Place::Taken(program), _) => tracing::error!(
            port = %name,
            %device,
            program,
            "another XDP program has replaced the switch's: the port receives nothing until that program is removed \
             (`ip link set dev {device} xdp off`)"
        ),
        (_, Some(error)) => {
            tracing::error!(port = %name, %device, "the XDP program was removed and cannot be attached again, the port \
                receives nothing: {error}");
        }
        _ => tracing::warn!(
            port = %name,
            %device,
            "the XDP program was removed and is attached again; frames received in between bypassed the switch"
        ),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use super::*;
    use crate::control::testing::{device, view};
    use crate::control::tests::SilentDriver;

    #[test] // proves: devices
    fn removal_of_xdp_program_is_counted_once() {
        use ProgramState::{Attached, Detached, Replaced};
        let takes = Arc::new(AtomicBool::new(true));
        let mut view = Arc::into_inner(view().0).unwrap();
        view.ports[0] = PortView::new("l0", 0, device(1, SilentDriver { takes: Arc::clone(&takes) }));
        for (place, takes_it, state, times) in [
            (Place::Ours, true, Attached, 0),
            (Place::Empty, true, Attached, 1),
            (Place::Taken(7), true, Replaced, 2),
            (Place::Taken(8), true, Replaced, 2),
            (Place::Empty, false, Detached, 2),
            (Place::Empty, false, Detached, 2),
            (Place::Empty, true, Attached, 2),
            (Place::Empty, false, Detached, 3),
            (Place::Ours, true, Attached, 3),
        ] {
            takes.store(takes_it, Relaxed);
            let port = &view.ports[0];
            found(&view, PortId(0), port, place);
            assert_eq!((port.program.get(), port.program_detached.get()), (state, times), "{place:?}");
        }
    }
}
