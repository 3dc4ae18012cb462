//! Quantities of the dataplane, one newtype each.
//!
//! Frame bytes include the FCS, as in 802.1Q. Only pacing adds layer-1 overhead ([`Bytes::on_line`]).

use std::fmt;

use derive_more::{Add, AddAssign, Sub, SubAssign};

mod port_set;

pub use port_set::PortSet;

/// FCS length in bytes; frames from AF_XDP lack it.
pub const FCS: u32 = 4;
/// Bytes that a frame has on a line in addition to those that AF_XDP shows: FCS (4), preamble and start delimiter (8),
/// gap (12).
pub const LINE_OVERHEAD: u32 = FCS + 8 + 12;
/// Bytes of destination, source and EtherType.
pub const ETHERNET_HEADER: u32 = 14;
/// Bytes of tags that MTUs do not count: two 802.1Q or 802.1ad tags.
pub const TAGS: u32 = 8;
/// Number of traffic classes of a port.
pub const CLASSES: usize = 8;
/// Bits per pause quantum (802.3 31B.2, 802.1Qbb).
pub const QUANTUM_BITS: u64 = 512;
/// Maximum number of ports of a switch.
pub const PORTS_MAX: usize = 256;

/// Amount of data in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Add, AddAssign, Sub, SubAssign,
)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Bytes = Bytes(0);
    /// Largest amount, which stands for "no limit".
    pub const MAX: Bytes = Bytes(u64::MAX);
    /// Bytes on the line between two frames: preamble, start delimiter and gap.
    pub const BETWEEN_FRAMES: u64 = (LINE_OVERHEAD - FCS) as u64;

    /// Returns the size of a frame as buffers count it: padded to 60 bytes (as on lines, but not on a veth), plus FCS.
    #[inline]
    #[must_use]
    pub const fn of_frame(frame_len: u32) -> Bytes {
        let padded = if frame_len < 60 { 60 } else { frame_len };
        Bytes(padded as u64 + FCS as u64)
    }

    /// Returns a frame's bytes on the line, with preamble and gap.
    #[inline]
    #[must_use]
    pub const fn on_line(frame_len: u32) -> Bytes {
        Bytes(Bytes::of_frame(frame_len).0 + Bytes::BETWEEN_FRAMES)
    }

    /// Returns `self - other`, or zero.
    #[inline]
    #[must_use]
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// Returns `self + other`, or [`Bytes::MAX`].
    #[inline]
    #[must_use]
    pub const fn saturating_add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

/// Time or duration in nanoseconds. Times count from the zero of a monotonic clock (AF_XDP), or from the start of the
/// run (simulations).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Add, AddAssign)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Time zero, or a duration of zero.
    pub const ZERO: Nanos = Nanos(0);
    /// Time that never comes: no deadline.
    pub const NEVER: Nanos = Nanos(u64::MAX);

    /// Returns `n` microseconds.
    #[inline]
    #[must_use]
    pub const fn from_micros(n: u64) -> Nanos {
        Nanos(n * 1_000)
    }

    /// Returns `n` milliseconds.
    #[inline]
    #[must_use]
    pub const fn from_millis(n: u64) -> Nanos {
        Nanos(n * 1_000_000)
    }

    /// Returns `n` seconds.
    #[inline]
    #[must_use]
    pub const fn from_secs(n: u64) -> Nanos {
        Nanos(n * 1_000_000_000)
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the time `span` after `self`; [`Nanos::NEVER`] is returned unchanged.
    #[inline]
    #[must_use]
    pub const fn after(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }
}

/// Layer-1 rate in bits per second; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate(u64);

impl BitRate {
    /// Creates a rate. `None` for zero, and above 1.6 Tb/s, where products with nanoseconds would overflow.
    #[must_use]
    pub const fn new(bits_per_second: u64) -> Option<BitRate> {
        if bits_per_second == 0 || bits_per_second > 1_600_000_000_000 {
            None
        } else {
            Some(BitRate(bits_per_second))
        }
    }

    /// Returns a rate of `n` Mb/s.
    ///
    /// # Panics
    /// If `n` is outside 1..=1,600,000.
    #[must_use]
    pub const fn from_mbps(n: u64) -> BitRate {
        match BitRate::new(n * 1_000_000) {
            Some(rate) => rate,
            None => panic!("a rate must be from 1 bit/s to 1.6 Tb/s"),
        }
    }

    /// Returns a rate of `n` Gb/s.
    ///
    /// # Panics
    /// If `n` is outside 1..=1,600.
    #[must_use]
    pub const fn from_gbps(n: u64) -> BitRate {
        BitRate::from_mbps(n * 1_000)
    }

    /// Returns the rate in bits per second.
    #[inline]
    #[must_use]
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Returns the time that `bytes` take at this rate, rounded up.
    #[inline]
    #[must_use]
    pub fn time_of(self, bytes: Bytes) -> Nanos {
        self.time_of_bits(u128::from(bytes.0) * 8)
    }

    /// Returns the duration of pause time `quanta` at this line rate, rounded up.
    #[inline]
    #[must_use]
    pub fn time_of_quanta(self, quanta: Quanta) -> Nanos {
        self.time_of_bits(u128::from(quanta.0) * u128::from(QUANTUM_BITS))
    }

    /// Returns the bytes sent in `span`, rounded up.
    #[inline]
    #[must_use]
    pub fn bytes_in(self, span: Nanos) -> Bytes {
        let bytes = (u128::from(span.0) * u128::from(self.0)).div_ceil(8_000_000_000);
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    fn time_of_bits(self, bits: u128) -> Nanos {
        let nanos = (bits * 1_000_000_000).div_ceil(u128::from(self.0));
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Rate step k of policy GFC: the rate C / 2^k, where C is the line rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RateStep(u8);

impl RateStep {
    /// Full line rate.
    pub const FULL: RateStep = RateStep(0);
    /// Lowest rate: a 65,536th of the line rate.
    pub const MAX: RateStep = RateStep(16);

    /// Creates step k = `step` (1 / 2^k of the line rate); `None` above [`RateStep::MAX`].
    #[must_use]
    pub const fn new(step: u8) -> Option<RateStep> {
        if step <= RateStep::MAX.0 { Some(RateStep(step)) } else { None }
    }

    /// Returns the step number k.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns the rate of this step on a line of rate `line`.
    #[inline]
    #[must_use]
    pub const fn of(self, line: BitRate) -> BitRate {
        let rate = line.0 >> self.0;
        BitRate(if rate == 0 { 1 } else { rate })
    }
}

/// Pause time in 512 bit times; zero resumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quanta(pub u16);

/// Port, by its index in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u8);

impl PortId {
    /// Returns the port's index in tables.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Traffic class (802.1Q priority), 0..=7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(u8);

impl Class {
    /// All classes, lowest first.
    pub const ALL: [Class; CLASSES] =
        [Class(0), Class(1), Class(2), Class(3), Class(4), Class(5), Class(6), Class(7)];

    /// Creates a class; `None` above 7.
    #[must_use]
    pub const fn new(class: u8) -> Option<Class> {
        if class < 8 { Some(Class(class)) } else { None }
    }

    /// Returns the class in the low three bits of `bits`, such as a PCP.
    #[inline]
    #[must_use]
    pub const fn from_low_bits(bits: u8) -> Class {
        Class(bits & 7)
    }

    /// Returns the class number.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns the class's index in tables.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        (self.0 & 7) as usize
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Set of classes; bit n is class n.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ClassSet(pub u8);

impl ClassSet {
    /// Set of no classes.
    pub const NONE: ClassSet = ClassSet(0);
    /// Set of all eight classes.
    pub const ALL: ClassSet = ClassSet(0xff);

    /// Returns whether the set has `class`.
    #[inline]
    #[must_use]
    pub const fn contains(self, class: Class) -> bool {
        self.0 & (1 << class.0) != 0
    }

    /// Adds `class` to the set.
    #[inline]
    pub const fn insert(&mut self, class: Class) {
        self.0 |= 1 << class.0;
    }

    /// Removes `class` from the set.
    #[inline]
    pub const fn remove(&mut self, class: Class) {
        self.0 &= !(1 << class.0);
    }

    /// Returns whether the set is empty.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the highest class of the set.
    #[inline]
    #[must_use]
    pub const fn highest(self) -> Option<Class> {
        if self.is_empty() { None } else { Some(Class::from_low_bits(self.0.ilog2().to_le_bytes()[0])) }
    }

    /// Returns the classes of the set, lowest first.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Class> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let lowest = rest.trailing_zeros() as usize;
            rest &= rest.wrapping_sub(1);
            Class::ALL.get(lowest).copied()
        })
    }
}

impl FromIterator<Class> for ClassSet {
    fn from_iter<T: IntoIterator<Item = Class>>(classes: T) -> ClassSet {
        let mut set = ClassSet::NONE;
        classes.into_iter().for_each(|class| set.insert(class));
        set
    }
}

impl fmt::Debug for ClassSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Class::get)).finish()
    }
}

/// Layer-3 interface of the router: a routed port or a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Site {
    /// Routed port, which bridges nothing.
    Port(PortId),
    /// VLAN with the router as a station.
    Vlan(u16),
}

impl Site {
    /// Returns the VLAN identifier of the interface; 0 for a port.
    #[inline]
    #[must_use]
    pub const fn vid(self) -> u16 {
        match self {
            Site::Port(_) => 0,
            Site::Vlan(vid) => vid,
        }
    }

    /// Returns the port; `None` for a VLAN.
    #[inline]
    #[must_use]
    pub const fn port(self) -> Option<PortId> {
        match self {
            Site::Port(port) => Some(port),
            Site::Vlan(_) => None,
        }
    }
}

/// Ethernet address.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// Broadcast address ff:ff:ff:ff:ff:ff.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Parses an address of hexadecimal digit pairs separated by colons.
    #[must_use]
    pub fn parse(text: &str) -> Option<MacAddr> {
        let two_digits = |text: &str| text.len() == 2 && text.chars().all(|c| c.is_ascii_hexdigit());
        let octet = |text: &str| two_digits(text).then(|| u8::from_str_radix(text, 16).ok()).flatten();
        let octets: Vec<u8> = text.split(':').map(octet).collect::<Option<_>>()?;
        octets.try_into().ok().map(MacAddr)
    }

    /// Returns the address as a number, to be stored in a counter.
    #[inline]
    #[must_use]
    pub const fn to_number(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, 0, 0]) >> 16
    }

    /// Reverses [`MacAddr::to_number`].
    #[inline]
    #[must_use]
    pub const fn from_number(number: u64) -> MacAddr {
        let [_, _, a, b, c, d, e, f] = number.to_be_bytes();
        MacAddr([a, b, c, d, e, f])
    }

    /// Returns whether the address is multicast or broadcast.
    #[inline]
    #[must_use]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Returns whether the address is in 01:80:c2:00:00:00..0f, never forwarded by bridges (802.1Q table 8-1).
    #[inline]
    #[must_use]
    pub const fn is_link_local(self) -> bool {
        matches!(self.0, [0x01, 0x80, 0xc2, 0x00, 0x00, 0x00..=0x0f])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantum_at_400g_is_1_28_ns() {
        let rate = BitRate::from_gbps(400);
        assert_eq!(rate.time_of_quanta(Quanta(100)), Nanos(128));
        assert_eq!(rate.time_of_quanta(Quanta(65535)), Nanos(83_885)); // 83.9 us
        assert_eq!(BitRate::from_gbps(1).time_of_quanta(Quanta(1)), Nanos(512));
    }

    #[test]
    fn rate_conversions_round_up() {
        let rate = BitRate::from_gbps(10);
        assert_eq!(rate.time_of(Bytes(1250)), Nanos(1000));
        assert_eq!(rate.time_of(Bytes(1251)), Nanos(1001));
        assert_eq!(rate.bytes_in(Nanos(1000)), Bytes(1250));
        assert_eq!(BitRate::new(0), None);
    }

    #[test]
    fn frame_size_is_counted_after_padding_to_60_bytes() {
        assert_eq!([14, 60, 61].map(Bytes::of_frame), [64, 64, 65].map(Bytes));
        assert_eq!(Bytes::on_line(42), Bytes(84));
        assert_eq!(Bytes::on_line(60), Bytes(84));
        assert_eq!(Bytes::on_line(61), Bytes(85));
    }

    #[test]
    fn mac_address_is_parsed_from_colon_separated_hex_pairs() {
        let address = MacAddr([2, 0, 0x10, 0xff, 0, 1]);
        assert_eq!(MacAddr::parse(&address.to_string()), Some(address));
        assert_eq!(MacAddr::parse("02:00:10:FF:00:01"), Some(address));
        for wrong in [
            "",
            "02:00:10:ff:00",
            "02:00:10:ff:00:01:02",
            "2:0:10:ff:0:1",
            "02-00-10-ff-00-01",
            "+2:00:10:ff:00:01",
        ] {
            assert_eq!(MacAddr::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn port_set_finds_next_member_and_wraps_around() {
        let set: PortSet = [3, 63, 64, 200, 255].into_iter().map(PortId).collect();
        assert_eq!(set.iter().map(|p| p.0).collect::<Vec<_>>(), [3, 63, 64, 200, 255]);
        assert_eq!(set.first_from(PortId(65)), Some(PortId(200)));
        assert_eq!(set.next_from(PortId(65)), Some(PortId(200)));
        assert_eq!(set.next_from(PortId(201)), Some(PortId(255)));
        assert_eq!(set.without(&PortSet::from_iter([PortId(255)])).next_from(PortId(201)), Some(PortId(3)));
        let low: PortSet = [3, 63].map(PortId).into_iter().collect();
        let next = |from| low.next_from(PortId(from)).map(|port| port.0);
        assert_eq!([0, 3, 4, 63, 64, 255].map(next), [3, 3, 63, 63, 3, 3].map(Some));
        assert_eq!(PortSet::NONE.next_from(PortId(9)), None);
        assert_eq!(set.without(&set).first_from(PortId(0)), None);
        assert_eq!(set.len(), 5);
    }
}
