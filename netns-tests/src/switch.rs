//! The `xoff` process under test.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use tempfile::TempDir;
use xoff_lab::Namespace;
use xoff_switch::control::status::{ClassStatus, PortStatus, Status};

use crate::host::dies_with_us;
use crate::{Config, PATIENCE, stall, wait_for};

const CONTROL: &str = "http://127.0.0.1:9464";

/// A running `xoff run`.
pub struct Switch {
    namespace: Namespace,
    child: Child,
    directory: TempDir,
}

/// What a switch is given by whoever starts it.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// Where it logs to; `None`: to a file that [`Switch::stderr`] reads.
    pub stderr: Option<Stdio>,
    /// Its limits of open files, soft and hard; `None`: those of the test.
    pub descriptors: Option<(u64, u64)>,
    /// Of its environment, what the test does not have itself.
    pub environment: Vec<(&'static str, String)>,
    /// What else `xoff run` is told.
    pub arguments: Vec<OsString>,
}

/// How a switch ended.
#[derive(Debug)]
pub struct Exit {
    /// Its exit status.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it logged.
    pub stderr: String,
}

impl Switch {
    /// Starts `binary run --config ..` in `namespace` with this configuration, and waits until it says
    /// that it is ready.
    pub fn start(binary: &Path, namespace: &Namespace, config: &str) -> Switch {
        Switch::launch(binary, namespace, config).ready()
    }

    /// Waits until it says that it is ready.
    #[must_use]
    pub fn ready(mut self) -> Switch {
        wait_for("the switch to be ready", || {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the switch ended with {status} at its start:\n{}", self.stderr());
            }
            self.get("/healthz").is_ok().then_some(())
        });
        self
    }

    /// The same without waiting: for starts that are meant to fail.
    pub fn launch(binary: &Path, namespace: &Namespace, config: &str) -> Switch {
        Switch::launch_in(Surroundings::default(), binary, namespace, config)
    }

    /// The same in other surroundings.
    pub fn launch_in(
        surroundings: Surroundings,
        binary: &Path,
        namespace: &Namespace,
        config: &str,
    ) -> Switch {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("switch.toml");
        fs::write(&file, config).unwrap();
        let open = |name| fs::File::create(directory.path().join(name)).unwrap();
        let mut command = dies_with_us("prlimit");
        command.args(surroundings.descriptors.map(|(soft, hard)| format!("--nofile={soft}:{hard}")));
        command.arg(binary).arg("run").arg("--config").arg(file).args(surroundings.arguments);
        command.stdin(Stdio::null()).stdout(open("stdout")).envs(surroundings.environment);
        command.stderr(surroundings.stderr.unwrap_or_else(|| open("stderr").into()));
        let child = namespace.spawn(command).expect("setpriv (util-linux) starts");
        Switch { namespace: namespace.clone(), child, directory }
    }

    /// Where its configuration is.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.directory.path().join("switch.toml")
    }

    /// What it says at `/status`.
    #[must_use]
    pub fn status(&self) -> Status {
        let text = self.get("/status").unwrap_or_else(|error| panic!("/status: {error}"));
        let status = serde_json::from_str(&text);
        let status = status.unwrap_or_else(|error| panic!("/status: {error} in {text}"));
        stall::note_switch(&status);
        status
    }

    /// What it says of port `number`, from 1.
    #[must_use]
    pub fn port(&self, number: usize) -> PortStatus {
        self.status().ports.swap_remove(number - 1)
    }

    /// What it says of one class of port `number`, from 1.
    #[must_use]
    pub fn class(&self, number: usize, class: usize) -> ClassStatus {
        self.port(number).classes.swap_remove(class)
    }

    /// What it says at `/metrics`.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.get("/metrics").unwrap_or_else(|error| panic!("/metrics: {error}"))
    }

    /// What it says at `/healthz`: the HTTP status and the text.
    #[must_use]
    pub fn health(&self) -> (u16, String) {
        let url = format!("{CONTROL}/healthz");
        let ask = || {
            let call = ureq::get(&url).config().http_status_as_error(false).build().call();
            let mut answer = call.unwrap_or_else(|error| panic!("/healthz: {error}"));
            (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap_or_default())
        };
        self.namespace.run(ask)
    }

    /// Bytes of memory that it takes (VmRSS).
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1_024
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// Writes another configuration where it was started with one: it is read when it is read again.
    pub fn write(&self, config: &Config) {
        fs::write(self.directory.path().join("switch.toml"), config.to_string()).unwrap();
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        signal::kill(self.pid(), signal).unwrap();
    }

    /// Has it stand still, until it is told to go on (SIGCONT).
    pub fn halt(&self) {
        self.signal(Signal::SIGSTOP);
        wait_for("it to stand still", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
            stat.rsplit(')').next().unwrap().starts_with(" T").then_some(())
        });
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Exit {
        let status = wait_for("the switch to end", || self.child.try_wait().unwrap());
        Exit { status, stdout: self.read("stdout"), stderr: self.stderr() }
    }

    /// Asks it to stop (SIGTERM), and waits for its end.
    pub fn stop(self) -> Exit {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    /// Ends it without a chance to do anything (SIGKILL).
    pub fn kill(self) -> Exit {
        self.signal(Signal::SIGKILL);
        self.wait()
    }

    /// What it has logged so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.read("stderr")
    }

    fn read(&self, name: &str) -> String {
        let path: PathBuf = self.directory.path().join(name);
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }

    /// What it can say about frames that are not where they should be.
    fn summary(&self) -> String {
        let Ok(text) = self.get("/status") else { return String::new() };
        let Ok(status) = serde_json::from_str::<Status>(&text) else { return String::new() };
        stall::note_switch(&status);
        let mut lines = vec![format!("{:?}\n{:?}", status.verdict, status.ledger)];
        for port in &status.ports {
            lines.push(format!("{}: {:?} {:?}", port.name, port.xdp_statistics, port.device_drops));
            for class in port.classes.iter().filter(|class| class.rx_frames + class.tx_frames > 0) {
                let drops: Vec<_> = class.drops.iter().filter(|drop| *drop.1 > 0).collect();
                let ClassStatus { class, rx_frames, tx_frames, ingress, egress, .. } = class;
                lines.push(format!("  class {class}: rx {rx_frames} tx {tx_frames} drops {drops:?}"));
                lines.push(format!("    {ingress:?}\n    {egress:?}"));
            }
        }
        lines.extend(status.workers.iter().map(|worker| format!("{worker:?}")));
        lines.join("\n")
    }

    /// Sends `body` to `path` by PUT; the status code and the body of the answer.
    ///
    /// # Errors
    /// There is no answer.
    pub fn put(&self, path: &str, body: &str) -> Result<(u16, String), ureq::Error> {
        let url = format!("{CONTROL}{path}");
        self.namespace.run(|| {
            let request = ureq::put(&url).config().http_status_as_error(false);
            let call = request.timeout_global(Some(PATIENCE)).build().send(body);
            let mut answer = call?;
            Ok((answer.status().as_u16(), answer.body_mut().read_to_string()?))
        })
    }

    /// The body of what it answers to a GET of `path`.
    ///
    /// # Errors
    /// There is no answer, or it is an error.
    pub fn get(&self, path: &str) -> Result<String, ureq::Error> {
        let url = format!("{CONTROL}{path}");
        let get = || ureq::get(&url).config().timeout_global(Some(PATIENCE)).build().call();
        self.namespace.run(|| get()?.body_mut().read_to_string())
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = writeln!(std::io::stderr(), "the switch logged:\n{}\n{}", self.stderr(), self.summary());
        }
        let _ = self.child.kill(); // it may have ended by itself
        let _ = self.child.wait();
    }
}
