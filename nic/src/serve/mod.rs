//! HTTP server of a host's agent. Requests only read counters, and never delay the agent.

mod metrics;
mod status;

use std::sync::Arc;
use std::thread;

use crate::NicView;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};

use xoff_switch::control::http::exposed;
use xoff_switch::control::{self, ControlError, ControlHandle, Current, Http, service};

pub use status::{NicClassStatus, NicStatus};

const INDEX: &str = "xoff nic\n/metrics    for Prometheus\n/status     everything, as JSON\n/healthz    200 while the host obeys pauses\n";

pub fn serve(view: Arc<NicView>, http: Http) -> Result<ControlHandle, ControlError> {
    control::serve_routes(http, routes(view))
}

pub type RunningAgent = Current<Option<Arc<NicView>>>;

/// Starts a thread that notifies systemd's watchdog while the agent works or waits for its device. Call this once.
pub fn notify_service_manager() -> Arc<RunningAgent> {
    let running = Arc::new(RunningAgent::new(None));
    let Some(every) = service::interval() else { return running };
    let watched = Arc::clone(&running);
    let mut looks = 0;
    let watch = move || {
        loop {
            thread::sleep(every);
            let is_alive = watched.get().as_ref().as_ref().is_none_or(|view| {
                let before = std::mem::replace(&mut looks, view.looks.get());
                looks != before
            });
            if is_alive {
                service::notify_alive();
            }
        }
    };
    let thread = thread::Builder::new().name("xoff-service".into()).spawn(watch);
    if let Err(error) = thread {
        tracing::warn!("cannot notify the service manager of the agent: {error}");
    }
    running
}

fn routes(view: Arc<NicView>) -> Router {
    Router::new()
        .route("/", get(|| async { INDEX }))
        .route("/metrics", get(get_metrics))
        .route("/status", get(get_status))
        .route("/healthz", get(get_health))
        .with_state(view)
}

async fn get_metrics(State(view): State<Arc<NicView>>, headers: HeaderMap) -> Response {
    exposed(&headers, |format| metrics::render(&view, format))
}

async fn get_status(State(view): State<Arc<NicView>>) -> Json<NicStatus> {
    Json(NicStatus::of(&view))
}

async fn get_health(State(view): State<Arc<NicView>>) -> (StatusCode, String) {
    match view.faults() {
        faults if faults.is_empty() => (StatusCode::OK, "ok\n".into()),
        faults => (StatusCode::SERVICE_UNAVAILABLE, faults.join("\n") + "\n"),
    }
}
