/// State of a host interface in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// The interface exists and is up.
    Up,
    /// The interface is down.
    Down,
    /// The interface was deleted, or moved to another namespace.
    Gone,
    /// The interface is up, with an MTU above that of its port or VLAN.
    Wide,
}

impl Presence {
    pub(super) const ALL: [Presence; 4] = [Presence::Up, Presence::Down, Presence::Gone, Presence::Wide];

    /// Returns the consequence for packets, if any.
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
                 (too_long), without a message to the sender; restore the MTU",
            ),
        }
    }
}
