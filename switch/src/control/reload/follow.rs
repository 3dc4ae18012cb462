use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;
use xoff_flow_control::settings::SwitchSettings;

use super::{ReloadCommand, Reloader, Reloads};

const EVERY: Duration = Duration::from_secs(1);

impl Reloads {
    pub fn neighbors_changed(&self) {
        if !self.unfollowed.swap(true, Ordering::Relaxed) {
            let _ = self.commands.send(ReloadCommand::Follow); // fails at the switch's end
        }
    }
}

impl Reloader {
    /// Adapts the settings to the announcements of LLDP neighbors, at most once a second. Reserved memory
    /// suffices: adapted settings never need more.
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
            Ok(()) => tracing::info!(
                event = "neighbors-followed",
                "settings were adapted to the announcements of LLDP neighbors"
            ),
            Err(error) => tracing::error!("cannot adapt settings to LLDP neighbors: {error}"),
        }
        drop(alone);
        sleep(EVERY).await;
    }
}
