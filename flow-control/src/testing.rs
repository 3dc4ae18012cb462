use xoff_wire::units::{BitRate, Bytes, MacAddr, Nanos};

use crate::settings::{ClassSettings, PortSettings};

pub fn port_settings(index: u8) -> PortSettings {
    let mac = MacAddr([2, 0, 0, 0, 0xff, index]);
    let classes = std::array::from_fn(class_settings);
    PortSettings {
        refresh: Nanos::from_millis(10),
        burst: Bytes(3_000),
        commit: Bytes(3_000),
        ..PortSettings::plain(format!("p{index}"), mac, BitRate::from_gbps(1), classes)
    }
}

fn class_settings(class: usize) -> ClassSettings {
    let lossless = class == 3;
    ClassSettings {
        lossless,
        xoff: Bytes(20_000),
        xon: Bytes(10_000),
        headroom: if lossless { Bytes(20_000) } else { Bytes::ZERO },
        ingress_reserve: Bytes(2_000),
        egress_reserve: Bytes(2_000),
        egress_warn: Bytes(8_000),
        egress_xoff: Bytes(10_000),
        egress_xon: Bytes(8_000),
        ..ClassSettings::lossy(Bytes(40_000))
    }
}
