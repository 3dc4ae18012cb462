//! Loops that the bridge has found, for people: a line in the log when one is found, and when that is
//! over.
//!
//! Workers count and never log. This looks at their counters ten times a second, and once more at the end.

use std::time::Duration;

use xoff_dataplane::forward::LOOP_HOLD;
use xoff_dataplane::settings::LoopDetection;
use xoff_dataplane::units::PortId;

use super::view::SwitchView;

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Name of the other port of the last loop that was found at `port`.
pub(super) fn with(view: &SwitchView, port: PortId) -> Option<&str> {
    let other = view.counters.port(port).loop_with.get().checked_sub(1)?;
    let settings = view.settings.ports.get(usize::try_from(other).ok()?)?;
    Some(&settings.name)
}

/// Tells the log of loops.
#[derive(Debug)]
pub(super) struct Teller {
    /// What it has told, by port.
    told: Box<[Told]>,
}

impl Teller {
    pub fn new(view: &SwitchView) -> Teller {
        Teller { told: vec![Told::default(); view.settings.ports.len()].into() }
    }

    /// Looks for good.
    pub async fn tell(&mut self, view: &SwitchView) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.look(view);
        }
    }

    pub fn look(&mut self, view: &SwitchView) {
        for (port, told) in (0..=u8::MAX).map(PortId).zip(&mut self.told) {
            told.look(view, port);
        }
    }
}

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
        let other = with(view, id).unwrap_or_default();
        if now.loops > self.loops {
            let blocked = view.settings.ports[id.index()].loop_detection == LoopDetection::Block;
            let blocked_s = if blocked { LOOP_HOLD.0 / 1_000_000_000 } else { 0 };
            tracing::warn!(
                %port, %other, loops, blocked_s,
                "a loop: stations move to and fro between these two ports, as if they were connected outside"
            );
        } else if self.looped && !now.looped {
            tracing::warn!(%port, %other, loops, "no more is seen of the loop, or it is looked for again");
        }
        *self = now;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;
    use crate::control::{start, tests::view};

    fn read(log: &mut std::fs::File) -> String {
        let mut text = String::new();
        log.rewind().unwrap();
        log.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn what_is_found_last_before_the_end_is_told() {
        let (view, _inbox) = view();
        let counters = view.counters.port(PortId(1));
        counters.loops.set(0);
        let mut log = tempfile::tempfile().unwrap();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(log.try_clone().unwrap()).finish();
        tracing::subscriber::set_global_default(lines).unwrap(); // for the control thread
        let control = start(std::sync::Arc::clone(&view), None, ()).unwrap();
        counters.loops.set(7);
        control.stop().unwrap();
        assert!(read(&mut log).contains("port=right other=left loops=7"));
    }

    #[test]
    fn a_loop_is_told_once_with_both_ports_and_so_is_its_end() {
        let (view, _inbox) = view(); // with a loop between left and right
        let mut log = tempfile::tempfile().unwrap();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(log.try_clone().unwrap()).finish();
        tracing::subscriber::with_default(lines, || {
            let mut teller = Teller::new(&view);
            teller.look(&view);
            teller.look(&view);
            view.counters.port(PortId(1)).looped.set(0);
            teller.look(&view);
        });
        let text = read(&mut log);
        let told: Vec<&str> = text.lines().collect();
        assert_eq!(told.len(), 2, "{text}");
        assert!(
            told[0].contains("these two ports") && told[0].contains("port=right other=left loops=2"),
            "{text}"
        );
        assert!(told[1].contains("no more is seen of the loop"), "{text}");
    }
}
