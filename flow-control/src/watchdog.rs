//! PFC watchdog: detects pause storms, in which a peer's pauses keep frames waiting too long.
//!
//! A class is *stuck* while it is paused and has a frame queued:
//!
//! ```text
//!     stuck since = the later of: start of the pause, arrival of the oldest queued frame
//!     storm       at stuck since + detect
//!     end         at end of the last pause + restore
//! ```
//!
//! A pause that ends at or before *stuck since + detect* is no storm.
//!
//! If `share` (part of the time that pauses must fill) is below 100 %, pauses with gaps can be a storm, too: a pause
//! frame that finds frames queued opens a window of length `detect`. A storm begins at the window's end if frames are
//! queued, and pauses filled at least `share` of the window.

use xoff_wire::units::{CLASSES, Class, ClassSet, Nanos};

use crate::pause::Paused;
use crate::settings::WatchdogSettings;

/// Watchdogs of a port's classes.
#[derive(Clone, Debug)]
pub struct Watchdog {
    classes: [Option<Watched>; CLASSES],
    watched: ClassSet,
    stormed: ClassSet,
    next_look: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    settings: WatchdogSettings,
    /// Time of the next check whether an unbroken pause is a storm, or a storm has ended.
    next_check: Nanos,
    window: Option<Window>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    since: Nanos,
    paused_before: Nanos,
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Change {
    StormBegins,
    StormEnds,
}

impl Watched {
    const fn new(settings: WatchdogSettings) -> Watched {
        Watched { settings, next_check: Nanos::NEVER, window: None }
    }

    fn next_look(&self) -> Nanos {
        let end = self.window.map_or(Nanos::NEVER, |window| window.since.after(self.settings.detect));
        self.next_check.min(end)
    }

    fn was_paused_in_window(&mut self, now: Nanos, class: Class, paused: &Paused) -> bool {
        let WatchdogSettings { detect, share, .. } = self.settings;
        let ended = self.window.take_if(|window| window.since.after(detect) <= now);
        ended.is_some_and(|Window { since, paused_before }| {
            let paused = paused.total(now, class).since(paused_before);
            paused.0.saturating_mul(100) >= now.since(since).0.saturating_mul(share.into())
        })
    }
}

impl Watchdog {
    /// Creates a port's watchdogs.
    pub fn new(settings: [Option<WatchdogSettings>; CLASSES]) -> Watchdog {
        Watchdog {
            classes: settings.map(|settings| settings.map(Watched::new)),
            watched: Class::ALL.into_iter().filter(|class| settings[class.index()].is_some()).collect(),
            stormed: ClassSet::NONE,
            next_look: Nanos::NEVER,
        }
    }

    /// Applies new watchdog settings. Returns the classes whose storm ends.
    pub fn revise(&mut self, settings: [Option<WatchdogSettings>; CLASSES]) -> ClassSet {
        let differs = |class: &Class| self.settings(*class) != settings[class.index()];
        let others: ClassSet = Class::ALL.into_iter().filter(differs).collect();
        let fresh = Watchdog::new(settings);
        for class in others.iter() {
            self.classes[class.index()] = fresh.classes[class.index()];
        }
        let ended = ClassSet(self.stormed.0 & others.0);
        self.stormed = ClassSet(self.stormed.0 & !others.0);
        self.watched = fresh.watched;
        self.find_next_look();
        ended
    }

    /// Returns the classes with a watchdog.
    pub const fn watched(&self) -> ClassSet {
        self.watched
    }

    /// Returns the classes in a pause storm.
    pub const fn stormed(&self) -> ClassSet {
        self.stormed
    }

    /// Returns the watchdog settings of `class`.
    pub fn settings(&self, class: Class) -> Option<WatchdogSettings> {
        self.classes[class.index()].map(|watched| watched.settings)
    }

    /// Returns when the watchdog checks next.
    pub const fn next_look(&self) -> Nanos {
        self.next_look
    }

    /// Returns the classes that the watchdog must check at `now`.
    pub fn due(&self, now: Nanos) -> ClassSet {
        if now < self.next_look {
            return ClassSet::NONE;
        }
        let due = |class: &Class| self.classes[class.index()].is_some_and(|it| it.next_look() <= now);
        self.watched.iter().filter(due).collect()
    }

    /// Schedules checks after pauses of `classes` began, ended or were refreshed; `queued` are the classes with queued
    /// frames.
    pub fn pauses_changed(&mut self, now: Nanos, classes: ClassSet, queued: ClassSet, paused: &Paused) {
        for class in ClassSet(classes.0 & self.watched.0).iter() {
            let is_stormed = self.stormed.contains(class);
            let Some(watched) = &mut self.classes[class.index()] else { continue };
            watched.next_check = match paused.since(class) {
                None if is_stormed => paused.ended(class).after(watched.settings.restore),
                Some(since) if !is_stormed => {
                    if watched.settings.share < WatchdogSettings::UNBROKEN && queued.contains(class) {
                        let paused_before = paused.total(now, class);
                        watched.window.get_or_insert(Window { since: now, paused_before });
                    }
                    let first = since.after(watched.settings.detect);
                    // A refresh keeps the scheduled check, which may be later than `first` because frames arrived
                    // during the pause.
                    if watched.next_check == Nanos::NEVER { first } else { watched.next_check }
                }
                None | Some(_) => Nanos::NEVER,
            };
        }
        self.find_next_look();
    }

    /// Checks whether a storm of `class` begins or ends; the class's oldest frame has been queued since
    /// `waiting_since`.
    pub fn look(
        &mut self,
        now: Nanos,
        class: Class,
        paused: &Paused,
        waiting_since: Option<Nanos>,
    ) -> Option<Change> {
        let is_stormed = self.stormed.contains(class);
        let watched = self.classes[class.index()].as_mut()?;
        let WatchdogSettings { detect, restore, .. } = watched.settings;
        let restored_at = paused.since(class).is_none().then(|| paused.ended(class).after(restore));
        let restored_at = restored_at.unwrap_or(Nanos::NEVER);
        let change = if is_stormed {
            watched.next_check = restored_at;
            (restored_at <= now).then_some(Change::StormEnds)
        } else {
            let stuck_since =
                |paused_since| waiting_since.map_or(now, |waiting: Nanos| waiting.max(paused_since));
            watched.next_check = paused.since(class).map_or(Nanos::NEVER, |it| stuck_since(it).after(detect));
            let is_share_reached =
                watched.was_paused_in_window(now, class, paused) && waiting_since.is_some();
            (is_share_reached || watched.next_check <= now).then_some(Change::StormBegins)
        };
        match change {
            Some(Change::StormBegins) => {
                self.stormed.insert(class);
                *watched = Watched { next_check: restored_at, ..Watched::new(watched.settings) };
            }
            Some(Change::StormEnds) => {
                self.stormed.remove(class);
                watched.next_check = Nanos::NEVER;
            }
            None => {}
        }
        self.find_next_look();
        change
    }

    /// Forgets all pauses of a peer after its link is lost. Returns classes whose storm ends.
    pub fn forget(&mut self) -> ClassSet {
        for watched in self.classes.iter_mut().flatten() {
            *watched = Watched::new(watched.settings);
        }
        self.find_next_look();
        std::mem::take(&mut self.stormed)
    }

    fn find_next_look(&mut self) {
        let looks = self.classes.iter().flatten().map(Watched::next_look);
        self.next_look = looks.min().unwrap_or(Nanos::NEVER);
    }
}

// Tests for SPECIFICATION.md: watchdog
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_wire::units::{BitRate, Quanta};

    use super::*;
    use crate::settings::WatchdogAction;

    const C3: Class = Class::ALL[3];
    const ONLY_3: ClassSet = ClassSet(1 << 3);
    const DETECT: Nanos = Nanos(1_000);
    const RESTORE: Nanos = Nanos(700);

    struct Port {
        watchdog: Watchdog,
        paused: Paused,
        queued: ClassSet,
    }

    impl Port {
        fn new() -> Port {
            Port::with_share(WatchdogSettings::UNBROKEN)
        }

        fn with_share(share: u8) -> Port {
            let settings =
                WatchdogSettings { action: WatchdogAction::Alert, detect: DETECT, restore: RESTORE, share };
            let mut classes = [None; CLASSES];
            classes[3] = Some(settings);
            let (watchdog, paused) = (Watchdog::new(classes), Paused::new(BitRate::from_gbps(1)));
            Port { watchdog, paused, queued: ONLY_3 }
        }

        fn pause(&mut self, now: u64, quanta: u16) {
            self.paused.receive(Nanos(now), ONLY_3, &[Quanta(quanta); CLASSES]);
            self.watchdog.pauses_changed(Nanos(now), ONLY_3, self.queued, &self.paused);
        }

        fn expire(&mut self, now: u64) {
            let resumed = self.paused.expire(Nanos(now));
            self.watchdog.pauses_changed(Nanos(now), resumed.classes, self.queued, &self.paused);
        }

        fn look(&mut self, now: u64, waiting_since: Option<u64>) -> Option<Change> {
            self.expire(now);
            let due = self.watchdog.due(Nanos(now));
            assert_eq!(due.is_empty(), Nanos(now) < self.watchdog.next_look());
            let waiting_since = waiting_since.map(Nanos);
            due.iter().find_map(|class| self.watchdog.look(Nanos(now), class, &self.paused, waiting_since))
        }
    }

    #[test]
    fn storm_begins_when_frames_were_stuck_for_detection_time() {
        let mut port = Port::new();
        port.pause(50, 65535);
        assert_eq!(port.watchdog.next_look(), Nanos(1_050));
        assert_eq!(port.look(1_049, Some(10)), None);
        assert_eq!(
            port.look(1_050, Some(10)),
            Some(Change::StormBegins),
            "the storm must begin one detection time after the pause's start"
        );
        assert_eq!(port.watchdog.stormed(), ONLY_3);
        assert_eq!(port.watchdog.next_look(), Nanos::NEVER, "no check may be scheduled during the storm");
    }

    #[test]
    fn frame_queued_during_pause_is_stuck_from_its_arrival() {
        let mut port = Port::new();
        port.pause(50, 65535);
        assert_eq!(port.look(1_050, Some(400)), None);
        assert_eq!(port.watchdog.next_look(), Nanos(1_400));
        assert_eq!(port.look(1_399, Some(400)), None);
        assert_eq!(port.look(1_400, Some(400)), Some(Change::StormBegins));
    }

    #[test]
    fn watchdog_detects_no_storm_without_queued_frames() {
        let mut port = Port::new();
        port.pause(0, 65535);
        for now in (1_000..30_000).step_by(1_000) {
            assert_eq!(port.watchdog.next_look(), Nanos(now));
            assert_eq!(port.look(now, None), None);
        }
    }

    #[test]
    fn refreshed_pause_counts_as_one_pause() {
        let mut port = Port::new();
        port.pause(24, 2); // until 1,048 ns
        assert_eq!(port.look(1_024, Some(0)), Some(Change::StormBegins));
        let mut port = Port::new();
        port.pause(0, 1);
        port.pause(488, 1); // until 1,000 ns
        assert_eq!(port.watchdog.next_look(), Nanos(1_000));
        assert_eq!(port.look(1_000, Some(0)), None, "no storm may begin, because the pause has just ended");
        port.pause(1_001, 65535);
        assert_eq!(port.watchdog.next_look(), Nanos(2_001), "the new pause must schedule a storm check");
    }

    #[test]
    fn watchdog_counts_stuck_time_from_begin_of_latest_pause() {
        let mut port = Port::new();
        port.pause(0, 1); // until 512 ns, undetected
        port.pause(600, 65535);
        assert_eq!(port.look(1_000, Some(0)), None);
        assert_eq!(port.watchdog.next_look(), Nanos(1_600));
        assert_eq!(port.look(1_600, Some(0)), Some(Change::StormBegins));
    }

    #[test]
    fn pause_storm_ends_after_restoration_time() {
        let mut port = Port::new();
        port.pause(0, 4); // until 2,048 ns
        assert_eq!(port.look(1_000, Some(0)), Some(Change::StormBegins));
        port.expire(2_100);
        assert_eq!(port.watchdog.next_look(), Nanos(2_748));
        port.pause(2_500, 1); // until 3,012 ns
        assert_eq!(port.look(2_748, None), None, "the storm must not end while the class is paused again");
        port.expire(3_012);
        assert_eq!(port.look(3_711, None), None);
        assert_eq!(port.look(3_712, None), Some(Change::StormEnds));
        assert_eq!(port.watchdog.stormed(), ClassSet::NONE);
        assert_eq!(port.watchdog.next_look(), Nanos::NEVER);
    }

    #[test]
    fn storm_restoration_time_starts_at_xon() {
        let mut port = Port::new();
        port.pause(0, 65535);
        assert_eq!(port.look(1_000, Some(0)), Some(Change::StormBegins));
        (1_500..2_200).step_by(100).for_each(|now| port.pause(now, 0)); // a storm of XONs follows
        assert_eq!(port.look(2_199, None), None);
        assert_eq!(port.look(2_200, None), Some(Change::StormEnds));
    }

    fn paused_twice(gap: u64) -> Port {
        let mut port = Port::with_share(98);
        port.pause(50, 1);
        port.expire(562);
        port.pause(562 + gap, 1);
        port
    }

    #[test]
    fn storm_begins_if_pauses_fill_configured_share_of_window() {
        let storm = Some(Change::StormBegins);
        for (gap, waiting, change) in [(20, Some(1_040), storm), (21, Some(1_040), None), (20, None, None)] {
            let mut port = paused_twice(gap);
            assert_eq!(port.look(1_049, waiting), None);
            assert_eq!(port.look(1_050, waiting), change, "gap of {gap} ns, {waiting:?}");
            assert_eq!(port.watchdog.stormed().is_empty(), change.is_none());
        }
    }

    #[test]
    fn watchdog_window_opens_at_pause_with_queued_frames() {
        let mut port = Port::with_share(98);
        port.queued = ClassSet::NONE;
        port.pause(50, 1);
        port.queued = ONLY_3;
        port.pause(300, 1); // until 812 ns
        port.expire(812);
        port.pause(820, 2);
        assert_eq!(port.look(1_050, Some(1_040)), None);
        assert_eq!(port.look(1_300, Some(1_040)), Some(Change::StormBegins));
    }

    #[test]
    fn storm_detected_after_its_last_pause_still_ends() {
        let mut port = paused_twice(0); // until 1,074 ns
        assert_eq!(port.look(1_090, Some(0)), Some(Change::StormBegins), "1,024 of 1,040 ns");
        assert_eq!(port.look(1_773, None), None);
        assert_eq!(port.look(1_774, None), Some(Change::StormEnds));
    }

    #[test]
    fn link_loss_ends_pause_storm_of_peer() {
        let mut port = Port::new();
        port.pause(0, 65535);
        port.look(1_000, Some(0));
        assert_eq!(port.watchdog.forget(), ONLY_3);
        assert_eq!((port.watchdog.stormed(), port.watchdog.next_look()), (ClassSet::NONE, Nanos::NEVER));
    }

    #[test]
    fn class_without_watchdog_is_not_checked() {
        let mut port = Port::new();
        port.paused.receive(Nanos(0), ClassSet(1 << 4), &[Quanta(9); CLASSES]);
        port.watchdog.pauses_changed(Nanos(0), ClassSet(1 << 4), ClassSet::ALL, &port.paused);
        assert_eq!(port.watchdog.next_look(), Nanos::NEVER);
        assert_eq!(port.watchdog.look(Nanos(9_999), Class::ALL[4], &port.paused, Some(Nanos(0))), None);
        assert_eq!(port.watchdog.settings(C3).unwrap().detect, DETECT);
    }
}
