//! What the switches of a scenario are told.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use xoff_config::scenario::{PortLine, Source};
use xoff_dataplane::units::ClassSet;
use xoff_sim::{SwitchKind, ideal};

/// By switch: what it is told. Switches that are alike share it.
///
/// # Errors
/// What is wrong with it.
pub(super) fn configured(
    source: &Source,
    point: usize,
    kinds: &[&'static str],
    ports: &[Vec<PortLine>],
    lossy: ClassSet,
) -> miette::Result<Vec<Arc<SwitchKind>>> {
    let mut known: HashMap<(&str, &[PortLine]), Arc<SwitchKind>> = HashMap::new();
    let mut all = Vec::new();
    for (&kind, ports) in kinds.iter().zip(ports) {
        let made = match known.entry((kind, ports)) {
            Entry::Occupied(entry) => Arc::clone(entry.get()),
            Entry::Vacant(entry) => {
                let config = source.switch(point, kind, ports)?;
                Arc::clone(entry.insert(Arc::new(ideal::kind(&config, lossy))))
            }
        };
        all.push(made);
    }
    Ok(all)
}
