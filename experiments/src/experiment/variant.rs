use xoff_config::{Hardware, OwnPolicy};
use xoff_flow_control::congestion::ReactionSettings;
use xoff_wire::units::{BitRate, Bytes, Nanos};

use crate::{Line, Settings};

#[derive(Debug)]
pub struct Variant {
    pub name: &'static str,
    pub about: &'static str,
    pub lossless: bool,
    keys: &'static [(&'static str, Key)],
}

#[derive(Clone, Copy, Debug)]
enum Key {
    Word(&'static str),
    Yes,
    Classes(&'static [u8]),
    /// Size in kB at 100 Mb/s, scaled with the line rate.
    Kilobytes(u64),
    /// Number of frames at 100 Mb/s, scaled with the line rate.
    Frames(u64),
}
use Key::{Classes, Frames, Kilobytes, Word, Yes};

/// Settings that all policy variants share. At 100 Mb/s, egress thresholds are those of CaPFC's Table II for 1 Gb/s,
/// because software reacts to pauses late.
const COMMON: &[(&str, Key)] = &[
    ("class.3.xoff", Kilobytes(50)),
    ("class.3.xon", Kilobytes(40)),
    ("class.3.egress_xoff", Kilobytes(25)),
    ("class.3.egress_xon", Kilobytes(20)),
    ("class.3.egress_warn", Kilobytes(20)),
];

/// Settings of QCN congestion points. As in the QCN paper, set point and XOFF are in the ratio 60 KB to 110 KB.
const CONGESTION_POINTS: &[(&str, Key)] = &[
    ("qcn.set_point", Kilobytes(27)),
    ("qcn.sample_every", Kilobytes(150)),
    ("qcn.frames_per_cnm", Frames(100)),
];

/// Line rate to which 802.1Q's QCN reaction point parameters apply.
const QCN_LINE: BitRate = BitRate::from_gbps(10);

const WATCHDOG: &str = "class.3.watchdog";
const WATCHDOG_PATIENCE: Nanos = Nanos::from_millis(200);
const WATCHDOG_LEAST: Nanos = Nanos::from_millis(1);

pub(super) const PLAIN_MIDDLE: &str = "ofc-pfc-middle";

/// Policy variant that drops frames where ECN would mark them, because the senders lack ECN.
pub(super) const WITHOUT_ECN: &str = "lossy-wred";

pub(super) const ON_ONE_SWITCH: &[&str] = &[
    "pfc",
    "pfc-control",
    "capfc-stop-max",
    "capfc-stop-calibrate",
    "p-pfc",
    "pfc-wdrop",
    "capfc-max-wdrop",
    "capfc-calibrate-wdrop",
    "pfc-wstop",
    "capfc-max-wstop",
    "capfc-calibrate-wstop",
];

const UNTIL_FORWARDED: (&str, Key) = ("switch.accounting", Word("until-forwarded"));
const FULL_DROPS: (&str, Key) = ("switch.when_full", Word("drop"));
const FULL_STOPS: (&str, Key) = ("switch.when_full", Word("stop"));
const MAX: (&str, Key) = ("class.3.egress_max", Kilobytes(60));
const STOP_MAX: (&str, Key) = ("switch.policy", Word("capfc-stop-max"));
const STOP_CALIBRATE: (&str, Key) = ("switch.policy", Word("capfc-stop-calibrate"));
const NOT_LOSSLESS: (&str, Key) = ("defaults.lossless", Classes(&[]));
const TAIL: (&str, Key) = ("class.3.egress_max", Kilobytes(100));
const MARKS: (&str, Key) = ("class.3.ecn_min", Word("auto"));

pub const VARIANTS: &[Variant] = &[
    Variant {
        name: "pfc",
        about: "plain PFC: thresholds at ingress, where frames count until they have been sent",
        lossless: true,
        keys: &[],
    },
    Variant {
        name: "pfc-control",
        about: "plain PFC with ingress XOFF as low as CaPFC's egress XOFF, so that a sender is paused at the same queue length",
        lossless: true,
        keys: &[("class.3.xoff", Kilobytes(25)), ("class.3.xon", Kilobytes(20))],
    },
    Variant {
        name: "capfc-stop-max",
        about: "CaPFC Stop-Max: above XOFF at egress the senders that contribute most to the queue are paused, one after the other",
        lossless: true,
        keys: &[STOP_MAX],
    },
    Variant {
        name: "capfc-stop-calibrate",
        about: "CaPFC Stop-Calibrate: above XOFF at egress the senders that contribute 80 % of the queue are paused",
        lossless: true,
        keys: &[STOP_CALIBRATE],
    },
    Variant {
        name: "ofc",
        about: "OFC: a switch pauses, at its neighbours, only the flows that caused the congestion",
        lossless: true,
        keys: &[("switch.policy", Word("ofc")), ("trunk.ofc_peer", Yes)],
    },
    Variant {
        name: PLAIN_MIDDLE,
        about: "OFC with peers that support only PFC; in `ofc-fig1`, only the middle one of the three switches is such a peer",
        lossless: true,
        keys: &[("switch.policy", Word("ofc"))],
    },
    Variant {
        name: "p-pfc",
        about: "P-PFC: egress queues longer than the mean queue pause the senders that fill them",
        lossless: true,
        keys: &[("switch.policy", Word("p-pfc"))],
    },
    Variant {
        name: "g-pfc",
        about: "G-PFC: lower classes are paused before a class reaches its own XOFF",
        lossless: true,
        keys: &[("switch.policy", Word("g-pfc"))],
    },
    Variant {
        name: "gfc",
        about: "GFC: before pausing a class, switches reduce each other's rate of this class to half, a quarter and so on",
        lossless: true,
        keys: &[("switch.policy", Word("gfc")), ("trunk.gfc_peer", Yes)],
    },
    Variant {
        name: "qcn-egress",
        about: "QCN as in the standard: congestion points at outputs notify the station that sent the sampled frame",
        lossless: true,
        keys: &[("qcn.egress", Classes(&[3]))],
    },
    Variant {
        name: "qcn-ingress-arrival",
        about: "QCN with congestion points at inputs, which notify the station that sent the sampled frame",
        lossless: true,
        keys: &[("qcn.ingress", Classes(&[3]))],
    },
    Variant {
        name: "qcn-ingress-occupancy",
        about: "QCN with congestion points at inputs, which notify a sender drawn by its share of queued bytes",
        lossless: true,
        keys: &[("qcn.ingress", Classes(&[3])), ("qcn.culprit", Word("occupancy-random"))],
    },
    Variant {
        name: "qcn-ingress-largest",
        about: "QCN with congestion points at inputs, which notify the sender with most queued bytes",
        lossless: true,
        keys: &[("qcn.ingress", Classes(&[3])), ("qcn.culprit", Word("occupancy-deterministic"))],
    },
    Variant {
        name: "pfc-ecn",
        about: "plain PFC and ECN: above half of XOFF the marking probability grows with the queue length",
        lossless: true,
        keys: &[MARKS],
    },
    Variant {
        name: "pfc-ecn-step",
        about: "plain PFC and ECN for DCTCP: every frame above half of XOFF is marked",
        lossless: true,
        keys: &[("class.3.ecn_min", Kilobytes(25)), ("class.3.ecn_max", Kilobytes(25))],
    },
    Variant {
        name: "lossy",
        about: "no lossless class, no pauses: a full egress queue (100 KB) drops frames",
        lossless: false,
        keys: &[NOT_LOSSLESS, TAIL],
    },
    Variant {
        name: "lossy-ecn",
        about: "policy lossy with the ECN marks of pfc-ecn",
        lossless: false,
        keys: &[NOT_LOSSLESS, TAIL, MARKS],
    },
    Variant {
        name: WITHOUT_ECN,
        about: "like lossy-ecn, but for senders without ECN, drops replace marks (WRED); in the experiment `ecn` no sender has ECN",
        lossless: false,
        keys: &[NOT_LOSSLESS, TAIL, MARKS, ("class.3.wred", Yes)],
    },
    Variant {
        name: "pfc-watchdog-drop",
        about: "plain PFC and a watchdog that drops queued frames after a pause of 200 ms",
        lossless: false,
        keys: &[("class.3.watchdog", Word("drop"))],
    },
    Variant {
        name: "pfc-watchdog-forward",
        about: "plain PFC and a watchdog that sends despite a pause after 200 ms",
        lossless: false,
        keys: &[("class.3.watchdog", Word("forward"))],
    },
    Variant {
        name: "pfc-wdrop",
        about: "PFC_wdrop of CaPFC's paper: frames count at ingress until forwarded; a full egress queue (60 KB) drops frames",
        lossless: false,
        keys: &[UNTIL_FORWARDED, FULL_DROPS, MAX],
    },
    Variant {
        name: "pfc-wstop",
        about: "PFC_wstop of CaPFC's paper: as pfc-wdrop, but a full egress queue halts the pipeline for all ports and classes",
        lossless: true,
        keys: &[UNTIL_FORWARDED, FULL_STOPS, MAX],
    },
    Variant {
        name: "capfc-max-wdrop",
        about: "CaPFC Stop-Max on its paper's switch: as under pfc-wdrop, a full egress queue drops frames (Algorithm 1)",
        lossless: false,
        keys: &[STOP_MAX, UNTIL_FORWARDED, FULL_DROPS, MAX],
    },
    Variant {
        name: "capfc-max-wstop",
        about: "CaPFC Stop-Max on its paper's switch: as under pfc-wstop, a full egress queue halts the pipeline; no frame is lost",
        lossless: true,
        keys: &[STOP_MAX, UNTIL_FORWARDED, FULL_STOPS, MAX],
    },
    Variant {
        name: "capfc-calibrate-wdrop",
        about: "CaPFC Stop-Calibrate on its paper's switch: as under pfc-wdrop, a full egress queue drops frames (Algorithm 1)",
        lossless: false,
        keys: &[STOP_CALIBRATE, UNTIL_FORWARDED, FULL_DROPS, MAX],
    },
    Variant {
        name: "capfc-calibrate-wstop",
        about: "CaPFC Stop-Calibrate on its paper's switch: as under pfc-wstop, a full egress queue halts the pipeline; no frame is lost",
        lossless: true,
        keys: &[STOP_CALIBRATE, UNTIL_FORWARDED, FULL_STOPS, MAX],
    },
];

pub static OWN: Variant = Variant {
    name: "custom",
    about: "the custom policy that is built into this program, with its default parameters",
    lossless: true,
    keys: &[("switch.policy", Word("custom"))],
};

impl Variant {
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Variant> {
        VARIANTS.iter().chain([&OWN]).find(|variant| variant.name == name)
    }

    pub fn all(own: Option<&OwnPolicy>) -> impl Iterator<Item = &'static Variant> + use<> {
        VARIANTS.iter().chain(own.map(|_| &OWN))
    }

    #[must_use]
    pub fn settings(&self, line: Line) -> Settings {
        let mut settings = Settings::default();
        let points = if self.has_congestion_points() { CONGESTION_POINTS } else { &[] };
        for &(path, value) in COMMON.iter().chain(points).chain(self.keys) {
            match value {
                Word(word) => settings.set(path, word),
                Yes => settings.set(path, true),
                Classes(classes) => settings.set(path, classes),
                Kilobytes(size) => settings.set(path, line.size(Bytes(size * 1000))),
                Frames(count) => settings.set(path, line.size(Bytes(count))),
            };
        }
        if self.keys.iter().any(|(path, _)| *path == WATCHDOG) && line.hardware() == Hardware::Ideal {
            let patience = line.span(WATCHDOG_PATIENCE).max(WATCHDOG_LEAST);
            for key in ["class.3.watchdog_detect", "class.3.watchdog_restore"] {
                settings.set(key, format!("{}us", patience.0 / 1_000).as_str());
            }
        }
        settings.reaction = self.has_congestion_points().then(|| reaction(line));
        settings
    }

    /// Returns whether the policy variant differs from plain PFC only at ports between switches.
    #[must_use]
    pub fn is_for_trunks(&self) -> bool {
        self.keys.iter().any(|(path, value)| *path == "switch.policy" && matches!(value, Word("ofc" | "gfc")))
    }

    fn has_congestion_points(&self) -> bool {
        self.keys.iter().any(|(path, _)| path.starts_with("qcn."))
    }

    /// Returns settings with virtual output queues, and buffer sizes of the QCN paper (section III: Qhigh, Qlow, Qeq).
    #[must_use]
    pub fn voq_settings(&self, line: Line) -> Settings {
        let size = |kilobytes: u64| line.size(Bytes(kilobytes * 1000));
        let mut settings = self.settings(line);
        settings.set("class.3.xoff", size(110)).set("class.3.xon", size(44)).set("class.3.queue", "voq");
        if self.has_congestion_points() {
            settings.set("qcn.set_point", size(60));
        }
        settings
    }

    /// Returns settings with a higher XOFF for OFC, which pauses flows 50 KB (4 ms at 100 Mb/s) below XOFF.
    #[must_use]
    pub fn roomy_settings(&self, line: Line) -> Settings {
        let size = |kilobytes: u64| line.size(Bytes(kilobytes * 1000));
        let mut settings = self.settings(line);
        settings.set("class.3.xoff", size(100)).set("class.3.xon", size(25)).set("policy.ofc.alpha", 0.5);
        settings
    }
}

/// Scales the standard's QCN reaction point from 10 Gb/s to `line`: rates in proportion. At 100 Mb/s, bytes are
/// unchanged and times 100-fold; from there, [`Line::size`] and [`Line::span`] scale both.
fn reaction(line: Line) -> ReactionSettings {
    let standard = ReactionSettings::STANDARD;
    let rate = |of: BitRate| {
        let share = u128::from(of.bits_per_second()) * u128::from(line.bits_per_second());
        let rate = u64::try_from(share / u128::from(QCN_LINE.bits_per_second()));
        rate.ok().and_then(BitRate::new).unwrap_or(of)
    };
    let stretch = QCN_LINE.bits_per_second() / Line::REFERENCE.bits_per_second();
    ReactionSettings {
        cycle_bytes: line.size(standard.cycle_bytes),
        cycle_time: line.span(Nanos(standard.cycle_time.0 * stretch)),
        active_step: rate(standard.active_step),
        hyper_step: rate(standard.hyper_step),
        rate_min: rate(standard.rate_min),
        ..standard
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use toml_span::{Span, Value};

    use super::*;

    #[test]
    fn qcn_settings_of_hosts_scale_with_those_of_switches() {
        let line = BitRate::from_mbps(200);
        let reaction = |name: &str| Variant::find(name).unwrap().settings(line.into()).reaction;
        assert_eq!(reaction("pfc"), None);
        let expected = ReactionSettings {
            cycle_bytes: Bytes(300_000),
            cycle_time: Nanos::from_millis(1500),
            active_step: BitRate::new(100_000).unwrap(),
            hyper_step: BitRate::from_mbps(1),
            rate_min: BitRate::new(200_000).unwrap(),
            ..ReactionSettings::STANDARD
        };
        assert_eq!(reaction("qcn-ingress-arrival"), Some(expected));
        let document =
            Variant::find("qcn-egress").unwrap().voq_settings(line.into()).document(Span::default());
        let number = |key: &str| document.pointer(&format!("/qcn/{key}")).and_then(Value::as_integer);
        let keys = ["egress/0", "frames_per_cnm", "sample_every", "set_point"].map(number);
        assert_eq!(keys, [3, 200, 300_000, 120_000].map(Some));
    }

    #[test]
    fn queue_limits_of_policy_grow_with_line_rate() {
        let size = |mbps| {
            let settings = Variant::find("pfc-wdrop").unwrap().settings(BitRate::from_mbps(mbps).into());
            settings.document(Span::default()).pointer("/class/3/egress_max").and_then(Value::as_integer)
        };
        assert_eq!([100, 1000].map(size), [60_000, 600_000].map(Some));
    }
}
