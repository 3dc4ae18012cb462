use xoff_config::Machine;
use xoff_flow_control::settings::HashSeed;
use xoff_wire::units::{Class, Nanos};

use std::thread;

use super::*;

#[test] // proves: start-stop
fn panic_of_control_thread_ends_the_switch() {
    let (mut view, _inbox) = control::testing::view();
    let view_mut = Arc::get_mut(&mut view).unwrap();
    // End the storm: to log one, the control thread reads the clock, which panics in this test.
    view_mut.counters.class(PortId(1), Class::ALL[3]).storm_since.set(0);
    view_mut.clock = || match thread::current().name() {
        Some("xoff-control") => panic!("planned panic of the control thread"),
        _ => Nanos::from_secs(9),
    };
    let running = with_control(view, Bells::new(1).unwrap(), None, None, None, &Privileges::Keep).unwrap();
    running.wait();
    let error = running.stop().unwrap_err();
    assert!(
        matches!(&error, ThreadError::Control { error: ControlEnded::Panicked, status } if status.name == "s1"),
        "{error:?}"
    );
}

#[test] // proves: bridging
fn each_start_of_a_switch_has_another_hash_seed() {
    let text = "[[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"1G\"\n";
    let config = Config::from_toml("test", text, Machine::default()).unwrap();
    let mac = MacAddr([2, 0, 0, 0, 0, 7]);
    let starts = [0, 1].map(|_| settings_here(&config.switch, [(PortId(0), mac)].into_iter()));
    assert!(starts[0].fdb.seed != starts[1].fdb.seed);
    for settings in starts {
        assert!(settings.fdb.seed != config.switch.fdb.seed && settings.fdb.seed != HashSeed::PUBLIC);
        assert_eq!(settings.ports[0].mac, mac);
    }
}

#[test] // proves: own-policy
fn panic_of_custom_policy_is_not_reported_as_bug_of_xoff() {
    let message = |cause: Box<dyn std::any::Any + Send>| {
        let thread = thread::spawn(move || std::panic::resume_unwind(cause));
        join(3, thread).map(|_| ()).unwrap_err().to_string()
    };
    let policy = message(Box::new(CustomPanic { message: "no such share".into() }));
    let expected = "worker 3 ended because the custom policy of this program panicked (no such share); the";
    assert!(policy.starts_with(expected), "{policy}");
    assert!(message(Box::new("a bug")).contains("which is a bug of xoff"));
}

#[test]
fn missing_multi_buffer_support_is_reported_as_mtu_limit() {
    let port = |name, mtu| {
        format!("[[port]]\nname = \"{name}\"\ndevice = \"{name}\"\nspeed = \"1G\"\nmtu = {mtu}\n")
    };
    let text = port("a", 1500) + &port("b", 9000);
    let config = Config::from_toml("test", &text, Machine::default()).unwrap();
    let message = in_terms_of(&config, XdpError::NoMultiBuffer { device: "a".into() }).to_string();
    assert!(
        message.contains("MTU of 9000") && message.contains("Linux 6.6") && message.contains("mtu = 3818"),
        "{message}"
    );
    let small = Config::from_toml(
        "test",
        &format!("[memory]\nreceive_chunks = \"small\"\n{text}"),
        Machine::default(),
    );
    let message = in_terms_of(&small.unwrap(), XdpError::NoMultiBuffer { device: "a".into() }).to_string();
    assert!(message.contains("receive_chunks = \"whole\""), "{message}");
    let other = in_terms_of(&config, XdpError::NoAfXdp).to_string();
    assert!(other.contains("Linux 5.18"), "{other}");
}
