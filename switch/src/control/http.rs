use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, put};
use axum::{Extension, Json, Router};
use serde::Deserialize;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate as _};

use super::capture::{self, Captures};
use super::exposition::Format;
use super::health::Health;
use super::mailbox::Answer;
use super::reload::{self, Reloads};
use super::snapshot::{ask, snapshot};
use super::status::Status;
use super::trust::{self, Names};
use super::{SwitchView, acknowledge, addresses, logging, metrics, page, policy, routes as routing};

pub(super) fn routes(view: Arc<SwitchView>, names: Names, reloads: Option<Reloads>) -> Router {
    let routes = reading(&[page::READ_PATHS, page::OTHER_PATHS])
        .route("/policy", put(policy::put))
        .route("/reload", put(reload::http::put))
        .route("/acknowledge", put(acknowledge::put))
        .layer(Extension(reloads))
        .route("/capture", get(capture::get))
        .route("/capture/{id}", delete(capture::delete))
        .layer(Extension(Arc::<Captures>::default()))
        .layer(DefaultBodyLimit::max(policy::BODY_MAX))
        .with_state(view);
    by_name(routes, names)
}

pub fn read_only(view: Arc<SwitchView>) -> Router {
    reading(&[page::READ_PATHS]).with_state(view)
}

fn reading(paths: &'static [&'static str]) -> Router<Arc<SwitchView>> {
    Router::new()
        .merge(page::routes(paths))
        .route("/metrics", get(get_metrics))
        .route("/status", get(get_status))
        .route("/addresses", get(addresses::get))
        .route("/routes", get(routing::get))
        .route("/healthz", get(get_health))
        .route("/log", get(|| async { logging::recent() }))
        .route("/policy", get(policy::get))
}

pub(super) fn by_name(routes: Router, names: Names) -> Router {
    let names = Arc::new(names);
    // Send captures uncompressed, because compression would delay them and other answers.
    let compressed = DefaultPredicate::new().and(NotForContentType::new(capture::MEDIA_TYPE));
    let routes = routes.layer(CompressionLayer::new().compress_when(compressed));
    routes.layer(from_fn_with_state(Arc::clone(&names), by_a_name_of_ours)).layer(Extension(names))
}

async fn by_a_name_of_ours(State(names): State<Arc<Names>>, request: Request, next: Next) -> Response {
    let host = match trust::host(request.headers()) {
        Ok(host) => host,
        Err(why) => return (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    };
    match names.may_ask(host) {
        Ok(()) => {
            let origin = request.headers().get(header::ORIGIN);
            let origin = origin.filter(|origin| names.may_read(origin, host)).cloned();
            let mut response = next.run(request).await;
            readable_by(origin, &mut response);
            response
        }
        Err(why) => (StatusCode::FORBIDDEN, why + "\n").into_response(),
    }
}

fn readable_by(origin: Option<HeaderValue>, response: &mut Response) {
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("accept, origin"));
    origin.map(|origin| headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin));
}

#[derive(Debug, Deserialize)]
struct MetricsQuery {
    port: Option<String>,
}

async fn get_metrics(
    State(view): State<Arc<SwitchView>>,
    Query(MetricsQuery { port }): Query<MetricsQuery>,
    headers: HeaderMap,
) -> Result<Response, (StatusCode, String)> {
    let only = port.map(|name| {
        let found = view.ports().find(|(id, _)| view.name_of(*id) == name).map(|(id, _)| id);
        found.ok_or_else(|| {
            let names: Vec<&str> = view.ports().map(|(id, _)| view.name_of(id)).collect();
            (StatusCode::BAD_REQUEST, format!("no port `{name}`; ports are {}\n", names.join(", ")))
        })
    });
    let only = only.transpose()?;
    Ok(exposed(&headers, |format| metrics::render(&view, format, only)))
}

pub fn exposed(headers: &HeaderMap, render: impl FnOnce(Format) -> String) -> Response {
    let format = Format::accepted(headers);
    ([(header::CONTENT_TYPE, format.media_type())], render(format)).into_response()
}

#[derive(Debug, Deserialize)]
struct StatusQuery {
    addresses: Option<String>,
}

async fn get_status(
    State(view): State<Arc<SwitchView>>,
    Query(query): Query<StatusQuery>,
) -> Result<Json<Status>, (StatusCode, String)> {
    let limit = addresses::limit("addresses", query.addresses.as_deref(), 0)?;
    let answers = ask(&view).await;
    let mut status = snapshot(&view, &answers);
    if limit > 0
        && answers.iter().all(|answer| matches!(answer, Answer::Given(_)))
        && let Ok(page) = addresses::page(&view, None, limit).await
    {
        status.name(page);
    }
    Ok(Json(status))
}

async fn get_health(State(view): State<Arc<SwitchView>>, headers: HeaderMap) -> Response {
    Health::of(&view, &ask(&view).await).respond(&headers)
}
