//! Supervises XDP programs and egress filters: attaches them again after a removal, but does not replace the XDP
//! program of another owner.

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

pub(super) fn check_filter(view: &SwitchView, id: PortId, port: &PortView) {
    let restored = port.now().driver.restore_filter();
    let fault = restored.as_ref().err().map(ToString::to_string);
    let is_missing = fault.is_some();
    let was_missing = port.unfiltered.replace(fault).is_some();
    if is_missing && !was_missing {
        port.filter_detached.add(1);
    }
    if restored.is_ok_and(|is_restored| is_restored) {
        port.filter_detached.add(u64::from(!was_missing));
        let (name, device) = (view.name_of(id), port.device.get());
        tracing::warn!(
            port = %name,
            %device,
            "another program removed the egress filter (`tc filter show dev {device} egress`), which is attached again; meanwhile the \
             machine's own stack could send by the port"
        );
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::{Arc, Mutex};

    use xoff_ebpf::EbpfError;
    use xoff_xdp::{DeviceDrops, Look, PortDriver, Unread, XdpStatistics};

    use super::*;
    use crate::control::testing::{device, view};
    use crate::control::tests::SilentDriver;

    /// Driver that finds its egress filter attached (`Some(false)`), attaches it again after a removal (`Some(true)`),
    /// or cannot attach it (`None`).
    struct FilteredDriver(Arc<Mutex<Option<bool>>>);

    impl PortDriver for FilteredDriver {
        fn xdp_statistics(&self) -> io::Result<XdpStatistics> {
            Ok(XdpStatistics::default())
        }

        fn device_drops(&self) -> Result<DeviceDrops, Unread> {
            Ok(DeviceDrops::default())
        }

        fn look(&self) -> Look {
            Look::There(Place::Ours)
        }

        fn attach_again(&self) -> Result<(), EbpfError> {
            Ok(())
        }

        fn restore_filter(&self) -> Result<bool, EbpfError> {
            self.0.lock().unwrap().ok_or(EbpfError::AnotherXoff { device: "l0".into(), process: None })
        }
    }

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

    #[test] // proves: own-stack
    fn removal_of_egress_filter_is_counted_once() {
        let filter = Arc::new(Mutex::new(Some(false)));
        let mut view = Arc::into_inner(view().0).unwrap();
        view.ports[0] = PortView::new("l0", 0, device(1, FilteredDriver(Arc::clone(&filter))));
        for (state, times, is_missing) in [
            (Some(false), 0, false),
            (Some(true), 1, false),
            (Some(true), 2, false),
            (None, 3, true),
            (None, 3, true),
            (Some(true), 3, false),
            (None, 4, true),
            (Some(false), 4, false),
        ] {
            *filter.lock().unwrap() = state;
            let port = &view.ports[0];
            check_filter(&view, PortId(0), port);
            assert_eq!((port.filter_detached.get(), port.unfiltered.get().is_some()), (times, is_missing));
        }
    }
}
