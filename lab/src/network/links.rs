use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xoff_flow_control::drop_reason::DropReason;
use xoff_switch::control::status::Status;

use crate::config::{End, Network};
use crate::line::impairment::DELAY_MAX;
use crate::line::{Carried, Impairment, LineState};
use crate::{Device, LabError};

const FOLLOW_WITHIN: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(1);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStatus {
    pub ends: [EndStatus; 2],
    pub speed_bits_per_second: u64,
    #[serde(default)]
    pub sending_bits_per_second: Option<[u64; 2]>,
    #[serde(default)]
    pub line: Option<[DirectionStatus; 2]>,
    #[serde(default)]
    pub failure: Option<String>,
    /// Number and length of the periods in which `xoff lab link --down` held the link down, and the frames lost meanwhile.
    #[serde(default)]
    pub downs: Downs,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndStatus {
    pub node: String,
    pub port: String,
    pub is_switch: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionStatus {
    #[serde(flatten)]
    pub impairment: Impairment,
    #[serde(flatten)]
    pub carried: Carried,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Downs {
    pub is_down: bool,
    pub count: u64,
    pub nanos: u64,
    /// Frames lost at the link while a command held it down.
    pub dropped: DroppedAt,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DroppedAt {
    /// Frames lost at the device of each end, except frames known to be lossy.
    pub ends: [u64; 2],
    /// Lossless frames that the switch at each end dropped with reason `link_down`. Sum over its ports, because a drop counts at the
    /// frame's ingress port.
    pub link_down: [u64; 2],
    pub line: u64,
}

impl DroppedAt {
    fn grown(self, before: DroppedAt, now: DroppedAt) -> DroppedAt {
        let grown = |sum: u64, before: u64, now: u64| sum + now.saturating_sub(before);
        let both = |of: fn(&DroppedAt) -> [u64; 2]| {
            let (sum, before, now) = (of(&self), of(&before), of(&now));
            [0, 1].map(|end| grown(sum[end], before[end], now[end]))
        };
        DroppedAt {
            ends: both(|it| it.ends),
            link_down: both(|it| it.link_down),
            line: grown(self.line, before.line, now.line),
        }
    }
}

impl LinkStatus {
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}-{}", self.ends[0].node, self.ends[1].node)
    }

    #[must_use]
    pub fn failure_text(&self) -> Option<String> {
        let failure = self.failure.as_ref()?;
        Some(format!("the delay line of {} ended: {failure}", self.name()))
    }

    /// Returns the link's name with the port of its first switch, such as `s1:uplink-s2`.
    #[must_use]
    pub fn name_with_port(&self) -> String {
        let [a, b] = &self.ends;
        match (a.is_switch, b.is_switch) {
            (false, true) => format!("{}-{}:{}", a.node, b.node, b.port),
            _ => format!("{}:{}-{}", a.node, a.port, b.node),
        }
    }

    fn is_between(&self, link: &str) -> bool {
        let names = |end: &EndStatus| [end.node.clone(), format!("{}:{}", end.node, end.port)];
        let [a, b] = self.ends.each_ref().map(names);
        let is = |a: &String, b: &String| link == format!("{a}-{b}") || link == format!("{b}-{a}");
        a.iter().any(|a| b.iter().any(|b| is(a, b)))
    }
}

#[must_use]
pub fn names(links: &[LinkStatus]) -> Vec<String> {
    let is_shared =
        |link: &LinkStatus| links.iter().filter(|other| other.is_between(&link.name())).count() > 1;
    links.iter().map(|link| if is_shared(link) { link.name_with_port() } else { link.name() }).collect()
}

/// Returns the indices of the links that `link` names, such as `s1:h1`, `h1-s1`, `s1:uplink-s2` or `h1`; several for an ambiguous name.
#[must_use]
pub fn find(links: &[LinkStatus], link: &str) -> Vec<usize> {
    let is_end = |of: &LinkStatus| of.ends.iter().any(|end| link == format!("{}:{}", end.node, end.port));
    let has_node = |of: &LinkStatus| of.ends.iter().any(|end| end.node == link);
    let found = |is: &dyn Fn(&LinkStatus) -> bool| -> Vec<usize> {
        (0..links.len()).filter(|index| is(&links[*index])).collect()
    };
    let mut ways = [found(&is_end), found(&|of| of.is_between(link)), found(&has_node)].into_iter();
    ways.find(|found| !found.is_empty()).unwrap_or_default()
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkChange {
    pub from: Option<String>,
    #[serde(default)]
    pub speed_bits_per_second: Option<u64>,
    pub delay_ns: Option<u64>,
    pub jitter_ns: Option<u64>,
    pub loss_per_billion: Option<u32>,
    pub mac_control: Option<bool>,
    pub down: Option<bool>,
}

impl LinkChange {
    fn has_impairments(&self) -> bool {
        let LinkChange { delay_ns, jitter_ns, loss_per_billion, mac_control, .. } = self;
        delay_ns.is_some() || jitter_ns.is_some() || loss_per_billion.is_some() || mac_control.is_some()
    }

    pub(super) fn sending_end(&self, status: &LinkStatus) -> Result<Option<usize>, Refusal> {
        let Some(from) = &self.from else { return Ok(None) };
        let end = status.ends.iter().position(|end| end.node == *from);
        end.map(Some).ok_or_else(|| {
            let [a, b] = &status.ends;
            let help = format!("--from is {} or {}", a.node, b.node);
            Refusal::new(format!("{from:?} is no end of the link {}", status.name()), help)
        })
    }

    fn of(&self, before: [Impairment; 2], from: Option<usize>) -> [Impairment; 2] {
        let changed = |before: Impairment| Impairment {
            delay_ns: self.delay_ns.unwrap_or(before.delay_ns),
            jitter_ns: self.jitter_ns.unwrap_or(before.jitter_ns),
            loss_per_billion: self.loss_per_billion.unwrap_or(before.loss_per_billion),
            spares_mac_control: self.mac_control.map_or(before.spares_mac_control, |passes| !passes),
        };
        [0, 1].map(|end| if from.is_none_or(|from| from == end) { changed(before[end]) } else { before[end] })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub message: String,
    pub help: Option<String>,
}

impl Refusal {
    pub(super) fn new(message: impl Into<String>, help: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), help: Some(help.into()) }
    }
}

impl From<LabError> for Refusal {
    fn from(error: LabError) -> Refusal {
        Refusal { message: error.to_string(), help: None }
    }
}

#[derive(Debug)]
pub(super) struct Wire {
    ends: [Device; 2],
    is_host: [bool; 2],
    line: Option<Arc<LineState>>,
    cut: Mutex<Cut>,
}

#[derive(Debug, Default)]
struct Cut {
    since: Option<(Instant, DroppedAt)>,
    past: Downs,
}

impl Wire {
    pub(super) fn new(
        network: &Network,
        link: usize,
        ends: [Device; 2],
        line: Option<Arc<LineState>>,
    ) -> Wire {
        let is_host = network.links[link].ends.map(|end| matches!(end, End::Host { .. }));
        Wire { ends, is_host, line, cut: Mutex::default() }
    }

    pub(super) fn ends(&self) -> &[Device; 2] {
        &self.ends
    }

    fn cut(&self) -> MutexGuard<'_, Cut> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn downs(&self, dropped: impl FnOnce() -> DroppedAt) -> Downs {
        let cut = self.cut();
        match cut.since {
            None => cut.past,
            Some((since, before)) => with(cut.past, since, before, dropped(), true),
        }
    }

    pub(super) fn line_unseen(&self) -> u64 {
        self.line.iter().flat_map(|line| line.carried()).map(|carried| carried.lost_unseen).sum()
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.line.as_ref()?.failure()
    }

    fn set_down(
        &self,
        is_down: bool,
        status: &LinkStatus,
        dropped: impl Fn() -> DroppedAt,
    ) -> Result<Option<String>, Refusal> {
        let mut cut = self.cut();
        match (is_down, cut.since) {
            (true, None) => {
                let before = dropped();
                self.set_carrier(false)?;
                cut.past.count += 1;
                cut.since = Some((Instant::now(), before));
            }
            (false, Some((since, before))) => {
                self.set_carrier(true)?;
                cut.past = with(cut.past, since, before, dropped(), false);
                cut.since = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
        let Some(line) = self.line.as_ref().filter(|line| line.carries() == is_down) else { return Ok(None) };
        let why = line.failure().map_or_else(
            || {
                let ends = status.ends.iter().zip(&self.ends);
                let down = ends.filter(|(_, device)| !device.is_up().unwrap_or(true));
                let down: Vec<String> = down.map(|(end, _)| format!("{}:{}", end.node, end.port)).collect();
                if down.is_empty() {
                    "its delay line reacts too slowly".into()
                } else {
                    format!("the device of {} is down", down.join(" and "))
                }
            },
            |failure| format!("its delay line has ended: {failure}"),
        );
        let state = if is_down { "up" } else { "down" };
        Ok(Some(format!("the link {} is still {state}: {why}", status.name())))
    }

    /// Takes the link down or up. Without a delay line, does so at a switch: a host's device taken down loses its routes.
    fn set_carrier(&self, up: bool) -> Result<(), Refusal> {
        let Some(line) = &self.line else {
            if self.is_host == [true; 2] {
                return Err(Refusal::new(
                    "the link connects two hosts without a delay line; taking it down would delete the routes at a host's device",
                    "write delay = \"0s\" for the link in the file, and start the lab again",
                ));
            }
            return Ok(self.ends[usize::from(self.is_host[0])].set_up(up)?);
        };
        line.set_down(!up);
        let deadline = Instant::now() + FOLLOW_WITHIN;
        while line.carries() != up && line.failure().is_none() && Instant::now() < deadline {
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    pub(super) fn check(&self, change: &LinkChange, status: &LinkStatus) -> Result<Vec<String>, Refusal> {
        let name = status.name();
        let from = change.sending_end(status)?;
        if from.is_some() && !change.has_impairments() && change.speed_bits_per_second.is_none() {
            return Err(Refusal::new(
                "--from has no effect alone: a link goes down in both directions",
                "add --speed, --delay, --jitter, --loss or --mac-control, or omit --from",
            ));
        }
        let mut warnings = Vec::new();
        if change.has_impairments() {
            let Some(line) = &self.line else {
                return Err(Refusal::new(
                    format!(
                        "the link {name} has no delay line, because the lab's file gives it no delay or loss"
                    ),
                    "write delay = \"0s\" for the link in the file, or in [defaults] for all links, and start the lab again",
                ));
            };
            let impairments = change.of(line.impairments(), from);
            if impairments.iter().any(|it| it.longest() > line.delay_max) {
                let allowed = xoff_config::quantity::time(line.delay_max);
                return Err(Refusal::new(
                    format!(
                        "the delay line of link {name} has memory only for a sum of delay and jitter up to {allowed}"
                    ),
                    format!(
                        "write the longest delay into the lab's file (up to {}), and start the lab again",
                        xoff_config::quantity::time(DELAY_MAX)
                    ),
                ));
            }
            let round_trip =
                |of: &[Impairment; 2], end: usize| of[end].of_pauses().0 + of[1 - end].longest().0;
            if (0..2).any(|end| round_trip(&impairments, end) > round_trip(&line.planned, end)) {
                let most = line.planned.map(|it| it.longest()).into_iter().max().unwrap_or_default();
                let most = xoff_config::quantity::time(most);
                warnings.push(format!(
                    "switches have headroom only for the delay in the lab's file ({most}): lossless frames may be lost at {name}"
                ));
            }
            if (0..2).any(|end| impairments[end].jitter_of_pauses() > line.planned[end].jitter_of_pauses()) {
                warnings.push(format!(
                    "pauses are repeated early enough only for the jitter in the lab's file: pauses may expire, and lossless frames be \
                     lost at {name}"
                ));
            }
        }
        Ok(warnings)
    }

    pub(super) fn change(
        &self,
        change: &LinkChange,
        status: &LinkStatus,
        dropped: impl Fn() -> DroppedAt,
    ) -> Result<Option<String>, Refusal> {
        if let Some(line) = self.line.as_ref().filter(|_| change.has_impairments()) {
            line.set_impairments(change.of(line.impairments(), change.sending_end(status)?));
        }
        change.down.map_or(Ok(None), |down| self.set_down(down, status, dropped))
    }

    pub(super) fn longest_delay(&self) -> Duration {
        Duration::from_nanos(self.line.as_ref().map_or(0, |line| line.delay_max.0))
    }

    pub(super) fn directions(&self) -> Option<[DirectionStatus; 2]> {
        let line = self.line.as_ref()?;
        let (impairments, carried) = (line.impairments(), line.carried());
        Some([0, 1].map(|end| DirectionStatus { impairment: impairments[end], carried: carried[end] }))
    }
}

fn with(past: Downs, since: Instant, before: DroppedAt, now: DroppedAt, is_down: bool) -> Downs {
    Downs {
        is_down,
        nanos: past.nanos + u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX),
        dropped: past.dropped.grown(before, now),
        ..past
    }
}

pub(super) fn link_down_lossless(switch: &Status) -> u64 {
    let classes = switch.ports.iter().flat_map(|port| &port.classes);
    let lossless = classes.filter(|class| class.lossless_lost.is_some());
    lossless.filter_map(|class| class.drops.get(DropReason::LinkDown.name())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::testing::network_of;

    #[test]
    fn name_shared_by_parallel_lab_links_finds_both() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let mut links = network_of(&[pair("s1", "s2"), pair("s2", "s1"), pair("h1", "s1")]).links;
        links[1].ends =
            ["s2", "s1"].map(|node| EndStatus { node: node.into(), port: "q".into(), is_switch: true });
        assert_eq!(names(&links), ["s1:p-s2", "s2:q-s1", "h1-s1"]);
        assert_eq!(find(&links, "s1-s2"), [0, 1]);
        for (index, name) in names(&links).iter().enumerate() {
            assert_eq!(find(&links, name), [index], "{name}");
        }
        assert_eq!((find(&links, "s1:q"), find(&links, "h1")), (vec![1], vec![2]));
    }
}
