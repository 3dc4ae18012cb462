use xoff_wire::units::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share(u64);

const WHOLE: f64 = 4_294_967_296.0;

impl Share {
    pub(super) fn new(part: f64) -> Share {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within 0..=2^32
        Share((part.clamp(0.0, 1.0) * WHOLE).round() as u64)
    }

    #[inline]
    pub(super) fn of(self, bytes: Bytes) -> Bytes {
        let part = (u128::from(bytes.0) * u128::from(self.0) + (1 << 31)) >> 32;
        Bytes(u64::try_from(part).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_bytes_are_exact_to_the_byte() {
        assert_eq!(Share::new(0.5).of(Bytes(20_001)), Bytes(10_001));
        assert_eq!(Share::new(0.9).of(Bytes(75_000)), Bytes(67_500));
        assert_eq!(Share::new(0.9).of(Bytes(1_000_000_000)), Bytes(900_000_000));
        assert_eq!(
            Share::new(68.0 / 75.0).of(Bytes(75_000)),
            Bytes(68_000),
            "the flow threshold (X_OFF^c) must be that of the OFC paper's evaluation"
        );
        assert_eq!(Share::new(1.0).of(Bytes::MAX), Bytes::MAX);
        assert_eq!(Share::new(0.0).of(Bytes::MAX), Bytes::ZERO);
        assert_eq!(Share::new(7.0), Share::new(1.0));
    }
}
