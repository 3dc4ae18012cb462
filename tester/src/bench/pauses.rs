//! Pauses that the tester sends, and their limit `pause_max`.

use xoff_config::quantity;
use xoff_wire::units::{BitRate, CLASSES, Class, ClassSet, Nanos, Quanta};
use xoff_wire::{Header, MacControl, Pfc};
use xoff_xdp::clock::now;

use super::{Bench, Moment, Void};
use crate::setup::PortKind;

#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    port: usize,
    classes: ClassSet,
    refresh: Nanos,
    pub next: Nanos,
    until: Nanos,
    /// End of the pause, if `pause_max` shortened its last XOFF.
    cut: Option<Nanos>,
}

/// Begin and end of the last pause of each class, and the limit: an XOFF in a pause extends that pause.
#[derive(Clone, Debug, Default)]
pub(super) struct PauseLimit {
    max: Option<Nanos>,
    pauses: [(Nanos, Nanos); CLASSES],
}

impl PauseLimit {
    fn begin(&self, class: Class, time: Nanos) -> Nanos {
        let (begin, end) = self.pauses[class.index()];
        if time < end { begin } else { time }
    }

    fn end_max(&self, classes: ClassSet, time: Nanos) -> Nanos {
        let end =
            |max| classes.iter().map(|class| self.begin(class, time)).min().map(|begin| begin.after(max));
        self.max.and_then(end).unwrap_or(Nanos::NEVER)
    }

    fn permits(&self, classes: ClassSet, time: Nanos, pause: Nanos) -> bool {
        pause == Nanos::ZERO || time.after(pause) <= self.end_max(classes, time)
    }

    fn set(&mut self, class: Class, when: Moment, pause: Nanos) {
        self.pauses[class.index()] = (self.begin(class, when.earliest), when.latest.after(pause));
    }

    pub fn note(&mut self, bytes: &[u8], when: Moment, speed: BitRate) {
        if let Some(MacControl::Pfc(pfc)) = control(bytes) {
            for class in pfc.classes.iter() {
                self.set(class, when, speed.time_of_quanta(pfc.times[class.index()]));
            }
        }
    }
}

fn control(bytes: &[u8]) -> Option<MacControl> {
    let header = Header::parse(bytes).ok().filter(MacControl::is_mac_control)?;
    MacControl::parse(&header, bytes).ok()
}

impl Bench {
    pub fn limit_pauses(&mut self, max: Option<Nanos>) {
        self.pause_limits.iter_mut().for_each(|limit| limit.max = max);
    }

    pub fn pause(&mut self, port: usize, times: &[(Class, u16)]) -> Moment {
        let bytes = self.pfc(port, times);
        self.send_now(port, &bytes)
    }

    pub fn resume(&mut self, port: usize, classes: ClassSet) -> Moment {
        let times: Vec<_> = classes.iter().map(|class| (class, 0)).collect();
        self.pause(port, &times)
    }

    /// Pauses classes of the device at `port` until [`Bench::release`], at most for `limit`. The bench refreshes the
    /// XOFF. At `pause_max` the bench ends the pause and voids the run.
    pub fn hold(&mut self, port: usize, classes: ClassSet, limit: Nanos) -> Moment {
        let (sent, cut) = self.pause_fully(port, classes);
        let refresh = Nanos(self.pause_time(port, u16::MAX).0 / 3);
        let (next, until) = (sent.latest.after(refresh), sent.latest.after(limit));
        self.holds.push(Hold { port, classes, refresh, next, until, cut });
        sent
    }

    pub fn release(&mut self, port: usize) -> Moment {
        self.holds.retain(|hold| hold.port != port);
        self.resume(port, ClassSet::ALL)
    }

    pub fn release_class(&mut self, port: usize, class: Class) -> Moment {
        let of_port = self.holds.iter_mut().filter(|hold| hold.port == port);
        of_port.for_each(|hold| hold.classes.remove(class));
        self.resume(port, [class].into_iter().collect())
    }

    /// Also returns the pause's end if `pause_max` shortened it.
    fn pause_fully(&mut self, port: usize, classes: ClassSet) -> (Moment, Option<Nanos>) {
        let time = now();
        let (end, full) = (self.pause_limits[port].end_max(classes, time), self.pause_time(port, u16::MAX));
        let room = end.since(time).min(full);
        let quanta = u128::from(u16::MAX) * u128::from(room.0) / u128::from(full.0.max(1));
        let quanta = u16::try_from(quanta).unwrap_or(u16::MAX);
        let times: Vec<_> = classes.iter().map(|class| (class, quanta)).collect();
        let bytes = self.frame(port, &times);
        (self.send_now(port, &bytes), (room < full).then_some(end))
    }

    pub(super) fn refresh_holds(&mut self, time: Nanos) -> Result<(), Void> {
        let over = |hold: &Hold| Some((*hold, hold.cut.filter(|end| *end <= time)?));
        if let Some((Hold { port, until, .. }, end)) = self.holds.iter().find_map(over) {
            self.release(port);
            let max = self.pause_limits[port].max.unwrap_or(Nanos::NEVER);
            let stall = self.longest_stall(end.since(max));
            return Err(match until <= end || stall > Nanos(max.0 / 10) {
                true => Void::Disturbed("the tester stalled, so a pause lasted until its limit".to_owned()),
                false => self.too_long(port),
            });
        }
        self.holds.retain(|hold| hold.until > time);
        for index in 0..self.holds.len() {
            let Hold { port, classes, next, refresh, .. } = self.holds[index];
            if next <= time {
                let (_, cut) = self.pause_fully(port, classes);
                let hold = &mut self.holds[index];
                (hold.next, hold.cut) = (time.after(refresh), cut);
            }
        }
        Ok(())
    }

    /// Returns a PFC frame. If its pause would exceed `pause_max`, the bench voids the run.
    #[must_use]
    pub fn pfc(&mut self, port: usize, times: &[(Class, u16)]) -> Vec<u8> {
        for (class, quanta) in times {
            self.require_permitted(port, [*class].into_iter().collect(), Quanta(*quanta));
        }
        self.frame(port, times)
    }

    pub(super) fn require_permitted_pause(&mut self, port: usize, bytes: &[u8]) {
        if let Some(MacControl::Pause(quanta)) = control(bytes) {
            self.require_permitted(port, ClassSet::ALL, quanta);
        }
    }

    fn require_permitted(&mut self, port: usize, classes: ClassSet, quanta: Quanta) {
        let pause = self.ports[port].speed().time_of_quanta(quanta);
        if !self.pause_limits[port].permits(classes, now(), pause) {
            self.obstacle = Some(self.too_long(port));
        }
    }

    fn too_long(&self, port: usize) -> Void {
        let max = quantity::time(self.pause_limits[port].max.unwrap_or(Nanos::NEVER));
        Void::NotPossible(format!(
            "the case needs a pause longer than {max}; limits are `pause_max` and 90 % of `watchdog`"
        ))
    }

    fn frame(&self, port: usize, times: &[(Class, u16)]) -> Vec<u8> {
        let pfc = times.iter().fold(Pfc::default(), |pfc, &(class, time)| pfc.with(class, Quanta(time)));
        MacControl::Pfc(pfc).encode(self.ports[port].mac()).to_vec()
    }

    #[must_use]
    pub fn pause_time(&self, port: usize, quanta: u16) -> Nanos {
        self.ports[port].speed().time_of_quanta(Quanta(quanta))
    }

    pub(super) fn resume_everything(&mut self) {
        self.obstacle = None;
        for port in 0..self.ports.len() {
            if self.ports[port].settings.kind == PortKind::Kernel {
                continue;
            }
            self.resume(port, ClassSet::ALL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::{DeviceSettings, Setup};

    const THREE: Class = Class::ALL[3];
    const OTHER: Class = Class::ALL[4];

    fn only(class: Class) -> ClassSet {
        [class].into_iter().collect()
    }

    #[test]
    fn pause_limit_counts_from_first_xoff_of_class() {
        let mut limit = PauseLimit { max: Some(Nanos(100)), ..PauseLimit::default() };
        let permits =
            |limit: &PauseLimit, class, time, pause| limit.permits(only(class), Nanos(time), Nanos(pause));
        let at = |time| Moment { earliest: Nanos(time), latest: Nanos(time) };
        assert!(permits(&limit, THREE, 1_000, 100) && !permits(&limit, THREE, 1_000, 101));
        limit.set(THREE, at(1_000), Nanos(60));
        assert!(permits(&limit, THREE, 1_050, 50) && !permits(&limit, THREE, 1_050, 51), "extended");
        assert!(permits(&limit, OTHER, 1_050, 100), "another class");
        assert!(permits(&limit, THREE, 1_060, 100), "after the end of the pause");
        limit.set(THREE, at(1_050), Nanos::ZERO);
        assert!(permits(&limit, THREE, 1_051, 100), "after XON");
        assert!(PauseLimit::default().permits(ClassSet::ALL, Nanos(1), Nanos::from_secs(1_000)));
    }

    fn bench(pause_max: Nanos) -> Bench {
        let speed = BitRate::new(1_000_000).expect("the speed is not zero");
        let device = DeviceSettings::new("device", xoff_config::defaults::LOSSLESS);
        let mut bench = Bench::closed(Setup::of_nic("a", "b", speed, device));
        bench.limit_pauses(Some(pause_max));
        bench
    }

    #[test] // proves: conformance
    fn pause_longer_than_limit_voids_its_case() {
        let longest = Nanos::from_micros(33_553_920);
        for (max, is_sent) in [(longest, true), (Nanos(longest.0 - 1), false)] {
            let mut bench = bench(max);
            bench.pause(1, &[(THREE, u16::MAX)]);
            assert_eq!(bench.has_paused(), is_sent);
            let expected = match is_sent {
                true => Void::Interrupted,
                false => bench.too_long(1),
            };
            assert_eq!(bench.run_for(Nanos::ZERO), Err(expected));
        }
    }

    #[test] // proves: conformance
    fn held_pause_ends_at_its_limit() {
        let mut bench = bench(Nanos::from_secs(20));
        bench.hold(1, only(THREE), Nanos::from_secs(60));
        let (begin, end) = bench.pause_limits[1].pauses[THREE.index()];
        assert!(end <= begin.after(Nanos::from_secs(21)), "the XOFF is shortened");
        let cut = bench.holds[0].cut.unwrap_or_default();
        assert_eq!(bench.refresh_holds(Nanos(cut.0 - 1)), Ok(()));
        assert_eq!(bench.holds.len(), 1);
        assert_eq!(bench.refresh_holds(bench.holds[0].cut.unwrap_or_default()), Err(bench.too_long(1)));
        assert!(bench.holds.is_empty());
        assert!(bench.too_long(1).to_string().contains("longer than 20s"));
    }
}
