use xoff_wire::units::{Class, Nanos};

use super::{Accounting, Custom, QueueKind, SwitchSettings};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say it
pub enum PolicyKind {
    #[default]
    Pfc,
    CaPfcStopMax,
    CaPfcStopCalibrate,
    Ofc,
    PPfc,
    GPfc,
    Gfc,
    Custom,
}

impl PolicyKind {
    /// All built-in policies.
    pub const ALL: [PolicyKind; 7] = [
        PolicyKind::Pfc,
        PolicyKind::CaPfcStopMax,
        PolicyKind::CaPfcStopCalibrate,
        PolicyKind::Ofc,
        PolicyKind::PPfc,
        PolicyKind::GPfc,
        PolicyKind::Gfc,
    ];

    /// Returns the name of the policy in configurations, metrics and commands.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PolicyKind::Pfc => "pfc",
            PolicyKind::CaPfcStopMax => "capfc-stop-max",
            PolicyKind::CaPfcStopCalibrate => "capfc-stop-calibrate",
            PolicyKind::Ofc => "ofc",
            PolicyKind::PPfc => "p-pfc",
            PolicyKind::GPfc => "g-pfc",
            PolicyKind::Gfc => "gfc",
            PolicyKind::Custom => "custom",
        }
    }

    /// Returns the built-in policy of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<PolicyKind> {
        PolicyKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns a setting that the policy needs for `class`, but `settings` lacks.
    #[must_use]
    pub fn misfit(self, class: Class, settings: &SwitchSettings) -> Option<String> {
        match self {
            PolicyKind::Ofc => of_ofc(class, settings).map(str::to_owned),
            PolicyKind::Custom => settings.policy.custom.as_ref()?.misfit(class, settings),
            _ => None,
        }
    }

    /// Returns whether a long egress queue alone may make the policy pause a peer. True for custom policies.
    #[must_use]
    pub const fn goes_by_egress(self) -> bool {
        match self {
            PolicyKind::Pfc | PolicyKind::GPfc | PolicyKind::Gfc | PolicyKind::Ofc => false,
            PolicyKind::CaPfcStopMax
            | PolicyKind::CaPfcStopCalibrate
            | PolicyKind::PPfc
            | PolicyKind::Custom => true,
        }
    }

    /// Returns whether the policy uses `egress_xoff` and `egress_xon`.
    #[must_use]
    pub const fn has_egress_thresholds(self, policy: &PolicySettings) -> bool {
        match self {
            PolicyKind::CaPfcStopMax | PolicyKind::CaPfcStopCalibrate => true,
            PolicyKind::PPfc => policy.p_pfc.prediction.is_none(),
            _ => false,
        }
    }

    /// Returns whether one worker must handle both ingress and egress of a frame.
    #[must_use]
    pub fn needs_one_worker(self, custom: Option<&Custom>) -> bool {
        match self {
            PolicyKind::Pfc | PolicyKind::GPfc | PolicyKind::Gfc => false,
            PolicyKind::CaPfcStopMax
            | PolicyKind::CaPfcStopCalibrate
            | PolicyKind::Ofc
            | PolicyKind::PPfc => true,
            PolicyKind::Custom => custom.is_none_or(|custom| custom.needs_one_worker()),
        }
    }
}

fn of_ofc(class: Class, settings: &SwitchSettings) -> Option<&'static str> {
    let alpha = settings.policy.ofc.alpha;
    let mut classes = settings.ports.iter().map(|port| &port.classes[class.index()]);
    if settings.accounting == Accounting::UntilForwarded {
        Some("`accounting = \"until-transmitted\"`")
    } else if classes.clone().any(|class| class.queue == QueueKind::Voq) {
        Some("`queue = \"fifo\"` on every port")
    } else if classes.any(|class| class.lossless && class.xon.0 as f64 >= alpha * class.xoff.0 as f64) {
        Some("`alpha` x `xoff` above `xon` on every port")
    } else {
        None
    }
}

/// Parameters of policies, identical on every port.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the names say it
pub struct PolicySettings {
    /// CUT of CaPFC Stop-Calibrate, above 0 and at most 1: blamed ports together have at least this share of arrivals
    /// at a congested queue (the paper's Table II: 0.8).
    pub capfc_cut: f64,
    pub capfc_count_unit: CountUnit,
    pub ofc: OfcSettings,
    pub p_pfc: PPfcSettings,
    pub g_pfc: GPfcSettings,
    pub gfc: GfcSettings,
    pub custom: Option<Custom>,
}

impl PolicySettings {
    /// Returns the available policies, a custom one included.
    pub fn kinds(&self) -> impl Iterator<Item = PolicyKind> + use<> {
        PolicyKind::ALL.into_iter().chain(self.custom.as_ref().map(|_| PolicyKind::Custom))
    }

    /// Returns the policy of this name, built-in or custom.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<PolicyKind> {
        self.kinds().find(|kind| kind.name() == name)
    }
}

impl Default for PolicySettings {
    fn default() -> PolicySettings {
        PolicySettings {
            capfc_cut: 0.8,
            capfc_count_unit: CountUnit::Frames,
            ofc: OfcSettings::default(),
            p_pfc: PPfcSettings::default(),
            g_pfc: GPfcSettings::default(),
            gfc: GfcSettings::default(),
            custom: None,
        }
    }
}

/// Unit of CaPFC's arrival counts C(i,o,p).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum CountUnit {
    #[default]
    Frames,
    Bytes,
}

/// Parameters of OFC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfcSettings {
    /// Fraction of XOFF from which OFC pauses flows (X_OFF^c / X_OFF), between XON / XOFF and 1 (section
    /// III-C). The OFC paper evaluates 68 KB of 75 KB, about 0.9.
    pub alpha: f64,
    /// Maximum flows in a port's `flow_in_port_tab`.
    pub flows: u32,
    /// Maximum flows in a port's `congested_flow_tab`.
    pub congested_flows: u32,
    /// Maximum flows in a port's `pause_frame_tab`.
    pub paused_flows: u32,
}

impl Default for OfcSettings {
    fn default() -> OfcSettings {
        OfcSettings { alpha: 0.9, flows: 1024, congested_flows: 256, paused_flows: 256 }
    }
}

/// Parameters of P-PFC.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PPfcSettings {
    /// Sampling interval and prediction horizon, above zero. With `None`, P-PFC compares egress queues with their mean
    /// instead of predicting.
    pub prediction: Option<Nanos>,
}

/// Parameters of G-PFC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GPfcSettings {
    /// Fraction of XOFF at which lower classes are paused: above 0, at most 1.
    pub pause_lower: f64,
    /// Fraction of XOFF below which lower classes resume: above 0, at most `pause_lower`.
    pub resume_lower: f64,
}

impl Default for GPfcSettings {
    fn default() -> GPfcSettings {
        GPfcSettings { pause_lower: 0.5, resume_lower: 0.25 }
    }
}

/// Parameters of GFC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GfcSettings {
    /// B1, the first rate step's threshold, as a fraction of XOFF: above 0, at most 1.
    pub first: f64,
    /// Number of rate steps, 1..=16.
    pub steps: u8,
}

impl Default for GfcSettings {
    fn default() -> GfcSettings {
        GfcSettings { first: 0.5, steps: 6 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::port_settings;

    #[test]
    fn missing_setting_that_ofc_needs_is_reported() {
        let ports = vec![port_settings(0), port_settings(1)];
        let mut settings = SwitchSettings {
            ports,
            accounting: Accounting::UntilTransmitted,
            memory: crate::settings::Memory::Dedicated,
            lossy_pool: Default::default(),
            when_full: crate::settings::WhenFull::Drop,
            pipeline: Default::default(),
            policies: Default::default(),
            shadows: Vec::new(),
            policy: PolicySettings::default(),
            hash: Default::default(),
            fdb: crate::settings::FdbSettings {
                capacity: 16,
                ageing: None,
                statics: Vec::new(),
                seed: crate::settings::HashSeed::PUBLIC,
            },
            vlans: Vec::new(),
            groups: Vec::new(),
            routed_vlans: Vec::new(),
            multicast: Default::default(),
            qcn: Default::default(),
        };
        let class = Class::ALL[3];
        let misfit = |settings: &SwitchSettings| PolicyKind::Ofc.misfit(class, settings);
        assert_eq!(misfit(&settings), None);
        settings.policy.ofc.alpha = 0.5;
        assert!(
            misfit(&settings).is_some_and(|text| text.contains("alpha")),
            "an alpha of 0.5 must be refused, because XON is half of XOFF"
        );
        settings.ports[1].classes[3].queue = QueueKind::Voq;
        assert!(misfit(&settings).is_some_and(|text| text.contains("fifo")));
        settings.accounting = Accounting::UntilForwarded;
        assert!(misfit(&settings).is_some_and(|text| text.contains("accounting")));
        assert_eq!(PolicyKind::Pfc.misfit(class, &settings), None);
    }

    #[test]
    fn policy_is_found_by_its_own_name() {
        for kind in PolicyKind::ALL {
            assert_eq!(PolicyKind::named(kind.name()), Some(kind));
        }
        assert_eq!(PolicyKind::named("PFC"), None);
        assert_eq!(
            PolicySettings::default().named("custom"),
            None,
            "no custom policy may be found, because the settings have none"
        );
    }
}
