use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;

use xoff_netns_tests::{LaunchOptions, PATIENCE};

use crate::bed;

#[test] // proves: start-stop
fn service_manager_gets_all_notifications_of_the_switch() {
    let bed = bed(2).build();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    // The switch, which runs as another user, must reach the manager's socket.
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    let environment =
        vec![("NOTIFY_SOCKET", path.display().to_string()), ("WATCHDOG_USEC", "200000".to_owned())];
    let config = bed.config("speed = \"1G\"").switch("user = \"nobody\"");
    let switch = bed.launch_with(LaunchOptions { environment, ..LaunchOptions::default() }, &config).ready();
    let notification = || {
        let mut bytes = [0; 256];
        let len = manager.recv(&mut bytes).expect("the service manager got no notification");
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    assert_eq!(notification(), "READY=1\nSTATUS=2 ports\n");
    assert_eq!([notification(), notification()], ["WATCHDOG=1\n"; 2]);
    bed.finish(switch);
    assert_eq!(
        std::iter::repeat_with(notification).find(|word| word != "WATCHDOG=1\n").unwrap(),
        "STOPPING=1\n"
    );
}
