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

pub struct Switch {
    namespace: Namespace,
    child: Child,
    directory: TempDir,
}

#[derive(Debug, Default)]
pub struct LaunchOptions {
    /// Destination of the switch's log; `None` for a file that [`Switch::stderr`] reads.
    pub stderr: Option<Stdio>,
    /// Soft and hard limits of open files; `None` to inherit both.
    pub descriptors: Option<(u64, u64)>,
    pub environment: Vec<(&'static str, String)>,
    pub arguments: Vec<OsString>,
}

#[derive(Debug)]
pub struct Exit {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Switch {
    pub fn start(binary: &Path, namespace: &Namespace, config: &str) -> Switch {
        Switch::launch(binary, namespace, config).ready()
    }

    #[must_use]
    pub fn ready(mut self) -> Switch {
        wait_for("readiness of the switch", || {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the switch ended during its start with {status}:\n{}", self.stderr());
            }
            self.get("/healthz").is_ok().then_some(())
        });
        self
    }

    pub fn launch(binary: &Path, namespace: &Namespace, config: &str) -> Switch {
        Switch::launch_with(LaunchOptions::default(), binary, namespace, config)
    }

    pub fn launch_with(options: LaunchOptions, binary: &Path, namespace: &Namespace, config: &str) -> Switch {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("switch.toml");
        fs::write(&file, config).unwrap();
        let open = |name| fs::File::create(directory.path().join(name)).unwrap();
        let mut command = dies_with_us("prlimit");
        command.args(options.descriptors.map(|(soft, hard)| format!("--nofile={soft}:{hard}")));
        command.arg(binary).arg("run").arg(file).args(options.arguments);
        command.stdin(Stdio::null()).stdout(open("stdout")).envs(options.environment);
        command.stderr(options.stderr.unwrap_or_else(|| open("stderr").into()));
        let child = namespace.spawn(command).expect("setpriv (util-linux) starts");
        Switch { namespace: namespace.clone(), child, directory }
    }

    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.directory.path().join("switch.toml")
    }

    #[must_use]
    pub fn status(&self) -> Status {
        let text = self.get("/status").unwrap_or_else(|error| panic!("/status: {error}"));
        let status = serde_json::from_str(&text);
        let status = status.unwrap_or_else(|error| panic!("/status: {error} in {text}"));
        stall::note_switch(&status);
        status
    }

    #[must_use]
    pub fn port(&self, number: usize) -> PortStatus {
        self.status().ports.swap_remove(number - 1)
    }

    #[must_use]
    pub fn class(&self, number: usize, class: usize) -> ClassStatus {
        self.port(number).classes.swap_remove(class)
    }

    #[must_use]
    pub fn metrics(&self) -> String {
        self.get("/metrics").unwrap_or_else(|error| panic!("/metrics: {error}"))
    }

    #[must_use]
    pub fn health(&self) -> (u16, String) {
        let url = format!("{CONTROL}/healthz");
        let request = || {
            let call = ureq::get(&url).config().http_status_as_error(false).build().call();
            let mut reply = call.unwrap_or_else(|error| panic!("/healthz: {error}"));
            (reply.status().as_u16(), reply.body_mut().read_to_string().unwrap_or_default())
        };
        self.namespace.run(request)
    }

    #[must_use]
    pub fn anonymous_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1_024
    }

    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    pub fn write(&self, config: &Config) {
        fs::write(self.directory.path().join("switch.toml"), config.to_string()).unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        signal::kill(self.pid(), signal).unwrap();
    }

    pub fn halt(&self) {
        self.signal(Signal::SIGSTOP);
        wait_for("the switch process to stop after SIGSTOP", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
            stat.rsplit(')').next().unwrap().starts_with(" T").then_some(())
        });
    }

    pub fn wait(mut self) -> Exit {
        let status = wait_for("the end of the switch", || self.child.try_wait().unwrap());
        Exit { status, stdout: self.read("stdout"), stderr: self.stderr() }
    }

    pub fn stop(self) -> Exit {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    pub fn kill(self) -> Exit {
        self.signal(Signal::SIGKILL);
        self.wait()
    }

    #[must_use]
    pub fn stderr(&self) -> String {
        self.read("stderr")
    }

    fn read(&self, name: &str) -> String {
        let path: PathBuf = self.directory.path().join(name);
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }

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

    pub fn put(&self, path: &str, body: &str) -> Result<(u16, String), ureq::Error> {
        let url = format!("{CONTROL}{path}");
        self.namespace.run(|| {
            let request = ureq::put(&url).config().http_status_as_error(false);
            let call = request.timeout_global(Some(PATIENCE)).build().send(body);
            let mut reply = call?;
            Ok((reply.status().as_u16(), reply.body_mut().read_to_string()?))
        })
    }

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
        let _ = self.child.kill(); // fails if the switch has ended
        let _ = self.child.wait();
    }
}
