use std::fs;
use std::path::Path;
use std::thread;

use serde::Serialize;
use xoff_config::quantity;
use xoff_xdp::host::{driver, run_in_real_time};
use xoff_xdp::{DeviceReader, Driver};

use crate::agent::{AgentError, PRIORITY};
use crate::config::NicSettings;
use crate::egress::{EgressSettings, Leaf};
use crate::response::Response;
use crate::sockets::Device;
use crate::stacked::{Stacked, own_name};
use crate::view::xdp_warning;

/// Drivers whose devices keep MAC control frames from the host while their own flow control is on.
const SWALLOWING: [&str; 16] = [
    "atlantic",
    "be2net",
    "bnx2x",
    "bnxt_en",
    "cxgb4",
    "e1000e",
    "i40e",
    "ice",
    "igb",
    "igc",
    "ixgbe",
    "mlx4_en",
    "mlx5_core",
    "nfp",
    "qede",
    "tg3",
];

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    pub device: String,
    pub driver: Option<String>,
    pub leaf: Option<&'static str>,
    pub offloads: String,
    pub mac_control: MacControl,
    /// Id of the XDP program at the device, which may consume MAC control.
    pub xdp_program: Option<u32>,
    /// RDMA devices, whose frames bypass the agent's queues.
    pub rdma: Vec<String>,
    pub real_time: bool,
    pub peer_response: String,
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MacControl {
    Received,
    /// The device or another component consumes pause frames before the agent receives them.
    Swallowed,
    #[default]
    Unknown,
}

impl Facts {
    /// Finds out what kernel and device support, without changing them.
    ///
    /// # Errors
    /// [`AgentError::NoDevice`].
    pub fn of(settings: &NicSettings) -> Result<Facts, AgentError> {
        let settings = &NicSettings { device: own_name(&settings.device), ..settings.clone() };
        let device = settings.device.as_str();
        let mut facts = Facts { device: device.to_owned(), ..Facts::default() };
        let refused = |source| AgentError::refused("cannot find the interface", device, source);
        let found = Device::find(device).map_err(refused)?;
        let found = found.ok_or_else(|| AgentError::NoDevice(device.to_owned()))?;
        facts.look_at_queues();
        let (driver, obeys_pause) = driver(device).unwrap_or_default();
        let stacked = Stacked::at(device);
        facts.look_at_driver(&driver, obeys_pause, stacked.is_some());
        facts.look_below(stacked);
        let reader = DeviceReader::open(found.ifindex.cast_signed()).map_err(refused)?;
        facts.look_at_program(reader.read().map_err(refused)?.and_then(|device| device.program));
        facts.look_for_rdma(Path::new("/sys/class/infiniband"));
        facts.look_at_threads(settings);
        Ok(facts)
    }

    fn look_at_queues(&mut self) {
        match Leaf::of_this_kernel() {
            Ok(leaf) => self.leaf = Some(leaf.name()),
            Err(error) => self.errors.push(error.to_string()),
        }
    }

    fn look_at_driver(&mut self, driver: &Driver, obeys_pause: Option<bool>, is_stacked: bool) {
        self.driver = driver.name().map(str::to_owned);
        let (device, name) = (&self.device, driver.name().unwrap_or_default());
        let checksums = match driver.is_memory() {
            _ if is_stacked => "", // by the device below
            true => ", checksums by the kernel, GRO on",
            false => ", checksums by the device",
        };
        self.offloads = format!("superframes off (TSO, GSO, gso_max_segs 1){checksums}");
        self.mac_control = match obeys_pause {
            _ if driver.is_memory() => MacControl::Received,
            Some(true) => MacControl::Swallowed,
            _ => MacControl::Unknown,
        };
        if self.mac_control == MacControl::Swallowed {
            self.warnings.push(format!(
                "{device} itself obeys PAUSE, and passes no MAC control to the host: turn that off (`ethtool -A {device} autoneg off rx \
                 off tx off`)"
            ));
        } else if SWALLOWING.contains(&name) {
            self.warnings.push(format!(
                "devices of the driver {name} may pass no MAC control to the host: check that their own PFC is off (`dcb pfc show dev \
                 {device}`), and that `xoff nic status` counts pause frames"
            ));
        }
    }

    fn look_below(&mut self, stacked: Option<Stacked>) {
        let Some(stacked) = stacked else { return };
        match stacked {
            Stacked::Deaf(reason) => {
                self.mac_control = MacControl::Swallowed;
                self.errors.push(reason);
            }
            Stacked::Joined(reason) => self.warnings.push(reason),
        }
    }

    fn look_at_program(&mut self, program: Option<u32>) {
        let Some(program) = program else { return };
        if self.mac_control == MacControl::Received {
            self.mac_control = MacControl::Unknown;
        }
        self.warnings.push(xdp_warning(&self.device, program));
        self.xdp_program = Some(program);
    }

    fn look_for_rdma(&mut self, infiniband: &Path) {
        let Ok(entries) = fs::read_dir(infiniband) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if uses(&entry.path(), &self.device) && !is_software(&entry.path(), &name) {
                self.warnings.push(format!(
                    "the RDMA device {name} sends on {} past the kernel's queues, so the agent cannot stop it: only its own PFC \
                     can (`dcb pfc`)",
                    self.device
                ));
                self.rdma.push(name);
            }
        }
        self.rdma.sort();
    }

    fn look_at_threads(&mut self, settings: &NicSettings) {
        let tried = thread::spawn(|| run_in_real_time(PRIORITY)).join();
        let refused = tried.ok().and_then(Result::err);
        self.real_time = refused.is_none();
        if let Some(error) = refused.filter(|_| settings.real_time) {
            self.warnings.push(format!(
                "no real-time priority ({error}): give the process CAP_SYS_NICE, and a control group with real-time runtime; otherwise \
                 a busy machine obeys pauses late"
            ));
        }
        let mtu = xoff_xdp::mtu(&settings.device).unwrap_or(1500);
        let overrun = EgressSettings::new(settings.clone()).overrun(mtu);
        let expected = Response::new(settings.speed, overrun).expected(self.real_time && settings.real_time);
        self.peer_response = quantity::time(expected);
    }
}

fn uses(rdma: &Path, device: &str) -> bool {
    let is_it = |path: &Path| fs::read_to_string(path).is_ok_and(|name| name.trim() == device);
    let list = |path: &Path| {
        fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let ports = list(&rdma.join("ports"));
    let named = ports.iter().any(|port| list(&port.join("gid_attrs/ndevs")).iter().any(|path| is_it(path)));
    named || rdma.join("device/net").join(device).exists()
}

/// Returns true for an RDMA device in software, whose frames use the kernel's queues. In sysfs, rxe has a file `parent`, and siw has no
/// `device`.
fn is_software(rdma: &Path, name: &str) -> bool {
    rdma.join("parent").exists()
        || !rdma.join("device").exists()
        || ["rxe", "siw"].iter().any(|kind| name.starts_with(kind))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts { device: "eth0".into(), ..Facts::default() }
    }

    #[test] // proves: host-service
    fn nic_with_active_flow_control_is_reported_to_consume_pauses() {
        let look = |driver: &str, obeys_pause| {
            let mut facts = facts();
            facts.look_at_driver(&Driver::named(driver), obeys_pause, false);
            (facts.mac_control, facts.warnings.len())
        };
        assert_eq!(look("veth", None), (MacControl::Received, 0));
        assert_eq!(look("e1000e", Some(true)), (MacControl::Swallowed, 1));
        assert_eq!(look("mlx5_core", Some(false)), (MacControl::Unknown, 1));
        assert_eq!(look("another", None), (MacControl::Unknown, 0));
    }

    #[test] // proves: host-service
    fn agent_check_fails_on_device_without_mac_control() {
        let look = |stacked: Option<Stacked>| {
            let mut facts = facts();
            facts.look_at_driver(&Driver::named("macvlan"), None, stacked.is_some());
            facts.look_below(stacked);
            (
                facts.mac_control,
                facts.errors.len(),
                facts.warnings.len(),
                facts.offloads.contains("checksums"),
            )
        };
        assert_eq!(look(None), (MacControl::Unknown, 0, 0, true));
        assert_eq!(look(Some(Stacked::Deaf("no".into()))), (MacControl::Swallowed, 1, 0, false));
        assert_eq!(look(Some(Stacked::Joined("no".into()))), (MacControl::Unknown, 0, 1, false));
    }

    #[test] // proves: host-service
    fn agent_check_warns_of_xdp_program_at_device() {
        let look = |driver: &str, obeys_pause, program| {
            let mut facts = facts();
            facts.look_at_driver(&Driver::named(driver), obeys_pause, false);
            facts.look_at_program(program);
            (facts.mac_control, facts.warnings)
        };
        assert_eq!(look("veth", None, None), (MacControl::Received, Vec::new()));
        let warning = xdp_warning("eth0", 7);
        assert!(warning.contains("XDP program 7 at eth0") && warning.contains("0x8808"), "{warning}");
        assert_eq!(look("veth", None, Some(7)), (MacControl::Unknown, vec![warning]));
        assert_eq!(look("e1000e", Some(true), Some(7)).0, MacControl::Swallowed);
    }

    #[test] // proves: host-service
    fn agent_check_lists_hardware_rdma_but_not_soft_roce() {
        let sys = tempfile::tempdir().unwrap();
        let make = |name: &str, device: &str| {
            let ndevs = sys.path().join(name).join("ports/1/gid_attrs/ndevs");
            fs::create_dir_all(&ndevs).unwrap();
            fs::write(ndevs.join("0"), format!("{device}\n")).unwrap();
        };
        for (name, device) in [("mlx5_0", "eth0"), ("mlx5_1", "eth1"), ("rocep1", "eth0"), ("siw0", "eth0")] {
            make(name, device);
        }
        for hardware in ["mlx5_0", "mlx5_1", "rocep1"] {
            fs::create_dir(sys.path().join(hardware).join("device")).unwrap();
        }
        fs::write(sys.path().join("rocep1/parent"), "eth0").unwrap();
        let mut facts = facts();
        facts.look_for_rdma(sys.path());
        assert_eq!(facts.rdma, ["mlx5_0"]);
        assert!(facts.warnings[0].contains("mlx5_0 sends on eth0 past"), "{:?}", facts.warnings);
        facts.look_for_rdma(&sys.path().join("none"));
        assert_eq!(facts.warnings.len(), 1);
    }
}
