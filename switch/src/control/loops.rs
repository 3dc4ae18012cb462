//! Loops that the bridge has found, for people: a line in the log when a port stops taking part in floods, and when it is
//! tried again.
//!
//! Workers count and never log; what they know of addresses they show once a second.

use std::time::Duration;

use xoff_dataplane::forward::LOOP_HOLD;
use xoff_dataplane::units::PortId;

use super::view::SwitchView;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Tells the log of loops, for good.
pub(super) async fn tell(view: &SwitchView) {
    let mut told = vec![Told::default(); view.settings.ports.len()];
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        for (port, told) in (0..=u8::MAX).map(PortId).zip(&mut told) {
            told.look(view, port);
        }
    }
}

/// What the log has been told of a port.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    loops: u64,
    looped: bool,
}

impl Told {
    fn look(&mut self, view: &SwitchView, port: PortId) {
        let counters = view.counters.port(port);
        let now = Told { loops: counters.loops.get(), looped: counters.looped.get() != 0 };
        let (port, loops) = (&view.settings.ports[port.index()].name, now.loops);
        if now.loops > self.loops {
            let hold_s = LOOP_HOLD.0 / 1_000_000_000;
            tracing::warn!(
                %port, loops, hold_s,
                "a loop: stations move to and fro between this port and another; it takes no part in floods for a while"
            );
        } else if self.looped && !now.looped {
            tracing::warn!(%port, loops, "the port takes part in floods again");
        }
        *self = now;
    }
}
