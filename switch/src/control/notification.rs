use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_wire::units::{Class, ClassSet, PortId};

use super::view::SwitchView;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CongestionPointStatus {
    /// Frames sampled by the QCN congestion point.
    pub samples: u64,
    /// Quantized feedback of the last sample, 0 to 63.
    pub feedback_last: u64,
    /// Congestion notification messages (CNMs) sent by the congestion point.
    pub cnms_sent: u64,
    /// CNMs not sent: the link was down, no frame memory was free, the sampled frame was a CNM, or its source was
    /// a group's or router's address.
    pub cnms_not_sent: u64,
    /// Sum of the quantized feedback of all CNMs sent.
    #[serde(default)]
    pub feedback_sum: u64,
    /// Mean quantized feedback of the CNMs sent; `None` before the first.
    pub feedback_mean: Option<f64>,
}

pub(super) fn classes(view: &SwitchView) -> ClassSet {
    ClassSet(view.settings().qcn.ingress.0 | view.settings().qcn.egress.0)
}

pub(super) fn status(view: &SwitchView, port: PortId, class: Class) -> Option<CongestionPointStatus> {
    let counters = view.counters.class(port, class);
    let (cnms_sent, feedback_sum) = (counters.cnms_sent.get(), counters.cnm_feedback_sum.get());
    classes(view).contains(class).then(|| CongestionPointStatus {
        samples: counters.qcn_samples.get(),
        feedback_last: counters.qcn_feedback.get(),
        cnms_sent,
        cnms_not_sent: counters.cnms_not_sent.get(),
        feedback_sum,
        feedback_mean: (cnms_sent > 0).then(|| feedback_sum as f64 / cnms_sent as f64),
    })
}
