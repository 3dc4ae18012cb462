use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xoff_wire::units::BitRate;

use super::{End, Link, Network};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRates {
    pub speed: BitRate,
    pub sending: [BitRate; 2],
}

impl LinkRates {
    #[must_use]
    pub fn of(link: &Link) -> LinkRates {
        LinkRates { speed: link.speed, sending: [link.speed; 2] }
    }

    /// Returns these rates, but with `rate` for frames from the link's end `from` (`None`: from both ends).
    #[must_use]
    pub fn with(self, from: Option<usize>, rate: BitRate) -> LinkRates {
        let [a, b] =
            [0, 1].map(|end| if from.is_none_or(|from| from == end) { rate } else { self.sending[end] });
        LinkRates { speed: a.max(b), sending: [a, b] }
    }

    /// Returns rates for the transition to `next`: the lower sending rates and the higher line rate, so that headroom suffices although the
    /// two ends change one after the other.
    #[must_use]
    pub fn between(self, next: LinkRates) -> LinkRates {
        let sending = [0, 1].map(|end| self.sending[end].min(next.sending[end]));
        LinkRates { speed: self.speed.max(next.speed), sending }
    }
}

/// Rates that `xoff lab link --speed` changed, by the link's index; shared by all clones.
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

    /// Returns the rates with which a switch starts. Slowed links have the line rate of the lab's file, which sizes rings, but their
    /// lowered sending rates.
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
    pub(crate) fn sending(&self, number: usize) -> Option<[BitRate; 2]> {
        let (link, rates) = (&self.links[number], self.rates.of(number, &self.links[number]));
        (rates != LinkRates::of(link)).then_some(rates.sending)
    }

    /// Limits the refresh interval of pauses at slowed links to that of the running network `like`. Until a peer knows the lower speed, it
    /// counts shorter quanta, so its pauses end earlier.
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
