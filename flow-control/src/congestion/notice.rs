//! Congestion notification message (CNM) made from a sample of a congested buffer.

use xoff_wire::Header;
use xoff_wire::cnm::{Cnm, CongestionPointId, Envelope, Msdu};
use xoff_wire::units::{Class, MacAddr};

use super::qcn::Sample;

impl Sample {
    /// Returns the CNM to the source of the blamed frame `(header, head)`, from the congestion point of `class` at the
    /// port with address `mac`. `None` if that frame is a CNM or has a group source.
    #[must_use]
    pub fn notice(
        &self,
        (header, head): (&Header, &[u8]),
        mac: MacAddr,
        class: Class,
    ) -> Option<(Envelope, Cnm)> {
        if header.src.is_group() || Cnm::is_cnm(header) {
            return None;
        }
        let envelope = Envelope { dst: header.src, src: mac, tag: header.tag, cn_tag: header.cn_tag };
        let cnm = Cnm {
            feedback: self.feedback,
            congestion_point: CongestionPointId::new(mac, class),
            q_offset: in_units(self.offset),
            q_delta: in_units(self.delta),
            priority: class,
            destination: header.dst,
            msdu: Msdu::of(head.get(usize::from(header.l3) - 2..).unwrap_or_default()),
        };
        Some((envelope, cnm))
    }
}

fn in_units(bytes: i64) -> i16 {
    let units = (bytes / 64).clamp(i16::MIN.into(), i16::MAX.into());
    i16::try_from(units).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cnm_queue_lengths_saturate_at_limits_of_their_fields() {
        assert_eq!([63, 64, -64, -127].map(in_units), [0, 1, -1, -1]);
        assert_eq!([64 * 32_767, 64 * 32_768, i64::MAX].map(in_units), [i16::MAX; 3]);
        assert_eq!([-64 * 32_768, -64 * 32_769, i64::MIN].map(in_units), [i16::MIN; 3]);
    }
}
