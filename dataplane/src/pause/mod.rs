//! Both halves of 802.1Qbb: what a port obeys ([`Obeyed`]) and what it asks of its peer ([`Held`]).
//!
//! Neither half knows frames or queues. The receive half keeps one timer per class, which expires by
//! itself; the transmit half remembers which state the peer was last told and which it should be in,
//! so that a control frame is due exactly while the two differ, and again while a pause must be kept
//! alive.

mod held;
mod obeyed;
mod rates;

pub use held::{Announcement, Held};
pub use obeyed::{Obeyed, Resumed};
pub use rates::{AskedRates, ObeyedRates};
