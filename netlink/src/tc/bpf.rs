pub(crate) const TCA_BPF_OPS: u16 = 5;
pub(crate) const ALL_PROTOCOLS: u16 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfInstruction {
    pub code: u16,
    pub jt: u8,
    pub jf: u8,
    pub k: u32,
}

impl BpfInstruction {
    pub(crate) fn to_bytes(self) -> [u8; 8] {
        let [c0, c1] = self.code.to_ne_bytes();
        let [k0, k1, k2, k3] = self.k.to_ne_bytes();
        [c0, c1, self.jt, self.jf, k0, k1, k2, k3]
    }

    pub(crate) fn from_bytes([c0, c1, jt, jf, k0, k1, k2, k3]: [u8; 8]) -> BpfInstruction {
        BpfInstruction { code: u16::from_ne_bytes([c0, c1]), jt, jf, k: u32::from_ne_bytes([k0, k1, k2, k3]) }
    }
}
