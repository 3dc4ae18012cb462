use xoff_wire::units::Bytes;

use super::share::Share;
use crate::settings::{ClassSettings, PolicyKind, PolicySettings};

impl PolicyKind {
    /// Returns the policy's named thresholds in a lossless class, besides XOFF and XON. Fractions refer to the
    /// configured XOFF, which shared memory may lower.
    #[must_use]
    pub fn thresholds(self, class: &ClassSettings, policy: &PolicySettings) -> Vec<(&'static str, Bytes)> {
        let part = |part: f64| Share::new(part).of(class.xoff);
        let egress = [("egress XOFF", class.egress_xoff), ("egress XON", class.egress_xon)];
        match self {
            PolicyKind::Pfc | PolicyKind::Custom => Vec::new(),
            PolicyKind::CaPfcStopMax | PolicyKind::CaPfcStopCalibrate => {
                [("egress WARN", class.egress_warn)].into_iter().chain(egress).collect()
            }
            PolicyKind::Ofc => vec![("flows pause", part(policy.ofc.alpha))],
            PolicyKind::PPfc if policy.p_pfc.prediction.is_some() => {
                vec![("predicted from", class.xon), ("predicted until", Bytes(class.xon.0 / 2))]
            }
            PolicyKind::PPfc => egress.to_vec(),
            PolicyKind::Gfc => {
                const STEPS: [&str; 16] = [
                    "C/2", "C/4", "C/8", "C/16", "C/32", "C/64", "C/128", "C/256", "C/512", "C/1024",
                    "C/2048", "C/4096", "C/8192", "C/16384", "C/32768", "C/65536",
                ];
                STEPS.into_iter().zip(policy.gfc.thresholds(class.xoff)).collect()
            }
            PolicyKind::GPfc => vec![
                ("pause lower", part(policy.g_pfc.pause_lower)),
                ("resume lower", part(policy.g_pfc.resume_lower)),
            ],
        }
    }
}
