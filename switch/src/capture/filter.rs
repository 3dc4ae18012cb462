use xoff_dataplane::tap::Sighting;
use xoff_flow_control::drop_reason::DropReason;
use xoff_wire::units::{Class, ClassSet};

pub const REASONS: [&str; DropReason::COUNT] = {
    let mut names = [""; DropReason::COUNT];
    let mut at = 0;
    while at < names.len() {
        names[at] = DropReason::ALL[at].name();
        at += 1;
    }
    names
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reasons(u32);

const _: () = assert!(
    DropReason::COUNT <= u32::BITS as usize,
    "the 32 bits of the mask must suffice for all drop reasons"
);

impl Reasons {
    pub const ALL: Reasons = Reasons(u32::MAX);

    const fn contains(self, reason: DropReason) -> bool {
        self.0 & (1 << reason.index()) != 0
    }
}

impl FromIterator<DropReason> for Reasons {
    fn from_iter<I: IntoIterator<Item = DropReason>>(reasons: I) -> Reasons {
        Reasons(reasons.into_iter().fold(0, |bits, reason| bits | 1 << reason.index()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    classes: ClassSet,
    dropped: Option<Reasons>,
    control: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("there is no class {0}; classes are 0 to 7")]
    Class(String),
    #[error("{0:?} is no drop reason; drop reasons are {valid}", valid = REASONS.join(", "))]
    Reason(String),
}

impl Filter {
    #[cfg(test)]
    pub(crate) const ALL: Filter = Filter { classes: ClassSet::ALL, dropped: None, control: true };

    /// Creates a filter for frames of `classes` (empty: all). `dropped` limits it to frames dropped for one of these
    /// reasons (`Some(&[])`: any). `control` adds control frames; with nothing else given, the filter selects only
    /// these.
    pub fn new(classes: &[&str], dropped: Option<&[&str]>, control: bool) -> Result<Filter, FilterError> {
        let class = |text: &&str| {
            let class = text.parse().ok().and_then(Class::new);
            class.ok_or_else(|| FilterError::Class((*text).to_owned()))
        };
        let reason = |text: &&str| {
            let reason = DropReason::ALL.into_iter().find(|reason| reason.name() == *text);
            reason.ok_or_else(|| FilterError::Reason((*text).to_owned()))
        };
        let requested: ClassSet = classes.iter().map(class).collect::<Result<_, _>>()?;
        let dropped = dropped.map(|names| match names {
            [] => Ok(Reasons::ALL),
            names => names.iter().map(reason).collect::<Result<_, _>>(),
        });
        let dropped = dropped.transpose()?;
        let is_any = requested.is_empty() && dropped.is_none();
        let classes = match requested.is_empty() {
            false => requested,
            true if is_any && control => ClassSet::NONE,
            true => ClassSet::ALL,
        };
        Ok(Filter { classes, dropped, control: control || is_any })
    }

    #[must_use]
    pub fn wants(&self, sighting: &Sighting) -> bool {
        let of_class = sighting.class.is_some_and(|class| self.classes.contains(class));
        let is_dropped =
            |reasons: Reasons| sighting.event.dropped().is_some_and(|reason| reasons.contains(reason));
        of_class && self.dropped.is_none_or(is_dropped) || self.control && sighting.is_control
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_dataplane::tap::FrameEvent;
    use xoff_wire::units::{Nanos, PortId};

    use super::*;

    const ANY: Option<&[&str]> = Some(&[]);
    const FULL: Option<&[&str]> = Some(&["egress_full", "ingress_full"]);

    fn frame(class: Option<u8>, is_control: bool, dropped: Option<DropReason>) -> Sighting {
        let class = class.and_then(Class::new);
        Sighting { at: Nanos(1), port: PortId(0), class, is_control, event: FrameEvent::Received { dropped } }
    }

    #[test] // proves: capture
    fn capture_filter_selects_only_requested_frames() {
        let sightings = [
            frame(Some(3), false, None),
            frame(Some(4), false, None),
            frame(Some(3), false, Some(DropReason::EgressFull)),
            frame(Some(4), false, Some(DropReason::TooLong)),
            frame(None, true, None),
            frame(Some(4), true, None),
        ];
        let wanted = |classes: &[&str], dropped, control| {
            let filter = Filter::new(classes, dropped, control).unwrap();
            sightings.map(|sighting| u8::from(filter.wants(&sighting)))
        };
        assert_eq!(wanted(&[], None, false), [1, 1, 1, 1, 1, 1]);
        assert_eq!(wanted(&["3"], None, false), [1, 0, 1, 0, 0, 0]);
        assert_eq!(wanted(&["3", "4"], None, false), [1, 1, 1, 1, 0, 1]);
        assert_eq!(wanted(&[], ANY, false), [0, 0, 1, 1, 0, 0]);
        assert_eq!(wanted(&[], FULL, false), [0, 0, 1, 0, 0, 0]);
        assert_eq!(wanted(&["4"], ANY, false), [0, 0, 0, 1, 0, 0]);
        assert_eq!(wanted(&[], None, true), [0, 0, 0, 0, 1, 1]);
        assert_eq!(wanted(&["3"], None, true), [1, 0, 1, 0, 1, 1]);
        assert_eq!(wanted(&[], ANY, true), [0, 0, 1, 1, 1, 1]);
        assert_eq!(sightings.map(|sighting| u8::from(Filter::ALL.wants(&sighting))), [1; 6]);
    }

    #[test]
    fn capture_filter_error_lists_valid_classes_and_drop_reasons() {
        let class = Filter::new(&["8"], None, false).unwrap_err();
        assert_eq!(class.to_string(), "there is no class 8; classes are 0 to 7");
        let reason = Filter::new(&[], Some(&["full"]), false).unwrap_err().to_string();
        assert!(reason.starts_with("\"full\" is no drop reason; drop reasons are malformed, "), "{reason}");
    }
}
