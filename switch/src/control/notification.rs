//! Congestion notification as a part of `/status`: what congestion points found and said.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_dataplane::units::{Class, ClassSet, PortId};

use super::view::SwitchView;

/// One congestion point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CongestionPointStatus {
    /// Samples taken.
    pub samples: u64,
    /// Quantized feedback of the last one, 0 to 63.
    pub feedback_last: u64,
    /// CNMs sent.
    pub cnms_sent: u64,
    /// CNMs that could not be sent.
    pub cnms_not_sent: u64,
    /// Mean quantized feedback of those sent; `None` while there are none.
    pub feedback_mean: Option<f64>,
}

/// Classes that have congestion points.
pub(super) fn classes(view: &SwitchView) -> ClassSet {
    ClassSet(view.settings().qcn.ingress.0 | view.settings().qcn.egress.0)
}

/// Of one port and class; `None` where there is no congestion point.
pub(super) fn status(view: &SwitchView, port: PortId, class: Class) -> Option<CongestionPointStatus> {
    let counters = view.counters.class(port, class);
    let cnms_sent = counters.cnms_sent.get();
    classes(view).contains(class).then(|| CongestionPointStatus {
        samples: counters.qcn_samples.get(),
        feedback_last: counters.qcn_feedback.get(),
        cnms_sent,
        cnms_not_sent: counters.cnms_not_sent.get(),
        feedback_mean: (cnms_sent > 0).then(|| counters.cnm_feedback_sum.get() as f64 / cnms_sent as f64),
    })
}
