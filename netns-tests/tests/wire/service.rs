//! Test of the notifications to a service manager: ready, watchdog, stopping.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;

use xoff_netns_tests::{PATIENCE, Surroundings};

use crate::bed_beside_others;

// proves: start-stop
#[test]
fn a_service_manager_is_told_that_the_switch_runs_lives_and_ends() {
    let bed = bed_beside_others(2).build();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    // The switch's user must be able to reach the manager's socket.
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    let environment =
        vec![("NOTIFY_SOCKET", path.display().to_string()), ("WATCHDOG_USEC", "200000".to_owned())];
    let config = bed.config("speed = \"1G\"").switch("user = \"nobody\"");
    let switch = bed.launch_in(Surroundings { environment, ..Surroundings::default() }, &config).ready();
    let heard = || {
        let mut bytes = [0; 256];
        let len = manager.recv(&mut bytes).expect("it is told something");
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    assert_eq!(heard(), "READY=1\nSTATUS=2 ports\n");
    assert_eq!([heard(), heard()], ["WATCHDOG=1\n"; 2]);
    bed.finish(switch);
    assert_eq!(std::iter::repeat_with(heard).find(|word| word != "WATCHDOG=1\n").unwrap(), "STOPPING=1\n");
}
