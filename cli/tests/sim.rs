//! `xoff sim` as a user runs it.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::libc::O_NONBLOCK;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use xoff_sim::large_pages::ASKED;

const SCENARIO: &str = r#"
[scenario]
name = "two"
about = "one host sends to another"
duration = "until-done"

[topology]
kind = "single"
hosts = 2
rate = "10G"

[[load]]
kind = "incast"
fan_in = 1
size = "10KB"
"#;

/// Opens the pipe as soon as somebody reads it, which is for a scenario; `None`: nobody has for half a minute.
fn waited_for(path: &Path, reader: &mut Child) -> Option<File> {
    for _ in 0..30_000 {
        match OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(path) {
            Ok(pipe) => return Some(pipe),
            Err(error) => assert_eq!(error.raw_os_error(), Some(nix::libc::ENXIO), "{error}"),
        }
        assert_eq!(reader.try_wait().unwrap(), None, "it ended without having read its scenario");
        thread::sleep(Duration::from_millis(1));
    }
    None
}

/// Of a run of these variables under this name: what its environment was when it read its scenario, and what it is called.
fn environment(name: &str, variables: &[(&str, &str)]) -> (Vec<String>, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("scenario.toml");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    let program = directory.path().join(name);
    symlink(env!("CARGO_BIN_EXE_xoff"), &program).unwrap();
    let mut command = Command::new(program);
    command.env_remove("GLIBC_TUNABLES").env_remove(ASKED).envs(variables.iter().copied());
    let mut xoff =
        command.arg("sim").arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let Some(mut pipe) = waited_for(&path, &mut xoff) else {
        xoff.kill().unwrap();
        panic!("nobody reads the scenario: {:?}", xoff.wait_with_output());
    };
    let of = |what: &str| fs::read_to_string(format!("/proc/{}/{what}", xoff.id())).unwrap();
    let (environment, comm) = (of("environ"), of("comm"));
    pipe.write_all(SCENARIO.as_bytes()).unwrap();
    drop(pipe);
    let output = xoff.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    (environment.split_terminator('\0').map(str::to_owned).collect(), comm)
}

#[test]
fn large_pages_are_asked_for_before_anything_is_read_and_by_nobody_who_said_otherwise() {
    let has = |environment: &[String], line: &str| environment.iter().any(|variable| variable == line);
    let mode = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let asks = cfg!(target_env = "gnu") && mode.is_ok_and(|mode| mode.contains("[madvise]"));
    let (plain, name) = environment("xoff", &[("KEPT", "as it was")]);
    // What follows may be on a line of its own: some glibcs part it there as they read it.
    let asked = plain.iter().any(|variable| variable.starts_with("GLIBC_TUNABLES=glibc.malloc.hugetlb=1"));
    assert_eq!(asked, asks, "{plain:?}");
    assert!(has(&plain, "KEPT=as it was"), "{plain:?}");
    assert_eq!(name, "xoff\n", "the program that it was");
    let (told, _) = environment("xoff", &[(ASKED, "no")]);
    assert!(!told.iter().any(|variable| variable.starts_with("GLIBC_TUNABLES")), "{told:?}");
    let (other, _) = environment("loader", &[]);
    assert!(
        !other.iter().any(|variable| variable.starts_with("GLIBC_TUNABLES")),
        "its file has another: {other:?}"
    );
    let (own, _) = environment("xoff", &[("GLIBC_TUNABLES", "glibc.malloc.check=0")]);
    assert!(has(&own, "GLIBC_TUNABLES=glibc.malloc.check=0"), "{own:?}");
}
