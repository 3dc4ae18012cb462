//! Base settings of simulators, benchmarks and tests.

use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, ClassSet, MacAddr, Nanos, Quanta};

use super::{
    ClassSettings, FdbSettings, FlowControl, HashSeed, Lldp, PortSettings, QueueKind, Service,
    SwitchSettings, Trust,
};
use crate::settings::PuntLimit;

const MTU_FRAME: u32 = 1514;
const FDB_CAPACITY: usize = 8_192;

impl SwitchSettings {
    /// Returns settings with plain PFC, dedicated memory, one VLAN and a public hash seed.
    #[must_use]
    pub fn plain(ports: Vec<PortSettings>) -> SwitchSettings {
        SwitchSettings {
            ports,
            accounting: Default::default(),
            memory: Default::default(),
            lossy_pool: Default::default(),
            when_full: Default::default(),
            pipeline: Default::default(),
            policies: Default::default(),
            shadows: Vec::new(),
            policy: Default::default(),
            hash: Default::default(),
            fdb: FdbSettings {
                capacity: FDB_CAPACITY,
                ageing: None,
                statics: Vec::new(),
                seed: HashSeed::PUBLIC,
            },
            vlans: Vec::new(),
            groups: Vec::new(),
            routed_vlans: Vec::new(),
            multicast: Default::default(),
            qcn: Default::default(),
        }
    }
}

impl PortSettings {
    /// Returns a port in VLAN 1 that trusts tags and DSCP, obeys every pause, and sends XOFF for lossless classes. Its
    /// driver may hold two long frames.
    #[must_use]
    pub fn plain(
        name: impl Into<String>,
        mac: MacAddr,
        speed: BitRate,
        classes: [ClassSettings; CLASSES],
    ) -> PortSettings {
        let lossless = Class::ALL.into_iter().filter(|class| classes[class.index()].lossless).collect();
        let pause_time = Quanta(u16::MAX);
        let ahead = Bytes(2 * Bytes::on_line(MTU_FRAME).0);
        PortSettings {
            name: name.into(),
            mac,
            speed,
            max_rate: None,
            mtu_frame: MTU_FRAME,
            trust: Trust::Both,
            default_class: Class::ALL[0],
            pcp_to_class: Class::ALL,
            dscp_to_class: std::array::from_fn(|dscp| Class::ALL[dscp / 8]),
            rewrite_pcp: None,
            rewrite_dscp: None,
            pvid: Some(1),
            learning: true,
            learn_limit: None,
            storm_limit: Default::default(),
            loop_detection: Default::default(),
            flood_unknown: true,
            flood_group: true,
            multicast_router: false,
            fast_leave: false,
            isolated: false,
            routed: false,
            flow_control: FlowControl::Pfc { obey: ClassSet::ALL, send: lossless },
            lldp: Lldp::Off,
            punt_limit: PuntLimit::PLAIN,
            dcbx: Default::default(),
            auto_peer: Default::default(),
            ofc_peer: false,
            gfc_peer: false,
            pause_time,
            refresh: Nanos(speed.time_of_quanta(pause_time).0 / 2),
            burst: ahead,
            commit: ahead,
            past_xoff: Bytes::MAX,
            peer_response: Nanos::NEVER,
            classes,
        }
    }
}

impl ClassSettings {
    /// Returns a lossy class with `room` bytes at ingress and at egress. Egress congestion begins at half of `room`.
    #[must_use]
    pub const fn lossy(room: Bytes) -> ClassSettings {
        let half = Bytes(room.0 / 2);
        ClassSettings {
            lossless: false,
            xoff: half,
            xon: Bytes(room.0 / 4),
            headroom: Bytes::ZERO,
            xoff_frames: u32::MAX,
            ingress_reserve: Bytes::ZERO,
            ingress_max: room,
            egress_max: room,
            egress_max_frames: u32::MAX,
            egress_reserve: Bytes::ZERO,
            egress_warn: half,
            egress_xoff: half,
            egress_xon: half,
            queue: QueueKind::Fifo,
            service: Service::Weighted(1),
            max_rate: None,
            ecn: None,
            watchdog: None,
        }
    }
}
