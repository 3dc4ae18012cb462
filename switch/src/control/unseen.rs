//! Classes of frames that a port lost before or behind the switch.
//!
//! No socket and no device tells which frames it drops. Arrivals and departures in the time of the loss do:
//!
//! * Behind the XDP program (sockets, queues without a socket): the program has counted every frame before it was dropped, by PCP and
//!   DSCP. If no lossless frame came, the loss is proved to be lossy; otherwise it counts as lossless.
//! * Before the program (the device): only what the program saw around that time is known. If lossy frames came and no lossless ones,
//!   the class is not proved; otherwise, also if nothing came, the loss counts as lossless.
//! * Sent: the dataplane counts by class what left and what the kernel holds. If lossy frames were sent and no lossless ones, the loss is
//!   proved to be lossy; otherwise it counts as lossless.
//!
//! The control thread reads all of it once a second, what came before and after the losses: the time of a loss is from one reading to
//! the next, and arrivals count over two of them: a frame may come before a reading, and be dropped behind it. Pause frames, and
//! frames whose head cannot be read, count as lossless: without a pause frame the peer overruns somebody.

use std::sync::{Arc, Mutex, PoisonError};

use xoff_config::written::grouped;
use xoff_dataplane::classify::Classifier;
use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::units::{Class, PortId};
use xoff_xdp::{Arrivals, Head, Losses};

use super::view::{PortView, SwitchView};

/// Frames of a port that were lost unseen, each counted once, by what is known of their classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unseen {
    /// Lossless ones may be among them.
    pub lossless: u64,
    /// Only lossy ones came around that time, which proves nothing.
    pub unknown: u64,
    /// None of them was of a lossless class.
    pub lossy: u64,
    /// There may be more than so many.
    pub at_least: bool,
}

impl Unseen {
    /// What is to be told of the lossy ones, if there are any.
    pub fn lossy_in_words(&self, port: &str) -> Option<String> {
        let frames = frames_in_words(self.lossy, self.at_least)?;
        Some(format!(
            "{frames} lost before or behind the switch at port {port}, which carried only lossy classes in that time"
        ))
    }

    /// What is not proved, of those of which nobody knows the class.
    pub fn unknown_in_words(&self, acknowledged: u64) -> Option<String> {
        let frames = frames_in_words(self.unknown.saturating_sub(acknowledged), self.at_least)?;
        Some(format!(
            "{frames} lost before the XDP program saw them; only lossy classes came around that time, which does not prove that no \
             lossless frame was among them"
        ))
    }
}

fn frames_in_words(frames: u64, at_least: bool) -> Option<String> {
    let at_least = if at_least { "at least " } else { "" };
    let is = if frames == 1 { "frame was" } else { "frames were" };
    (frames > 0).then(|| format!("{at_least}{} {is}", grouped(frames)))
}

/// What is known so far.
#[derive(Debug, Default)]
pub(super) struct Judge(Mutex<Judged>);

#[derive(Clone, Debug, Default)]
struct Judged {
    unseen: Unseen,
    /// The last reading.
    last: Option<Reading>,
    /// What had come at the reading before that.
    came_before: Arrivals,
}

/// What was read at a time.
#[derive(Clone, Debug)]
struct Reading {
    losses: Losses,
    /// What had come before the losses were read, and after.
    came: [Arrivals; 2],
    sent: [Sent; 2],
    settings: Arc<SwitchSettings>,
}

/// What the switch has sent at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sent {
    /// Frames, by class.
    frames: [u64; 8],
    /// Bytes that wait, some of them with the kernel, by class.
    bytes: [u64; 8],
    pauses: u64,
}

impl Judge {
    /// Reads the port's counters, and judges what was lost since the last time. For the control thread.
    pub fn look(&self, view: &SwitchView, id: PortId, port: &PortView) -> Unseen {
        let mut judged = self.lock();
        if let Some(reading) = Reading::take(view, id, port) {
            *judged = judged.with(id, reading);
        }
        judged.unseen
    }

    /// The same, and forgets it: the time of a loss does not end by being asked for.
    pub fn get(&self, view: &SwitchView, id: PortId, port: &PortView) -> Unseen {
        let judged = self.lock();
        match Reading::take(view, id, port) {
            Some(reading) => judged.with(id, reading).unseen,
            None => judged.unseen,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Judged> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    fn take(view: &SwitchView, id: PortId, port: &PortView) -> Option<Reading> {
        let settings = view.settings();
        let (came, sent) = (port.arrivals().ok()?, Sent::read(view, id));
        let losses = port.losses();
        let (came, sent) = ([came, port.arrivals().ok()?], [sent, Sent::read(view, id)]);
        Some(Reading { losses, came, sent, settings })
    }

    /// Of a port at which nothing has happened yet.
    fn none(settings: &Arc<SwitchSettings>) -> Reading {
        let (losses, came, sent) = Default::default();
        Reading { losses, came, sent, settings: Arc::clone(settings) }
    }
}

impl Sent {
    fn read(view: &SwitchView, id: PortId) -> Sent {
        let of = |class| view.counters.class(id, class);
        let port = view.counters.port(id);
        Sent {
            bytes: Class::ALL.map(|class| of(class).egress_bytes.get()), // before: what leaves meanwhile is counted below
            frames: Class::ALL.map(|class| of(class).tx_frames.get()),
            pauses: port.pause_frames_sent.get() + port.rate_frames_sent.get(),
        }
    }
}

/// What passed in the time of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    Nothing,
    LossyOnly,
    Lossless,
}

impl Passed {
    fn of(frames: impl Iterator<Item = bool>) -> Passed {
        frames.fold(Passed::Nothing, |passed, is_lossless| match (passed, is_lossless) {
            (Passed::Lossless, _) | (_, true) => Passed::Lossless,
            _ => Passed::LossyOnly,
        })
    }
}

impl Judged {
    fn with(&self, id: PortId, now: Reading) -> Judged {
        // A frame may be counted as it comes before one reading, and as it is dropped behind it: what came counts over two of them.
        let none = Reading::none(&now.settings);
        let last = self.last.as_ref().unwrap_or(&none);
        let settings = [&*last.settings, &*now.settings];
        let came = came(id, settings, now.came[1].since(&self.came_before).map(|(head, _)| head));
        let more = |of: fn(&Losses) -> u64| of(&now.losses).saturating_sub(of(&last.losses));
        let mut unseen = self.unseen;
        unseen.at_least = now.losses.at_least;
        let nothing_is_lossless = settings.iter().all(|it| !is_any_lossless(it, id));
        if !nothing_is_lossless {
            unseen.unknown += more(|it| it.ambiguous);
        }
        for (frames, passed, proves) in [
            (more(|it| it.behind_program), came, true),
            (more(|it| it.before_program), came, false),
            (more(|it| it.sent), sent(settings, &last.sent[0], &now.sent[1]), true),
        ] {
            match passed {
                _ if nothing_is_lossless => unseen.lossy += frames,
                Passed::LossyOnly if proves => unseen.lossy += frames,
                Passed::LossyOnly => unseen.unknown += frames,
                Passed::Nothing | Passed::Lossless => unseen.lossless += frames,
            }
        }
        Judged { unseen, came_before: last.came[0].clone(), last: Some(now) }
    }
}

fn is_any_lossless(settings: &SwitchSettings, id: PortId) -> bool {
    settings.ports[id.index()].classes.iter().any(|class| class.lossless)
}

/// What such frames were, by the settings that held at the begin and at the end.
fn came(id: PortId, settings: [&SwitchSettings; 2], heads: impl Iterator<Item = Head>) -> Passed {
    let ports = settings.map(|settings| &settings.ports[id.index()]);
    let classifiers = ports.map(Classifier::new);
    let is_lossless = |head| match head {
        Head::Control | Head::Unreadable => true,
        Head::Marks { dscp, pcp } => ports
            .iter()
            .zip(&classifiers)
            .any(|(port, classifier)| port.classes[classifier.class_of(dscp, pcp).index()].lossless),
    };
    Passed::of(heads.map(is_lossless))
}

/// What was sent: a class that is lossless at any port is, since its frames came in somewhere.
fn sent(settings: [&SwitchSettings; 2], before: &Sent, now: &Sent) -> Passed {
    let of_class = |class: Class| {
        let at = class.index();
        let passed = now.frames[at] > before.frames[at] || now.bytes[at] > 0 || before.bytes[at] > 0;
        let is_lossless = || settings.iter().flat_map(|it| &it.ports).any(|port| port.classes[at].lossless);
        passed.then(is_lossless)
    };
    let pauses = (now.pauses > before.pauses).then_some(true);
    Passed::of(Class::ALL.into_iter().filter_map(of_class).chain(pauses))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::tests::view;

    const PORT: PortId = PortId(0);

    fn marks(pcp: u8) -> Head {
        Head::Marks { dscp: None, pcp: Some(pcp) }
    }

    /// Readings of a port whose class 3 is lossless, one after the other.
    struct Story {
        judged: Judged,
        settings: Arc<SwitchSettings>,
        losses: Losses,
        came: Arrivals,
        sent: Sent,
    }

    impl Story {
        fn new() -> Story {
            let settings = view().0.settings();
            let mut story = Story {
                judged: Judged::default(),
                settings,
                losses: Losses::default(),
                came: Arrivals::default(),
                sent: Sent::default(),
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

        /// Frames lost unseen so far: lossless, unknown, lossy.
        fn read(&mut self) -> [u64; 3] {
            self.read_as(self.came.clone())
        }

        /// The same where less had come before the losses were read.
        fn read_as(&mut self, before: Arrivals) -> [u64; 3] {
            let came = [before, self.came.clone()];
            let (losses, settings) = (self.losses, Arc::clone(&self.settings));
            self.judged = self.judged.with(PORT, Reading { losses, came, sent: [self.sent; 2], settings });
            let Unseen { lossless, unknown, lossy, .. } = self.judged.unseen;
            [lossless, unknown, lossy]
        }
    }

    #[test]
    fn socket_losses_without_lossless_arrivals_are_lossy() {
        let mut story = Story::new();
        story.comes(marks(3));
        assert_eq!(story.read(), [0; 3]);
        story.comes(marks(0));
        story.losses.behind_program = 1;
        assert_eq!(
            story.read(),
            [1, 0, 0],
            "it may be the frame of class 3 that came before the last reading"
        );
        let mut story = Story::new();
        story.comes(marks(0));
        story.losses.behind_program = 40;
        assert_eq!(story.read(), [0, 0, 40]);
        story.comes(marks(3));
        story.losses.behind_program = 50;
        assert_eq!(story.read(), [10, 0, 40], "one of them may be the frame of class 3");
        assert_eq!(story.read(), [10, 0, 40]);
        story.losses.behind_program = 51;
        assert_eq!(story.read(), [11, 0, 40], "nothing came: nobody knows what it was");
    }

    /// What comes while the losses are read may be lost before the next reading.
    #[test]
    fn arrivals_during_a_reading_count_for_both() {
        let mut story = Story::new();
        let before = story.came.clone();
        story.comes(marks(3));
        story.losses.behind_program = 1;
        assert_eq!(story.read_as(before), [1, 0, 0]);
        story.comes(marks(0));
        story.losses.behind_program = 2;
        assert_eq!(story.read(), [2, 0, 0]);
        story.comes(marks(0));
        story.losses.behind_program = 3;
        assert_eq!(story.read(), [3, 0, 0], "it counts over two readings");
        story.comes(marks(0));
        story.losses.behind_program = 4;
        assert_eq!(story.read(), [3, 0, 1]);
    }

    #[test]
    fn ambiguous_losses_are_not_proved() {
        let mut story = Story::new();
        story.comes(marks(0));
        story.losses.ambiguous = 7;
        assert_eq!(story.read(), [0, 7, 0]);
    }

    #[test]
    fn pause_frames_and_unreadable_heads_are_lossless() {
        for head in [Head::Control, Head::Unreadable] {
            let mut story = Story::new();
            story.comes(head);
            story.losses.behind_program = 1;
            assert_eq!(story.read(), [1, 0, 0], "{head:?}");
        }
    }

    #[test]
    fn losses_before_the_program_are_never_proved_lossy() {
        let mut story = Story::new();
        story.read();
        story.losses.before_program = 1;
        assert_eq!(story.read(), [1, 0, 0], "nothing came");
        story.comes(marks(3));
        story.read();
        story.comes(marks(0));
        story.losses.before_program = 3;
        assert_eq!(story.read(), [3, 0, 0], "class 3 came a reading ago");
        story.comes(marks(0));
        story.losses.before_program = 6;
        assert_eq!(story.read(), [3, 3, 0]);
    }

    #[test]
    fn losses_of_what_is_sent_are_judged_by_what_is_sent() {
        let mut story = Story::new();
        story.losses.sent = 1;
        assert_eq!(story.read(), [1, 0, 0], "nothing was sent");
        story.sends(0);
        story.losses.sent = 2;
        assert_eq!(story.read(), [1, 0, 1]);
        story.sends(0);
        story.sent.bytes[3] = 1000;
        story.losses.sent = 3;
        assert_eq!(story.read(), [2, 0, 1], "class 3 is with the kernel");
        story.sent.bytes[3] = 0;
        story.sends(0);
        story.read();
        story.sends(0);
        story.sent.pauses += 1;
        story.losses.sent = 4;
        assert_eq!(story.read(), [3, 0, 1]);
    }

    #[test]
    fn class_that_was_lossless_during_the_loss_counts() {
        let mut story = Story::new();
        let with = |lossless| {
            let mut settings = (*view().0.settings()).clone();
            settings.ports.iter_mut().for_each(|port| port.classes[3].lossless = lossless);
            Arc::new(settings)
        };
        story.settings = with(false);
        story.comes(marks(3));
        story.losses.behind_program = 1;
        assert_eq!(story.read(), [1, 0, 0], "it was until now");
        story.comes(marks(3));
        (story.losses.behind_program, story.losses.before_program) = (2, 4);
        assert_eq!(story.read(), [1, 0, 5], "nothing is lossless there");
        story.settings = with(true);
        story.comes(marks(3));
        story.losses.behind_program = 3;
        assert_eq!(story.read(), [2, 0, 5]);
    }

    #[test]
    fn words_name_the_port_and_how_many() {
        let unseen = Unseen { lossy: 10_356, unknown: 1, ..Unseen::default() };
        let said = "10,356 frames were lost before or behind the switch at port p1, which carried only lossy classes in that time";
        assert_eq!(unseen.lossy_in_words("p1").as_deref(), Some(said));
        assert!(
            unseen
                .unknown_in_words(0)
                .is_some_and(|said| said.starts_with("1 frame was lost before the XDP program"))
        );
        assert_eq!(unseen.unknown_in_words(1), None);
        let more = Unseen { at_least: true, ..unseen };
        assert!(more.lossy_in_words("p1").is_some_and(|said| said.starts_with("at least 10,356 ")));
    }
}
