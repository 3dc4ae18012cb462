//! Classifies frames that the NIC or kernel lost before the switch received them, or after it sent them. No counter tells
//! the class of a lost frame, so other frames of that time determine it; docs/verdict.md lists the rules.
//!
//! A counter may show a loss late, so all frames since a reading at least [`SPAN`] earlier are considered. A loss
//! keeps its first classification.
//!
//! A frame dropped for its invalid layout in packet memory counts as lossless: the XDP program may have counted it
//! before that reading.

use std::sync::{Arc, Mutex, PoisonError};

use xoff_config::written::grouped;
use xoff_flow_control::classify::Classifier;
use xoff_flow_control::counter::Counter;
use xoff_flow_control::counters::Counters;
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::{Class, Nanos, PortId};
use xoff_xdp::{Arrivals, Head, Losses};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ExternalLosses {
    pub lossless: u64,
    pub unknown: u64,
    pub lossy: u64,
    /// Drops in the device's counter that may be socket drops, which the sockets also count.
    pub ambiguous: u64,
    pub at_least: bool,
}

impl ExternalLosses {
    pub fn lossy_in_words(&self, port: &str) -> Option<String> {
        let frames = frames_in_words(self.lossy, self.at_least)?;
        Some(format!(
            "{frames} lost in the NIC or kernel at port {port}, which carried only lossy classes in that time"
        ))
    }

    pub fn unproved_in_words(&self) -> impl Iterator<Item = String> {
        let unknown = frames_in_words(self.unknown, self.at_least).map(|frames| {
            format!(
                "{frames} lost before the XDP program saw them; only lossy classes came around that time, which does not prove that no \
                 lossless frame was among them"
            )
        });
        let ambiguous = (self.ambiguous > 0).then(|| {
            format!(
                "this driver was not tested, so {} drops in the device's counter may be socket drops that are already counted",
                grouped(self.ambiguous)
            )
        });
        unknown.into_iter().chain(ambiguous)
    }

    pub fn without(&self, acknowledged: &Acknowledged) -> ExternalLosses {
        ExternalLosses {
            unknown: self.unknown.saturating_sub(acknowledged.unknown.get()),
            ambiguous: self.ambiguous.saturating_sub(acknowledged.ambiguous.get()),
            ..*self
        }
    }
}

#[derive(Debug, Default)]
pub struct Acknowledged {
    pub returns: Counter,
    pub program_detached: Counter,
    pub requeued: Counter,
    pub removed_unread: Counter,
    pub unknown: Counter,
    pub ambiguous: Counter,
}

fn frames_in_words(frames: u64, at_least: bool) -> Option<String> {
    let at_least = if at_least { "at least " } else { "" };
    let is = if frames == 1 { "frame was" } else { "frames were" };
    (frames > 0).then(|| format!("{at_least}{} {is}", grouped(frames)))
}

const SPAN: Nanos = Nanos::from_millis(900); // readings are a second apart

#[derive(Debug, Default)]
pub(super) struct LossClassifier(Mutex<LossClassification>);

#[derive(Debug, Default)]
struct LossClassification {
    unseen: ExternalLosses,
    last: Option<Reading>,
    early: Option<Reading>,
    recent: Option<Reading>,
}

#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub at: Nanos,
    pub losses: Losses,
    pub came: [Arrivals; 2],
    pub sent: [Sent; 2],
    pub settings: Arc<SwitchSettings>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    frames: [u64; 8],
    bytes: [u64; 8],
    pauses: u64,
}

impl LossClassifier {
    pub fn look(&self, id: PortId, read: impl FnOnce() -> Option<Reading>) -> ExternalLosses {
        let mut judged = self.lock();
        if let Some(reading) = read() {
            judged.add(id, reading);
        }
        judged.unseen
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LossClassification> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    fn none(settings: &Arc<SwitchSettings>) -> Reading {
        let (at, losses, came, sent) = Default::default();
        Reading { at, losses, came, sent, settings: Arc::clone(settings) }
    }
}

impl Sent {
    pub fn read(counters: &Counters, id: PortId) -> Sent {
        let of = |class| counters.class(id, class);
        let port = counters.port(id);
        Sent {
            bytes: Class::ALL.map(|class| of(class).egress_bytes.get()), // before `frames`, which has later ones
            frames: Class::ALL.map(|class| of(class).tx_frames.get()),
            pauses: port.pause_frames_sent.get() + port.rate_frames_sent.get(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArrivedClasses {
    Nothing,
    LossyOnly,
    Lossless,
}

impl ArrivedClasses {
    fn of(frames: impl Iterator<Item = bool>) -> ArrivedClasses {
        frames.fold(ArrivedClasses::Nothing, |passed, is_lossless| match (passed, is_lossless) {
            (ArrivedClasses::Lossless, _) | (_, true) => ArrivedClasses::Lossless,
            _ => ArrivedClasses::LossyOnly,
        })
    }
}

impl LossClassification {
    fn add(&mut self, id: PortId, now: Reading) {
        let none = Reading::none(&now.settings);
        let [early, recent, last] =
            [&self.early, &self.recent, &self.last].map(|it| it.as_ref().unwrap_or(&none));
        let settings = [early, recent, last, &now].map(|reading| &*reading.settings);
        let came = came(id, &settings, now.came[1].since(&early.came[0]).map(|(head, _)| head));
        let sent = sent(&settings, &early.sent[0], &now.sent[1]);
        let more = |of: fn(&Losses) -> u64| of(&now.losses).saturating_sub(of(&last.losses));
        let nothing_is_lossless = settings.iter().all(|it| !is_any_lossless(it, id));
        let unseen = &mut self.unseen;
        unseen.at_least = now.losses.at_least;
        if !nothing_is_lossless {
            unseen.ambiguous += more(|it| it.ambiguous);
        }
        for (frames, passed, proves) in [
            (more(|it| it.behind_program), came, true),
            (more(|it| it.malformed), ArrivedClasses::Lossless, true),
            (more(|it| it.before_program), came, false),
            (more(|it| it.sent), sent, true),
        ] {
            match passed {
                _ if nothing_is_lossless => unseen.lossy += frames,
                ArrivedClasses::LossyOnly if proves => unseen.lossy += frames,
                ArrivedClasses::LossyOnly => unseen.unknown += frames,
                ArrivedClasses::Nothing | ArrivedClasses::Lossless => unseen.lossless += frames,
            }
        }
        if self.recent.as_ref().is_none_or(|recent| now.at.since(recent.at) >= SPAN) {
            self.early = self.recent.replace(now.clone());
        }
        self.last = Some(now);
    }
}

fn is_any_lossless(settings: &SwitchSettings, id: PortId) -> bool {
    settings.ports[id.index()].classes.iter().any(|class| class.lossless)
}

fn came(id: PortId, settings: &[&SwitchSettings; 4], heads: impl Iterator<Item = Head>) -> ArrivedClasses {
    let ports = settings.map(|settings| &settings.ports[id.index()]);
    let classifiers = ports.map(Classifier::new);
    let is_lossless = |head| match head {
        Head::Control | Head::Unreadable => true,
        Head::Marks { dscp, pcp } => ports
            .iter()
            .zip(&classifiers)
            .any(|(port, classifier)| port.classes[classifier.class_of(dscp, pcp).index()].lossless),
    };
    ArrivedClasses::of(heads.map(is_lossless))
}

/// Classifies the frames that the port sent between `before` and `now`. A class counts as lossless if any of the
/// `settings` makes it lossless at any port.
fn sent(settings: &[&SwitchSettings; 4], before: &Sent, now: &Sent) -> ArrivedClasses {
    let of_class = |class: Class| {
        let at = class.index();
        let passed = now.frames[at] > before.frames[at] || now.bytes[at] > 0 || before.bytes[at] > 0;
        let is_lossless = || settings.iter().flat_map(|it| &it.ports).any(|port| port.classes[at].lossless);
        passed.then(is_lossless)
    };
    let pauses = (now.pauses > before.pauses).then_some(true);
    ArrivedClasses::of(Class::ALL.into_iter().filter_map(of_class).chain(pauses))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::view;

    const PORT: PortId = PortId(0);

    fn marks(pcp: u8) -> Head {
        Head::Marks { dscp: None, pcp: Some(pcp) }
    }

    struct LossHistory {
        judged: LossClassification,
        settings: Arc<SwitchSettings>,
        losses: Losses,
        came: Arrivals,
        sent: Sent,
        at: Nanos,
    }

    impl LossHistory {
        fn new() -> LossHistory {
            let settings = view().0.settings();
            let mut story = LossHistory {
                judged: LossClassification::default(),
                settings,
                losses: Losses::default(),
                came: Arrivals::default(),
                sent: Sent::default(),
                at: Nanos::ZERO,
            };
            story.read();
            story
        }

        fn comes(&mut self, head: Head) {
            self.came = self.came.clone().with(head, 1);
        }

        fn sends(&mut self, class: usize) {
            self.sent.frames[class] += 1;
        }

        fn read(&mut self) -> [u64; 3] {
            self.read_as(self.came.clone())
        }

        fn read_as(&mut self, before: Arrivals) -> [u64; 3] {
            self.at = self.at.after(SPAN);
            self.read_now(before)
        }

        fn read_now(&mut self, before: Arrivals) -> [u64; 3] {
            let came = [before, self.came.clone()];
            let (at, losses, settings) = (self.at, self.losses, Arc::clone(&self.settings));
            self.judged.add(PORT, Reading { at, losses, came, sent: [self.sent; 2], settings });
            let ExternalLosses { lossless, unknown, lossy, .. } = self.judged.unseen;
            [lossless, unknown, lossy]
        }
    }

    #[test] // proves: kernel-drops
    fn socket_losses_are_lossy_if_only_lossy_classes_arrived() {
        let mut story = LossHistory::new();
        story.comes(marks(3));
        assert_eq!(story.read(), [0; 3]);
        story.comes(marks(0));
        story.losses.behind_program = 1;
        assert_eq!(
            story.read(),
            [1, 0, 0],
            "the loss must be charged to a lossless class: a class-3 frame came before the previous reading of counters"
        );
        let mut story = LossHistory::new();
        story.comes(marks(0));
        story.losses.behind_program = 40;
        assert_eq!(story.read(), [0, 0, 40]);
        story.comes(marks(3));
        story.losses.behind_program = 50;
        assert_eq!(
            story.read(),
            [10, 0, 40],
            "the losses must be charged to a lossless class, because a class-3 frame came"
        );
        assert_eq!(story.read(), [10, 0, 40]);
        story.losses.behind_program = 51;
        assert_eq!(
            story.read(),
            [11, 0, 40],
            "the loss must be charged to a lossless class, because no frame arrived"
        );
    }

    #[test]
    fn frame_during_counter_reading_counts_for_both_intervals() {
        let mut story = LossHistory::new();
        let before = story.came.clone();
        story.comes(marks(3));
        story.losses.behind_program = 1;
        assert_eq!(story.read_as(before), [1, 0, 0]);
        story.comes(marks(0));
        story.losses.behind_program = 2;
        assert_eq!(story.read(), [2, 0, 0]);
        story.comes(marks(0));
        story.losses.behind_program = 3;
        assert_eq!(
            story.read(),
            [3, 0, 0],
            "a frame that arrives during a reading must count in both intervals"
        );
        story.comes(marks(0));
        story.losses.behind_program = 4;
        assert_eq!(story.read(), [3, 0, 1]);
    }

    #[test]
    fn lost_malformed_frame_counts_as_loss_of_lossless_class() {
        let mut story = LossHistory::new();
        story.comes(marks(0));
        story.losses.malformed = 1;
        assert_eq!(story.read(), [1, 0, 0]);
    }

    #[test]
    fn losses_possibly_counted_twice_are_not_added_to_totals() {
        let mut story = LossHistory::new();
        story.comes(marks(0));
        story.losses.ambiguous = 7;
        assert_eq!((story.read(), story.judged.unseen.ambiguous), ([0; 3], 7));
    }

    #[test]
    fn loss_after_control_or_unreadable_frame_is_not_lossy() {
        for head in [Head::Control, Head::Unreadable] {
            let mut story = LossHistory::new();
            story.comes(head);
            story.losses.behind_program = 1;
            assert_eq!(story.read(), [1, 0, 0], "{head:?}");
        }
    }

    #[test] // proves: kernel-drops
    fn losses_before_xdp_program_are_never_proved_lossy() {
        let mut story = LossHistory::new();
        story.read();
        story.losses.before_program = 1;
        assert_eq!(
            story.read(),
            [1, 0, 0],
            "the loss must be charged to a lossless class, because no frame arrived"
        );
        story.comes(marks(3));
        story.read();
        story.comes(marks(0));
        story.losses.before_program = 3;
        assert_eq!(
            story.read(),
            [3, 0, 0],
            "the losses must be charged to a lossless class, because a class-3 frame came before the previous reading of counters"
        );
        story.comes(marks(0));
        story.losses.before_program = 6;
        assert_eq!(story.read(), [3, 3, 0]);
    }

    #[test] // proves: kernel-drops
    fn transmit_losses_are_classified_by_frames_sent() {
        let mut story = LossHistory::new();
        story.losses.sent = 1;
        assert_eq!(
            story.read(),
            [1, 0, 0],
            "the loss must be charged to a lossless class, because no frame was sent"
        );
        story.sends(0);
        story.losses.sent = 2;
        assert_eq!(story.read(), [1, 0, 1]);
        story.sends(0);
        story.sent.bytes[3] = 1000;
        story.losses.sent = 3;
        assert_eq!(
            story.read(),
            [2, 0, 1],
            "the loss must be charged to a lossless class, because class 3 is queued in the kernel"
        );
        story.sent.bytes[3] = 0;
        (0..2).for_each(|_| _ = story.read());
        story.sends(0);
        story.sent.pauses += 1;
        story.losses.sent = 4;
        assert_eq!(
            story.read(),
            [3, 0, 1],
            "a loss must be charged to a lossless class if a pause frame was sent, too"
        );
        story.sends(0);
        story.losses.sent = 5;
        assert_eq!(
            story.read(),
            [4, 0, 1],
            "a loss must be charged to a lossless class if a pause frame was sent a second before"
        );
        story.sends(0);
        story.losses.sent = 6;
        assert_eq!(story.read(), [4, 0, 2]);
    }

    #[test]
    fn loss_is_charged_to_class_that_was_lossless_just_before() {
        let mut story = LossHistory::new();
        let with = |lossless| {
            let mut settings = (*view().0.settings()).clone();
            settings.ports.iter_mut().for_each(|port| port.classes[3].lossless = lossless);
            Arc::new(settings)
        };
        story.settings = with(false);
        story.comes(marks(3));
        story.losses.behind_program = 1;
        assert_eq!(
            story.read(),
            [1, 0, 0],
            "the loss must be charged to a lossless class: class 3 was lossless until now"
        );
        story.comes(marks(3));
        story.losses.behind_program = 2;
        assert_eq!(
            story.read(),
            [2, 0, 0],
            "the loss must be charged to a lossless class: class 3 was lossless two readings ago"
        );
        story.read();
        story.comes(marks(3));
        (story.losses.behind_program, story.losses.before_program) = (3, 4);
        assert_eq!(
            story.read(),
            [2, 0, 5],
            "no loss may be charged to a lossless class at a port without such classes"
        );
        story.settings = with(true);
        story.comes(marks(3));
        story.losses.behind_program = 4;
        assert_eq!(story.read(), [3, 0, 5]);
    }

    #[test] // proves: kernel-drops
    fn extra_counter_readings_do_not_reclassify_losses() {
        let mut story = LossHistory::new();
        story.comes(marks(3));
        story.read();
        for frames in 1..5 {
            story.comes(marks(0));
            story.losses.behind_program = frames;
            assert_eq!(
                story.read_now(story.came.clone()),
                [frames, 0, 0],
                "the losses must be charged to a lossless class, because class 3 arrived within the last second"
            );
        }
        (0..2).for_each(|_| _ = story.read());
        story.comes(marks(0));
        story.losses.behind_program = 5;
        assert_eq!(story.read_now(story.came.clone()), [4, 0, 1]);
        story.comes(marks(3));
        assert_eq!(story.read(), [4, 0, 1], "a later arrival must not change the class of an earlier loss");
    }

    #[test]
    fn loss_message_names_port_and_count() {
        let unseen = ExternalLosses { lossy: 10_356, unknown: 1, ..ExternalLosses::default() };
        let expected = "10,356 frames were lost in the NIC or kernel at port p1, which carried only lossy classes in that time";
        assert_eq!(unseen.lossy_in_words("p1").as_deref(), Some(expected));
        let unproved: Vec<_> = unseen.unproved_in_words().collect();
        assert!(unproved.len() == 1 && unproved[0].starts_with("1 frame was lost before the XDP program"));
        let acknowledged = Acknowledged::default();
        acknowledged.unknown.set(1);
        assert_eq!(unseen.without(&acknowledged).unproved_in_words().next(), None);
        let doubtful = ExternalLosses { ambiguous: 7, ..ExternalLosses::default() };
        assert!(
            doubtful
                .unproved_in_words()
                .eq(["this driver was not tested, so 7 drops in the device's counter may be socket drops that are already counted"])
        );
        let more = ExternalLosses { at_least: true, ..unseen };
        assert!(more.lossy_in_words("p1").is_some_and(|text| text.starts_with("at least 10,356 ")));
    }
}
