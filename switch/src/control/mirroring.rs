use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use xoff_dataplane::routing::Fib;
use xoff_wire::units::Site;

use super::mailbox::Request;
use super::view::SwitchView;
use crate::confine::{ConfineError, Part, Privileges};
use crate::router::mirror::{Mirror, MirrorHandle, Publish};
use crate::router::tables::Built;
use crate::router::{Presence, RouterView};

const LOOK_AGAIN: Duration = Duration::from_micros(100);

#[derive(Debug)]
pub struct Mirroring {
    handle: MirrorHandle,
    thread: Option<JoinHandle<()>>,
}

pub fn start(
    mirror: Mirror,
    handle: MirrorHandle,
    view: Arc<SwitchView>,
    privileges: &Privileges,
) -> Result<Mirroring, ConfineError> {
    let to_workers = ToWorkers { view, handle: handle.clone() };
    let work = move || {
        if let Err(error) = mirror.follow(to_workers) {
            tracing::error!("the switch no longer follows the kernel's routes: {error}; restart the switch");
        }
    };
    let thread = Some(privileges.spawn(Part::Owner, "xoff-router", work)?);
    Ok(Mirroring { handle, thread })
}

impl Drop for Mirroring {
    fn drop(&mut self) {
        self.handle.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic is on standard error
        }
    }
}

struct ToWorkers {
    view: Arc<SwitchView>,
    handle: MirrorHandle,
}

impl Publish for ToWorkers {
    fn publish(&mut self, built: Built) {
        let begin = Instant::now();
        let fib = Arc::new(built.fib);
        let mut left: Vec<oneshot::Receiver<Arc<Fib>>> = Vec::new();
        for worker in &self.view.workers {
            let (done, before) = oneshot::channel();
            if worker.mailbox.send(Request::SetFib { fib: Arc::clone(&fib), done }).is_ok() {
                left.push(before);
            }
        }
        // Wait for each worker's answer, but only until the mirror ends: a worker that panicked never answers.
        for mut before in left {
            while matches!(before.try_recv(), Err(TryRecvError::Empty)) && !self.handle.is_over() {
                thread::sleep(LOOK_AGAIN);
            }
        }
        if let Some(router) = &self.view.router {
            built.presence.iter().for_each(|&(site, presence)| note(router, site, presence));
            let took = built.took + begin.elapsed();
            router.mirrored.made(built.routes, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    fn resynced(&self) {
        if let Some(router) = &self.view.router {
            router.mirrored.resyncs.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn note(router: &RouterView, site: Site, presence: Presence) {
    for view in router.interfaces.iter().filter(|view| view.interface.site == site) {
        let (name, before) = (&view.interface.name, view.set_presence(presence));
        match presence.fault() {
            _ if before == presence => {}
            Some(fault) => tracing::warn!(interface = %name, "{name}: {fault}"),
            None => {
                tracing::info!(interface = %name, "{name}: the host interface is up again, and its MTU fits its port")
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    use tokio::runtime;
    use xoff_flow_control::settings::Spread;

    use super::super::mailbox::Inbox;
    use super::*;
    use crate::control::testing::view;
    use crate::router::tables::Configured;

    fn resources_freed_after<T>(files_max: Option<u64>, meanwhile: impl FnOnce(&Mirroring, &Inbox) -> T) {
        let (view, inbox) = view();
        let runtime = runtime::Builder::new_current_thread().build().unwrap();
        let before = files();
        let (mirror, handle) = Mirror::open(Configured::new(), Spread::Flow).unwrap();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, files_max.unwrap_or(soft), hard).unwrap();
        let mirroring = start(mirror, handle.clone(), Arc::clone(&view), &Privileges::Keep).unwrap();
        let _kept = meanwhile(&mirroring, &inbox);
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        drop(mirroring);
        let mut threads = fs::read_dir("/proc/self/task").unwrap().flatten();
        let name = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        assert!(!threads.any(|thread| name(thread).trim() == "xoff-router"));
        assert!(
            runtime.block_on(handle.page(0, 1)).is_none(),
            "the route mirror must not answer after it is stopped"
        );
        drop(handle);
        assert_eq!(files(), before);
    }

    fn files() -> usize {
        fs::read_dir("/proc/self/fd").unwrap().count()
    }

    #[test] // proves: route-mirror
    fn route_mirror_can_be_stopped_while_a_worker_is_silent() {
        resources_freed_after(None, |_, inbox| {
            loop {
                match inbox.take() {
                    Some(unanswered) => break unanswered,
                    None => thread::sleep(LOOK_AGAIN),
                }
            }
        });
    }

    #[test] // proves: route-mirror
    fn route_mirror_frees_its_resources_if_it_cannot_open_files() {
        resources_freed_after(Some(0), |mirroring, _| {
            while mirroring.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
                thread::sleep(LOOK_AGAIN);
            }
        });
    }
}
