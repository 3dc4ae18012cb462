//! The thread that mirrors the kernel's routes, and has every worker route by them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use xoff_dataplane::routing::Fib;

use super::mailbox::Request;
use super::view::SwitchView;
use crate::confine::{ConfineError, Part, Privileges};
use crate::router::mirror::{Asker, Mirror, Publish};
use crate::router::tables::Built;

/// So often it is looked whether a worker has a table.
const LOOK_AGAIN: Duration = Duration::from_micros(100);

/// The thread that mirrors. It ends when this is dropped.
#[derive(Debug)]
pub struct Mirroring {
    asker: Asker,
    thread: Option<JoinHandle<()>>,
}

/// Starts to mirror, for the workers of `view`.
///
/// # Errors
/// Where there is no thread to be had, or its privileges cannot be dropped.
pub fn start(
    mirror: Mirror,
    asker: Asker,
    view: Arc<SwitchView>,
    privileges: &Privileges,
) -> Result<Mirroring, ConfineError> {
    let to_workers = ToWorkers { view, asker: asker.clone() };
    let work = move || {
        if let Err(error) = mirror.follow(to_workers) {
            tracing::error!("routes are not followed any more: {error}; restart the switch");
        }
    };
    let thread = Some(privileges.spawn(Part::Owner, "xoff-router", work)?);
    Ok(Mirroring { asker, thread })
}

impl Drop for Mirroring {
    fn drop(&mut self) {
        self.asker.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic of its own stands on standard error
        }
    }
}

/// Gives each table to all workers.
struct ToWorkers {
    view: Arc<SwitchView>,
    asker: Asker,
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
        // A worker that has panicked does not answer: then the switch ends.
        for mut before in left {
            // What it gives is dropped here, where there is time.
            while matches!(before.try_recv(), Err(TryRecvError::Empty)) && !self.asker.is_over() {
                thread::sleep(LOOK_AGAIN);
            }
        }
        if let Some(router) = &self.view.router {
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
