//! Takes the choices of a fuzz run from the bytes of its input; after the last byte, each choice is zero.

use xoff_flow_control::settings::PolicyKind;
use xoff_testkit::bed::Star;
use xoff_wire::units::{BitRate, Class, MacAddr, Nanos};

pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub fn below(&mut self, n: u8) -> u8 {
        self.byte() % n
    }

    pub fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    pub fn one_of<T: Copy, const N: usize>(&mut self, choices: [T; N]) -> T {
        choices[usize::from(self.byte()) % N]
    }

    pub fn bytes(&mut self, most: u8) -> Vec<u8> {
        let count = usize::from(1 + self.below(most)).min(self.0.len());
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest;
        if bytes.is_empty() { vec![0] } else { bytes.to_vec() }
    }

    pub fn class(&mut self) -> Class {
        Class::from_low_bits(self.byte())
    }

    pub fn policy(&mut self) -> PolicyKind {
        self.one_of(PolicyKind::ALL)
    }

    pub fn rate(&mut self) -> Option<BitRate> {
        self.one_of([None, Some(BitRate::from_mbps(20)), Some(BitRate::from_mbps(300))])
    }

    pub fn len(&mut self) -> u32 {
        60 + u32::from(self.byte()) * 540 / 255
    }

    /// Returns a duration of 256 ns to 16 ms, in finer steps for short times.
    pub fn span(&mut self) -> Nanos {
        let byte = u64::from(self.byte());
        Nanos((16 + (byte & 15)) << (4 + (byte >> 4)))
    }

    pub fn address(&mut self, star: &Star) -> MacAddr {
        let ports = star.switch().settings.ports.len();
        match self.byte() {
            byte @ 0..0xc0 => star.mac(usize::from(byte) % ports),
            byte @ 0xc0..0xe0 => MacAddr([2, 0, 0, 0, 0x77, byte]),
            byte @ 0xe0..0xf0 => MacAddr([1, 0, 0x5e, 0, 0, byte]),
            _ => MacAddr::BROADCAST,
        }
    }
}
