//! Which files a part reaches, by Landlock: none for writing, and few for reading. Neither does it speak TCP to anybody, or
//! listen anew. Where the kernel has no Landlock, or an older one, the user's own rights are all that limits it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus,
    Scope, path_beneath_rules,
};

use super::{ConfineError, Part};

/// The newest that these rules know; an older kernel keeps those that it knows.
const KNOWN: ABI = ABI::V6;

/// How many CPUs there may be: who reads a map of the kernel's by CPU asks that.
const CPUS: &str = "/sys/devices/system/cpu";

/// A rule is of an inode, and /proc makes a directory anew that nobody had open when memory was short.
fn keep_own_proc() {
    static OPEN: OnceLock<Option<File>> = OnceLock::new();
    OPEN.get_or_init(|| File::open("/proc/self").ok());
}

/// Limits the calling thread.
pub(super) fn limit(part: Part, readable: &[PathBuf], removable: Option<&Path>) -> Result<(), ConfineError> {
    let mut paths: Vec<&Path> = match part {
        Part::Owner | Part::Opener => {
            readable.iter().map(PathBuf::as_path).chain(["/proc", "/sys"].map(Path::new)).collect()
        }
        Part::Http => vec![Path::new("/proc/self"), Path::new(CPUS)],
        Part::Worker | Part::HostPath | Part::Log => Vec::new(),
    };
    // Who panics looks there for names of functions, where it may open anything.
    let program = std::env::current_exe().ok().filter(|_| !paths.is_empty());
    paths.extend(program.as_deref());
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::Signal)?;
    if !matches!(part, Part::Owner | Part::Opener) {
        rules = rules.scope(Scope::AbstractUnixSocket)?; // by one, a service manager may be told
    }
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    if part == Part::Http {
        keep_own_proc();
    }
    let removable = removable.filter(|_| part == Part::Owner);
    let rules = rules.create()?.add_rules(path_beneath_rules(paths, read))?;
    let status = rules.add_rules(path_beneath_rules(removable, AccessFs::RemoveFile))?.restrict_self()?;
    if part == Part::Owner && status.ruleset == RulesetStatus::NotEnforced {
        tracing::warn!("this kernel has no Landlock: which files a switch reaches depends on its user alone");
    }
    Ok(())
}
