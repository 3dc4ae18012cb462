//! Adds remedies to errors when the kernel refuses memory, threads or open files.

use std::io;
use std::thread::{self, JoinHandle};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

/// Starts a thread. If the system refuses it, the error names the limit to raise.
pub fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().spawn(work).map_err(|error| thread_refused(&error))
}

#[must_use]
pub fn thread_refused(error: &io::Error) -> io::Error {
    let threads = "raise the limit on threads (`ulimit -u`, and `pids.max` of the cgroup)";
    let or = raise_address_space(address_space()).map_or_else(String::new, |remedy| format!(", or {remedy}"));
    io::Error::new(error.kind(), format!("{error}; {threads}{or}"))
}

#[must_use]
pub fn name_file_limit(error: io::Error) -> io::Error {
    let remedy = match error.raw_os_error() {
        Some(libc::EMFILE) => {
            let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
            format!("raise the limit of open files (`ulimit -n`, now {limit}, or LimitNOFILE= for systemd)")
        }
        Some(libc::ENFILE) => "raise the system's limit of open files (sysctl fs.file-max)".into(),
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}; {remedy}"))
}

pub(crate) fn memory_remedy(error: &io::Error) -> String {
    remedy_of(error, address_space())
}

fn remedy_of(error: &io::Error, address_space: u64) -> String {
    // ENOBUFS means that packet memory exceeds the limit on locked memory.
    if error.raw_os_error() == Some(libc::ENOBUFS) {
        return "raise the limit on locked memory (`ulimit -l`), or give the process cap_ipc_lock".into();
    }
    raise_address_space(address_space).unwrap_or_else(|| "end other programs".into())
}

fn raise_address_space(limit: u64) -> Option<String> {
    let kibibytes = limit >> 10;
    (limit != RLIM_INFINITY)
        .then(|| format!("raise the limit on address space (`ulimit -v`, now {kibibytes} KiB)"))
}

fn address_space() -> u64 {
    getrlimit(Resource::RLIMIT_AS).map_or(RLIM_INFINITY, |(soft, _)| soft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // proves: memory
    fn error_of_refused_memory_names_the_limit_to_raise() {
        let remedy = |code, limit| remedy_of(&io::Error::from_raw_os_error(code), limit);
        for limit in [900_000 << 10, RLIM_INFINITY] {
            assert!(remedy(libc::ENOBUFS, limit).contains("`ulimit -l`"));
        }
        let named = "raise the limit on address space (`ulimit -v`, now 900000 KiB)";
        assert_eq!(remedy(libc::ENOMEM, 900_000 << 10), named);
        assert_eq!(remedy(libc::ENOMEM, RLIM_INFINITY), "end other programs");
    }

    #[test]
    fn error_of_refused_open_names_open_file_limit_to_raise() {
        let text = |code| name_file_limit(io::Error::from_raw_os_error(code)).to_string();
        assert!(
            text(libc::EMFILE).contains("(os error 24); raise the limit of open files (`ulimit -n`, now ")
        );
        assert!(text(libc::ENFILE).contains("fs.file-max"));
        assert_eq!(text(libc::ENODEV), io::Error::from_raw_os_error(libc::ENODEV).to_string());
    }
}
