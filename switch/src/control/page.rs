use axum::Router;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

pub(super) const READ_PATHS: &str = "\
xoff
/             this list; for a browser the live page
/metrics      for Prometheus
/status       everything, as JSON; ?addresses=0 without addresses
/addresses    the forwarding database, page by page: ?after=NEXT&limit=N
/healthz      each port and worker, ready or why not: 200 while all are
/log          the last lines of the log
/policy       the policy of each class
";

pub(super) const OTHER_PATHS: &str = "\
/policy       PUT {\"policy\": NAME, \"class\": N}: changes the policy of a class
/reload       PUT: reads the configuration again
/acknowledge  PUT: acknowledges past gaps in the proof that lossless classes lost no frame
/capture      frames as they pass, as pcapng: ?port=NAME&class=N&dropped=REASON&control; see `xoff capture`
";

/// Content security policy: the page may load nothing from other servers.
pub const ONLY_OURS: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src http: https:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
pub const SCRIPT: &str = "text/javascript; charset=utf-8";

pub const STYLE: &str = include_str!("page/page.css");

const FILES: [(&str, &str, &str); 4] = [
    ("/page/page.css", "text/css; charset=utf-8", STYLE),
    ("/page/page.js", SCRIPT, include_str!("page/page.js")),
    ("/page/model.js", SCRIPT, include_str!("page/model.js")),
    ("/page/view.js", SCRIPT, include_str!("page/view.js")),
];

pub(super) fn routes<S: Clone + Send + Sync + 'static>(paths: &'static [&'static str]) -> Router<S> {
    let page = Router::new().route("/", get(move |headers: HeaderMap| async move { root(&headers, paths) }));
    FILES.iter().fold(page, |routes, &(path, kind, text)| {
        routes.route(path, get(move || async move { part(kind, text) }))
    })
}

fn root(headers: &HeaderMap, paths: &[&str]) -> Response {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    match accepts.contains("text/html") {
        true => ([(header::CONTENT_SECURITY_POLICY, ONLY_OURS)], part(HTML, include_str!("page/index.html")))
            .into_response(),
        false => paths.concat().into_response(),
    }
}

/// Returns a response that browsers revalidate, so that they show no page of an older xoff.
pub fn part(kind: &'static str, text: &'static str) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text)
}
