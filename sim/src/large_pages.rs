//! Large pages for the memory of a program that simulates.
//!
//! A fabric of 1,024 hosts is 250 MB, and each of its events touches pages that no event has touched for a while: in pages of 4 KiB
//! a processor does not know where two of them are at every hop, and looks that up in tables which are in no cache either. In pages of
//! 2 MiB it knows. Where Linux gives large pages to who asks (`madvise` in `/sys/kernel/mm/transparent_hugepage/enabled`) somebody has
//! to ask for every piece of memory: glibc's allocator does when `GLIBC_TUNABLES` says so, which it reads once, as a program begins. So the
//! program begins once more. All its threads have the heap of the first then: those that others begin grow in a way for which nobody asks.
//! Where Linux gives large pages to everybody or to nobody, and with another allocator, there is nothing to ask for.

/// The environment variable that keeps a program from asking, whatever it says. Set by [`ask`], too: where a program's file has
/// capabilities, the C library forgets `GLIBC_TUNABLES`, and the program would begin for ever.
pub const ASKED: &str = "XOFF_LARGE_PAGES";

/// Has the allocator ask for large pages, where that can be of use: the program begins once more, with the same arguments and the same
/// process identifier. So this is to be called before anything else is done, and returns where there is nothing to ask for or no way to.
pub fn ask() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::ask();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    use std::ffi::OsString;
    use std::os::unix::process::CommandExt as _;
    use std::path::Path;

    use super::ASKED;

    pub(super) const TUNABLES: &str = "GLIBC_TUNABLES";
    const LARGE: &str = "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1";
    const MODE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

    pub(super) fn ask() {
        let mode = std::fs::read_to_string(MODE).unwrap_or_default();
        if wanted(&mode, |name| std::env::var_os(name)) {
            again();
        }
    }

    /// Whether there is something to ask for, and nobody has said anything about it.
    pub(super) fn wanted(mode: &str, variable: impl Fn(&str) -> Option<OsString>) -> bool {
        mode.contains("[madvise]") && [ASKED, TUNABLES].iter().all(|name| variable(name).is_none())
    }

    fn again() {
        let mut arguments = std::env::args_os();
        let (Some(name), Ok(program)) = (arguments.next(), std::env::current_exe()) else { return };
        // The loader is the program where it was told which to load; or there is no such file any more.
        if Path::new(&name).file_name() != program.file_name() || !program.is_file() {
            return;
        }
        // Only what kept it from beginning comes back. It goes on in small pages then, and is ended by a pipe that nobody reads (SIGPIPE):
        // what it is to do about those is left to the new program, and is not taken back.
        let _ = std::process::Command::new(program)
            .arg0(name)
            .args(arguments)
            .env(TUNABLES, LARGE)
            .env(ASKED, "asked")
            .exec();
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use std::ffi::OsString;

    use super::ASKED;
    use super::glibc::{TUNABLES, wanted};

    #[test]
    fn large_pages_are_asked_for_once_where_who_asks_gets_them() {
        let with = |set: &'static str| move |name: &str| (name == set).then(OsString::new);
        assert!(wanted("always [madvise] never\n", with("HOME")));
        assert!(!wanted("always [madvise] never\n", with(ASKED)), "asked before, or told not to");
        assert!(!wanted("always [madvise] never\n", with(TUNABLES)), "the user's own");
        for mode in ["[always] madvise never\n", "always madvise [never]\n", ""] {
            assert!(!wanted(mode, with("HOME")), "{mode}");
        }
    }
}
