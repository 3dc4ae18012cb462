use xoff_config::Machine;
use xoff_flow_control::settings::HashSeed;
use xoff_wire::units::{Class, Nanos};

use std::thread;

use super::*;

// proves: start-stop
#[test]
fn a_control_thread_that_ends_by_itself_ends_the_switch_and_is_told() {
    let (mut view, _inbox) = control::testing::view();
    let seen = Arc::get_mut(&mut view).unwrap();
    // A log line about the end of a storm reads the clock.
    seen.counters.class(PortId(1), Class::ALL[3]).storm_since.set(0);
    seen.clock = || match thread::current().name() {
        Some("xoff-control") => panic!("this test wants it to"),
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

// proves: bridging
#[test]
fn two_starts_of_one_configuration_have_secrets_of_their_own() {
    let text = "[[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"1G\"\n";
    let config = Config::from_toml("test", text, Machine::default()).unwrap();
    let mac = MacAddr([2, 0, 0, 0, 0, 7]);
    let starts = [0, 1].map(|_| settings_here(&config.switch, [(PortId(0), mac)].into_iter()));
    assert!(starts[0].fdb.seed != starts[1].fdb.seed);
    for settings in starts {
        assert!(settings.fdb.seed != config.switch.fdb.seed && settings.fdb.seed != HashSeed::KNOWN);
        assert_eq!(settings.ports[0].mac, mac);
    }
}

// proves: own-policy
#[test]
fn a_worker_that_a_custom_policy_ended_does_not_call_it_a_bug_of_xoff() {
    let said = |cause: Box<dyn std::any::Any + Send>| {
        let thread = thread::spawn(move || std::panic::resume_unwind(cause));
        join(3, thread).map(|_| ()).unwrap_err().to_string()
    };
    let policy = said(Box::new(CustomPanic { said: "no such share".into() }));
    let expected = "worker 3 ended because the custom policy of this program panicked (no such share); its";
    assert!(policy.starts_with(expected), "{policy}");
    assert!(said(Box::new("a bug")).contains("which is a bug of xoff"));
}

#[test]
fn a_kernel_without_multi_buffer_is_told_as_an_mtu() {
    let port = |name, mtu| {
        format!("[[port]]\nname = \"{name}\"\ndevice = \"{name}\"\nspeed = \"1G\"\nmtu = {mtu}\n")
    };
    let text = port("a", 1500) + &port("b", 9000);
    let config = Config::from_toml("test", &text, Machine::default()).unwrap();
    let said = in_terms_of(&config, XdpError::NoMultiBuffer { device: "a".into() }).to_string();
    assert!(
        said.contains("MTU of 9000") && said.contains("Linux 6.6") && said.contains("mtu = 3818"),
        "{said}"
    );
    let small = Config::from_toml(
        "test",
        &format!("[memory]\nreceive_chunks = \"small\"\n{text}"),
        Machine::default(),
    );
    let said = in_terms_of(&small.unwrap(), XdpError::NoMultiBuffer { device: "a".into() }).to_string();
    assert!(said.contains("receive_chunks = \"whole\""), "{said}");
    let other = in_terms_of(&config, XdpError::NoAfXdp).to_string();
    assert!(other.contains("Linux 5.18"), "{other}");
}
