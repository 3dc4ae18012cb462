#![allow(clippy::unwrap_used)]

use xoff_config::memory::Held;
use xoff_config::{Config, Machine};
use xoff_flow_control::settings::{
    ClassSettings, EcnSettings, EgressLimits, FlowControl, HeadroomPlace, IngressOrder, Memory, OfcSettings,
    PipelineSettings, PolicyKind, PortSettings, QueueKind, Service, SharedMemory, Trust, WatchdogAction,
    WatchdogSettings,
};
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, Nanos};

fn read(text: &str) -> Config {
    Config::from_toml("test.toml", text, Machine::default())
        .unwrap_or_else(|error| panic!("{error:?}\n{text}"))
}

fn two_ports(before: &str, after: &str) -> Config {
    let port = |name: &str| format!("[[port]]\nname = \"{name}\"\ndevice = \"{name}\"\nspeed = \"1G\"\n");
    read(&format!("{before}{}{}{after}", port("a"), port("b")))
}

fn port(config: &Config, index: usize) -> &PortSettings {
    &config.switch.ports[index]
}

fn class(config: &Config, index: usize, class: usize) -> &ClassSettings {
    &config.switch.ports[index].classes[class]
}

#[test] // proves: check
fn xon_or_xoff_that_leaves_line_idle_causes_note() {
    let notes_of = |keys: &str| {
        let notes = two_ports(&format!("[class.3]\n{keys}"), "").notes.into_iter();
        let of_thresholds = notes.filter(|it| it.message.contains("less than"));
        of_thresholds.map(|it| (it.position.unwrap(), it.message)).collect::<Vec<_>>()
    };
    let config = two_ports("", "");
    let commit = port(&config, 0).commit.0;
    let longest = Bytes::of_frame(port(&config, 0).mtu_frame + xoff_wire::units::TAGS).0;
    let [(place, note)] = &notes_of(&format!("xon = {}\n", commit - 1))[..] else { panic!("one") };
    assert!(
        *place == (2, 7)
            && note.contains(&format!("less than a port commits to its driver ({commit} bytes)")),
        "{note}"
    );
    assert_eq!(notes_of(&format!("xon = {commit}\n")), []);
    assert_eq!(notes_of(&format!("xoff = {}\n", 2 * commit)), []);
    let [(place, note)] = &notes_of(&format!("xoff = {}\n", 2 * commit - 2))[..] else { panic!("one") };
    assert!(*place == (2, 8) && note.contains("XON of class 3"), "{note}");
    let [(_, note)] = &notes_of(&format!("xoff = {}\n", longest - 1))[..] else { panic!("one") };
    assert!(note.contains(&format!("less than its longest frame ({longest} bytes)")), "{note}");
    assert!(!notes_of(&format!("xoff = {longest}\n"))[0].1.contains("longest"));
}

#[test]
fn port_settings_override_defaults() {
    let config = two_ports(
        "[switch]\nprofile = \"roce\"\n[defaults]\ncable = \"1km\"\ntrust = \"dscp\"\n[class.3]\nweight = 70\nxoff = \"300KB\"\n",
        "trust = \"port\"\n[port.class.3]\nweight = \"strict\"\n",
    );
    assert_eq!((port(&config, 0).trust, port(&config, 1).trust), (Trust::Dscp, Trust::Port));
    assert_eq!(class(&config, 0, 0).service, Service::Weighted(50), "the weight is not that of the profile");
    assert_eq!(class(&config, 0, 3).service, Service::Weighted(70), "the weight is not that of [class.3]");
    assert_eq!(class(&config, 1, 3).service, Service::Strict, "the weight is not that of [port.class.3]");
    assert_eq!(class(&config, 1, 3).xoff, Bytes(300_000), "a key that the port omits is not inherited");
}

#[test]
fn port_priority_map_overrides_default_map_by_entry() {
    let config = two_ports(
        "[switch]\nprofile = \"roce\"\n[defaults]\ndscp_map = { 46 = 5 }\n",
        "dscp_map = { 26 = 4 }\n",
    );
    let dscp = |index, code: usize| port(&config, index).dscp_to_class[code].get();
    assert_eq!([dscp(0, 26), dscp(0, 46), dscp(0, 8)], [3, 5, 0]);
    assert_eq!([dscp(1, 26), dscp(1, 46), dscp(1, 8)], [4, 5, 0]);
    let plain = two_ports("[defaults]\npcp_map = { 1-2 = 7 }\n", "");
    assert_eq!(port(&plain, 0).pcp_to_class.map(Class::get), [0, 7, 7, 3, 4, 5, 6, 7]);
    assert_eq!(port(&plain, 0).dscp_to_class[47].get(), 5);
}

#[test]
fn pause_key_sets_classes_of_obeyed_and_sent_pauses() {
    let control = |pause: &str| {
        port(&two_ports(&format!("[defaults]\nlossless = [3, 4]\npause = \"{pause}\"\n"), ""), 0).flow_control
    };
    let send = ClassSet(0b0001_1000);
    assert_eq!(control("pfc"), FlowControl::Pfc { obey: send, send });
    assert_eq!(control("asymmetric"), FlowControl::Pfc { obey: ClassSet::ALL, send });
    assert_eq!(control("802.3x"), FlowControl::Pause8023x);
    assert_eq!(control("ignore"), FlowControl::Ignore);
}

#[test]
fn default_xoff_and_xon_follow_from_port_speed() {
    let marks = |text: &str| {
        let config = two_ports(text, "");
        (class(&config, 0, 3).xoff.0, class(&config, 0, 3).xon.0)
    };
    let xon = 125_013;
    assert_eq!(marks(""), (2 * xon, xon), "XON is not that of a millisecond and 20 m of cable at 1 Gb/s");
    let committed = 32 * 1_546 + 1_526;
    let hardware = "[defaults]\npeer_response = \"standard\"\n";
    assert_eq!(marks(hardware), (2 * committed, committed), "XON is not the committed bytes and a frame");
    assert_eq!(marks("[defaults]\ncommit = 200000\n").1, 200_000 + 1_526);
    assert_eq!(marks("[class.3]\nxoff = 50000\n"), (50_000, 25_000));
    assert_eq!(marks("[class.3]\nxon = 50000\n"), (100_000, 50_000));
    assert_eq!(marks("[class.3]\nxoff = 1000000\n"), (1_000_000, xon), "XON is not its default");
    let fast = read("[[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"40G\"\n");
    assert_eq!(class(&fast, 0, 3).xon, Bytes(1_000_500), "200 us at 40 Gb/s");
}

#[test] // proves: thresholds
fn default_frame_limits_follow_from_byte_limits() {
    let config = two_ports(
        "[switch]\nsmallest_frame = 100\n[class.3]\nxoff = 10001\n[class.0]\negress_max = 2561\n",
        "",
    );
    assert_eq!(class(&config, 0, 3).xoff_frames, 101);
    assert_eq!(class(&config, 0, 0).egress_max_frames, 6, "the frame limit is not in frames of 512 bytes");
    assert_eq!(class(&config, 0, 3).egress_max_frames, u32::MAX);
    assert_eq!(class(&config, 0, 0).xoff_frames, u32::MAX);
}

#[test]
fn default_lossy_egress_queue_holds_8_ms_of_line_rate() {
    let max = |speed: &str| {
        let config = read(&format!("[[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"{speed}\"\n"));
        class(&config, 0, 0).egress_max.0
    };
    assert_eq!([max("262M"), max("263M")], [256 << 10, 263_000]);
    assert_eq!([max("2097M"), max("2098M")], [2_097_000, 2 << 20]);
}

#[test] // proves: lossy-classes
fn lossless_egress_queue_fits_all_frames_held_at_ingress() {
    let config = two_ports("", "[port.class.3]\nheadroom = 5000000\nxoff = 200000\n");
    let a = class(&config, 0, 3);
    assert_eq!(a.headroom, config.headroom[0][3].unwrap().total());
    let inside = a.xoff + a.headroom + Bytes(5_200_000);
    let max = inside + Bytes(1); // the size at which it would be full
    assert_eq!((a.egress_max, class(&config, 1, 3).egress_max), (max, max));
    assert_eq!(class(&config, 1, 3).ingress_max, Bytes::MAX);
    assert_eq!(config.headroom[0][0], None);
}

#[test]
fn class_has_ingress_limit_at_ports_where_it_is_lossy() {
    let config = two_ports("", "lossless = []\n");
    let (a, b) = (class(&config, 0, 3), class(&config, 1, 3));
    assert!(a.lossless && !b.lossless);
    assert_eq!(b.ingress_max, Bytes(128 << 10));
    assert_eq!(b.egress_max, a.xoff + a.headroom + b.ingress_max + Bytes(1));
    assert_eq!((b.headroom, b.xoff), (Bytes::ZERO, Bytes::MAX));
}

#[test]
fn key_when_full_set_to_stop_limits_lossy_classes_at_ingress() {
    let config = two_ports("[switch]\nwhen_full = \"stop\"\naccounting = \"until-forwarded\"\n", "");
    let (lossy, lossless) = (class(&config, 0, 0), class(&config, 0, 3));
    assert_eq!((lossy.ingress_max, lossy.egress_max), (Bytes(128 << 10), Bytes(1_000_000)));
    assert_eq!(
        lossless.egress_max,
        lossless.xoff + lossless.headroom,
        "the egress limit is not xoff and headroom"
    );
    assert!(lossless.egress_max_frames < u32::MAX);
}

#[test]
fn shared_memory_limits_default_to_size_of_pool() {
    let config = two_ports(
        "[memory]\nmodel = \"shared\"\npool = \"1MB\"\nport_limit = \"300KB\"\nalpha_log2 = -2\n",
        "",
    );
    let expected = SharedMemory {
        pool: Bytes(1_000_000),
        ingress_limit: Bytes(1_000_000),
        egress_limit: Bytes(1_000_000),
        port_limit: Bytes(300_000),
        egress_port_limit: Bytes(1_000_000),
        egress_limits: EgressLimits::Lossy,
        headroom: HeadroomPlace::Reserved,
        alpha_log2: Some(-2),
    };
    assert_eq!(config.switch.memory, Memory::Shared(expected));
    let Memory::Shared(default) = two_ports("[memory]\nmodel = \"shared\"\n", "").switch.memory else {
        panic!()
    };
    // Half of the bytes that two ports could queue. Each has seven lossy queues of 8 ms, and a lossless one up to XOFF.
    assert_eq!(default.pool, Bytes(7 * 1_000_000 + 2 * 125_013));
    assert_eq!(default.alpha_log2, Some(0));
}

#[test]
fn pipeline_with_rate_or_delay_limits_frames_at_ingress() {
    let switch = |keys: &str| two_ports(&format!("[pipeline]\n{keys}\n"), "");
    let papers = switch("rate = \"0.5Mpps\"\ndelay = \"25us\"\ningress = \"fifo\"");
    let PipelineSettings { rate, delay, ingress } = papers.switch.pipeline;
    assert_eq!(rate.map(|rate| rate.0.get()), Some(500_000));
    assert_eq!((delay, ingress), (Nanos::from_micros(25), IngressOrder::Fifo));
    for (keys, bounded) in
        [("rate = \"1Mpps\"", true), ("delay = \"1us\"", true), ("ingress = \"fifo\"", false)]
    {
        let most = class(&switch(keys), 0, 0).ingress_max;
        assert_eq!(most < Bytes::MAX, bounded, "{keys}");
    }
    assert_eq!(two_ports("", "").switch.pipeline, PipelineSettings::default());
}

#[test] // proves: shared-memory
fn capfc_shared_memory_example_warns_of_lossless_drops() {
    let document = include_str!("../../docs/configuration.md");
    let (_, example) = document.split_once("`egress_warn`:\n\n").unwrap();
    let (example, _) = example.split_once("\n#").unwrap();
    let config = two_ports(example, "");
    let expected = SharedMemory {
        pool: Bytes(350_000),
        ingress_limit: Bytes(350_000),
        egress_limit: Bytes(350_000),
        port_limit: Bytes(100_000),
        egress_port_limit: Bytes(100_000),
        egress_limits: EgressLimits::All,
        headroom: HeadroomPlace::Pool,
        alpha_log2: None,
    };
    assert_eq!(config.switch.memory, Memory::Shared(expected));
    let a = class(&config, 0, 3);
    assert_eq!((a.ingress_reserve + a.xoff, a.ingress_reserve + a.xon), (Bytes(30_000), Bytes(20_000)));
    assert_eq!((a.xoff + a.headroom, a.egress_max - a.egress_reserve), (Bytes(80_000), Bytes(80_000)));
    assert_eq!([a.egress_xoff, a.egress_xon, a.egress_warn], [50_000, 35_000, 35_000].map(Bytes));
    let warns = |text: &str| {
        let warnings = two_ports(text, "").warnings;
        ["a lossless class may lose frames", "frames of a lossless class may be dropped at egress"]
            .map(|words| warnings.iter().any(|warning| warning.message.starts_with(words)))
    };
    assert_eq!(warns(example), [true, true]);
    assert_eq!(
        warns(&example.replace("\"until-forwarded\"", "\"until-forwarded\"\nwhen_full = \"stop\"")),
        [true, false]
    );
    let shared = |keys: &str| format!("[memory]\nmodel = \"shared\"\n{keys}\n");
    assert_eq!(warns(&shared("")), [false, false]);
    let reserves = "[class.3]\ningress_reserve = \"2KB\"\n";
    assert_eq!(
        warns(&format!("{}{reserves}", shared("headroom = \"pool\""))),
        [true, false],
        "lossy classes may take it"
    );
    let lossy =
        (0..8).filter(|class| *class != 3).map(|class| format!("[class.{class}]\ningress_max = \"9KB\"\n"));
    let bounded = format!("{reserves}{}", lossy.collect::<String>());
    let pooled = |keys: &str| format!("{}{bounded}", shared(&format!("headroom = \"pool\"\n{keys}")));
    assert_eq!(
        warns(&pooled("pool = \"100MB\"")),
        [false, false],
        "a pool with room for all frames causes a warning"
    );
    assert_eq!(warns(&pooled("pool = \"100MB\"\nport_limit = \"100KB\"")), [true, false]);
    let counted_once = |keys: &str| {
        let keys = format!("pool = \"100MB\"\negress_limits = \"all\"\n{keys}");
        format!("[switch]\naccounting = \"until-forwarded\"\nwhen_full = \"stop\"\n{}", pooled(&keys))
    };
    assert_eq!(
        warns(&counted_once("")),
        [true, false],
        "egress queues that may fill the pool cause no warning"
    );
    assert_eq!(warns(&counted_once("egress_limit = \"1MB\"")), [false, false]);
    assert_eq!(warns(&shared("egress_limits = \"all\"")), [false, true]);
}

#[test]
fn ingress_reserve_adds_to_memory_and_egress_limit() {
    let shared = "[memory]\nmodel = \"shared\"\n[class.3]\ningress_reserve = 10000\n";
    let config = two_ports(shared, "");
    let a = class(&config, 0, 3);
    let inside = Bytes(10_000) + a.xoff + a.headroom;
    assert_eq!(a.egress_max, inside + inside + Bytes(1));
    assert_eq!(u64::from(a.xoff_frames), (10_000 + a.xoff.0).div_ceil(256));
    let lossless = config.port_share(0, &[]).lossless;
    assert_eq!(lossless.frames, u64::from(a.xoff_frames) + a.headroom.0.div_ceil(256));
    let mixed = two_ports(shared, "lossless = []\n");
    let entered = Bytes(10_000 + (128 << 10));
    assert_eq!(mixed.port_share(1, &[]).queued, Held::of(entered, entered.0.div_ceil(64)));
}

#[test] // proves: thresholds
fn key_xoff_frames_sets_planned_memory_of_lossless_frames() {
    let lossless = |text: &str| {
        let config = two_ports(text, "");
        config.port_share(0, &[]).lossless.frames - class(&config, 0, 3).headroom.0.div_ceil(256)
    };
    assert_eq!(lossless("[class.3]\nxoff = 25600\n"), 100);
    assert_eq!(lossless("[class.3]\nxoff = 25600\nxoff_frames = 20\n"), 20);
    assert_eq!(lossless("[class.3]\nxoff = 25600\nxoff_frames = 300\n"), 300);
    assert_eq!(
        lossless("[class.3]\nxoff = 25600\nxoff_frames = 1000\n"),
        400,
        "the frame limit is not in frames of 64 bytes"
    );
}

#[test]
fn automatic_number_of_workers_is_one_under_shared_memory() {
    let workers = |before: &str| {
        let port =
            |name: &str| format!("[[port]]\nname = \"{name}\"\ndevice = \"{name}\"\nspeed = \"100G\"\n");
        read(&format!("{before}[switch]\nstall_budget = \"0us\"\n{}{}", port("a"), port("b")))
            .workers(&Vec::from_iter(0..16))
            .len()
    };
    assert!(workers("") > 1);
    assert_eq!(workers("[memory]\nmodel = \"shared\"\n"), 1);
}

#[test]
fn configuration_sets_sizes_of_ofc_tables() {
    let config = two_ports(
        "[switch]\npolicy = { 3 = \"ofc\" }\n[policy.ofc]\nalpha = 0.8\nflows = 64\ncongested_flows = 32\npaused_flows = 16\n",
        "ofc_peer = true\n",
    );
    assert_eq!(config.switch.policies[3], PolicyKind::Ofc);
    assert_eq!(config.switch.policies[4], PolicyKind::Pfc);
    let given = OfcSettings { alpha: 0.8, flows: 64, congested_flows: 32, paused_flows: 16 };
    assert_eq!(config.switch.policy.ofc, given);
    assert_eq!((port(&config, 0).ofc_peer, port(&config, 1).ofc_peer), (false, true));
    assert_eq!(config.workers(&Vec::from_iter(0..16)).len(), 1);
}

#[test]
fn policy_ofc_without_any_ofc_peer_causes_note() {
    let notes = |policy: &str, peer: &str| {
        let notes = two_ports(&format!("[switch]\npolicy = {policy}\n"), peer).notes.into_iter();
        let of_peers = notes.filter(|note| note.message.contains("no port has `ofc_peer`"));
        of_peers.map(|note| note.position.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(notes("\"ofc\"", ""), [(2, 11)]);
    assert_eq!(notes("\"ofc\"", "ofc_peer = false\n"), [(2, 11)]);
    assert_eq!(notes("\"ofc\"", "ofc_peer = true\n"), []);
    assert_eq!(notes("\"ofc\"", "ofc_peer = \"auto\"\n"), []);
    assert_eq!(notes("{ 4 = \"ofc\" }", ""), [], "OFC in a lossy class causes a note");
    assert_eq!(notes("\"pfc\"", ""), []);
}

#[test]
fn keys_of_file_are_parsed_into_port_and_switch_settings() {
    let config = two_ports(
        "[switch]\nhttp = false\nname = \"s1\"\n[fdb]\nageing = \"never\"\ncapacity = 100\n",
        "mtu = 9000\npause_time = 1000\nrefresh = \"10us\"\nlearning = false\nlearn_limit = 0\nflood_unknown = false\nflood_group = false\nisolated = true\nrewrite_pcp = \"class\"\nrewrite_dscp = \"class\"\ndefault_class = 7\n[port.class.1]\nqueue = \"voq\"\nmax_rate = \"10M\"\n",
    );
    let b = port(&config, 1);
    assert_eq!((b.mtu_frame, b.pause_time.0, b.refresh), (9014, 1000, Nanos(10_000)));
    assert_eq!(
        (b.learning, b.learn_limit, b.flood_unknown, b.flood_group, b.isolated),
        (false, Some(0), false, false, true)
    );
    assert_eq!(b.rewrite_pcp, Some([0, 1, 2, 3, 4, 5, 6, 7]));
    assert_eq!(b.rewrite_dscp, Some([0, 8, 16, 24, 32, 40, 48, 56]));
    assert_eq!((b.default_class.get(), b.classes[1].queue), (7, QueueKind::Voq));
    assert_eq!(b.classes[1].max_rate, Some(BitRate::from_mbps(10)));
    assert_eq!((config.shell.http, config.shell.name.as_str()), (None, "s1"));
    assert_eq!((config.switch.fdb.ageing, config.switch.fdb.capacity), (None, 100));
}

#[test]
fn chunks_are_as_large_as_mtu_needs_up_to_4096_bytes() {
    let chunks = |mtu: u32| {
        let shell = two_ports(&format!("[defaults]\nmtu = {mtu}\n"), "").shell;
        (shell.chunks.bytes, shell.chunks.multi_buffer)
    };
    // Headers take 14 bytes, two tags 8, and the kernel keeps 256 bytes of each chunk.
    assert_eq!((chunks(1_770), chunks(1_771)), ((2_048, false), (4_096, false)));
    assert_eq!((chunks(3_818), chunks(3_819)), ((4_096, false), (4_096, true)));
    assert_eq!(xoff_config::shell::Chunks::MTU_OF_ONE, 3_818);
}

#[test] // proves: headroom
fn headroom_grows_with_speed_cable_and_mtu() {
    let speeds = [10_000, 25_000, 40_000, 50_000, 100_000, 200_000, 400_000, 800_000, 1_600_000];
    let (cables, mtus) = ([3, 30, 300, 2_000, 40_000, 1_000_000], [256, 1_500, 4_200, 9_216]);
    let headroom = |speed: u64, cable: u64, mtu: u32| {
        let defaults = format!("cable = \"{cable}m\"\nmtu = {mtu}\npeer_response = \"standard\"\n");
        let ports = ["a", "b"]
            .map(|it| format!("[[port]]\nname = \"{it}\"\ndevice = \"{it}\"\nspeed = \"{speed}M\"\n"));
        class(&read(&format!("[defaults]\n{defaults}{}", ports.concat())), 0, 3).headroom
    };
    let mut smaller = [[[Bytes::ZERO; 5]; 7]; 10]; // the first of each is no headroom
    for (s, speed) in (1..).zip(speeds) {
        for (c, cable) in (1..).zip(cables) {
            for (m, mtu) in (1..).zip(mtus) {
                let bytes = headroom(speed, cable, mtu);
                let least = smaller[s - 1][c][m].max(smaller[s][c - 1][m]).max(smaller[s][c][m - 1]);
                assert!(bytes > least, "{speed} Mb/s, {cable} m, MTU {mtu}: {bytes:?} after {least:?}");
                smaller[s][c][m] = bytes;
            }
        }
    }
}

#[test] // proves: shared-memory
fn lossless_classes_without_reserve_in_one_pool_cause_note() {
    let notes = |keys: &str| {
        let config = two_ports(&format!("[memory]\nmodel = \"shared\"\n{keys}"), "");
        config.notes.into_iter().filter(|note| note.message.contains("fill the shared pool")).count()
    };
    assert_eq!(notes("[defaults]\nlossless = [3]\n"), 0);
    assert_eq!(notes("[defaults]\nlossless = [3, 4]\n"), 1);
    let reserves = [3, 4].map(|class| format!("[class.{class}]\ningress_reserve = \"20KB\"\n")).concat();
    assert_eq!(notes(&format!("[defaults]\nlossless = [3, 4]\n{reserves}")), 0);
}

#[test]
fn watchdog_has_times_of_sonic_by_default() {
    let config = two_ports("[class.3]\nwatchdog = \"drop\"\n", "[port.class.3]\nwatchdog = \"off\"\n");
    let ms = Nanos::from_millis;
    let on = WatchdogSettings { action: WatchdogAction::Drop, detect: ms(200), restore: ms(200), share: 100 };
    assert_eq!((class(&config, 0, 3).watchdog, class(&config, 1, 3).watchdog), (Some(on), None));
    assert_eq!(class(&config, 0, 0).watchdog, None);
    let own = "[class.3]\nwatchdog = \"forward\"\nwatchdog_detect = \"1s\"\nwatchdog_restore = \"5ms\"\nwatchdog_share = 95\n";
    let (action, detect) = (WatchdogAction::Forward, Nanos::from_secs(1));
    let all = WatchdogSettings { action, detect, restore: ms(5), share: 95 };
    assert_eq!(class(&two_ports(own, ""), 0, 3).watchdog, Some(all));
}

#[test]
fn default_congestion_point_has_values_of_qcn_paper() {
    use xoff_flow_control::settings::{Culprit, QcnSettings};
    assert_eq!(two_ports("", "").switch.qcn, QcnSettings::PAPER);
    let given = two_ports(
        "[qcn]\ningress = [3]\nset_point = \"20KB\"\nweight = 4\nsample_every = \"30KB\"\njitter = 0\nframes_per_cnm = 7\nculprit = \"occupancy-deterministic\"\nflows = 9\nseed = 5\n",
        "",
    );
    let expected = QcnSettings {
        ingress: ClassSet(1 << 3),
        egress: ClassSet::NONE,
        set_point: Bytes(20_000),
        weight: 4,
        sample_every: Bytes(30_000),
        jitter_percent: 0,
        frames_per_cnm: 7,
        culprit: Culprit::OccupancyDeterministic,
        flows_max: 9,
        seed: 5,
    };
    assert_eq!(given.switch.qcn, expected);
    assert_eq!(given.workers(&Vec::from_iter(0..64)).len(), 1, "the switch has several workers");
}

#[test]
fn qcn_set_point_at_xoff_causes_warning() {
    let warned = |set_point: u32| {
        let text =
            format!("[qcn]\ningress = [3]\nset_point = {set_point}\n[class.3]\nxoff = 100000\nxon = 50000\n");
        two_ports(&text, "").warnings.iter().any(|warning| warning.message.contains("set point"))
    };
    assert_eq!((warned(99_999), warned(100_000)), (false, true));
}

#[test]
fn automatic_ecn_marking_starts_at_half_of_xoff() {
    let ecn = |text: &str, number| class(&two_ports(text, ""), 0, number).ecn;
    assert_eq!(ecn("", 3), None);
    let roce = "[switch]\nprofile = \"roce\"\n[class.3]\nxoff = 80000\n";
    let auto = EcnSettings { min: Bytes(40_000), max: Bytes(80_000), probability: 0.2, wred: false };
    assert_eq!((ecn(roce, 3), ecn(roce, 0)), (Some(auto), None));
    let lossy = "[class.0]\negress_max = 300000\necn_min = \"auto\"\nwred = true\n";
    let early = EcnSettings { min: Bytes(75_000), max: Bytes(150_000), probability: 0.2, wred: true };
    assert_eq!(ecn(lossy, 0), Some(early));
    let own = "[class.3]\necn_min = \"20KB\"\necn_max = \"30KB\"\necn_probability = 1\n";
    let all = EcnSettings { min: Bytes(20_000), max: Bytes(30_000), probability: 1.0, wred: false };
    assert_eq!(ecn(own, 3), Some(all));
    assert_eq!(ecn(&format!("{own}[class.4]\necn_min = \"off\"\n"), 4), None);
}

#[test] // proves: check
fn alpha_log2_that_leaves_no_room_for_frame_causes_warning() {
    let of = |memory: &str, class: &str| {
        let text = format!("[memory]\nmodel = \"shared\"\n{memory}\n{class}\n");
        let found = two_ports(&text, "").warnings.into_iter().map(|it| it.message);
        found.filter(|it| it.contains("do not fit in classes")).collect::<Vec<_>>()
    };
    assert_eq!(of("pool = 195328\nalpha_log2 = -7", ""), [""; 0], "1526 bytes");
    let found = of("pool = 195327\nalpha_log2 = -7", "");
    assert_eq!(
        found,
        [
            "the longest frames (1526 bytes) do not fit in classes 0-2, 4-7 of port a: a queue may take at most 1525 bytes (`pool` x 2^-7)"
        ]
    );
    assert_eq!(of("pool = 195327\nalpha_log2 = \"none\"", ""), [""; 0]);
    let found = of("pool = 195327\nalpha_log2 = -7", "[class.0]\ningress_reserve = 1");
    assert!(found[0].contains("in classes 1-2, 4-7 of"), "{found:?}");
}
