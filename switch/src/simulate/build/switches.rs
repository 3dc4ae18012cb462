//! What the switches of a scenario are told.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use xoff_config::scenario::{PortLine, Source};
use xoff_dataplane::units::ClassSet;
use xoff_sim::{SwitchKind, ideal};

/// By switch: what it is told. Switches that are alike share it. And what is doubtful about it.
///
/// # Errors
/// What is wrong with it.
pub(super) fn configured(
    source: &Source,
    point: usize,
    kinds: &[&'static str],
    ports: &[Vec<PortLine>],
    lossy: ClassSet,
) -> miette::Result<(Vec<Arc<SwitchKind>>, Vec<String>)> {
    let mut known: HashMap<(&str, &[PortLine]), Arc<SwitchKind>> = HashMap::new();
    let (mut all, mut warnings) = (Vec::new(), Vec::new());
    for (&kind, ports) in kinds.iter().zip(ports) {
        let made = match known.entry((kind, ports)) {
            Entry::Occupied(entry) => Arc::clone(entry.get()),
            Entry::Vacant(entry) => {
                let config = source.switch(point, kind, ports)?;
                warnings.extend(config.warnings.iter().map(|warning| format!("{kind}: {warning}")));
                Arc::clone(entry.insert(Arc::new(ideal::kind(&config, lossy))))
            }
        };
        all.push(made);
    }
    warnings.sort_unstable();
    warnings.dedup();
    Ok((all, warnings))
}
