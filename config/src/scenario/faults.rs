//! What goes wrong with links: they fail and are repaired, and lose or harm what is on its way.

use xoff_dataplane::units::Nanos;

use super::keys::FaultKeys;
use crate::draft::value;
use crate::problem::{Problem, Problems};
use crate::read::Table;

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Of a host.
    Host(u32),
    /// A port of a switch.
    Switch(u32, u8),
}

/// What goes wrong with a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// At this end.
    pub at: End,
    /// The link goes down, in both directions; `None`: never.
    pub down: Option<Nanos>,
    /// And up again.
    pub up: Option<Nanos>,
    /// Of all frames that leave by this end, these never come.
    pub lost: f64,
    /// Of MAC control that leaves by it, these never come.
    pub control_lost: f64,
    /// These come late, and others pass them.
    pub control_late: f64,
    /// These come twice.
    pub control_again: f64,
    /// These come with a byte changed.
    pub control_harmed: f64,
    /// The most by which they come late.
    pub late_by: Nanos,
}

impl Fault {
    /// Of all frames that leave by this end, a share never comes.
    #[must_use]
    pub const fn lossy(at: End, lost: f64) -> Fault {
        Fault {
            at,
            down: None,
            up: None,
            lost,
            control_lost: 0.0,
            control_late: 0.0,
            control_again: 0.0,
            control_harmed: 0.0,
            late_by: LATE_BY,
        }
    }
}

/// `fault.late_by`.
const LATE_BY: Nanos = Nanos::from_micros(10);

pub(super) fn read(table: &Table<'_, '_>, problems: &mut Problems) -> Option<Fault> {
    table.no_others(&[FaultKeys::KEYS], problems);
    let keys = FaultKeys::read(table, problems);
    if table.value("at").is_none() {
        problems.push(Problem::missing_in("fault", "at", "at = \"s0p1\"", table.span));
    }
    if let Some(up) = &keys.up
        && keys.down.as_ref().is_none_or(|down| down.value >= up.value)
    {
        problems.push(
            Problem::error("`up` is not after `down`")
                .at(up.span, "the link is up already")
                .help("give `down` a time before it"),
        );
    }
    let share = |key: &Option<toml_span::Spanned<f64>>| value(key.as_ref(), 0.0);
    let [lost, late, again, harmed] =
        [&keys.control_lost, &keys.control_late, &keys.control_again, &keys.control_harmed].map(share);
    Some(Fault {
        at: keys.at.as_ref()?.value,
        down: keys.down.map(|key| key.value),
        up: keys.up.map(|key| key.value),
        lost: share(&keys.lost),
        control_lost: lost,
        control_late: late,
        control_again: again,
        control_harmed: harmed,
        late_by: value(keys.late_by.as_ref(), LATE_BY),
    })
}
