//! Whether the kernel has a host interface, and what it means where it has not.

/// Whether the kernel has a host interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// It is there, and up.
    Up,
    /// Somebody has taken it down.
    Down,
    /// It is not in its namespace any more: deleted, or moved to another.
    Gone,
    /// It is up, and has an MTU above that of its port, or of the ports of its VLAN.
    Wide,
}

impl Presence {
    /// All of them.
    pub(super) const ALL: [Presence; 4] = [Presence::Up, Presence::Down, Presence::Gone, Presence::Wide];

    /// What that means for what comes in there; `None`: nothing.
    #[must_use]
    pub const fn fault(self) -> Option<&'static str> {
        match self {
            Presence::Up => None,
            Presence::Down => Some(
                "its host interface is down: what comes in for the router or by it is dropped (no_router)",
            ),
            Presence::Gone => Some(
                "its host interface is gone from its namespace: what comes in for the router or by it is dropped (no_router); \
                 one that was moved away goes on when it is back and up, if it has its index again; else, and where it was deleted, it \
                 comes back with a restart of the switch",
            ),
            Presence::Wide => Some(
                "its host interface has an MTU above that of its port or VLAN: what the kernel sends there that is longer is dropped \
                 (too_long), and nobody is told to send less; set it as it was",
            ),
        }
    }
}
