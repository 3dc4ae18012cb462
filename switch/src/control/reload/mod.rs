//! Reload of the configuration file. If the file has errors, or a change needs a restart, the reload reports all of
//! them and changes nothing.
//!
//! Each worker exchanges its settings ([`Revision`]) between two batches.

mod follow;
pub(super) mod http;
mod members;
mod ports;
mod read;
mod source;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use xoff_config::file::Unread;
use xoff_config::memory::Held;
use xoff_config::shell::Worker as WorkerPlan;
use xoff_config::{Change, Changes, Config, Device, Problem};
use xoff_dataplane::switch::{Revision, WorkerId, Workers};
use xoff_flow_control::settings::{PortSettings, SwitchSettings};
use xoff_wire::units::{Class, Nanos, PortId};
use xoff_xdp::Share;

pub use http::ReloadRequest;
pub use source::Source;

use super::mailbox::{Answer, Request};
use super::opener::{NotOpened, Opener};
use super::{Link, SwitchView, ask, logging};
use crate::lldp::dcbx;
use crate::machine;
use read::{READ_WITHIN, reach};

#[derive(Clone, Debug)]
pub(crate) struct Reserved {
    pub plans: Vec<WorkerPlan>,
    pub shares: Vec<Share>,
    pub queues: Vec<Option<u32>>,
}

impl Reserved {
    /// Reports each worker whose buffer memory is too small for frames of the `former` and `next` configurations: a
    /// restart is needed.
    fn fit(&self, former: &[&Config], next: &Config, changes: &mut Changes) {
        let Reserved { plans, shares, queues } = self;
        let held = |[frames, cells]: [u32; 2]| Held { frames: frames.into(), cells: cells.into() };
        for (number, (plan, share)) in plans.iter().zip(shares).enumerate() {
            let had = held([share.frames, share.cells]);
            let had_control = held([share.control_frames, share.control_cells]);
            let planned = |configs: &[&Config]| {
                let planned = Config::share_of(configs, plans.len(), &plan.ports, queues);
                let fits = planned.data().fits(had) && planned.control.fits(had_control);
                (!fits).then(|| planned.all())
            };
            let all = [former, &[next]].concat();
            let Some(needed) = planned(&all) else { continue };
            let cause = match planned(&[next]) {
                Some(_) => {
                    "depends on lossless, mtu, xoff, headroom with cable and peer_response, ingress_max and egress_max of the ports: \
                     lower these, or restart; `spare_ports` reserve memory also for higher values"
                }
                None => {
                    "includes frames admitted under former limits: lower limits first, and raise others in a later reload, when queues \
                     have drained"
                }
            };
            let amounts = |Held { frames, cells }: Held| format!("{frames} frames, {cells} cells");
            changes.restart(
                format!("buffer memory of worker {number} ({cause})"),
                amounts(had.plus(had_control)),
                amounts(needed),
            );
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    pub dry_run: bool,
    pub changes: Vec<Changed>,
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    pub what: String,
    pub before: String,
    pub after: String,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NotReloaded {
    #[error("this switch was started without a configuration file, so nothing can be reloaded")]
    NoFile,
    #[error("nothing was changed: {error}{reach}", error = .0, reach = reach(.0))]
    Unread(#[from] Unread),
    #[error(
        "nothing was changed: {path} has not answered for {} s: see what it is (a pipe without a writer, a file on a server that \
         is gone?), and reload again", READ_WITHIN.as_secs(), path = .0.display()
    )]
    Unanswered(PathBuf),
    #[error(
        "nothing was changed: an earlier reload still waits for {path}; reload again when that file has been read",
        path = .0.display()
    )]
    Busy(PathBuf),
    #[error("nothing was changed: {0}")]
    Unreadable(&'static str),
    #[error("nothing was changed, because {path} is not valid:{}", lines(.problems), path = .path.display())]
    Invalid { path: PathBuf, problems: Vec<String> },
    #[error("nothing was changed: the added port {name} cannot be opened: {error}")]
    NotAdded { name: String, error: Box<NotOpened> },
    #[error("nothing was changed, because these changes need a restart:{}", lines(.0.iter().map(line).collect::<Vec<_>>().as_slice()))]
    Restart(Vec<Changed>),
    #[error("nothing was changed: {0}")]
    Silent(String),
    #[error("nothing was changed: the switch is stopping")]
    Ended,
}

fn placed(problem: &Problem) -> String {
    let line =
        problem.position.map_or(String::new(), |(line, column)| format!("line {line}, column {column}: "));
    let help = problem.help.as_ref().map_or(String::new(), |help| format!("; {}", help.replace('\n', " ")));
    format!("{line}{}{help}", problem.message)
}

fn lines(list: &[String]) -> String {
    list.iter().map(|line| format!("\n  {line}")).collect()
}

#[must_use]
pub fn line(Changed { what, before, after }: &Changed) -> String {
    format!("{what}: {before} -> {after}")
}

impl From<&Change> for Changed {
    fn from(Change { what, before, after }: &Change) -> Changed {
        Changed { what: what.clone(), before: before.clone(), after: after.clone() }
    }
}

#[derive(Debug)]
enum ReloadCommand {
    Reload { dry_run: bool, answer: oneshot::Sender<Result<Reloaded, NotReloaded>> },
    Follow,
}

#[derive(Clone, Debug)]
pub struct Reloads {
    commands: mpsc::UnboundedSender<ReloadCommand>,
    unfollowed: Arc<AtomicBool>,
}

impl Reloads {
    fn ask(&self, dry_run: bool) -> oneshot::Receiver<Result<Reloaded, NotReloaded>> {
        let (answer, done) = oneshot::channel();
        let _ = self.commands.send(ReloadCommand::Reload { dry_run, answer });
        done
    }

    /// Reloads the configuration, or with `dry_run` only checks it. Waits for the result.
    ///
    /// # Errors
    /// Returns why nothing was changed.
    pub fn wait(&self, dry_run: bool) -> Result<Reloaded, String> {
        let outcome = self.ask(dry_run).blocking_recv().unwrap_or(Err(NotReloaded::Ended));
        outcome.map_err(|error| error.to_string())
    }

    pub fn now(&self) {
        drop(self.ask(false));
    }
}

pub(crate) struct Reloader {
    view: Arc<SwitchView>,
    config: Config,
    /// Former configurations, kept while frames that they admitted may be queued.
    before: Vec<Config>,
    reserved: Reserved,
    source: Source,
    opener: Opener,
    commands: mpsc::UnboundedReceiver<ReloadCommand>,
    unfollowed: Arc<AtomicBool>,
    /// Cloned by each thread that reads the file: the number of clones is limited.
    readers: Arc<()>,
}

impl Reloader {
    #[must_use]
    pub fn new(
        view: Arc<SwitchView>,
        config: Config,
        reserved: Reserved,
        source: Source,
        opener: Opener,
    ) -> (Reloads, Reloader) {
        let (sender, commands) = mpsc::unbounded_channel();
        let unfollowed = Arc::<AtomicBool>::default();
        let reloads = Reloads { commands: sender, unfollowed: Arc::clone(&unfollowed) };
        let (before, readers) = (Vec::new(), Arc::default());
        let reloader =
            Reloader { view, config, before, reserved, source, opener, commands, unfollowed, readers };
        (reloads, reloader)
    }

    async fn run(&mut self) {
        while let Some(command) = self.commands.recv().await {
            let ReloadCommand::Reload { dry_run, answer } = command else {
                self.follow().await;
                continue;
            };
            let outcome = self.reload(dry_run).await;
            if !dry_run {
                log(&self.source, &outcome);
            }
            let _ = answer.send(outcome);
        }
        std::future::pending().await // all handles are dropped
    }

    async fn reload(&mut self, dry_run: bool) -> Result<Reloaded, NotReloaded> {
        let file = self.read().await?;
        let view = Arc::clone(&self.view);
        let _alone = view.policies.changing.lock().await;
        let warnings = file.warnings.iter().map(ToString::to_string).collect();
        let running = self.running();
        let (next, mut changes) = running.changes(self.reserved.plans.len(), file);
        self.misfits(&next, &changes).await?;
        self.accept_names(&next, &mut changes).await;
        self.fit(&running, &next, &mut changes);
        if !changes.restart.is_empty() {
            return Err(NotReloaded::Restart(changes.restart.iter().map(Changed::from).collect()));
        }
        let done = Reloaded { dry_run, changes: changes.live.iter().map(Changed::from).collect(), warnings };
        if dry_run || changes.live.is_empty() {
            return Ok(done);
        }
        let losses = self.change(running, next, &changes).await?;
        Ok(Reloaded { warnings: [done.warnings, losses].concat(), ..done })
    }

    fn running(&self) -> Config {
        let mut config = self.config.clone();
        config.switch.policies = Class::ALL.map(|class| self.view.policies.get(class));
        config
    }

    async fn misfits(&self, next: &Config, changes: &Changes) -> Result<(), NotReloaded> {
        let (mut problems, mut added) = (Vec::new(), Vec::new());
        for &id in &changes.added {
            if self.view.ports[id.index()].is_there() {
                let name = self.view.name_of(id);
                problems.push(format!(
                    "port {name}: the removed port of the same name is not closed yet; reload again later"
                ));
                continue;
            }
            let device = self.opener.look(&next.shell.ports[id.index()].device).await;
            problems.extend(next.misfit(id, &device).iter().map(placed));
            added.push((id, device));
        }
        let available = (!added.is_empty()).then(machine::here).and_then(|machine| machine.memory);
        problems.extend(next.shortage_of_added(&added, available.as_ref()).iter().map(placed));
        match problems.is_empty() {
            true => Ok(()),
            false => Err(NotReloaded::Invalid { path: self.source.path.clone(), problems }),
        }
    }

    /// Accepts a changed `device` that names the port's present device, as after a rename.
    async fn accept_names(&self, next: &Config, changes: &mut Changes) {
        for (id, port) in self.view.ports().filter(|(_, port)| port.link.get() != Link::Gone) {
            let what = format!("port {:?}: device", self.view.name_of(id));
            let Some(at) = changes.restart.iter().position(|change| change.what == what) else { continue };
            if let Device::Has { index, .. } = self.opener.look(&next.shell.ports[id.index()].device).await
                && index == port.now().ifindex
            {
                let change = changes.restart.remove(at);
                changes.live.push(change);
            }
        }
    }

    fn fit(&mut self, running: &Config, next: &Config, changes: &mut Changes) {
        if changes.is_empty() {
            return;
        }
        if self.is_drained(running) {
            self.before.clear();
        }
        let former: Vec<&Config> = self.before.iter().chain([running]).collect();
        self.reserved.fit(&former, next, changes);
    }

    /// Returns whether all queues are within the limits of `running`, so that no frame admitted under a former
    /// configuration needs additional memory.
    fn is_drained(&self, running: &Config) -> bool {
        self.view.places().flat_map(|(id, _)| Class::ALL.map(|class| (id, class))).all(|(id, class)| {
            let counters = self.view.counters.class(id, class);
            let settings = &running.switch.ports[id.index()].classes[class.index()];
            let below_headroom = match settings.lossless {
                true => settings.ingress_reserve.saturating_add(settings.xoff),
                false => settings.ingress_most(),
            };
            counters.ingress_bytes.get() <= below_headroom.0
                && counters.egress_bytes.get() <= settings.egress_max.0
        })
    }

    async fn change(
        &mut self,
        running: Config,
        mut next: Config,
        changes: &Changes,
    ) -> Result<Vec<String>, NotReloaded> {
        next.switch.fdb.seed = running.switch.fdb.seed; // each read generates another seed
        let added = ports::open(&self.opener, &changes.added, &next).await?;
        let leaving = members::leave(&self.view, &running, &next).await;
        let settings = self.settings(&next);
        if next.switch != running.switch
            && let Err(error) = self.revise(settings, &changes.removed).await
        {
            members::stay(&self.view, &leaving);
            added.close(&self.opener);
            return Err(error);
        }
        if next.shell.log != running.shell.log {
            logging::set_filter(&next.shell.log);
        }
        self.opener.configure(&Arc::new(next.clone()));
        added.join(&self.view, &self.opener).await;
        self.config = next;
        let losses = ports::leave(&self.view, &self.opener, &changes.removed).await;
        self.before.push(running);
        Ok(losses)
    }

    async fn revise(&self, settings: SwitchSettings, removed: &[PortId]) -> Result<(), NotReloaded> {
        let view = &self.view;
        let silent = ask(view).await.iter().enumerate().find_map(|(worker, answer)| match answer {
            Answer::Given(_) => None,
            Answer::Silent | Answer::Ended => answer.fault(worker),
        });
        if let Some(silent) = silent {
            return Err(NotReloaded::Silent(silent));
        }
        let was = view.settings();
        let policies = Class::ALL.map(|class| view.policies.get(class)); // may have changed since the start
        let now = SwitchSettings { policies, ..(*was).clone() };
        if let Some(roomier) = roomier(&now, &settings).filter(|_| view.workers.len() > 1) {
            self.exchange(&roomier).await?;
        }
        view.books.closed(&view.counters, &was, &settings);
        for &id in removed {
            let classes = &was.ports[id.index()].classes;
            let lossless = Class::ALL.into_iter().filter(|class| classes[class.index()].lossless);
            view.books.leaves(&view.counters, id, lossless.collect());
        }
        let left = self.exchange(&settings).await;
        view.books.opened(&view.counters, &was, &settings);
        view.books.headroom_closed(&view.counters, &was, &settings);
        for class in Class::ALL {
            view.policies.set(class, settings.policies[class.index()]);
        }
        view.configured.set(settings);
        view.host_bell.wake(); // LLDP frames follow from the settings
        let unplaced = left?.iter().map(|left| left.unplaced()).max().unwrap_or(0);
        if unplaced > 0 {
            tracing::error!(
                "{unplaced} static addresses have no place in the forwarding database, because other addresses fill it: restart the \
                 switch"
            );
        }
        Ok(())
    }

    /// Replaces all workers' settings by `settings`, without a time limit. Returns the old ones, for this thread to
    /// free.
    async fn exchange(&self, settings: &SwitchSettings) -> Result<Vec<Box<Revision>>, NotReloaded> {
        let made = self.reserved.plans.iter().zip(&self.view.workers).enumerate();
        let made = made.map(|(number, (plan, worker))| {
            let revision = Box::new(Revision::new(settings.clone(), &self.roles(number), worker.slots));
            (worker, revision, commit_time(plan.ports.iter().map(|port| &settings.ports[port.index()])))
        });
        let made: Vec<_> = made.collect(); // allocate all before the first is sent
        let left = made.into_iter().map(|(worker, revision, commit_time)| {
            let (done, left) = oneshot::channel();
            let sent = worker.mailbox.send(Request::Revise { revision, commit_time, done });
            async move { if sent.is_ok() { left.await.ok() } else { None } }
        });
        let left = join_all(left.collect::<Vec<_>>()).await;
        left.into_iter().collect::<Option<_>>().ok_or(NotReloaded::Ended)
    }

    /// Completes the settings of `next` with values of the running switch and LLDP neighbors. Removed ports keep their
    /// limits for queued frames.
    fn settings(&self, next: &Config) -> SwitchSettings {
        let mut settings = next.switch.clone();
        let now = self.view.settings();
        settings.fdb.seed = now.fdb.seed;
        for (port, now) in settings.ports.iter_mut().zip(&now.ports) {
            port.mac = now.mac;
        }
        for (id, _) in self.view.ports() {
            dcbx::follow(&mut settings.ports[id.index()], self.view.neighbors.announcement(id).as_ref());
        }
        for (id, _) in self.view.ports().filter(|(id, _)| next.shell.ports[id.index()].is_vacant()) {
            let classes = settings.ports[id.index()].classes.iter_mut().zip(&now.ports[id.index()].classes);
            for (class, now) in classes {
                class.ingress_max = now.ingress_most();
                (class.egress_max, class.egress_max_frames) = (now.egress_max, now.egress_max_frames);
            }
        }
        settings
    }

    fn roles(&self, worker: usize) -> Workers {
        let id = |number: usize| WorkerId(u8::try_from(number).unwrap_or(u8::MAX));
        Workers::new(self.view.ports.iter().map(|port| id(port.worker)).collect(), id(worker))
    }
}

/// Returns `was` with the larger egress limits of `next`; `None` if none is larger. Workers apply them first, because
/// a worker that already applies `next` may hand frames to one that does not.
fn roomier(was: &SwitchSettings, next: &SwitchSettings) -> Option<SwitchSettings> {
    let mut roomier = was.clone();
    for (port, next) in roomier.ports.iter_mut().zip(&next.ports) {
        for (class, next) in port.classes.iter_mut().zip(&next.classes) {
            class.egress_max = class.egress_max.max(next.egress_max);
            class.egress_max_frames = class.egress_max_frames.max(next.egress_max_frames);
        }
    }
    (roomier != *was).then_some(roomier)
}

pub(super) async fn run(reloader: Option<Reloader>) {
    match reloader {
        Some(mut reloader) => reloader.run().await,
        None => std::future::pending().await,
    }
}

pub(crate) fn commit_time<'a>(ports: impl Iterator<Item = &'a PortSettings>) -> Nanos {
    ports.map(|port| port.speed.time_of(port.commit)).min().unwrap_or(Nanos::NEVER)
}

fn log(source: &Source, outcome: &Result<Reloaded, NotReloaded>) {
    let file = source.path.display();
    match outcome {
        Ok(Reloaded { changes, .. }) if changes.is_empty() => {
            tracing::info!(event = "reload", %file, changes = 0, "the configuration was reloaded: no changes");
        }
        Ok(Reloaded { changes, warnings, .. }) => {
            tracing::info!(event = "reload", %file, changes = changes.len(), "the configuration was reloaded and applies now");
            changes.iter().for_each(|change| tracing::info!(event = "reload-change", "{}", line(change)));
            warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        }
        Err(error) => {
            let message = error.to_string();
            let mut lines = message.lines().map(str::trim);
            let head = lines.next().unwrap_or_default();
            let rest = lines.collect::<Vec<_>>().join("; ");
            tracing::error!(event = "reload-refused", %file, "the configuration could not be reloaded: {head} {rest}");
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_wire::units::Bytes;

    use super::*;
    use crate::control::testing::view;

    fn config(xoff: u32, lossless: &str) -> Config {
        let port = |name: &str| {
            format!(
                "[[port]]\nname = \"{name}\"\ndevice = \"{name}\"\nspeed = \"1G\"\nlossless = {lossless}\n"
            )
        };
        let classes = format!("[class.3]\nxoff = {xoff}\n[class.4]\nxoff = {xoff}\n");
        let text = format!("[switch]\nworkers = 1\n{classes}{}{}", port("a"), port("b"));
        Config::from_toml("test", &text, xoff_config::Machine::default()).unwrap()
    }

    #[test] // proves: reload
    fn refused_reload_names_keys_that_need_memory() {
        let start = config(100_000, "[3]");
        let plans = start.workers(&[]);
        let shares = vec![crate::run::open::share(&start.share(1, &plans[0].ports, &[])).unwrap()];
        let reserved = Reserved { plans, shares, queues: Vec::new() };
        let refused = |former: &[&Config], next: &Config| {
            let mut changes = Changes::default();
            reserved.fit(former, next, &mut changes);
            changes.restart.into_iter().map(|change| change.what).collect::<Vec<_>>()
        };
        assert_eq!(refused(&[&start], &start), [""; 0]);
        let [larger] = &refused(&[&start], &config(200_000_000, "[3]"))[..] else { panic!("it fits") };
        assert!(
            larger.starts_with("buffer memory of worker 0 (") && larger.contains("xoff, headroom with cable"),
            "{larger}"
        );
        let other = config(100_000, "[4]");
        assert_eq!(refused(&[], &other), [""; 0]);
        let [both] = &refused(&[&start], &other)[..] else { panic!("the reload must be refused") };
        assert!(both.contains("former limits") && both.contains("later reload"), "{both}");
    }

    #[test]
    fn reload_applies_larger_egress_limits_before_other_changes() {
        let (view, _inbox) = view();
        let was = (*view.settings()).clone();
        assert_eq!(roomier(&was, &was), None);
        let mut next = was.clone();
        let [raised, lowered] = [3, 4];
        next.ports[1].classes[raised].xoff = Bytes(1 << 30);
        next.ports[1].classes[raised].egress_max = was.ports[1].classes[raised].egress_max + Bytes(1);
        next.ports[1].classes[lowered].egress_max = Bytes(1);
        let mut expected = was.clone();
        expected.ports[1].classes[raised].egress_max = next.ports[1].classes[raised].egress_max;
        assert_eq!(roomier(&was, &next), Some(expected));
        next.ports[1].classes[raised].egress_max = Bytes(1);
        assert_eq!(
            roomier(&was, &next),
            None,
            "a reload that raises no egress limit must apply all settings at once"
        );
    }
}
