//! Rates of links that a command has changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xoff_wire::units::BitRate;

use super::{End, Link, Network};

/// Rates of a link that is slower than in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRates {
    /// Line rate of both ends.
    pub speed: BitRate,
    /// Maximum rate of the frames from each end.
    pub sending: [BitRate; 2],
}

impl LinkRates {
    #[must_use]
    pub fn of(link: &Link) -> LinkRates {
        LinkRates { speed: link.speed, sending: [link.speed; 2] }
    }

    /// Returns these rates with another rate of the frames from one end, or from both.
    #[must_use]
    pub fn with(self, from: Option<usize>, rate: BitRate) -> LinkRates {
        let [a, b] =
            [0, 1].map(|end| if from.is_none_or(|from| from == end) { rate } else { self.sending[end] });
        LinkRates { speed: a.max(b), sending: [a, b] }
    }

    /// Returns the rates between these and `next`: senders are as slow as the slower, and headroom is that of the faster. So a port's
    /// headroom suffices although the two ends change one after the other.
    #[must_use]
    pub fn between(self, next: LinkRates) -> LinkRates {
        let sending = [0, 1].map(|end| self.sending[end].min(next.sending[end]));
        LinkRates { speed: self.speed.max(next.speed), sending }
    }
}

/// Changed rates by link, shared by all clones.
#[derive(Clone, Debug, Default)]
pub struct Rates(Arc<Mutex<BTreeMap<usize, LinkRates>>>);

impl Rates {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, LinkRates>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[must_use]
    pub fn of(&self, number: usize, link: &Link) -> LinkRates {
        self.lock().get(&number).copied().unwrap_or_else(|| LinkRates::of(link))
    }

    /// Returns these rates with the line rates of the file, for a switch that starts: it must not send too fast to slower peers.
    #[must_use]
    pub(crate) fn at_full_speed(&self, links: &[Link]) -> Rates {
        let rates = self.lock();
        let at_full = |(number, rates): (&usize, &LinkRates)| {
            let full = LinkRates::of(&links[*number]);
            (*number, full.between(*rates))
        };
        Rates(Arc::new(Mutex::new(rates.iter().map(at_full).collect())))
    }

    pub(crate) fn set(&self, number: usize, rates: LinkRates) {
        self.lock().insert(number, rates);
    }
}

impl Network {
    /// Returns the rates of the frames from each end of a link, if they are lower than in the file.
    pub(crate) fn sending(&self, number: usize) -> Option<[BitRate; 2]> {
        let (link, rates) = (&self.links[number], self.rates.of(number, &self.links[number]));
        (rates != LinkRates::of(link)).then_some(rates.sending)
    }

    /// Repeats pauses on slower links as often as the running network `like` did at the start. A peer may still convert pause times by
    /// the former speed while a link changes.
    pub(super) fn refresh_as(&mut self, like: &Network) {
        for (number, link) in self.links.iter().enumerate() {
            for end in link.ends.into_iter().filter(|_| self.rates.of(number, link).speed < link.speed) {
                let End::Port { switch, port } = end else { continue };
                let before = like.switches.get(switch).and_then(|it| it.config.switch.ports.get(port));
                let port = &mut self.switches[switch].config.switch.ports[port];
                port.refresh = before.map_or(port.refresh, |before| before.refresh.min(port.refresh));
            }
        }
    }
}
