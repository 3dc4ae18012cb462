//! GFC extension of PFC: rate limits of a peer's classes.
//!
//! Gentle Flow Control (Qian et al., SIGCOMM 2019) limits a sender to a rate C/2^k, where C is the line rate; the frame
//! carries k. The format is xoff's own: the rates are in the padding of a PFC frame without classes.
//!
//! By offset in the frame:
//!
//! * 34-37: magic "GFC1"
//! * 38: vector; bit n: the frame sets the rate of class n
//! * 39: reserved; 0 on send, ignored on receive
//! * 40+n, n = 0..=7: step k of class n, 0..=16: it may send C/2^k; 0 ends the limit
//! * 48-49: quanta until the limits expire; 0 ends the limits
//!
//! A peer without this extension reads a PFC frame that pauses nothing.

use super::mac_control::{LEN, MacControl, MacControlError, Pfc};
use crate::units::{CLASSES, Class, ClassSet, MacAddr, Quanta, RateStep};

mod field {
    use std::ops::Range;

    pub const MAGIC: Range<usize> = 34..38;
    pub const CLASSES: usize = 38;
    pub const STEPS: Range<usize> = 40..48;
    pub const TIME: Range<usize> = 48..50;
}

const MAGIC: [u8; 4] = *b"GFC1";

/// Rate limits of classes, as a PFC frame carries them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Rates {
    pub classes: ClassSet,
    /// Rate step of each class; full rate for classes that the frame does not name.
    pub steps: [RateStep; CLASSES],
    pub time: Quanta,
}

impl Rates {
    /// Adds a class with its rate step to the frame.
    #[must_use]
    pub fn with(mut self, class: Class, step: RateStep) -> Rates {
        self.classes.insert(class);
        self.steps[class.index()] = step;
        self
    }

    /// Parses the rates of `frame`, whose PFC fields are `pfc`; `None` if it carries no rates.
    ///
    /// # Errors
    /// Fails if the rates are malformed. The frame must then change nothing.
    pub fn parse(pfc: &Pfc, frame: &[u8]) -> Result<Option<Rates>, MacControlError> {
        if frame.get(field::MAGIC) != Some(&MAGIC) {
            return Ok(None);
        }
        Rates::read(pfc, frame).map(Some).ok_or(MacControlError::Rates)
    }

    fn read(pfc: &Pfc, frame: &[u8]) -> Option<Rates> {
        let time = u16::from_be_bytes(frame.get(field::TIME)?.try_into().ok()?);
        let classes = ClassSet(frame[field::CLASSES]);
        let mut rates = Rates { time: Quanta(time), ..Rates::default() };
        for class in classes.iter() {
            rates = rates.with(class, RateStep::new(frame[field::STEPS.start + class.index()])?);
        }
        pfc.classes.is_empty().then_some(rates)
    }

    /// Encodes the rates as a frame.
    #[must_use]
    pub fn encode(&self, src: MacAddr) -> [u8; LEN] {
        let mut bytes = MacControl::Pfc(Pfc::default()).encode(src);
        bytes[field::MAGIC].copy_from_slice(&MAGIC);
        bytes[field::CLASSES] = self.classes.0;
        for class in self.classes.iter() {
            bytes[field::STEPS.start + class.index()] = self.steps[class.index()].get();
        }
        bytes[field::TIME].copy_from_slice(&self.time.0.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Header;
    use xoff_explore::explore;

    const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    fn parse(bytes: &[u8]) -> Result<Option<Rates>, MacControlError> {
        match MacControl::parse(&Header::parse(bytes).unwrap(), bytes)? {
            MacControl::Pfc(pfc) => Rates::parse(&pfc, bytes),
            MacControl::Pause(_) => Ok(None),
        }
    }

    fn some() -> Rates {
        let rates = Rates { time: Quanta(0x1234), ..Rates::default() };
        rates.with(Class::ALL[3], RateStep::new(2).unwrap()).with(Class::ALL[7], RateStep::FULL)
    }

    #[test] // proves: gfc
    fn rate_frame_bytes_match_documentation() {
        let bytes = some().encode(SRC);
        assert_eq!(bytes[..18], MacControl::Pfc(Pfc::default()).encode(SRC)[..18]);
        assert!(
            bytes[16..34].iter().all(|&byte| byte == 0),
            "a peer that does not know GFC must not take the rate frame for a pause"
        );
        assert_eq!(bytes[34..50], *b"GFC1\x88\0\0\0\0\x02\0\0\0\0\x12\x34");
        assert!(bytes[50..].iter().all(|&byte| byte == 0));
    }

    #[test] // proves: gfc
    fn malformed_rate_frame_is_refused() {
        let good = some().encode(SRC);
        assert_eq!(parse(&good[..50]), Ok(Some(some())));
        assert_eq!(
            parse(&good[..49]),
            Err(MacControlError::Rates),
            "a rate frame with a truncated time must be refused"
        );
        assert_eq!(
            parse(&good[..38]),
            Err(MacControlError::Rates),
            "a rate frame that ends after its magic number must be refused"
        );
        assert_eq!(parse(&good[..37]), Ok(None), "no rates may be read after a truncated magic number");
        let with = |at: usize, value: u8| {
            let mut bytes = good;
            bytes[at] = value;
            parse(&bytes)
        };
        assert_eq!(with(43, 16).map(|rates| rates.unwrap().steps[3]), Ok(RateStep::MAX));
        assert_eq!(with(43, 17), Err(MacControlError::Rates), "a rate below the lowest must be refused");
        assert_eq!(
            with(42, 17),
            Ok(Some(some())),
            "an invalid rate of a class that the vector does not name must be ignored"
        );
        assert_eq!(with(39, 0xff), Ok(Some(some())), "a nonzero reserved byte must be ignored");
        assert_eq!(
            with(17, 1),
            Err(MacControlError::Rates),
            "a frame with both a pause and rates must be refused"
        );
        assert_eq!(with(37, b'2'), Ok(None), "the extension of another protocol must not be read as rates");
    }

    explore! {
        #[test]
        fn encoded_class_rates_are_parsed_unchanged(vector: u8, steps: [u8; 8], time: u16) {
            let step = |class: Class| RateStep::new(steps[class.index()] % 17).unwrap();
            let rates = Rates { time: Quanta(time), ..Rates::default() };
            let rates = ClassSet(vector).iter().fold(rates, |rates, class| rates.with(class, step(class)));
            prop_assert_eq!(parse(&rates.encode(SRC)), Ok(Some(rates)));
        }

        #[test]
        fn rate_frame_with_arbitrary_bytes_is_parsed_or_refused(tail in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut bytes = some().encode(SRC)[..38].to_vec();
            bytes.extend(tail);
            let read = parse(&bytes);
            prop_assert!(read.is_err() || read.unwrap().is_some());
        }
    }
}
