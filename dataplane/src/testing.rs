//! What unit and property tests of this crate share.

use proptest::prelude::*;

use crate::frame::{Frame, FrameStore};
use crate::settings::{ClassSettings, PortSettings};
use crate::units::{BitRate, Bytes, MacAddr, Nanos};
use crate::wire::FlowKey;

/// Frames of the kinds that a switch looks into (tagged or not, CN-TAG or not, IP or not), with
/// arbitrary contents, cut at an arbitrary length.
pub fn frame_bytes() -> impl Strategy<Value = Vec<u8>> {
    let ether_type =
        prop_oneof![Just(0x0800u16), Just(0x86dd), Just(0x8808), Just(0x8100), Just(0x88a8), any::<u16>()];
    let version = prop_oneof![Just(0x45u8), Just(0x44), Just(0x60), Just(0x4f), any::<u8>()];
    let tag = prop::option::of(any::<u16>());
    let cn_tag = prop::option::of(any::<u16>());
    (any::<[u8; 12]>(), tag, cn_tag, ether_type, version, any::<[u8; 100]>(), 0usize..=118).prop_map(
        |(macs, tag, cn_tag, ether_type, version, rest, len)| {
            let mut bytes = macs.to_vec();
            for (tpid, word) in [([0x81, 0x00], tag), ([0x22, 0xe9], cn_tag)] {
                if let Some(word) = word {
                    bytes.extend(tpid);
                    bytes.extend(word.to_be_bytes());
                }
            }
            bytes.extend(ether_type.to_be_bytes());
            bytes.push(version);
            bytes.extend(rest);
            bytes.truncate(len);
            bytes
        },
    )
}

/// A flow of any family.
pub fn any_flow() -> impl Strategy<Value = FlowKey> {
    let ip = || (any::<u8>(), any::<[u16; 2]>());
    prop_oneof![
        (ip(), any::<[u8; 4]>(), any::<[u8; 4]>()).prop_map(|((protocol, ports), src, dst)| FlowKey::V4 {
            protocol,
            ports,
            src,
            dst
        }),
        (ip(), any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(|((protocol, ports), src, dst)| FlowKey::V6 {
            protocol,
            ports,
            src,
            dst
        }),
        (any::<[u8; 6]>(), any::<[u8; 6]>(), any::<u16>()).prop_map(|(src, dst, ether_type)| {
            FlowKey::L2 { src: MacAddr(src), dst: MacAddr(dst), ether_type }
        }),
    ]
}

/// A port as plain as can be: 1 Gb/s, in VLAN 1, class 3 lossless, maps one to one.
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

/// A store of a single frame with some room in front of it.
pub struct OneSlot {
    bytes: Vec<u8>,
    start: usize,
}

impl OneSlot {
    /// The frame `bytes` behind `room` free bytes.
    pub fn holding(bytes: &[u8], room: usize) -> (OneSlot, Frame) {
        let mut slot = vec![0xee; room];
        slot.extend(bytes);
        let len = u32::try_from(bytes.len()).expect("a short frame");
        (OneSlot { bytes: slot, start: room }, Frame::new(0, len))
    }
}

impl FrameStore for OneSlot {
    fn capacity(&self) -> u32 {
        1
    }

    fn head(&self, _: &Frame) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn head_mut(&mut self, _: &Frame) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    fn move_start(&mut self, frame: &mut Frame, by: i32) -> bool {
        let len = frame.len().checked_add_signed(-by);
        let start = u32::try_from(self.start).ok().and_then(|start| start.checked_add_signed(by));
        let (Some(len), Some(start)) = (len, start) else { return false };
        self.start = start as usize;
        frame.resize(len);
        true
    }

    fn free(&mut self, frame: Frame) {
        let _ = frame.into_parts();
    }
}
