//! Settings that a device had before the agent installed its queues. They are kept in the [journal](xoff_xdp::Journal).

use serde::{Deserialize, Serialize};
use xoff_netlink::Conversation;
use xoff_netlink::tc::{Handle, Node, Place, Qdisc};
use xoff_xdp::{Offloads, OffloadsBefore};

use super::error::EgressError;
use super::neighbours::{NeighbourBytes, NeighbourQueues};
use super::tree::ROOT;

const KINDS: [&str; 12] = [
    "noqueue",
    "pfifo",
    "bfifo",
    "pfifo_head_drop",
    "pfifo_fast",
    "codel",
    "fq_codel",
    "fq",
    "cake",
    "pie",
    "fq_pie",
    "tbf",
];

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedState {
    offloads: Option<OffloadsBefore>,
    offloads_set: Option<OffloadsBefore>,
    neighbours: NeighbourBytes,
    neighbours_set: NeighbourBytes,
    root: Option<SavedRoot>,
    #[serde(default)]
    lost_root: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedRoot {
    handle: u32,
    kind: String,
    options: Vec<u8>,
}

impl SavedState {
    pub(super) fn of(
        device: &str,
        nodes: &[Node],
        offloads: &Offloads,
        queues: &NeighbourQueues,
    ) -> Result<SavedState, EgressError> {
        let root = root_of(nodes).map_err(|Node { kind, handle, .. }| EgressError::Stranger {
            device: device.to_owned(),
            kind: kind.clone(),
            handle: handle.to_string(),
        })?;
        let offloads = offloads
            .read()
            .map_err(|source| EgressError::system("cannot read the offloads", device, source))?;
        let neighbours = queues.read();
        Ok(SavedState { offloads: Some(offloads), neighbours, root, ..SavedState::default() })
    }

    /// Saves the current root qdisc, or the device's default if xoff cannot restore the current one.
    pub(super) fn save_root(&mut self, device: &str, nodes: &[Node]) {
        (self.root, self.lost_root) = match root_of(nodes) {
            Ok(root) => (root, None),
            Err(Node { kind, handle, .. }) => {
                let warning = format!(
                    "{device} gets its default root queueing discipline, because xoff cannot restore {kind} {handle} of another program"
                );
                (None, Some(warning))
            }
        };
    }

    pub(super) fn lost_root(&self) -> Option<String> {
        self.lost_root.clone()
    }

    pub(super) fn let_wait(&mut self, bytes: u32) -> NeighbourBytes {
        self.neighbours_set = self.neighbours.at_least(bytes);
        self.neighbours_set
    }

    pub(super) fn have_set(&mut self, offloads: OffloadsBefore) {
        self.offloads_set = Some(offloads);
    }

    /// Replaces saved offload values by those that another program has set after the agent.
    pub(super) fn adopt(&mut self, now: &OffloadsBefore) {
        if let (Some(before), Some(set)) = (&self.offloads, &self.offloads_set) {
            self.offloads = Some(before.unless_changed(set, now));
        }
    }

    /// Returns the settings to restore: the saved ones, except that settings changed by another program stay. `nodes` are that program's
    /// qdiscs, or `None` if the agent's queues are still installed.
    pub(super) fn unless_changed(
        self,
        device: &str,
        nodes: Option<&[Node]>,
        offloads: &Offloads,
        queues: &NeighbourQueues,
    ) -> Result<SavedState, EgressError> {
        let now = SavedState::of(device, nodes.unwrap_or_default(), offloads, queues)?;
        let offloads = match (self.offloads, &self.offloads_set, &now.offloads) {
            (Some(before), Some(set), Some(now)) => Some(before.unless_changed(set, now)),
            (before, ..) => before,
        };
        Ok(SavedState {
            offloads,
            neighbours: self.neighbours.unless_changed(self.neighbours_set, now.neighbours),
            root: if nodes.is_some() { now.root } else { self.root },
            ..SavedState::default()
        })
    }

    /// Replaces the agent's tree by the saved root in one request: even if this process is killed, the device has one of the two. If
    /// the kernel refuses, tries the default options of the root's kind, then the device's default root.
    pub(super) fn put_root_back(&self, tc: &mut Conversation, ifindex: i32) -> Vec<String> {
        let place = |handle| Place { ifindex, parent: Handle::ROOT, handle };
        let mut warnings = Vec::new();
        if let Some(SavedRoot { handle, kind, options }) = &self.root {
            for (options, instead) in
                [(options.as_slice(), "default options"), (&[], "the device's default kind")]
            {
                let root = Qdisc::Other { kind: kind.clone(), options: options.to_vec() };
                match tc.send(&mut root.replace(place(Handle(*handle)))) {
                    Ok(()) => return warnings,
                    Err(error) => {
                        warnings.push(format!("{error}; xoff gives the root queueing discipline {instead}"))
                    }
                }
            }
        }
        warnings.extend(tc.send(&mut Qdisc::delete(place(ROOT))).err().map(|error| error.to_string()));
        warnings
    }

    pub(super) fn put_rest_back(
        &self,
        device: &str,
        offloads: &Offloads,
        queues: &NeighbourQueues,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(Err(error)) =
            self.offloads.as_ref().map(|before| offloads.put_back(before, self.offloads_set.as_ref()))
        {
            warnings.push(format!("cannot restore the offloads of {device}: {error}"));
        }
        if let Err(error) = queues.put_back(device, self.neighbours, self.neighbours_set) {
            warnings.push(format!(
                "cannot restore the limits of packets that wait for neighbours of {device}: {error}"
            ));
        }
        warnings
    }
}

fn root_of(nodes: &[Node]) -> Result<Option<SavedRoot>, &Node> {
    let root = nodes.iter().find(|node| node.parent == Handle::ROOT && node.handle != Handle::NONE);
    let Some(root) = root else { return Ok(None) };
    let Node { handle, kind, options, .. } = root;
    let in_it = |other: &Node| other.parent != Handle::ROOT && other.parent.major() == handle.major();
    if !KINDS.contains(&kind.as_str()) || nodes.iter().any(in_it) {
        return Err(root);
    }
    Ok(Some(SavedRoot { handle: handle.0, kind: kind.clone(), options: options.clone() }))
}
