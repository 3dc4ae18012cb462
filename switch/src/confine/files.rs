//! Landlock rules that limit each [`Part`]: no writing, few readable paths, no TCP connections, no new listeners.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus,
    Scope, path_beneath_rules,
};

use super::{ConfineError, Part};

/// Newest Landlock ABI that the rules use. A kernel with an older ABI applies the rules that it supports.
const NEWEST_ABI: ABI = ABI::V6;

/// Directory from which a thread counts the CPUs before it reads a per-CPU BPF map.
const CPUS: &str = "/sys/devices/system/cpu";

/// Keeps /proc/self open: else the kernel may replace that directory by one with another inode, to which Landlock
/// rules do not apply.
fn keep_own_proc() {
    static OPEN: OnceLock<Option<File>> = OnceLock::new();
    OPEN.get_or_init(|| File::open("/proc/self").ok());
}

pub(super) fn limit(part: Part, readable: &[PathBuf], removable: Option<&Path>) -> Result<(), ConfineError> {
    let mut paths: Vec<&Path> = match part {
        Part::Owner | Part::Opener => {
            readable.iter().map(PathBuf::as_path).chain(["/proc", "/sys"].map(Path::new)).collect()
        }
        Part::Http => vec![Path::new("/proc/self"), Path::new(CPUS)],
        Part::Worker | Part::HostPath | Part::Log => Vec::new(),
    };
    // Allow reading the executable, because a panic reads function names from it.
    let program = std::env::current_exe().ok().filter(|_| !paths.is_empty());
    paths.extend(program.as_deref());
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST_ABI))?
        .handle_access(AccessNet::from_all(NEWEST_ABI))?
        .scope(Scope::Signal)?;
    if !matches!(part, Part::Owner | Part::Opener) {
        rules = rules.scope(Scope::AbstractUnixSocket)?; // for service managers
    }
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    if part == Part::Http {
        keep_own_proc();
    }
    let removable = removable.filter(|_| part == Part::Owner);
    let rules = rules.create()?.add_rules(path_beneath_rules(paths, read))?;
    let status = rules.add_rules(path_beneath_rules(removable, AccessFs::RemoveFile))?.restrict_self()?;
    if part == Part::Owner && status.ruleset == RulesetStatus::NotEnforced {
        tracing::warn!(
            "this kernel has no Landlock: only the rights of the switch's user limit which files it can read or write"
        );
    }
    Ok(())
}
