//! Remedies for a lack of memory: changes of one key, with the memory that each saves.

use toml_span::{Span, Spanned};
use xoff_wire::units::{BitRate, Bytes, ClassSet, Nanos};

use crate::document::{Document, Port};
use crate::keys::{ClassKeys, PortKeys};
use crate::reader::Problems;
use crate::reader::value;
use crate::shell::ReceiveChunks;
use crate::written::grouped;
use crate::{Machine, build, defaults};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remedy {
    pub change: &'static str,
    pub saved: Bytes,
}

type Change = (&'static str, fn(&mut Document));

const CHANGES: [Change; 15] = [
    ("smallest_frame = 1024", |document| document.switch.smallest_frame = key(1024)),
    ("stall_budget = \"5ms\"", |document| document.switch.stall_budget = key(Nanos::from_millis(5))),
    ("stall_budget = \"1ms\"", |document| document.switch.stall_budget = key(Nanos::from_millis(1))),
    ("half the `speed` of each port", |document| document.ports.iter_mut().for_each(halve_speed)),
    ("one `lossless` class at each port", |document| document.ports.iter_mut().for_each(keep_one_class)),
    ("the default `xoff` of each class", |document| classes(document).for_each(|class| class.xoff = None)),
    ("the default `headroom` of each class", |document| {
        classes(document).for_each(|class| class.headroom = None);
    }),
    ("the default `egress_max` of each class", |document| {
        classes(document).for_each(|class| (class.egress_max, class.egress_max_frames) = (None, None));
    }),
    ("the default `ingress_max` of each class", |document| {
        classes(document).for_each(|class| class.ingress_max = None);
    }),
    ("the default `burst` of each port", |document| ports(document).for_each(|port| port.burst = None)),
    ("the default `commit` of each port", |document| ports(document).for_each(|port| port.commit = None)),
    ("the default `peer_response` of each port", |document| {
        ports(document).for_each(|port| port.peer_response = None);
    }),
    ("the default `cable` of each port", |document| ports(document).for_each(|port| port.cable = None)),
    ("no `spare_ports`", |document| document.switch.spare_ports = None),
    ("the default `flows` of [policy.ofc]", |document| document.ofc.flows = None),
];

const SMALL_CHUNKS: Change = ("receive_chunks = \"small\" in [memory]", |document| {
    document.memory.receive_chunks = key(ReceiveChunks::Small);
});

pub(crate) fn of(document: &Document, machine: &Machine) -> Vec<Remedy> {
    let needed = |document: &Document| {
        let config = build::build(document, &mut Problems::default())?;
        Some(config.plan(machine).needed())
    };
    let Some(now) = needed(document) else { return Vec::new() };
    let remedy = |(change, apply): Change| {
        let mut document = document.clone();
        apply(&mut document);
        let saved = Bytes(now.0.saturating_sub(needed(&document)?.0));
        (saved > Bytes::ZERO).then_some(Remedy { change, saved })
    };
    let possible = CHANGES.into_iter().chain((machine.has_small_chunks)().then_some(SMALL_CHUNKS));
    largest_first(possible.filter_map(remedy).collect())
}

impl Remedy {
    /// Describes the memory saved, and whether that reduces `needed` bytes to at most `allowed`.
    #[must_use]
    pub fn advice(&self, needed: Bytes, allowed: Bytes) -> String {
        let suffices =
            if needed.saturating_sub(self.saved) <= allowed { "suffices" } else { "does not suffice alone" };
        format!("{} helps most: it saves {} MiB, and {suffices}", self.change, grouped(self.saved.0 >> 20))
    }

    /// Adds up the savings of equal remedies for several switches; returns the largest saving first.
    #[must_use]
    pub fn of_all(remedies: impl IntoIterator<Item = Remedy>) -> Vec<Remedy> {
        let mut sums: Vec<Remedy> = Vec::new();
        for Remedy { change, saved } in remedies {
            match sums.iter_mut().find(|sum| sum.change == change) {
                Some(sum) => sum.saved = sum.saved.saturating_add(saved),
                None => sums.push(Remedy { change, saved }),
            }
        }
        largest_first(sums)
    }
}

fn largest_first(mut remedies: Vec<Remedy>) -> Vec<Remedy> {
    remedies.sort_by_key(|remedy| std::cmp::Reverse(remedy.saved));
    remedies
}

fn key<T>(value: T) -> Option<Spanned<T>> {
    Some(Spanned::with_span(value, Span::default()))
}

fn ports(document: &mut Document) -> impl Iterator<Item = &mut PortKeys> {
    document.ports.iter_mut().map(|port| &mut port.keys)
}

fn classes(document: &mut Document) -> impl Iterator<Item = &mut ClassKeys> {
    document.ports.iter_mut().flat_map(|port| &mut port.classes)
}

fn halve_speed(port: &mut Port) {
    if let Some(speed) = &mut port.keys.speed {
        speed.value = BitRate::new(speed.value.bits_per_second() / 2).unwrap_or(speed.value);
    }
}

fn keep_one_class(port: &mut Port) {
    let mut kept = ClassSet::NONE;
    value(port.keys.lossless.as_ref(), defaults::LOSSLESS)
        .iter()
        .take(1)
        .for_each(|class| kept.insert(class));
    port.keys.lossless = key(kept);
}

// Tests for SPECIFICATION.md: lab-file
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Config, Hardware};

    fn remedies(switch: &str, port: &str) -> Vec<Remedy> {
        let ports = ["a", "b"].map(|name| {
            format!("[[port]]\nname = \"{name}\"\ndevice = \"{name}\"\nspeed = \"1G\"\n{port}\n")
        });
        let text = format!("[switch]\n{switch}\n{}", ports.concat());
        Config::remedies(&toml_span::parse(&text).unwrap(), Hardware::default(), &Machine::default())
    }

    fn changes(remedies: &[Remedy]) -> Vec<&'static str> {
        remedies.iter().map(|remedy| remedy.change).collect()
    }

    #[test]
    fn saving_of_suggested_change_is_difference_of_memory_plans() {
        let needed = |switch: &str| {
            let text = format!("[switch]\n{switch}[[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"1G\"\n");
            Config::from_toml("x", &text, Machine::default()).unwrap().plan(&Machine::default()).needed()
        };
        let text = "[[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"1G\"\n";
        let all =
            Config::remedies(&toml_span::parse(text).unwrap(), Hardware::default(), &Machine::default());
        let saved = |change: &str| all.iter().find(|remedy| remedy.change == change).unwrap().saved;
        for change in ["smallest_frame = 1024", "stall_budget = \"5ms\""] {
            assert_eq!(saved(change).0, needed("").0 - needed(&format!("{change}\n")).0);
        }
        assert!(all.is_sorted_by_key(|remedy| std::cmp::Reverse(remedy.saved)));
    }

    #[test]
    fn suggestions_that_save_no_memory_are_omitted() {
        let short = remedies("stall_budget = \"1ms\"\nsmallest_frame = 2000", "");
        assert!(changes(&short).iter().all(|change| change.starts_with("half")), "{short:?}");
        assert!(!changes(&remedies("", "")).contains(&"one `lossless` class at each port"));
        assert!(changes(&remedies("", "lossless = [3, 4]")).contains(&"one `lossless` class at each port"));
    }

    #[test]
    fn memory_error_suggests_default_instead_of_huge_value() {
        for (key, of) in [
            ("class.3.xoff = \"10GB\"", "`xoff` of each class"),
            ("class.3.headroom = \"10GB\"", "`headroom` of each class"),
            ("peer_response = \"9s\"", "`peer_response` of each port"),
            ("burst = \"60MB\"", "`burst` of each port"),
        ] {
            assert_eq!(remedies("", key)[0].change, format!("the default {of}"));
        }
        let text = |keys: &str| format!("{keys}\n[[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"1G\"\n");
        for (keys, change) in [
            (
                "[class.0]\negress_max = \"10GB\"\n[memory]\nlossy_pool = \"none\"",
                "the default `egress_max` of each class",
            ),
            (
                "[switch]\npolicy = \"ofc\"\n[policy.ofc]\nflows = 1048576",
                "the default `flows` of [policy.ofc]",
            ),
            ("[switch]\nspare_ports = 200", "no `spare_ports`"),
            ("[memory]\nbudget = \"1GB\"", "the smallest possible `budget`"),
        ] {
            let text = text(keys);
            let of =
                Config::remedies(&toml_span::parse(&text).unwrap(), Hardware::default(), &Machine::default());
            assert!(changes(&of).contains(&change), "{keys}: {of:?}");
        }
        assert!(!changes(&remedies("", "")).iter().any(|change| change.starts_with("the default")));
    }

    #[test]
    fn small_receive_chunks_are_suggested_if_kernel_supports_them() {
        let text = "[[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"1G\"\n";
        let of = |has_small_chunks: fn() -> bool| {
            let machine = Machine { has_small_chunks, ..Machine::default() };
            Config::remedies(&toml_span::parse(text).unwrap(), Hardware::default(), &machine)
        };
        assert!(
            changes(&of(|| true)).contains(&SMALL_CHUNKS.0)
                && !changes(&of(|| false)).contains(&SMALL_CHUNKS.0)
        );
    }

    #[test]
    fn equal_suggestions_for_several_switches_add_their_savings() {
        let one = remedies("", "");
        let both = Remedy::of_all([one.clone(), one.clone()].concat());
        assert_eq!(changes(&both), changes(&one));
        assert_eq!(both[0].saved.0, 2 * one[0].saved.0);
    }
}
