//! Settings that follow what neighbors say by LLDP are exchanged as those of a reload are, and no more often than once a second:
//! a neighbor may change its mind all the time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;
use xoff_dataplane::settings::SwitchSettings;

use super::{Asked, Reloader, Reloads};

/// What neighbors say is followed no more often.
const EVERY: Duration = Duration::from_secs(1);

impl Reloads {
    /// Neighbors say something else, from which settings follow.
    pub fn neighbors_changed(&self) {
        if !self.unfollowed.swap(true, Ordering::Relaxed) {
            let _ = self.asks.send(Asked::Follow); // or the switch is about to end
        }
    }
}

impl Reloader {
    /// Makes true what follows from what neighbors say now: nothing of it takes memory that was not reserved.
    pub(super) async fn follow(&self) {
        self.unfollowed.store(false, Ordering::Relaxed);
        let view = Arc::clone(&self.view);
        let alone = view.policies.changing.lock().await;
        let settings = self.settings(&self.running());
        let now = SwitchSettings { policies: settings.policies, ..(*view.settings()).clone() };
        if settings == now {
            return;
        }
        match self.revise(settings, &[]).await {
            Ok(()) => tracing::info!(event = "neighbors-followed", "settings follow what neighbors say"),
            Err(error) => tracing::error!("settings cannot follow what neighbors say: {error}"),
        }
        drop(alone);
        sleep(EVERY).await;
    }
}
