//! What is compared: policies, each a name and the keys of a configuration that it needs.

use xoff_dataplane::units::{BitRate, Bytes};

use crate::fabric::Settings;

/// A policy as an experiment runs it.
#[derive(Debug)]
pub struct Variant {
    /// What it is called, on the command line and in results.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Whether it promises that the lossless class loses nothing.
    pub lossless: bool,
    keys: &'static [(&'static str, Value)],
}

/// A value of a configuration.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// A word.
    Word(&'static str),
    /// A number, true or false.
    Bare(&'static str),
    /// A size at 100 Mb/s; in proportion at other rates.
    Kilobytes(u64),
}
use Value::{Bare, Kilobytes, Word};

/// Sizes are given for lines of this rate. The papers' sizes are kept as they are at this rate, a tenth of
/// theirs and less: software answers a pause later than hardware, and by so much a switch must wait longer.
const REFERENCE: BitRate = BitRate::from_mbps(100);

/// Thresholds that all policies share: those of CaPFC's Table II.
const COMMON: &[(&str, Value)] = &[
    ("class.3.xoff", Kilobytes(50)),
    ("class.3.xon", Kilobytes(40)),
    ("class.3.egress_xoff", Kilobytes(25)),
    ("class.3.egress_xon", Kilobytes(20)),
    ("class.3.egress_warn", Kilobytes(20)),
];

/// OFC with a switch in the middle that knows only PFC, where there is a middle.
pub(super) const PLAIN_MIDDLE: &str = "ofc-pfc-middle";

/// All there are.
pub const VARIANTS: &[Variant] = &[
    Variant {
        name: "pfc",
        about: "plain PFC: ingress thresholds, frames count until they have left",
        lossless: true,
        keys: &[],
    },
    Variant {
        name: "capfc-stop-max",
        about: "CaPFC: above XOFF at egress the heaviest contributor is paused, one after the other",
        lossless: true,
        keys: &[("switch.policy", Word("capfc-stop-max"))],
    },
    Variant {
        name: "capfc-stop-calibrate",
        about: "CaPFC: above XOFF at egress those that together contribute 80 % are paused",
        lossless: true,
        keys: &[("switch.policy", Word("capfc-stop-calibrate"))],
    },
    Variant {
        name: "ofc",
        about: "OFC: between switches, the flows of the original congestion are paused, one by one",
        lossless: true,
        keys: &[("switch.policy", Word("ofc")), ("trunk.ofc_peer", Bare("true"))],
    },
    Variant {
        name: PLAIN_MIDDLE,
        about: "OFC whose peers know only PFC, as where the switch in the middle of three does",
        lossless: true,
        keys: &[("switch.policy", Word("ofc"))],
    },
    Variant {
        name: "p-pfc",
        about: "P-PFC: egress queues above the mean of all pause those that fill them",
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
        about: "GFC: between switches, classes are sent at half the rate and less before they are paused",
        lossless: true,
        keys: &[("switch.policy", Word("gfc")), ("trunk.gfc_peer", Bare("true"))],
    },
    Variant {
        name: "pfc-watchdog-drop",
        about: "plain PFC, and a watchdog that drops what a pause of 200 ms has kept waiting",
        lossless: false,
        keys: &[("class.3.watchdog", Word("drop"))],
    },
    Variant {
        name: "pfc-watchdog-forward",
        about: "plain PFC, and a watchdog that sends in spite of a pause of 200 ms",
        lossless: false,
        keys: &[("class.3.watchdog", Word("forward"))],
    },
    Variant {
        name: "pfc-wdrop",
        about: "CaPFC's PFC_wdrop: frames count at ingress until forwarded, a full egress queue drops",
        lossless: false,
        keys: &[
            ("switch.accounting", Word("until-forwarded")),
            ("switch.when_full", Word("drop")),
            ("class.3.egress_max", Kilobytes(60)),
        ],
    },
    Variant {
        name: "pfc-wstop",
        about: "CaPFC's PFC_wstop: the same, but a full egress queue stops the pipeline",
        lossless: true,
        keys: &[
            ("switch.accounting", Word("until-forwarded")),
            ("switch.when_full", Word("stop")),
            ("class.3.egress_max", Kilobytes(60)),
        ],
    },
];

impl Variant {
    /// The variant of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Variant> {
        VARIANTS.iter().find(|variant| variant.name == name)
    }

    /// Its configuration for lines of `line`.
    #[must_use]
    pub fn settings(&self, line: BitRate) -> Settings {
        let mut settings = Settings::default();
        for &(path, value) in COMMON.iter().chain(self.keys) {
            match value {
                Word(word) => settings.text(path, word),
                Bare(value) => settings.set(path, value),
                Kilobytes(size) => settings.bytes(path, scaled(Bytes(size * 1000), line)),
            };
        }
        settings
    }

    /// The same with room for OFC, whose partial pause (at `alpha` of XOFF) must have taken effect before XOFF
    /// pauses the class: 50 KB, 4 ms of a line of 100 Mb/s, within which software answers.
    #[must_use]
    pub fn roomy_settings(&self, line: BitRate) -> Settings {
        let size = |kilobytes: u64| scaled(Bytes(kilobytes * 1000), line);
        let mut settings = self.settings(line);
        settings
            .bytes("class.3.xoff", size(100))
            .bytes("class.3.xon", size(25))
            .set("policy.ofc.alpha", "0.5");
        settings
    }
}

/// A size at the reference rate, for lines of `line`.
fn scaled(size: Bytes, line: BitRate) -> Bytes {
    Bytes(size.0 * line.bits_per_second() / REFERENCE.bits_per_second())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::fabric::Plan;

    #[test]
    fn sizes_grow_with_the_line() {
        let text = |mbps| Variant::find("pfc-wdrop").unwrap().settings(BitRate::from_mbps(mbps)).to_string();
        assert!(text(100).contains("egress_max = 60000\n"), "{}", text(100));
        assert!(text(1000).contains("egress_max = 600000\n"), "{}", text(1000));
    }

    #[test]
    fn every_variant_is_a_valid_configuration_of_its_own_name() {
        for variant in VARIANTS {
            let line = BitRate::from_mbps(100);
            let mut plan = Plan::new(line);
            let switch = plan.switch("switch");
            let other = plan.switch("other");
            plan.host("a", switch);
            plan.trunk(switch, other);
            plan.config(switch, &variant.settings(line)).unwrap();
            assert_eq!(VARIANTS.iter().filter(|other| other.name == variant.name).count(), 1);
        }
    }
}
