//! Links of a running network: settings, counters, and cables pulled on command.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::config::{End, Network};
use crate::line::impairment::DELAY_MAX;
use crate::line::{Carried, Impairment, LineState};
use crate::{Device, LabError};

/// Maximum wait until a delay line has followed a command.
const FOLLOW_WITHIN: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(1);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStatus {
    pub ends: [EndStatus; 2],
    /// Line rate, bits per second on layer 1.
    pub speed_bits_per_second: u64,
    /// Frames from each end, if the link has a delay line.
    #[serde(default)]
    pub line: Option<[DirectionStatus; 2]>,
    /// Times that `xoff lab link --down` took the link down.
    #[serde(default)]
    pub downs: Downs,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndStatus {
    pub node: String,
    pub port: String,
    pub is_switch: bool,
}

/// Settings and counters of the frames from one end of a link.
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
    /// Frames dropped meanwhile by the devices of the link.
    pub dropped: DroppedAt,
}

/// Frames dropped by the devices and sockets of a link, by place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedAt {
    pub hosts: u64,
    pub switches: u64,
    pub line: u64,
}

impl DroppedAt {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.hosts + self.switches + self.line
    }

    pub(super) fn and(self, other: DroppedAt) -> DroppedAt {
        self.grown(DroppedAt::default(), other)
    }

    fn grown(self, before: DroppedAt, now: DroppedAt) -> DroppedAt {
        DroppedAt {
            hosts: self.hosts + now.hosts.saturating_sub(before.hosts),
            switches: self.switches + now.switches.saturating_sub(before.switches),
            line: self.line + now.line.saturating_sub(before.line),
        }
    }
}

impl LinkStatus {
    /// Returns the link's name, such as `s1-s2`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}-{}", self.ends[0].node, self.ends[1].node)
    }

    /// Returns whether `link` names this link by its two nodes.
    fn is_between(&self, link: &str) -> bool {
        let [a, b] = &self.ends;
        link == format!("{}-{}", a.node, b.node) || link == format!("{}-{}", b.node, a.node)
    }
}

/// Finds a link by its port, its two nodes, or a node that has only this link: `s1:h1`, `h1-s1`, `h1`.
#[must_use]
pub fn find(links: &[LinkStatus], link: &str) -> Option<usize> {
    let by_port = |of: &LinkStatus| of.ends.iter().any(|end| link == format!("{}:{}", end.node, end.port));
    let has_node = |of: &&LinkStatus| of.ends.iter().any(|end| end.node == link);
    let mut by_node = links.iter().enumerate().filter(|(_, of)| has_node(of)).map(|(index, _)| index);
    let position = |is: &dyn Fn(&LinkStatus) -> bool| links.iter().position(is);
    position(&by_port)
        .or_else(|| position(&|of| of.is_between(link)))
        .or_else(|| by_node.next().filter(|_| by_node.next().is_none()))
}

/// Change of a link; absent fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkChange {
    /// Name of the only end whose frames are changed.
    pub from: Option<String>,
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

    fn of(&self, before: Impairment) -> Impairment {
        Impairment {
            delay_ns: self.delay_ns.unwrap_or(before.delay_ns),
            jitter_ns: self.jitter_ns.unwrap_or(before.jitter_ns),
            loss_per_billion: self.loss_per_billion.unwrap_or(before.loss_per_billion),
            spares_mac_control: self.mac_control.map_or(before.spares_mac_control, |passes| !passes),
        }
    }
}

/// Reason why a command was not carried out.
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

    pub(super) fn downs(&self) -> Downs {
        let cut = self.cut();
        match cut.since {
            None => cut.past,
            Some((since, before)) => self.with(cut.past, since, before, true),
        }
    }

    fn with(&self, past: Downs, since: Instant, before: DroppedAt, is_down: bool) -> Downs {
        Downs {
            is_down,
            nanos: past.nanos + u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX),
            dropped: past.dropped.grown(before, self.dropped()),
            ..past
        }
    }

    fn dropped(&self) -> DroppedAt {
        let mut dropped = DroppedAt::default();
        for (device, is_host) in self.ends.iter().zip(self.is_host) {
            let counters = device.counters().unwrap_or_default();
            if is_host {
                dropped.hosts += counters.tx_dropped + device.queue().unwrap_or_default().dropped;
            } else {
                dropped.switches += counters.dropped();
            }
        }
        let carried = self.line.as_ref().map(|line| line.carried());
        dropped.line = carried.iter().flatten().map(|carried| carried.lost_unseen).sum();
        dropped
    }

    fn set_down(&self, is_down: bool) -> Result<(), LabError> {
        let mut cut = self.cut();
        match (is_down, cut.since) {
            (true, None) => {
                let before = self.dropped();
                self.set_carrier(false)?;
                cut.past.count += 1;
                cut.since = Some((Instant::now(), before));
            }
            (false, Some((since, before))) => {
                self.set_carrier(true)?;
                cut.past = self.with(cut.past, since, before, false);
                cut.since = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
        Ok(())
    }

    /// Pulls or plugs the cable. Without a delay line, this sets the device of one end down, of a switch if there is one, because a
    /// host's device would lose routes.
    fn set_carrier(&self, up: bool) -> Result<(), LabError> {
        let Some(line) = &self.line else {
            return self.ends[usize::from(self.is_host[0])].set_up(up);
        };
        line.set_down(!up);
        let deadline = Instant::now() + FOLLOW_WITHIN;
        while line.carries() != up && Instant::now() < deadline {
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Carries out a change; returns warnings. `status` is the link's.
    pub(super) fn change(&self, change: &LinkChange, status: &LinkStatus) -> Result<Vec<String>, Refusal> {
        let name = status.name();
        let from = change.from.as_ref().map(|from| {
            let end = status.ends.iter().position(|end| end.node == *from);
            end.ok_or_else(|| {
                let [a, b] = &status.ends;
                let help = format!("--from is {} or {}", a.node, b.node);
                Refusal::new(format!("{from:?} is no end of the link {name}"), help)
            })
        });
        let from = from.transpose()?;
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
            let mut impairments = line.impairments();
            for (end, impairment) in impairments.iter_mut().enumerate() {
                if from.is_none_or(|from| from == end) {
                    *impairment = change.of(*impairment);
                }
            }
            let [longest, planned] = [impairments, line.planned].map(|of| of.map(|it| it.longest()));
            if longest.iter().any(|it| *it > line.delay_max) {
                let allowed = xoff_config::quantity::time(line.delay_max);
                return Err(Refusal::new(
                    format!("the link {name} has memory for delay and jitter of {allowed} together"),
                    format!(
                        "write the longest delay into the lab's file (up to {}), and start the lab again",
                        xoff_config::quantity::time(DELAY_MAX)
                    ),
                ));
            }
            let sum = |of: [xoff_wire::units::Nanos; 2]| of[0].0 + of[1].0;
            if sum(longest) > sum(planned) {
                let [_, most] = [longest, planned].map(|of| xoff_config::quantity::time(of[0].max(of[1])));
                warnings.push(format!(
                    "switches have headroom only for the delay in the lab's file ({most}): lossless frames may be lost at {name}"
                ));
            }
            line.set_impairments(impairments);
        }
        if let Some(down) = change.down {
            self.set_down(down)?;
        }
        Ok(warnings)
    }

    pub(super) fn directions(&self) -> Option<[DirectionStatus; 2]> {
        let line = self.line.as_ref()?;
        let (impairments, carried) = (line.impairments(), line.carried());
        Some([0, 1].map(|end| DirectionStatus { impairment: impairments[end], carried: carried[end] }))
    }
}
