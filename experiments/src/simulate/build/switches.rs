//! Configurations of a scenario's switches, and their changes during a run.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use miette::miette;
use xoff_config::Config;
use xoff_flow_control::settings::SwitchSettings;
use xoff_sim::{SwitchKind, ideal};
use xoff_wire::units::ClassSet;

use super::course::Revised;
use crate::scenario::{Change, Of, PortLine, Source};

#[derive(Default)]
pub(super) struct Configured {
    /// Initial kinds, by switch; identical switches share one.
    pub kinds: Vec<Arc<SwitchKind>>,
    pub revised: Vec<Revised>,
    pub warnings: Vec<String>,
}

type Told = (Arc<SwitchKind>, Vec<Arc<SwitchSettings>>);

/// Returns the configurations by the kind and the ports of each switch.
pub(super) fn configured(
    (source, point, changes): (&Source, usize, &[Change]),
    kinds: &[&'static str],
    ports: &[Vec<PortLine>],
    lossy: ClassSet,
) -> miette::Result<Configured> {
    for change in changes {
        if let Of::Switch(number) = change.of
            && number as usize >= kinds.len()
        {
            let last = kinds.len().saturating_sub(1);
            return Err(miette!("a [[change]] names switch {number}; this fabric has switches 0 to {last}"));
        }
    }
    let mut by_time: Vec<usize> = (0..changes.len()).collect();
    by_time.sort_by_key(|number| changes[*number].at);
    let mut known: HashMap<(&str, &[PortLine], Vec<usize>), Told> = HashMap::new();
    let mut all = Configured::default();
    for ((number, &kind), ports) in (0..).zip(kinds).zip(ports) {
        let is_own = |change: &&usize| changes[**change].is_for(number, kind);
        let own: Vec<usize> = by_time.iter().filter(is_own).copied().collect();
        let (made, settings) = match known.entry((kind, ports, own.clone())) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let mut told = vec![source.switch(point, kind, ports)?];
                for count in 1..=own.len() {
                    told.push(source.changed(point, kind, ports, &own[..count])?);
                }
                let warnings = told.iter().flat_map(|config| &config.warnings);
                all.warnings.extend(warnings.map(|warning| format!("{kind}: {warning}")));
                entry.insert(of_kind(&told, lossy))
            }
        };
        all.kinds.push(Arc::clone(made));
        let later = own.iter().zip(settings.iter());
        all.revised.extend(later.map(|(&change, settings)| Revised {
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

/// Returns the kind of a switch with these successive configurations. Its packet memory fits the traffic that each
/// admits before the next one pauses. Its forwarding database has the largest capacity of all.
fn of_kind(told: &[Config], lossy: ClassSet) -> Told {
    let mut kinds: Vec<SwitchKind> = told.iter().map(|config| ideal::kind(config, lossy)).collect();
    let addresses = kinds.iter().map(|kind| kind.settings.fdb.capacity).max().unwrap_or(0);
    kinds.iter_mut().for_each(|kind| kind.settings.fdb.capacity = addresses);
    let data = kinds.iter().map(|kind| kind.slots.data).fold(0, u32::saturating_add);
    let mut kinds = kinds.into_iter();
    let mut first = kinds.next().expect("a switch is told something at its start");
    first.slots.data = data;
    (Arc::new(first), kinds.map(|kind| Arc::new(kind.settings)).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use xoff_config::{Hardware, Machine};

    #[test]
    fn a_forwarding_database_has_room_for_what_ports_learn_at_any_time() {
        let config = |learns: &bool| {
            let text = format!(
                "[defaults]\nlearning = {learns}\n[[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"10G\"\n"
            );
            Config::from_toml_on(Hardware::Ideal, "x", &text, Machine::default()).unwrap()
        };
        let room = |learns: &[bool]| {
            let told: Vec<Config> = learns.iter().map(config).collect();
            let (first, later) = of_kind(&told, ClassSet::NONE);
            let all = [&first.settings].into_iter().chain(later.iter().map(|settings| &**settings));
            all.map(|settings| settings.fdb.capacity).collect::<Vec<_>>()
        };
        assert_eq!((room(&[false]), room(&[false, false])), (vec![0], vec![0, 0]));
        for learns in
            [&[true][..], &[true, false], &[false, true], &[false, false, true], &[true, false, true]]
        {
            assert_eq!(room(learns), vec![16_384; learns.len()], "{learns:?}: also after a restart");
        }
    }
}
