use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use miette::miette;
use xoff_config::Config;
use xoff_flow_control::settings::SwitchSettings;
use xoff_sim::{SwitchKind, ideal};
use xoff_wire::units::ClassSet;

use super::schedule::Revision;
use crate::scenario::{Change, ChangeTarget, PortLine, Source};

#[derive(Default)]
pub(super) struct Configured {
    pub kinds: Vec<Arc<SwitchKind>>,
    pub revisions: Vec<Revision>,
    pub warnings: Vec<String>,
}

type KindAndChanges = (Arc<SwitchKind>, Vec<Arc<SwitchSettings>>);

pub(super) fn configured(
    (source, point, changes): (&Source, usize, &[Change]),
    kinds: &[&'static str],
    ports: &[Vec<PortLine>],
    lossy: ClassSet,
) -> miette::Result<Configured> {
    for change in changes {
        if let ChangeTarget::Switch(number) = change.of
            && number as usize >= kinds.len()
        {
            let last = kinds.len().saturating_sub(1);
            return Err(miette!(
                "a [[change]] names switch {number}, but this fabric has switches 0 to {last}"
            ));
        }
    }
    let mut by_time: Vec<usize> = (0..changes.len()).collect();
    by_time.sort_by_key(|number| changes[*number].at);
    let mut by_ports: HashMap<(&str, &[PortLine], Vec<usize>), KindAndChanges> = HashMap::new();
    let mut all = Configured::default();
    for ((number, &kind), ports) in (0..).zip(kinds).zip(ports) {
        let is_own = |change: &&usize| changes[**change].is_for(number, kind);
        let own: Vec<usize> = by_time.iter().filter(is_own).copied().collect();
        let (made, settings) = match by_ports.entry((kind, ports, own.clone())) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let mut configs = vec![source.switch(point, kind, ports)?];
                for count in 1..=own.len() {
                    configs.push(source.changed(point, kind, ports, &own[..count])?);
                }
                let warnings = configs.iter().flat_map(|config| &config.warnings);
                all.warnings.extend(warnings.map(|warning| format!("{kind}: {warning}")));
                entry.insert(of_kind(&configs, lossy))
            }
        };
        all.kinds.push(Arc::clone(made));
        let later = own.iter().zip(settings.iter());
        all.revisions.extend(later.map(|(&change, settings)| Revision {
            at: changes[change].at,
            change,
            switch: number,
            settings: Arc::clone(settings),
        }));
    }
    all.warnings.sort_unstable();
    all.warnings.dedup();
    Ok(all)
}

/// Returns the initial settings of a kind of switches, and those after each change. Packet memory suffices for all
/// together, because frames outlive a change.
fn of_kind(configs: &[Config], lossy: ClassSet) -> KindAndChanges {
    let mut kinds: Vec<SwitchKind> = configs.iter().map(|config| ideal::kind(config, lossy)).collect();
    let addresses = kinds.iter().map(|kind| kind.settings.fdb.capacity).max().unwrap_or(0);
    kinds.iter_mut().for_each(|kind| kind.settings.fdb.capacity = addresses);
    let data = kinds.iter().map(|kind| kind.slots.data).fold(0, u32::saturating_add);
    let mut kinds = kinds.into_iter();
    let mut first = kinds.next().expect("a switch must have an initial configuration");
    first.slots.data = data;
    (Arc::new(first), kinds.map(|kind| Arc::new(kind.settings)).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use xoff_config::{Hardware, Machine};

    #[test]
    fn address_table_is_large_enough_for_all_reloads_of_the_run() {
        let config = |learns: &bool| {
            let text = format!(
                "[defaults]\nlearning = {learns}\n[[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"10G\"\n"
            );
            Config::from_toml_on(Hardware::Ideal, "x", &text, Machine::default()).unwrap()
        };
        let room = |learns: &[bool]| {
            let configs: Vec<Config> = learns.iter().map(config).collect();
            let (first, later) = of_kind(&configs, ClassSet::NONE);
            let all = [&first.settings].into_iter().chain(later.iter().map(|settings| &**settings));
            all.map(|settings| settings.fdb.capacity).collect::<Vec<_>>()
        };
        assert_eq!((room(&[false]), room(&[false, false])), (vec![0], vec![0, 0]));
        for learns in
            [&[true][..], &[true, false], &[false, true], &[false, false, true], &[true, false, true]]
        {
            assert_eq!(
                room(learns),
                vec![16_384; learns.len()],
                "learning {learns:?}: all configurations must have equal address capacities"
            );
        }
    }
}
