//! `/metrics`, `/status`, `/addresses`, `/healthz`, `/policy`.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};

use super::mailbox::Answer;
use super::snapshot::{ask, snapshot};
use super::status::Status;
use super::trust::{self, Names};
use super::{SwitchView, metrics, policy};
use super::{addresses, health};

const INDEX: &str = "xoff\n/metrics    for Prometheus\n/status     everything, as JSON\n/addresses  the forwarding database, page by page: ?after=NEXT&limit=N\n/healthz    200 while all workers run and all ports receive\n/policy     the policy of each class; PUT {\"policy\": NAME, \"class\": N} changes it\n";

/// All that is served, to who may ask by the name that he uses.
pub(super) fn routes(view: Arc<SwitchView>, names: Names) -> Router {
    let names = Arc::new(names);
    Router::new()
        .route("/", get(|| async { INDEX }))
        .route("/metrics", get(get_metrics))
        .route("/status", get(get_status))
        .route("/addresses", get(addresses::get))
        .route("/healthz", get(get_health))
        .route("/policy", get(policy::get).put(policy::put))
        .layer(DefaultBodyLimit::max(policy::BODY_MAX))
        .layer(from_fn_with_state(Arc::clone(&names), by_a_name_of_ours))
        .layer(Extension(names))
        .with_state(view)
}

async fn by_a_name_of_ours(State(names): State<Arc<Names>>, request: Request, next: Next) -> Response {
    let host = match trust::host(request.headers()) {
        Ok(host) => host,
        Err(why) => return (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    };
    match names.may_ask(host) {
        Ok(()) => next.run(request).await,
        Err(why) => (StatusCode::FORBIDDEN, why + "\n").into_response(),
    }
}

async fn get_metrics(State(view): State<Arc<SwitchView>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics::render(&view))
}

async fn get_status(State(view): State<Arc<SwitchView>>) -> Json<Status> {
    let answers = ask(&view).await;
    let mut status = snapshot(&view, &answers);
    if answers.iter().all(|answer| matches!(answer, Answer::Given(_)))
        && let Ok(page) = addresses::page(&view, None, addresses::PAGE).await
    {
        status.name(page);
    }
    Json(status)
}

async fn get_health(State(view): State<Arc<SwitchView>>) -> (StatusCode, String) {
    let answers = ask(&view).await;
    let faults = health::faults(&view, &answers);
    if faults.is_empty() {
        (StatusCode::OK, "ok\n".into())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, faults.join("\n") + "\n")
    }
}
