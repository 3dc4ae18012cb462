use std::time::Duration;

use sd_notify::NotifyState;

use super::{Answer, SwitchView, ask};

const ASK_AGAIN: Duration = Duration::from_millis(500);

pub fn runs(what: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(what)]);
}

pub fn ends() {
    tell(&[NotifyState::Stopping]);
}

pub(crate) async fn lives(view: &SwitchView) {
    let Some(every) = interval() else { return std::future::pending().await };
    let mut next = every;
    loop {
        tokio::time::sleep(next).await;
        let all_live = ask(view).await.iter().all(|answer| matches!(answer, Answer::Given(_)));
        if all_live {
            notify_alive();
        }
        next = if all_live { every } else { ASK_AGAIN.min(every) };
    }
}

#[must_use]
pub fn interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|within| within / 2)
}

pub fn notify_alive() {
    tell(&[NotifyState::Watchdog]);
}

fn tell(words: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(words) {
        tracing::warn!("cannot notify the service manager: {error}");
    }
}
