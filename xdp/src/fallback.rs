use xoff_ebpf::Mode;

use crate::driver::Driver;
use crate::error::Obstacle;
use crate::options::PortOptions;
use crate::umem::ZeroCopy;

/// Reasons for generic XDP mode (`None` in native mode) and for copied frames (`None` with zero copy).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fallbacks {
    pub generic: Option<String>,
    pub copy: Option<String>,
}

/// Returns the reason for generic mode. `longest` is the maximum MTU (bytes) of native mode; `errno` is the kernel's
/// error when it refused native mode.
pub(crate) fn why_generic(
    wanted: Option<Mode>,
    driver: &Driver,
    longest: Option<u32>,
    errno: Option<i32>,
) -> String {
    let name = driver.name().unwrap_or("of unknown name");
    match (wanted, longest, errno) {
        (Some(Mode::Generic), ..) => "mode = \"generic\" is configured".to_owned(),
        (_, Some(most), _) => format!("with native XDP the driver {name} loses frames above an MTU of {most}"),
        (.., Some(libc::ENOSPC)) if driver.is_veth() => {
            "the veth peer has more TX queues than the device has RX queues: give both the same number (`ethtool -L`)"
                .to_owned()
        }
        (.., Some(libc::ERANGE)) if driver.is_veth() => {
            "the MTU of the veth peer is too large for native XDP: reduce the peer's MTU".to_owned()
        }
        (.., None | Some(libc::EOPNOTSUPP)) => format!("the driver {name} has no native XDP"),
        (.., Some(errno)) => {
            let error = std::io::Error::from_raw_os_error(errno);
            format!("the driver {name} refuses native XDP: {error}")
        }
    }
}

/// Returns why a port copies frames instead of using zero copy. `found` is the obstacle found by an attempt at zero copy.
pub(crate) fn why_copied(options: &PortOptions, mode: Mode, found: Option<Obstacle>) -> Obstacle {
    match found {
        Some(found) => found,
        None if options.zero_copy == ZeroCopy::Off => Obstacle::Configured,
        None if mode == Mode::Generic => Obstacle::Generic,
        None => Obstacle::Driver,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // proves: devices
    fn port_in_generic_xdp_mode_reports_the_reason() {
        let why =
            |wanted, driver, longest, errno| why_generic(wanted, &Driver::named(driver), longest, errno);
        let none = None::<u32>;
        for (reason, part) in [
            (why(Some(Mode::Generic), "veth", none, None), "is configured"),
            (why(None, "virtio_net", Some(3486), None), "loses frames above an MTU of 3486"),
            (why(None, "veth", none, Some(libc::ENOSPC)), "more TX queues"),
            (why(None, "veth", none, Some(libc::ERANGE)), "reduce the peer's MTU"),
            (why(None, "e1000", none, Some(libc::EOPNOTSUPP)), "the driver e1000 has no native XDP"),
            (why(None, "tun", none, None), "the driver tun has no native XDP"),
            (why(None, "ice", none, Some(libc::ENOSPC)), "the driver ice refuses native XDP: No space left"),
        ] {
            assert!(reason.contains(part), "{part} is not in: {reason}");
        }
    }
}
