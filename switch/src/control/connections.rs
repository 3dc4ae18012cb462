use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until};
use xoff_xdp::name_file_limit;

use super::caller::Caller;
use super::listen::{Registered, Stream};

/// Maximum number of connections served at a time. As many more at a time get status 503; the rest waits.
pub const CONNECTIONS_MAX: usize = 32;

/// Maximum time for a request's head to arrive, and maximum idle time of a connection.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Maximum time from the arrival of a request's head until the client has read the answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
const REFUSED_WITHIN: Duration = Duration::from_secs(1);
const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 86_400);
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Deadline of an HTTP connection, suspended during endless answers such as captures.
#[derive(Clone, Debug)]
pub(super) struct Deadline(watch::Sender<Instant>);

impl Deadline {
    pub(super) fn lift(&self) {
        self.0.send_replace(Instant::now() + FOR_EVER);
    }

    pub(super) fn restore(&self) {
        self.0.send_replace(Instant::now() + ANSWERED_WITHIN);
    }
}

pub(super) async fn serve(listener: Registered, routes: Router) {
    let served = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let refused = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let refusal = Router::new().fallback(|| async {
        let message = format!("the switch already serves {CONNECTIONS_MAX} clients; try again\n");
        (
            StatusCode::SERVICE_UNAVAILABLE,
            [(header::RETRY_AFTER, "1"), (header::CONNECTION, "close")],
            message,
        )
    });
    loop {
        let (stream, caller) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("cannot accept an HTTP connection: {}", name_file_limit(error));
                sleep(ACCEPT_AGAIN_AFTER).await;
                continue;
            }
        };
        let (permit, routes, within) = match Arc::clone(&served).try_acquire_owned() {
            Ok(permit) => (permit, routes.clone(), ANSWERED_WITHIN),
            Err(_) => {
                let permit = Arc::clone(&refused).acquire_owned().await;
                (
                    permit.expect("the semaphore of rejected connections must stay open"),
                    refusal.clone(),
                    REFUSED_WITHIN,
                )
            }
        };
        tokio::spawn(async move {
            answer(stream, caller, routes, within).await;
            drop(permit);
        });
    }
}

async fn answer(stream: impl Stream, caller: Caller, routes: Router, within: Duration) {
    let peer = caller.address();
    let (begin, deadline) = watch::channel(Instant::now() + within);
    let of_answer = Deadline(begin.clone());
    let routes = routes.layer(from_fn(move |request: Request, next: Next| {
        begin.send_replace(Instant::now() + within);
        next.run(request)
    }));
    let routes = routes.layer(Extension(of_answer)).layer(Extension(caller));
    let service = TowerToHyperService::new(routes);
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_buf_size(HEAD_BYTES_MAX);
    tokio::select! {
        served = server.serve_connection(TokioIo::new(stream), service) => {
            if let Err(error) = served {
                tracing::debug!("{peer}: {error}");
            }
        }
        () = passed(deadline) => tracing::debug!("{peer}: connection closed, because the answer was not read within {within:?}"),
    }
}

async fn passed(mut deadline: watch::Receiver<Instant>) {
    loop {
        let at = *deadline.borrow_and_update();
        tokio::select! {
            biased;
            Ok(()) = deadline.changed() => (),
            () = sleep_until(at) => return,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio::runtime::Builder;
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn http_deadline_applies_again_after_streamed_answer() {
        let (begin, deadline) = watch::channel(Instant::now());
        Deadline(begin.clone()).lift();
        let set_again = async {
            tokio::task::yield_now().await;
            begin.send_replace(Instant::now());
        };
        let both = async { tokio::join!(timeout(Duration::from_secs(60), passed(deadline)), set_again).0 };
        assert!(Builder::new_current_thread().enable_time().build().unwrap().block_on(both).is_ok());
    }
}
