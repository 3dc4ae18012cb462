//! Loops that the bridge has found, for people: a line in the log when one is found, and when that is
//! over.
//!
//! Workers count and never log; what they know of addresses they show once a second.

use std::time::Duration;

use xoff_dataplane::forward::LOOP_HOLD;
use xoff_dataplane::settings::LoopDetection;
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
    fn look(&mut self, view: &SwitchView, id: PortId) {
        let counters = view.counters.port(id);
        let now = Told { loops: counters.loops.get(), looped: counters.looped.get() != 0 };
        let (port, loops) = (&view.settings.ports[id.index()].name, now.loops);
        if now.loops > self.loops {
            let blocked = view.settings.ports[id.index()].loop_detection == LoopDetection::Block;
            let blocked_s = if blocked { LOOP_HOLD.0 / 1_000_000_000 } else { 0 };
            tracing::warn!(
                %port, loops, blocked_s,
                "a loop: stations move to and fro between this port and another, as if the two were connected outside"
            );
        } else if self.looped && !now.looped {
            tracing::warn!(%port, loops, "no more is seen of the loop, or it is looked for again");
        }
        *self = now;
    }
}
