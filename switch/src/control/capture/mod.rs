//! `/capture`: sends frames of some ports as pcapng to a permitted client ([`caller`](super::caller)), until it stops reading.

mod request;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::future::OptionFuture;
use futures::stream::unfold;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use xoff_dataplane::tap::{TAPS_MAX, TapId};
use xoff_recording::pcapng::{Interface, Writer};
use xoff_wire::units::{PortId, PortSet};

use super::caller::Caller;
use super::connections::Deadline;
use super::mailbox::Request;
use super::trust::{self, Names};
use super::view::SwitchView;
use crate::capture::{CaptureCounts, CaptureReader, channel};
use request::CaptureRequest;

pub const ID_HEADER: &str = "x-xoff-capture";

pub(super) const MEDIA_TYPE: &str = "application/x-pcapng";

const OF_PAGES: [HeaderName; 3] =
    [header::ORIGIN, HeaderName::from_static("sec-fetch-site"), HeaderName::from_static("sec-fetch-mode")];

const RING_BYTES: usize = 8 << 20;

const TAKEN_EVERY: Duration = Duration::from_millis(10);

const RECORDS_AT_ONCE: u64 = 4_096;

const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

type Refusal = (StatusCode, String);

#[derive(Debug, Default)]
pub(super) struct Captures(Mutex<CaptureTable>);

#[derive(Debug, Default)]
struct CaptureTable {
    begun: u64,
    running: BTreeMap<u64, Arc<Notify>>,
}

#[derive(Debug)]
struct CaptureSlot {
    captures: Arc<Captures>,
    id: u64,
    end: Arc<Notify>,
}

impl Captures {
    fn table(&self) -> MutexGuard<'_, CaptureTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(captures: &Arc<Captures>) -> Result<CaptureSlot, Refusal> {
        let mut table = captures.table();
        if table.running.len() == TAPS_MAX {
            let why =
                format!("{TAPS_MAX} captures are running, which is the maximum; end one of them first\n");
            return Err((StatusCode::SERVICE_UNAVAILABLE, why));
        }
        table.begun += 1;
        let (id, end) = (table.begun, Arc::new(Notify::new()));
        table.running.insert(id, Arc::clone(&end));
        Ok(CaptureSlot { captures: Arc::clone(captures), id, end })
    }
}

impl Drop for CaptureSlot {
    fn drop(&mut self) {
        self.captures.table().running.remove(&self.id);
    }
}

pub(super) async fn get(
    State(view): State<Arc<SwitchView>>,
    Extension(caller): Extension<Caller>,
    Extension(deadline): Extension<Deadline>,
    Extension(names): Extension<Arc<Names>>,
    Extension(captures): Extension<Arc<Captures>>,
    headers: HeaderMap,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Response, Refusal> {
    allow(caller, &names, &headers)?;
    let bad = |why: String| (StatusCode::BAD_REQUEST, why + "\n");
    let Query(query) = query.map_err(|error| bad(error.body_text()))?;
    let wanted = {
        let ports: Vec<_> = view.ports().map(|(id, port)| (id, port.name())).collect();
        CaptureRequest::read(&query, &ports).map_err(|error| bad(error.to_string()))?
    };
    let place = Captures::place(&captures)?;
    let id = place.id;
    let (blocks, body) = mpsc::channel(1);
    let (report_start, start) = oneshot::channel();
    // Run the capture in a separate task, which removes the probes even if the client aborts the request.
    tokio::spawn(run(view, wanted, place, Client { blocks, deadline }, report_start));
    let ended = |_| Err("the switch is stopping".to_owned());
    let begun = start.await.unwrap_or_else(ended);
    begun.map_err(|why| (StatusCode::SERVICE_UNAVAILABLE, why + "\n"))?;
    let body = unfold(body, async |mut body: mpsc::Receiver<Vec<u8>>| {
        body.recv().await.map(|blocks| (Ok::<_, Infallible>(blocks), body))
    });
    let head = [(header::CONTENT_TYPE.as_str(), MEDIA_TYPE.to_owned()), (ID_HEADER, id.to_string())];
    Ok((head, Body::from_stream(body)).into_response())
}

pub(super) async fn delete(
    Extension(caller): Extension<Caller>,
    Extension(names): Extension<Arc<Names>>,
    Extension(captures): Extension<Arc<Captures>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<StatusCode, Refusal> {
    allow(caller, &names, &headers)?;
    let end = id.parse().ok().and_then(|id: u64| captures.table().running.get(&id).cloned());
    let Some(end) = end else {
        return Err((StatusCode::NOT_FOUND, format!("capture {id} does not exist\n")));
    };
    end.notify_one();
    Ok(StatusCode::NO_CONTENT)
}

fn allow(caller: Caller, names: &Names, headers: &HeaderMap) -> Result<(), Refusal> {
    if OF_PAGES.iter().any(|name| headers.contains_key(name)) {
        let why = "captures are for programs, and not for web pages; use `xoff capture`\n";
        return Err((StatusCode::FORBIDDEN, why.into()));
    }
    let host = trust::host(headers).map_err(|why| (StatusCode::BAD_REQUEST, format!("{why}\n")))?;
    let allowed = names.may(caller, host, "capture frames").and_then(|()| super::caller::may_look(caller));
    allowed.map_err(|why| (StatusCode::FORBIDDEN, why + "\n"))
}

struct Client {
    blocks: mpsc::Sender<Vec<u8>>,
    deadline: Deadline,
}

async fn run(
    view: Arc<SwitchView>,
    wanted: CaptureRequest,
    place: CaptureSlot,
    client: Client,
    begun: oneshot::Sender<Result<(), String>>,
) {
    let id = TapId(place.id);
    let counts = CaptureCounts::new(view.settings().ports.len());
    let mut capture = Capture::new(&view, &wanted);
    match put_probes(&view, id, &wanted, &counts).await {
        Ok(readers) => capture.readers = readers,
        Err(why) => {
            take_probes(&view, id).await;
            let _ = begun.send(Err(why)); // fails if nobody waits
            return;
        }
    }
    client.deadline.lift();
    let _ = begun.send(Ok(()));
    let ports = wanted.ports.iter().map(|id| view.name_of(id)).collect::<Vec<_>>().join(", ");
    tracing::info!(capture = place.id, ports, "the capture has begun");
    let is_read = capture.carry(&wanted, &client.blocks, &place.end).await;
    client.deadline.restore(); // slow clients are disconnected
    take_probes(&view, id).await;
    if is_read {
        capture.take().await;
    }
    let counts = if capture.is_full() { &capture.sent_counts } else { &counts };
    if is_read {
        capture.writer.statistics(|port| [counts.wanted(port), counts.missed(port)], wall());
        let _ = client.blocks.send(capture.writer.take()).await;
    }
    let missed: u64 = wanted.ports.iter().map(|port| counts.missed(port)).sum();
    tracing::info!(capture = place.id, frames = capture.frames, missed, "the capture has ended");
}

struct Capture {
    readers: Vec<CaptureReader>,
    writer: Writer,
    frames: u64,
    most: u64,
    sent_counts: Arc<CaptureCounts>,
}

impl Capture {
    fn new(view: &SwitchView, wanted: &CaptureRequest) -> Capture {
        let interface = |port: PortId| {
            let (settings, at) = (&view.settings().ports[port.index()], &view.ports[port.index()]);
            let device = at.device.get();
            Interface {
                port,
                name: settings.name.clone(),
                description: format!("port {} of switch {}, device {device}", settings.name, view.name),
                mac: at.now().mac,
                speed: settings.speed.bits_per_second(),
            }
        };
        let interfaces = wanted.ports.iter().map(interface).collect();
        let begun = wall();
        let zero = begun.saturating_sub(Duration::from_nanos((view.clock)().0));
        let application = format!("xoff {}", env!("CARGO_PKG_VERSION"));
        let writer = Writer::new(&application, interfaces, wanted.snap, zero, begun);
        let (most, sent_counts) =
            (wanted.count.unwrap_or(u64::MAX), CaptureCounts::new(view.settings().ports.len()));
        Capture { readers: Vec::new(), writer, frames: 0, most, sent_counts }
    }

    /// Sends captured frames until the capture ends; the last frames stay unsent in the writer. Returns false if the
    /// client has disconnected.
    async fn carry(&mut self, wanted: &CaptureRequest, blocks: &mpsc::Sender<Vec<u8>>, end: &Notify) -> bool {
        let until = wanted.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let mut is_over = pin!(async {
            tokio::select! {
                () = end.notified() => (),
                Some(()) = OptionFuture::from(until.map(sleep_until)) => (),
            }
        });
        loop {
            self.take().await;
            if self.is_full() {
                return true;
            }
            if self.writer.pending() > 0 {
                tokio::select! {
                    room = blocks.reserve() => match room {
                        Ok(room) => room.send(self.writer.take()),
                        Err(_) => return false,
                    },
                    () = &mut is_over => return true,
                }
            }
            tokio::select! {
                () = blocks.closed() => return false,
                () = &mut is_over => return true,
                () = sleep(TAKEN_EVERY) => (),
            }
        }
    }

    fn is_full(&self) -> bool {
        self.frames == self.most
    }

    async fn take(&mut self) {
        self.readers.iter_mut().for_each(|reader| _ = reader.take());
        let mut streams: Vec<_> = self.readers.iter().map(|reader| reader.records().peekable()).collect();
        while self.frames < self.most {
            let times = streams.iter_mut().enumerate();
            let times = times.filter_map(|(reader, records)| Some((records.peek()?.sighting.at, reader)));
            let Some((_, first)) = times.min() else { break };
            let record = streams[first].next().expect("the next record must be the one that `peek` returned");
            self.writer.frame(&record);
            let missed = u64::from(record.missed_before);
            self.sent_counts.add(record.sighting.port, missed + 1, missed);
            self.frames += 1;
            if self.frames.is_multiple_of(RECORDS_AT_ONCE) {
                yield_now().await;
            }
        }
    }
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

async fn put_probes(
    view: &SwitchView,
    id: TapId,
    wanted: &CaptureRequest,
    counts: &Arc<CaptureCounts>,
) -> Result<Vec<CaptureReader>, String> {
    let mut readers = Vec::new();
    for (number, worker) in view.workers.iter().enumerate() {
        let own = view.ports().filter(|(_, port)| port.worker == number).map(|(id, _)| id);
        let ports: PortSet = own.filter(|id| wanted.ports.contains(*id)).collect();
        if ports.is_empty() {
            continue;
        }
        let (probe, reader) =
            channel(ports, wanted.filter, wanted.snap as usize, RING_BYTES, Arc::clone(counts));
        let (done, answer) = oneshot::channel();
        let request = Request::PutTap { id, tap: Box::new(probe), done };
        let ended = || format!("worker {number} has ended");
        worker.mailbox.send(request).map_err(|_| ended())?;
        match timeout(ANSWERED_WITHIN, answer).await {
            Ok(Ok(Ok(()))) => readers.push(reader),
            Ok(Ok(Err(_))) => {
                return Err(format!(
                    "worker {number} already has {TAPS_MAX} captures, the maximum; end one of them first"
                ));
            }
            Ok(Err(_)) => return Err(ended()),
            Err(_) => return Err(format!("worker {number} does not answer")),
        }
    }
    Ok(readers)
}

async fn take_probes(view: &SwitchView, id: TapId) {
    for worker in &view.workers {
        let (done, answer) = oneshot::channel();
        if worker.mailbox.send(Request::TakeTap { id, done }).is_ok() {
            let _ = timeout(ANSWERED_WITHIN, answer).await;
        }
    }
}
