//! Colours and dashes of lines. A policy has one colour in all figures. Dashes depend on a line's position in the
//! legend, so that coinciding lines stay visible.

use plotters::prelude::*;

const COLOURS: [RGBColor; 12] = [
    RGBColor(0, 0, 0),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(204, 121, 167),
    RGBColor(150, 150, 0),
    RGBColor(120, 70, 30),
    RGBColor(130, 130, 130),
    RGBColor(110, 0, 160),
    RGBColor(160, 200, 60),
];

const POLICIES: [(&str, usize); 27] = [
    ("pfc", 0),
    ("pfc-control", 1),
    ("capfc-stop-max", 2),
    ("capfc-stop-calibrate", 3),
    ("p-pfc", 4),
    ("pfc-wdrop", 5),
    ("pfc-wstop", 6),
    ("capfc-max-wdrop", 7),
    ("capfc-calibrate-wdrop", 8),
    ("capfc-max-wstop", 9),
    ("capfc-calibrate-wstop", 10),
    ("ofc", 5),
    ("ofc-pfc-middle", 6),
    ("g-pfc", 7),
    ("gfc", 8),
    ("qcn-egress", 1),
    ("qcn-ingress-arrival", 4),
    ("qcn-ingress-occupancy", 5),
    ("qcn-ingress-largest", 6),
    ("pfc-ecn", 9),
    ("pfc-ecn-step", 10),
    ("pfc-watchdog-drop", 9),
    ("pfc-watchdog-forward", 10),
    ("lossy", 11),
    ("lossy-ecn", 1),
    ("lossy-wred", 4),
    ("custom", 11),
];

const DASHES: [Option<&str>; 4] = [None, Some("9 7"), Some("4 6"), Some("2 9")];

fn of_policy(name: &str) -> Option<usize> {
    let name = name.split(' ').next().unwrap_or(name); // the rest of a name is a note
    POLICIES.iter().find(|(policy, _)| *policy == name).map(|(_, place)| *place)
}

pub(super) fn colour(names: &[&str], name: &str) -> RGBColor {
    let taken: Vec<usize> = names.iter().filter_map(|name| of_policy(name)).collect();
    let free: Vec<usize> = (0..COLOURS.len()).filter(|place| !taken.contains(place)).collect();
    let place = of_policy(name).or_else(|| {
        let mut others = names.iter().filter(|name| of_policy(name).is_none());
        let number = others.position(|other| *other == name)?;
        free.get(number % free.len().max(1)).copied()
    });
    COLOURS[place.unwrap_or(0)]
}

pub(super) fn dashes(lines: &[&str], name: &str) -> Option<&'static str> {
    DASHES[lines.iter().position(|other| *other == name).unwrap_or(0) % DASHES.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{EXPERIMENTS, OWN, VARIANTS};

    #[test] // proves: experiments
    fn compared_policies_have_distinct_colours() {
        for variant in VARIANTS.iter().chain([&OWN]) {
            assert!(of_policy(variant.name).is_some(), "{}", variant.name);
        }
        for experiment in EXPERIMENTS {
            let names: Vec<&str> = experiment.default_policies().iter().map(|variant| variant.name).collect();
            let mut colours: Vec<_> = names.iter().map(|name| colour(&names, name)).collect();
            colours.sort_by_key(|colour| (colour.0, colour.1, colour.2));
            colours.dedup();
            assert_eq!(colours.len(), names.len(), "{}", experiment.name);
        }
    }

    #[test] // proves: experiments
    fn policy_colour_is_fixed_and_unique() {
        let alone = colour(&["gfc"], "gfc");
        let names = ["alone", "spine", "pfc", "gfc (lost frames)"];
        assert_eq!(colour(&names, "gfc (lost frames)"), alone);
        assert_eq!(colour(&names, "pfc"), COLOURS[0]);
        let mut all: Vec<_> = names.map(|name| colour(&names, name)).into();
        all.dedup();
        assert_eq!(all.len(), names.len(), "{all:?}");
    }
}
