//! A host's agent, as people look at it: `/metrics`, `/status` and `/healthz` by the code that serves a switch's, and the same
//! names for what means the same. All is read from counters that the agent's thread writes; nobody who asks is waited for.

mod metrics;
mod status;

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use xoff_nic::NicView;

use super::{ControlError, ControlHandle, Http, http};
use crate::confine::Confinement;

pub use status::{NicClassStatus, NicStatus};

const INDEX: &str = "xoff nic\n/metrics    for Prometheus\n/status     everything, as JSON\n/healthz    200 while every queue does what it is told\n";

/// Starts the thread that serves what is seen of an agent.
///
/// # Errors
/// No thread, or no runtime for it.
pub fn serve(view: Arc<NicView>, http: Http) -> Result<ControlHandle, ControlError> {
    let ((listener, names), place) = http.apart();
    let routes = http::by_name(routes(view), names);
    // It reads counters, and needs no privilege for that.
    let service = super::serve(listener, routes, &Confinement::default(), ())?;
    Ok(ControlHandle { at: Some(place), running: vec![service] })
}

fn routes(view: Arc<NicView>) -> Router {
    Router::new()
        .route("/", get(|| async { INDEX }))
        .route("/metrics", get(get_metrics))
        .route("/status", get(get_status))
        .route("/healthz", get(get_health))
        .with_state(view)
}

async fn get_metrics(State(view): State<Arc<NicView>>) -> impl IntoResponse {
    http::exposed(metrics::render(&view))
}

async fn get_status(State(view): State<Arc<NicView>>) -> Json<NicStatus> {
    Json(NicStatus::of(&view))
}

async fn get_health(State(view): State<Arc<NicView>>) -> (StatusCode, String) {
    http::healthy(&view.faults())
}
