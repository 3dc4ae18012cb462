//! Default settings of the test bed: 1 Gb/s, one class per PCP, classes 3 and 4 lossless with the link's headroom, at most one data frame
//! in the driver.

use xoff_flow_control::headroom::{Headroom, Link};
use xoff_flow_control::settings::{
    Accounting, ClassSettings, EgressLimits, FlowControl, HeadroomPlace, Memory, PortSettings, SharedMemory,
    SwitchSettings, Trust, WhenFull,
};
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, MacAddr, Nanos, Quanta};

/// Rate of all lines.
pub const GIGABIT: BitRate = BitRate::from_gbps(1);
/// Maximum frame length in bytes, without tag and FCS.
pub const MTU_FRAME: u32 = 1514;
/// Default lossless classes: 3 and 4.
pub const LOSSLESS: ClassSet = ClassSet(0b0001_1000);
/// Propagation delay of all cables.
pub const CABLE: Nanos = Nanos(500);
/// Default XOFF threshold in bytes.
pub const XOFF: Bytes = Bytes(30_000);
/// Default XON threshold in bytes.
pub const XON: Bytes = Bytes(20_000);

/// Short link of 1 Gb/s, whose peer obeys pauses at once.
pub const LINK: Link = Link {
    speed: GIGABIT,
    mtu_frame: MTU_FRAME,
    cable: CABLE,
    loop_gap: Nanos::ZERO,
    commit: Bytes(1),
    peer_response: Nanos::ZERO,
    peer_backlog: Bytes::ZERO,
};

/// Combinations of accounting, and of behaviour at full egress queues, that lose no lossless frame.
pub const KEEPING: [(Accounting, WhenFull); 3] = [
    (Accounting::UntilTransmitted, WhenFull::Drop),
    (Accounting::UntilTransmitted, WhenFull::Stop),
    (Accounting::UntilForwarded, WhenFull::Stop),
];

/// Plan of a switch in the test bed.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names say it
pub struct SwitchPlan {
    pub settings: SwitchSettings,
    /// Number of the worker that owns each port. Empty if one worker owns all ports.
    pub owners: Vec<u8>,
    /// Interval at which the driver polls. Zero means that the driver notices events at once.
    pub gap: Nanos,
    pub slots: u32,
    pub control_slots: u32,
    /// Bytes kept free before each frame, for inserted tags.
    pub room: usize,
    /// True if the test bed permits losses of lossless frames, because a peer obeys late.
    pub may_lose: bool,
    /// True if the test bed permits pauses to expire, because control frames are lost.
    pub may_lapse: bool,
}

/// Plans a switch with a port for each of these links.
pub fn switch(links: &[Link]) -> SwitchPlan {
    let ports: Vec<PortSettings> = (0..=u8::MAX).zip(links).map(|(index, link)| port(index, link)).collect();
    let mut plan = SwitchPlan {
        settings: SwitchSettings::plain(ports),
        owners: Vec::new(),
        gap: links.iter().map(|link| link.loop_gap).max().unwrap_or_default(),
        slots: 4096,
        control_slots: 256,
        room: 16,
        may_lose: false,
        may_lapse: false,
    };
    plan.settings.fdb.capacity = 256;
    let lossless = plan.settings.ports.iter().flat_map(|port| port.classes.iter().filter(|c| c.lossless));
    let all = Bytes(lossless.map(|class| (class.xoff + class.headroom).0).sum());
    plan.each_lossless(|class| class.egress_max = all + Bytes(1)); // one byte more, because a queue at its maximum is full
    plan
}

impl SwitchPlan {
    /// Changes every port's settings.
    pub fn each_port(&mut self, change: impl FnMut(&mut PortSettings)) {
        self.settings.ports.iter_mut().for_each(change);
    }

    /// Changes every lossless class's settings.
    pub fn each_lossless(&mut self, change: impl FnMut(&mut ClassSettings)) {
        let classes = self.settings.ports.iter_mut().flat_map(|port| &mut port.classes);
        classes.filter(|class| class.lossless).for_each(change);
    }
}

/// Returns a shared memory so small that a few frames fill it.
pub fn tight_memory(alpha_log2: Option<i8>) -> Memory {
    Memory::Shared(SharedMemory {
        pool: Bytes(5_000),
        ingress_limit: Bytes(4_000),
        egress_limit: Bytes(1_500),
        port_limit: Bytes(3_000),
        alpha_log2,
        ..SharedMemory::UNLIMITED
    })
}

/// Returns a shared memory so small that a few frames fill it, with egress limits for all classes and headroom in the
/// pool. Lossless frames may be lost.
pub fn tight_memory_for_all(alpha_log2: Option<i8>) -> Memory {
    let Memory::Shared(shared) = tight_memory(alpha_log2) else { return Memory::Dedicated };
    Memory::Shared(SharedMemory {
        egress_limit: Bytes(2_500),
        egress_port_limit: Bytes(1_500),
        egress_limits: EgressLimits::All,
        headroom: HeadroomPlace::Pool,
        ..shared
    })
}

fn port(index: u8, link: &Link) -> PortSettings {
    let mac = MacAddr([2, 0, 0, 1, 0, index]);
    let classes = Class::ALL.map(|class| class_settings(LOSSLESS.contains(class), link));
    PortSettings {
        mtu_frame: link.mtu_frame,
        trust: Trust::Pcp,
        dscp_to_class: [Class::ALL[0]; 64],
        flow_control: FlowControl::Pfc { obey: LOSSLESS, send: LOSSLESS },
        pause_time: Quanta(1000),
        refresh: Nanos(link.speed.time_of_quanta(Quanta(1000)).0 / 2),
        burst: Bytes::on_line(link.mtu_frame),
        commit: link.commit,
        past_xoff: Headroom::of(link).total(),
        peer_response: link.peer_response,
        ..PortSettings::plain(format!("p{index}"), mac, link.speed, classes)
    }
}

fn class_settings(lossless: bool, link: &Link) -> ClassSettings {
    ClassSettings {
        lossless,
        xoff: XOFF,
        xon: XON,
        headroom: if lossless { Headroom::of(link).total() } else { Bytes::ZERO },
        ingress_reserve: Bytes(3_000),
        egress_reserve: Bytes(3_000),
        egress_warn: Bytes(20_000),
        egress_xoff: Bytes(25_000),
        egress_xon: Bytes(20_000),
        ..ClassSettings::lossy(Bytes(60_000))
    }
}
