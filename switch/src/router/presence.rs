#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// The interface exists and is up.
    Up,
    /// The interface exists, but is down.
    Down,
    /// The interface was deleted, or moved to another namespace.
    Gone,
    /// The interface is up, with an MTU above that of its port or VLAN.
    Wide,
}

impl Presence {
    pub(super) const ALL: [Presence; 4] = [Presence::Up, Presence::Down, Presence::Gone, Presence::Wide];

    #[must_use]
    pub const fn fault(self) -> Option<&'static str> {
        match self {
            Presence::Up => None,
            Presence::Down => Some(
                "the host interface is down: frames that arrive there for the router are dropped (no_router)",
            ),
            Presence::Gone => Some(
                "the host interface is gone from its namespace: frames that arrive there for the router are dropped (no_router). \
                 If the interface was moved, move it back with its former index, and set it up; if it was deleted, restart the switch",
            ),
            Presence::Wide => Some(
                "the host interface has an MTU above that of its port or VLAN: longer packets of the kernel are dropped \
                 (too_long), without a message to the sender; restore the MTU",
            ),
        }
    }
}
