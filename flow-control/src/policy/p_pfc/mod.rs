//! P-PFC (Tian et al.: "P-PFC: Reducing Tail Latency with Predictive PFC in Lossless Data Center Networks", TPDS 2020),
//! in two forms, each on top of plain PFC at ingress:
//!
//! * [`mean`], as in the OFC paper's evaluation: "average buffer occupancy of all egress ports".
//! * [`prediction`], as in the P-PFC paper's abstract: it "predicts the happening of PFC trigger in the future".

mod mean;
mod prediction;

use mean::Mean;
use prediction::Prediction;
use xoff_wire::units::Nanos;

use super::{Event, Intent, Pfc};
use crate::buffer::Buffer;
use crate::settings::SwitchSettings;

/// Policy P-PFC of one class.
#[derive(Debug)]
pub struct PPfc(Variant);

#[derive(Debug)]
enum Variant {
    Mean(Mean),
    Prediction(Prediction),
}

impl PPfc {
    pub(super) fn new(pfc: Pfc, settings: &SwitchSettings) -> PPfc {
        PPfc(match settings.policy.p_pfc.prediction {
            None => Variant::Mean(Mean::new(pfc, settings)),
            Some(ahead) => Variant::Prediction(Prediction::new(pfc, ahead, settings.ports.len())),
        })
    }

    #[inline(always)] // the kind of event is constant at each call
    pub(super) fn observe(&mut self, now: Nanos, event: Event, buffer: &Buffer, intents: &mut Vec<Intent>) {
        match &mut self.0 {
            Variant::Mean(mean) => mean.observe(event, buffer, intents),
            Variant::Prediction(prediction) => prediction.observe(now, event, buffer, intents),
        }
    }

    pub(super) fn adopt(&mut self, buffer: &Buffer, intents: &mut Vec<Intent>) {
        match &mut self.0 {
            Variant::Mean(mean) => mean.adopt(buffer, intents),
            Variant::Prediction(prediction) => prediction.adopt(buffer, intents),
        }
    }
}
