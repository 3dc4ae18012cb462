//! Instructions of classic BPF, and offsets of a frame's metadata (`SKF_AD_OFF` in linux/filter.h).

pub(crate) const LOAD_WORD: u16 = 0x20;
pub(crate) const LOAD_HALF: u16 = 0x28;
pub(crate) const IF_EQUAL: u16 = 0x15;
pub(crate) const RETURN: u16 = 0x06;

/// Offset of the metadata field with the frame's EtherType; if the kernel has removed a VLAN tag, it is the EtherType after the tag.
pub(crate) const PROTOCOL: u32 = 0xffff_f000;
pub(crate) const VLAN_TAG: u32 = PROTOCOL + 44;
pub(crate) const VLAN_TAG_PRESENT: u32 = PROTOCOL + 48;
pub(crate) const VLAN_TPID: u32 = PROTOCOL + 60;

pub(crate) const ALL: u16 = 3;
