#![allow(clippy::unwrap_used)]

// Tests for SPECIFICATION.md: memory

use std::path::Path;

use xoff_config::memory::{Held, Plan};
use xoff_config::{AvailableMemory, Config, ConfigError, CpuQuota, Device, Machine, Rings, Uses};
use xoff_flow_control::settings::ClassSettings;
use xoff_wire::units::{Bytes, Nanos, PortId};

const PORTS: &str = r#"
[[port]]
name = "a"
device = "eth1"
speed = "1G"
[[port]]
name = "b"
device = "eth2"
speed = "1G"
"#;

fn read(text: &str) -> Result<Config, ConfigError> {
    Config::from_toml("test.toml", text, Machine::default())
}

#[test] // proves: check, workers
fn worker_on_unavailable_core_is_refused() {
    let core = |core: u16| format!("[switch]\nworkers = [{{ core = {core}, ports = [\"a\", \"b\"] }}]\n");
    let Err(ConfigError::Invalid(invalid)) = read(&format!("{}{PORTS}", core(1_024))) else {
        panic!("beyond glibc's set")
    };
    assert_eq!(invalid.problems()[0].position, Some((2, 11)));
    assert!(invalid.problems()[0].message.contains("cores from 0 to 1023"));
    assert!(read(&format!("{}{PORTS}", core(1_023))).is_ok());
    let here = Machine { cores: vec![2, 4, 5], ..Machine::default() };
    let on = |number| Config::from_toml("test.toml", &format!("{}{PORTS}", core(number)), here.clone());
    assert!(on(4).is_ok());
    let Err(ConfigError::Invalid(invalid)) = on(3) else { panic!("core 3 is not allowed") };
    let [problem] = invalid.problems() else { panic!("{invalid:?}") };
    assert_eq!(
        problem.message,
        "core 3 is not available to xoff on this machine; available cores are 2, 4-5"
    );
    assert_eq!(problem.position, Some((2, 21)));
    assert!(problem.help.as_ref().unwrap().contains("--elsewhere"));
}

#[test] // proves: check
fn cpu_quota_that_stops_workers_too_long_causes_warning() {
    let warning = |workers: u32, used_max: u64| {
        let (used_max, period) = (Nanos(used_max), Nanos::from_millis(100));
        let quota = CpuQuota { used_max, period, file: "/sys/fs/cgroup/a/cpu.max".into() };
        let machine = Machine { cpu_quota: Some(quota), ..Machine::default() };
        let text = format!("[switch]\nworkers = {workers}\n{PORTS}");
        let mut found = Config::from_toml("test.toml", &text, machine).unwrap().warnings.into_iter();
        found.find(|it| it.message.contains("processor time")).map(|it| (it.message, it.help.unwrap()))
    };
    let (message, help) = warning(1, 10_000_000).unwrap();
    assert!(message.ends_with("may stop the switch for up to 90 ms"));
    assert!(help.contains("/sys/fs/cgroup/a/cpu.max") && help.contains("at least 90 ms"), "{help}");
    assert_eq!(warning(1, 75_000_000), None, "the default stall_budget bridges 25 ms");
    assert!(warning(1, 74_999_999).unwrap().0.contains("up to 26 ms"));
    assert_eq!(warning(2, 150_000_000), None);
    assert!(warning(2, 149_999_998).unwrap().0.contains("up to 26 ms"));
}

#[test]
fn memory_plan_one_byte_above_available_memory_is_refused() {
    let config = read(PORTS).unwrap();
    let with_three = Machine {
        device: |name| {
            if name == "eth2" {
                Device::Has { index: 7, queues: 3, mtu: 1_500, uses: Uses::default() }
            } else {
                Device::Unknown
            }
        },
        ..Machine::default()
    };
    let queues = config.queues(&with_three);
    assert_eq!(queues, [None, Some(3)]);
    let needed = config.memory(&config.workers(&[]), &queues).needed();
    assert!(needed > config.memory(&config.workers(&[]), &[]).needed());
    let on = |memory: u64| {
        Config::from_toml(
            "test.toml",
            PORTS,
            Machine { memory: Some(Bytes(memory).into()), ..with_three.clone() },
        )
    };
    assert!(on(needed.0).is_ok());
    let Err(ConfigError::Invalid(invalid)) = on(needed.0 - 1) else { panic!("does not fit") };
    assert!(invalid.problems()[0].message.contains("MiB of memory, more than the"));
    let doubts = |memory| {
        on(memory).unwrap().warnings.iter().filter(|warning| warning.message.contains("MiB")).count()
    };
    assert_eq!((doubts(needed.0 * 2 - 1), doubts(needed.0 * 2)), (1, 0));
}

#[test]
fn error_for_lack_of_memory_names_cgroup_and_remedy() {
    let on = |memory: u64| {
        let memory = AvailableMemory {
            bytes: Bytes(memory),
            cgroup_limit: Some("/sys/fs/cgroup/a/memory.max".into()),
        };
        let machine = Machine { memory: Some(memory), has_small_chunks: || false, ..Machine::default() };
        let error = Config::from_toml("test.toml", PORTS, machine).unwrap_err();
        let ConfigError::Invalid(invalid) = error else { panic!("{error:?}") };
        let problem = invalid.problems()[0].clone();
        (problem.message, problem.help.unwrap())
    };
    let shorter = read(&format!("[switch]\nstall_budget = \"1ms\"\n{PORTS}")).unwrap();
    let least = shorter.memory(&shorter.workers(&[]), &[]).needed().0;
    let (message, help) = on(least);
    let limit = " MiB available memory (limit of the cgroup: /sys/fs/cgroup/a/memory.max)";
    assert!(message.ends_with(limit), "{message}");
    assert!(help.starts_with("stall_budget = \"1ms\" helps most: it saves "), "{help}");
    assert!(help.contains(" MiB, and suffices; "), "{help}");
    assert!(
        help.contains(
            " the largest headroom is 7 MiB for a class at port b, of which 3 MiB for peer response; "
        ),
        "{help}"
    );
    let (_, help) = on(least - 1);
    assert!(help.contains(" MiB, and does not suffice alone; "), "{help}");
}

#[test] // proves: shared-memory
fn budget_one_byte_below_smallest_memory_plan_is_refused() {
    let with = |budget: u64| read(&format!("[memory]\nbudget = {budget}\n{PORTS}"));
    let needed = |config: &Config| config.memory(&config.workers(&[]), &[]).needed().0;
    let ample = with(300 << 20).unwrap();
    let pool = ample.switch.lossy_pool.bytes.0;
    assert!(needed(&ample) <= 300 << 20);
    let with_pool = |bytes: u64| read(&format!("[memory]\nlossy_pool = {bytes}\n{PORTS}")).unwrap();
    assert_eq!(with_pool(pool).switch.lossy_pool, ample.switch.lossy_pool);
    let least = needed(&with_pool(4 * 1_526));
    let pool = with(least).unwrap().switch.lossy_pool.bytes.0;
    assert!(
        (6_104..6_104 + 128).contains(&pool),
        "the pool does not hold two of the longest frames for each port: {pool}"
    );
    let Err(ConfigError::Invalid(invalid)) = with(least - 1) else {
        panic!("a budget that is a byte too small is accepted")
    };
    let problem = &invalid.problems()[0];
    assert!(problem.message.contains("`budget` is"), "{}", problem.message);
    let help = problem.help.as_deref().unwrap();
    let named = help.strip_prefix("write budget = \"").and_then(|rest| rest.split_once("MiB\""));
    let named = named.unwrap().0.parse::<u64>().unwrap() << 20;
    assert!(help.contains("receive chunks") && help.contains("lossless buffers"), "{help}");
    assert!(named >= least && with(named).is_ok(), "{named}");
    assert!(help.contains("stall_budget = \"1ms\" saves ") && !help.contains("\"small\""), "{help}");
    assert!(help.ends_with("with hardware peers, peer_response = \"standard\" saves headroom"), "{help}");
    let small = Machine { has_small_chunks: || true, ..Machine::default() };
    let text = format!("[memory]\nbudget = 1\n{PORTS}");
    let Err(ConfigError::Invalid(invalid)) = Config::from_toml("test.toml", &text, small) else { panic!() };
    let help = invalid.problems()[0].help.as_deref().unwrap();
    assert!(help.contains("receive_chunks = \"small\" in [memory] saves "), "{help}");
}

#[test]
fn unused_part_of_lossy_pool_or_budget_causes_warning() {
    let config = read(PORTS).unwrap();
    let queues = config.switch.ports.iter().flat_map(|port| &port.classes);
    let most: u64 = queues.filter(|class| !class.lossless).map(|class| 2 * class.egress_max.0).sum();
    let warned = |memory: &str| {
        let warnings = read(&format!("[memory]\n{memory}\n{PORTS}")).unwrap().warnings;
        warnings.iter().any(|warning| {
            warning.message.contains("`lossy_pool` is") || warning.message.contains("`budget` is")
        })
    };
    let pool = |bytes: u64| warned(&format!("lossy_pool = {bytes}"));
    assert_eq!((pool(most), pool(most + 1), warned("lossy_pool = \"none\"")), (false, true, false));
    let largest = read(&format!("[memory]\nlossy_pool = {most}\n{PORTS}")).unwrap();
    let needed = largest.plan(&Machine::default()).needed().0.div_ceil(1 << 20) << 20;
    let budget = |bytes: u64| warned(&format!("budget = {bytes}"));
    assert_eq!((budget(needed), budget(needed + 1)), (false, true));
}

#[test]
fn budget_together_with_lossy_pool_is_refused() {
    for keys in ["lossy_pool = \"1MB\"", "model = \"shared\""] {
        let Err(ConfigError::Invalid(invalid)) =
            read(&format!("[memory]\nbudget = \"1GB\"\n{keys}\n{PORTS}"))
        else {
            panic!("{keys}")
        };
        assert!(invalid.problems()[0].message.starts_with("`budget` sets `lossy_pool`, but"));
    }
}

#[test] // proves: check
fn port_device_used_by_machine_causes_error_or_warning() {
    fn with(name: &str, uses: Uses) -> Device {
        let index = if name == "eth1" { 1 } else { 2 };
        Device::Has { index, queues: 1, mtu: 1_500, uses }
    }
    type Look = fn(&str) -> Device;
    let devices: [(Look, &str, bool); 10] = [
        (|name| with(name, Uses { loopback: true, ..Uses::default() }), "is the machine's loopback", true),
        (
            |name| with(name, Uses { master: Some("bond bond0".into()), ..Uses::default() }),
            "belongs to bond bond0",
            true,
        ),
        (
            |name| with(name, Uses { default_route: Some(name.into()), ..Uses::default() }),
            "default route uses eth1,",
            true,
        ),
        (
            |name| with(name, Uses { default_route: Some("eth1.5".into()), ..Uses::default() }),
            "default route uses eth1.5 on eth1,",
            true,
        ),
        (
            |name| {
                with(name, Uses { upper: vec!["vlan eth1.5".into(), "macvlan m0".into()], ..Uses::default() })
            },
            "port a: vlan eth1.5, macvlan m0 on eth1 would receive nothing while the switch runs",
            false,
        ),
        (
            |name| with(name, Uses { kind: Some("vlan".into()), ..Uses::default() }),
            "eth1 (vlan) is a VLAN device",
            false,
        ),
        (
            |name| with(name, Uses { kind: Some("macvlan".into()), ..Uses::default() }),
            "eth1 (macvlan) gets no frames",
            false,
        ),
        (
            |name| with(name, Uses { kind: Some("bond".into()), ..Uses::default() }),
            "eth1 (bond) joins several links",
            false,
        ),
        (
            |name| with(name, Uses { kind: Some("bridge".into()), ..Uses::default() }),
            "eth1 (bridge) is a bridge",
            false,
        ),
        (
            |name| with(name, Uses { addresses: vec!["10.0.0.1".parse().unwrap()], ..Uses::default() }),
            "port a: eth1 has the address 10.0.0.1, which is unreachable",
            false,
        ),
    ];
    for (device, words, refused) in devices {
        let here = Machine { device, ..Machine::default() };
        let problems = match Config::from_toml("test.toml", PORTS, here) {
            Ok(config) if !refused => config.warnings,
            Err(ConfigError::Invalid(invalid)) if refused => invalid.problems().to_vec(),
            other => panic!("{words}: {other:?}"),
        };
        let problem =
            problems.iter().find(|it| it.message.contains(words)).unwrap_or_else(|| panic!("{problems:?}"));
        assert_eq!((problem.position, problem.is_error()), (Some((4, 11)), refused), "{problem:?}");
    }
}

#[test] // proves: check
fn path_that_is_no_network_namespace_is_refused() {
    let routed = format!("{PORTS}[router]\nnetns = \"/run/rt\"\n[switch]\nhttp_netns = \"/run/web\"\n")
        .replacen("[[port]]\n", "[[port]]\nrouted = true\n", 1);
    let messages = |is_netns: fn(&Path) -> bool| match Config::from_toml(
        "test.toml",
        &routed,
        Machine { is_netns, ..Machine::default() },
    ) {
        Ok(_) => Vec::new(),
        Err(ConfigError::Invalid(invalid)) => {
            let problems = invalid.problems().iter();
            problems.map(|problem| (problem.message.clone(), problem.position.is_some())).collect()
        }
        Err(other) => panic!("{other}"),
    };
    let message = |path: &str| (format!("{path} is not a network namespace"), true);
    assert_eq!(messages(|_| true), []);
    assert_eq!(messages(|path| path == Path::new("/run/web")), [message("/run/rt")]);
    assert_eq!(messages(|_| false), [message("/run/rt"), message("/run/web")]);
}

#[test] // proves: check
fn device_that_lacks_mtu_or_queue_of_its_port_is_refused() {
    let here = Machine {
        device: |name| match name {
            "eth1" => Device::Has { index: 1, queues: 1, mtu: 1_500, uses: Uses::default() },
            "eth2" => Device::Has { index: 2, queues: 2, mtu: 9_000, uses: Uses::default() },
            "eth3" => Device::Unknown,
            _ => Device::Missing,
        },
        ..Machine::default()
    };
    let on = |keys: &str| {
        let text = format!("{keys}{PORTS}");
        let problems = match Config::from_toml("test.toml", &text, here.clone()) {
            Ok(_) => Vec::new(),
            Err(ConfigError::Invalid(invalid)) => invalid.problems().to_vec(),
            Err(error) => panic!("{error}"),
        };
        // Without the text of the file, `misfits` must report the same problems, but no places.
        let config = Config::from_toml("test.toml", &text, Machine::default()).unwrap();
        let blind: Vec<String> = config.misfits(&here).into_iter().map(|it| it.message).collect();
        assert_eq!(blind, problems.iter().map(|it| it.message.clone()).collect::<Vec<_>>());
        problems
            .into_iter()
            .map(|it| (it.position.unwrap(), it.message, it.help.unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(on(""), []);
    assert_eq!(on("[defaults]\nmtu = 1500\nqueues = [0]\n"), []);
    let [(place, message, help)] = &on("[defaults]\nmtu = 1501\n")[..] else { panic!("eth2 carries it") };
    assert_eq!(
        (*place, message.as_str()),
        ((2, 7), "port a has an MTU of 1501, but its device eth1 has an MTU of 1500")
    );
    assert!(help.contains("ip link set eth1 mtu 1501"), "{help}");
    let [(place, message, _)] = &on("[defaults]\nqueues = [0, 1]\n")[..] else {
        panic!("the check of queues does not report one problem")
    };
    assert_eq!((*place, message.as_str()), ((2, 10), "device eth1 has 1 hardware queue (0), but no queue 1"));
    let absent = "[[port]]\nname = \"c\"\ndevice = \"eth3\"\nspeed = \"1G\"\n[[port]]\nname = \"d\"\ndevice = \"eth4\"\nspeed = \"1G\"\n";
    let [(place, message, help)] = &on(absent)[..] else {
        panic!("the check of eth3 does not report one problem")
    };
    assert_eq!((*place, message.as_str()), ((7, 11), "port d: no interface eth4 in this network namespace"));
    assert!(help.contains("`ip link`") && help.contains("--elsewhere"), "{help}");
}

#[test]
fn two_names_of_one_device_at_two_ports_are_refused() {
    let here = Machine {
        device: |_| Device::Has { index: 7, queues: 1, mtu: 1_500, uses: Uses::default() },
        ..Machine::default()
    };
    let Err(ConfigError::Invalid(invalid)) = Config::from_toml("test.toml", PORTS, here) else {
        panic!("two ports on one device")
    };
    let [problem] = invalid.problems() else { panic!("{invalid:?}") };
    assert_eq!(
        problem.message,
        "ports a and b have the same device: eth1 and eth2 are names of one interface"
    );
    assert_eq!(problem.position, Some((8, 11)));
}

fn ok(text: &str) -> Config {
    read(text).unwrap_or_else(|error| panic!("{error:?}\n{text}"))
}

fn two_ports(before: &str, after: &str) -> Config {
    let port = |name: &str| format!("[[port]]\nname = \"{name}\"\ndevice = \"{name}\"\nspeed = \"1G\"\n");
    ok(&format!("{before}{}{}{after}", port("a"), port("b")))
}

fn class(config: &Config, index: usize, class: usize) -> &ClassSettings {
    &config.switch.ports[index].classes[class]
}

fn bytes_of(plan: &Plan, what: &str) -> u64 {
    plan.consumers.iter().find(|consumer| consumer.what == what).map_or(0, |consumer| consumer.bytes.0)
}

#[test]
fn memory_plan_matches_hand_calculation() {
    let config = two_ports("", "");
    let rings = Rings { fill: 16_384, rx: 16_384, tx: 512, completion: 512 };
    assert_eq!(config.shell.ports[0].rings, rings);
    let (xoff, headroom) = (class(&config, 0, 3).xoff, class(&config, 0, 3).headroom);
    let lossless = Held::of(xoff, xoff.0.div_ceil(256)).plus(Held::of(headroom, headroom.0.div_ceil(256)));
    let share = config.port_share(0, &[]);
    assert_eq!((share.lossless, share.queued), (lossless, Held::NONE));
    assert_eq!(
        (share.received, share.flooding),
        (Held { frames: 256, cells: 0 }, Held { frames: 512, cells: 0 })
    );
    assert_eq!((share.control, share.host), (Held { frames: 64, cells: 64 * 16 }, Held::NONE));

    let plan = config.memory(&config.workers(&[0]), &[]);
    let (receive, transmit) = (13_678 + 31 + 256, 180 + 64);
    assert_eq!(
        bytes_of(&plan, "receive chunks"),
        2 * receive * 2_048,
        "receive chunks are not those of a stall and two batches"
    );
    assert_eq!(bytes_of(&plan, "transmit chunks"), 2 * transmit * 2_048);
    assert_eq!(bytes_of(&plan, "lossless buffers"), 2 * lossless.cells * 96);
    let pool = Held::of(Bytes(4_000_000), 7_813);
    assert_eq!(bytes_of(&plan, "lossy pool"), pool.cells * 96, "the lossy pool is not four queues of 8 ms");
    assert_eq!(bytes_of(&plan, "ring memory"), 2 * (16_384 + 512) * (8 + 16));
    let (frames, cells) =
        (2 * (256 + 512 + 64 + lossless.frames) + 7_813, 2 * (64 * 16 + lossless.cells) + pool.cells + 97);
    assert_eq!(
        bytes_of(&plan, "frame tables"),
        frames * (12 + 40) + cells * 5 + 2 * receive * 8 + 2 * transmit * 32
    );
    assert_eq!(
        plan.kernel.0,
        2 * (receive + transmit) * 128 + (receive + transmit) * 16 + 2 * 204_800,
        "notes of chunks, pages and sockets"
    );
    assert_eq!(plan.total.0, plan.consumers.iter().map(|consumer| consumer.bytes.0).sum::<u64>());
    assert_eq!(plan.needed(), plan.total.saturating_add(plan.kernel));
}

#[test] // proves: memory, reload
fn added_port_one_byte_above_available_memory_is_refused() {
    let config = read(PORTS).unwrap();
    let (receive, transmit) = (13_678 + 31 + 256, 180 + 64);
    let of_port = |sockets: u64| {
        let chunks = sockets * receive + transmit;
        let tables = sockets * receive * 8 + transmit * 32 + sockets * (16_384 + 512) * (8 + 16);
        chunks * 2_048 + tables + sockets * (chunks * 128 + 204_800) + chunks * 2_048 * 16 / 4_096
    };
    let device = Device::Has { index: 7, queues: 3, mtu: 1_500, uses: Uses::default() };
    let added = [(PortId(0), device), (PortId(1), Device::Unknown)];
    let shortage = |available: u64| config.shortage_of_added(&added, Some(&Bytes(available).into()));
    let needed = of_port(3) + of_port(1);
    assert_eq!(shortage(needed), None);
    let message = shortage(needed - 1).unwrap().message;
    assert!(message.starts_with("the added ports need 1"), "{message}");
    assert_eq!(config.shortage_of_added(&added, None), None);
}

#[test]
fn small_receive_chunks_save_three_fifths_of_memory() {
    let plan = |size: &str| {
        let config = two_ports(&format!("[memory]\nreceive_chunks = \"{size}\"\n"), "");
        (config.shell.ports[0].rings.fill, config.shell.chunks, config.memory(&config.workers(&[0]), &[]))
    };
    let ((fill, _, whole), (small_fill, chunks, small)) = (plan("whole"), plan("small"));
    // Receive chunks: 13,678 for the frames of a stall, one per 512 bytes of these frames, 31 not yet refilled, 256 for frames
    // received before.
    let receive = 13_678 + 3_775_000_u64.div_ceil(512) + 31 + 256;
    assert_eq!(bytes_of(&small, "receive chunks"), 2 * receive * 512);
    assert!(5 * bytes_of(&small, "receive chunks") < 2 * bytes_of(&whole, "receive chunks"));
    assert_eq!((fill, small_fill), (16_384, 32_768));
    assert!(3 * small.kernel.0 < 2 * whole.kernel.0 && !chunks.multi_buffer);
    assert_eq!(bytes_of(&small, "transmit chunks"), bytes_of(&whole, "transmit chunks"));
    assert_eq!(bytes_of(&small, "received frames"), (2 * (128 * 6 + 97) + 97) * 96);
}

/// At 1 Gb/s, 3,775,000 bytes arrive in a stall, a loop round and a burst (30.2 ms). A chunk of 4,096 bytes holds 3,840 bytes
/// of a frame.
#[test] // proves: memory, headroom
fn stall_memory_has_several_chunks_for_each_long_frame() {
    let chunks = |mtu: u32| {
        let config = two_ports("[switch]\nsmallest_frame = 1500\n", &format!("mtu = {mtu}\n"));
        config.shell.ports[1].stall_chunks
    };
    assert_eq!(chunks(3_818), 3_775_000_u32.div_ceil(1_520) + 31);
    assert_eq!(chunks(3_819), 3_775_000_u32.div_ceil(1_520) + 3_775_000_u32.div_ceil(3_840) + 31);
}

#[test]
fn small_receive_chunks_with_zero_copy_are_refused() {
    let text = "[memory]\nreceive_chunks = \"small\"\n[switch]\nzero_copy = \"on\"\n\
                [[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"1G\"\n";
    let Err(ConfigError::Invalid(invalid)) = read(text) else { panic!("frames without a copy") };
    let [problem] = invalid.problems() else { panic!("{invalid:?}") };
    assert!(problem.message.contains("needs copies by the kernel"), "{}", problem.message);
    assert_eq!(problem.position.map(|(line, _)| line), Some(4));
    for allowed in ["auto", "off"] {
        ok(&text.replace("\"on\"", &format!("\"{allowed}\"")));
    }
}

#[test]
fn planned_memory_cells_suffice_for_frames_of_any_length() {
    for (len, frames) in [(64_u64, 1_000_u64), (132, 977), (133, 977), (256, 977), (261, 500), (1_522, 100)] {
        let cells = frames * (len - 4).div_ceil(96);
        let held = Held::of(Bytes(len * frames), frames);
        assert!(held.cells >= cells && held.cells <= cells + frames, "{held:?} for {cells}");
    }
    let of_one_byte_more = Held::of(Bytes(1_000 * (4 + 97)), 1_000);
    assert_eq!(of_one_byte_more.cells, 2_000, "frames that need two cells do not have two");
}

#[test]
fn memory_plans_of_common_switches_stay_below_limits() {
    let mebibytes = |ports: u32, port: &str| {
        let ports = (0..ports).map(|n| format!("[[port]]\nname = \"p{n}\"\ndevice = \"d{n}\"\n{port}\n"));
        let config = ok(&ports.collect::<String>());
        config.memory(&config.workers(&[]), &[]).needed().0 >> 20
    };
    let [few, some, many] = [4, 16, 64].map(|ports| mebibytes(ports, "speed = \"1G\""));
    assert!(few <= 200 && some <= 700 && many <= 3_072, "{few}, {some}, {many} MiB");
    assert!(2 * many <= 9 * some, "from {some} to {many} MiB");
    let fast = mebibytes(8, "speed = \"25G\"\npeer_response = \"standard\"");
    assert!(fast <= 2_048, "{fast} MiB");
    let server = mebibytes(32, "speed = \"10G\"");
    assert!(server <= 6_144, "{server} MiB");
}

#[test]
fn memory_plan_has_flow_tables_only_for_policy_ofc() {
    let memory = |more: &str| {
        let config = two_ports(&format!("[switch]\nworkers = 1\n{more}"), "");
        let plan = config.memory(&config.workers(&[0]), &[]);
        let tables = plan.consumers.iter().find(|consumer| consumer.what == "flow tables");
        let frames = config.share(1, &[PortId(0), PortId(1)], &[]).all().frames;
        (tables.map(|consumer| consumer.bytes.0), frames)
    };
    // Bytes of a port for 1,024 flows, 2 ingress ports, 256 congested flows and 256 paused flows.
    let tables = 1_024 * 64 + 2 * 8 + 256 * 16 + 256 * 8;
    assert_eq!(memory("").0, None);
    assert_eq!(memory("policy = { 3 = \"ofc\" }\n").0, Some(2 * (tables + 1_024 * 5)));
    let (shadow, frames) = memory("shadow = [\"ofc\"]\n");
    assert_eq!(shadow, Some(8 * 2 * tables + 4 * frames));
}

#[test]
fn memory_plan_has_rings_for_each_device_queue() {
    let config = two_ports("", "");
    let workers = config.workers(&[0]);
    let plan = |queues: &[Option<u32>]| config.memory(&workers, queues);
    let (none, three) = (plan(&[]), plan(&[Some(3), None]));
    assert_eq!(plan(&[Some(1), None]), none);
    let more = bytes_of(&three, "receive chunks") - bytes_of(&none, "receive chunks");
    assert_eq!(more, 2 * (13_678 + 31 + 256) * 2_048, "a queue lacks chunks for a stall");
    assert_eq!(bytes_of(&three, "ring memory"), 2 * bytes_of(&none, "ring memory"));
    assert_eq!(
        bytes_of(&three, "transmit chunks"),
        bytes_of(&none, "transmit chunks"),
        "transmit chunks depend on the number of queues"
    );
    let nine = Machine {
        device: |_| xoff_config::Device::Has {
            index: 1,
            queues: 9,
            mtu: 9_216,
            uses: xoff_config::Uses::default(),
        },
        ..Machine::default()
    };
    let listed = two_ports("", "queues = [0, 5]\n");
    assert_eq!(
        listed.queues(&nine),
        [Some(9), Some(2)],
        "listed queues do not determine the number of sockets"
    );

    let [both, one] = [&[PortId(0), PortId(1)][..], &[PortId(0)]].map(|ports| config.share(1, ports, &[]));
    assert_eq!((one.lossy, one.lossless.times(2)), (both.lossy, both.lossless));
}
