//! Serves the web page of a lab at an address of the machine, because browsers cannot reach the nodes' namespaces. The page
//! changes nothing in the lab.

use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::uri::PathAndQuery;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use tokio::sync::oneshot;
use tower::ServiceExt as _;
use xoff_switch::control::page::{ONLY_OURS, SCRIPT, STYLE, part};
use xoff_switch::control::{self, ControlError, ControlHandle, http};
use xoff_xdp::thread_refused;

use super::screen::{HOSTS, PORTS, conclusions, hosts, ports};
use super::svg;
use crate::network::{NetworkStatus, NetworkView, purposes};

/// Default TCP port of the page; another port is used if a program already has this one.
const PORT: u16 = 9460;
const FRESH_FOR: Duration = Duration::from_millis(800);
const WORDS: [&str; 6] = ["host", "device", "address", "pauses", "switch", "port"];

#[derive(Clone, Debug)]
struct Sample {
    now: Arc<NetworkStatus>,
    before: Option<Arc<NetworkStatus>>,
}

/// Channel by which the HTTP thread requests samples of the counters, which it lacks the privileges to read.
type Samples = Sender<oneshot::Sender<Sample>>;

pub fn serve(view: &Arc<NetworkView>) -> Result<(ControlHandle, String), ControlError> {
    let listen = |port| control::listen(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into(), None, &[]);
    let http = listen(PORT).or_else(|_| listen(0))?;
    let (samples, requests) = mpsc::channel();
    let of_thread = Arc::clone(view);
    thread::Builder::new()
        .name("xoff-lab-page".into())
        .spawn(move || sample(&of_thread, &requests))
        .map_err(|error| ControlError::Thread(thread_refused(&error)))?;
    let pages = Router::new()
        .route("/switch/{name}/", get(of_switch))
        .route("/switch/{name}/{*path}", get(of_switch))
        .with_state(Arc::clone(view));
    let handle = control::serve_routes(http, routes().with_state(samples).merge(pages))?;
    let url = handle.address().map_or_else(String::new, |address| format!("http://{address}/"));
    Ok((handle, url))
}

/// Passes a request on to the switch's own page. Looks up the switch each time, because a restart replaces it.
async fn of_switch(State(view): State<Arc<NetworkView>>, mut request: Request) -> Response {
    let path = request.uri().path_and_query().map_or("", PathAndQuery::as_str);
    let mut parts = path.trim_start_matches("/switch/").splitn(2, '/');
    let (name, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Some(switch) = view.running_switch(name) else {
        return (StatusCode::NOT_FOUND, format!("no switch {name} runs in this lab\n")).into_response();
    };
    match format!("/{rest}").parse() {
        Ok(uri) => *request.uri_mut() = uri,
        Err(_) => return StatusCode::BAD_REQUEST.into_response(),
    }
    http::read_only(switch).oneshot(request).await.into_response()
}

fn routes() -> Router<Samples> {
    Router::new()
        .route(
            "/",
            get(|| async {
                ([(header::CONTENT_SECURITY_POLICY, ONLY_OURS)], Html(include_str!("page.html")))
            }),
        )
        .route("/page.js", get(|| async { part(SCRIPT, include_str!("page.js")) }))
        .route("/page.css", get(|| async { part("text/css; charset=utf-8", STYLE) }))
        .route("/content", get(|samples| answer(samples, |it| Html(content(&it.now, it.before.as_deref())))))
        .route(
            "/graph.svg",
            get(|samples| {
                answer(samples, |it| {
                    ([(header::CONTENT_TYPE, "image/svg+xml")], svg(&it.now, it.before.as_deref()))
                })
            }),
        )
        .route("/status", get(|samples| answer(samples, |it| Json(&*it.now).into_response())))
}

async fn answer<R: IntoResponse>(State(samples): State<Samples>, show: impl FnOnce(Sample) -> R) -> Response {
    let (sender, sample) = oneshot::channel();
    let _ = samples.send(sender); // fails only if the thread that reads samples has ended
    match sample.await {
        Ok(sample) => show(sample).into_response(),
        Err(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, "the counters of the network cannot be read\n").into_response()
        }
    }
}

fn sample(view: &NetworkView, requests: &Receiver<oneshot::Sender<Sample>>) {
    let read = || -> io::Result<_> { Ok((Instant::now(), Arc::new(view.status()?))) };
    let mut last: Option<(Instant, Sample)> = None;
    for request in requests {
        if last.as_ref().is_none_or(|(at, _)| at.elapsed() >= FRESH_FOR) {
            let Ok((at, now)) = read() else { continue };
            let before = last.map(|(_, sample)| sample.now);
            last = Some((at, Sample { now, before }));
        }
        if let Some((_, sample)) = &last {
            let _ = request.send(sample.clone()); // fails if the client is gone
        }
    }
}

fn content(now: &NetworkStatus, before: Option<&NetworkStatus>) -> String {
    let before = super::screen::earlier(now, before);
    let mut html = format!("<h2>Network</h2>\n<div class=\"scroll\">{}</div>\n", svg(now, before));
    let on_purpose = purposes::text(now);
    for line in conclusions(now).iter().map(String::as_str).chain(on_purpose.lines()) {
        let _ = writeln!(html, "<p>{}</p>", escaped(line));
    }
    let joined: Vec<String> = now.switches.iter().map(|switch| format!("join=../{}/", switch.name)).collect();
    for switch in &now.switches {
        let _ = write!(
            html,
            "<a href=\"switch/{0}/#{1}\">Live page of {0}</a> ",
            switch.name,
            joined.join("&amp;")
        );
    }
    html += "\n<h2>Hosts</h2>\n";
    html += &table(&HOSTS, &hosts(now, before));
    html += "<h2>Ports of switches</h2>\n";
    html + &table(&PORTS, &ports(now, before))
}

fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let class = |column: &str| if WORDS.contains(&column) { "" } else { " class=\"n\"" };
    let cells = |tag: &str, texts: &[String]| {
        let cell =
            |(column, text): (&&str, &String)| format!("<{tag}{}>{}</{tag}>", class(column), escaped(text));
        header.iter().zip(texts).map(cell).collect::<String>()
    };
    let names: Vec<String> = header.iter().map(ToString::to_string).collect();
    let rows: String = rows.iter().map(|row| format!("<tr>{}</tr>\n", cells("td", row))).collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr>{}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n",
        cells("th", &names)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::testing::network;

    #[test] // proves: lab-page
    fn lab_page_shows_drawing_and_tables_and_pauses() {
        let (before, mut now) = (network(), network());
        now.uptime_nanos += 2_000_000_000;
        now.switches[0].ports[0].classes[3].rx_bytes += 500_000;
        now.links[0].downs.count = 1;
        now.hosts[0].interfaces[0].device = "<b>".into();
        let html = content(&now, Some(&before));
        for words in [
            "<svg ",
            "h1 held, class 3",
            "<td class=\"n\">2.00 Mb/s</td>",
            "class 3 NOW",
            "lossless frames lost: 0",
            "the link h1-s1 was taken down once",
            "&lt;b&gt;",
            "href=\"switch/s1/#join=../s1/\"",
        ] {
            assert!(html.contains(words), "{words} is not in\n{html}");
        }
        assert!(!html.contains("<b>"));
    }
}
