//! `/metrics`, `/status`, `/healthz`, `/policy`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Extension, Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::health;
use super::snapshot::{ask, snapshot};
use super::status::Status;
use super::{SwitchView, metrics, policy};

const INDEX: &str = "xoff\n/metrics  for Prometheus\n/status   everything, as JSON\n/healthz  200 while all workers run and all ports receive\n/policy   the policy of each class; PUT {\"policy\": NAME, \"class\": N} changes it\n";

/// How long a client has for the head of a request, and a connection without one stays open.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The address that is listened on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listening(pub(super) IpAddr);

/// Serves on the listener, which has that address, until dropped; without one, nothing, for ever.
pub(super) async fn serve(view: Arc<SwitchView>, listener: Option<(TcpListener, SocketAddr)>) {
    if let Some((listener, address)) = listener {
        let routes = Router::new()
            .route("/", get(|| async { INDEX }))
            .route("/metrics", get(get_metrics))
            .route("/status", get(get_status))
            .route("/healthz", get(get_health))
            .route("/policy", get(policy::get).put(policy::put))
            .layer(DefaultBodyLimit::max(policy::BODY_MAX))
            .layer(Extension(Listening(address.ip())))
            .with_state(view);
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => drop(tokio::spawn(answer(stream, peer, routes.clone()))),
                // No more file descriptors, for example.
                Err(error) => {
                    tracing::warn!("cannot take a connection for metrics or status: {error}");
                    sleep(ACCEPT_AGAIN_AFTER).await;
                }
            }
        }
    }
    std::future::pending().await
}

/// Answers what comes by one connection, until its client ends it or goes silent in a request.
async fn answer(stream: TcpStream, peer: SocketAddr, routes: Router) {
    let service = TowerToHyperService::new(routes.layer(Extension(ConnectInfo(peer))));
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!("{peer}: {error}");
    }
}

async fn get_metrics(State(view): State<Arc<SwitchView>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics::render(&view))
}

async fn get_status(State(view): State<Arc<SwitchView>>) -> Json<Status> {
    let answers = ask(&view, true).await;
    Json(snapshot(&view, &answers))
}

async fn get_health(State(view): State<Arc<SwitchView>>) -> (StatusCode, String) {
    let answers = ask(&view, false).await;
    let faults = health::faults(&view, &answers);
    if faults.is_empty() {
        (StatusCode::OK, "ok\n".into())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, faults.join("\n") + "\n")
    }
}
