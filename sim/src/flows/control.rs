use xoff_flow_control::congestion::{ReactionPoint, ReactionSettings};
use xoff_wire::units::{Bytes, Nanos};

use super::dcqcn::Dcqcn;
use super::swift::Swift;
use super::timely::Timely;
use super::transport::Control;
use crate::time::{Pace, Picos};

#[derive(Clone, Debug)]
pub(super) enum Reaction {
    Dcqcn(Dcqcn),
    Swift(Swift),
    Timely(Timely),
    Qcn(Box<Qcn>),
}

#[derive(Clone, Debug)]
pub(super) struct Qcn {
    point: ReactionPoint,
    cnms: u32,
}

impl Reaction {
    pub(super) fn new(control: &Control, line: Pace) -> Option<Reaction> {
        match control {
            Control::None => None,
            Control::Dcqcn(settings) => Some(Reaction::Dcqcn(Dcqcn::new(settings, line))),
            Control::Swift(settings) => Some(Reaction::Swift(Swift::new(settings))),
            Control::Timely(settings) => Some(Reaction::Timely(Timely::new(settings, line))),
        }
    }

    pub(super) fn of_qcn(settings: &ReactionSettings, line: Pace, seed: u64) -> Reaction {
        Reaction::Qcn(Box::new(Qcn { point: ReactionPoint::new(settings, line.rate(), seed), cnms: 0 }))
    }

    #[inline]
    pub(super) fn sent(&mut self, now: Picos, bytes: Bytes) -> Picos {
        match self {
            Reaction::Dcqcn(dcqcn) => time_at(dcqcn.sent(now, bytes), bytes),
            Reaction::Swift(swift) => swift.gap(),
            Reaction::Timely(timely) => time_at(timely.rate(), bytes),
            Reaction::Qcn(qcn) => gap_of(&mut qcn.point, now.floor(), bytes),
        }
    }

    #[inline]
    pub(super) fn window(&self) -> Option<u32> {
        match self {
            Reaction::Dcqcn(_) | Reaction::Timely(_) | Reaction::Qcn(_) => None,
            Reaction::Swift(swift) => Some(swift.window()),
        }
    }

    pub(super) fn notified(&mut self, now: Picos) {
        match self {
            Reaction::Dcqcn(dcqcn) => dcqcn.notified(now),
            Reaction::Swift(_) | Reaction::Timely(_) | Reaction::Qcn(_) => {}
        }
    }

    pub(super) fn cnm_received(&mut self, now: Picos, feedback: u8) {
        let Reaction::Qcn(qcn) = self else { return };
        qcn.point.advance(now.floor());
        qcn.point.notified(now.floor(), feedback);
        qcn.cnms += 1;
    }

    pub(super) fn cnms(&self) -> u32 {
        match self {
            Reaction::Dcqcn(_) | Reaction::Swift(_) | Reaction::Timely(_) => 0,
            Reaction::Qcn(qcn) => qcn.cnms,
        }
    }

    #[inline]
    pub(super) fn acknowledged(&mut self, now: Picos, frames: u32, round_trip: Picos) {
        match self {
            Reaction::Dcqcn(_) | Reaction::Qcn(_) => {}
            Reaction::Swift(swift) => swift.acknowledged(now, frames, round_trip),
            Reaction::Timely(timely) => timely.acknowledged(round_trip),
        }
    }

    pub(super) fn lost(&mut self, now: Picos) {
        match self {
            Reaction::Dcqcn(_) | Reaction::Timely(_) | Reaction::Qcn(_) => {}
            Reaction::Swift(swift) => swift.lost(now),
        }
    }

    pub(super) fn rate(&mut self, now: Picos) -> Option<f64> {
        match self {
            Reaction::Dcqcn(dcqcn) => Some(dcqcn.rate(now)),
            Reaction::Swift(_) => None,
            Reaction::Timely(timely) => Some(timely.rate()),
            Reaction::Qcn(qcn) => {
                qcn.point.advance(now.floor());
                Some(qcn.point.rate().bits_per_second() as f64)
            }
        }
    }
}

fn gap_of(point: &mut ReactionPoint, now: Nanos, bytes: Bytes) -> Picos {
    if now >= point.next_deadline() {
        point.advance(now);
    }
    if point.next_deadline() == Nanos::NEVER {
        return Picos::ZERO;
    }
    point.sent(bytes);
    Pace::of(point.rate()).time_of(bytes)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // rates are positive, and a cast saturates
fn time_at(bits_per_second: f64, bytes: Bytes) -> Picos {
    Picos((bytes.0 as f64 * 8e12 / bits_per_second).ceil() as u64)
}
