//! Both halves of 802.1Qbb: which of its classes a port has paused for its peer ([`Paused`]) and what it asks of its peer ([`Held`]).
//!
//! Neither half knows frames or queues. The receive half keeps one timer per class, which expires by
//! itself; the transmit half remembers which state the peer was last told and which it should be in,
//! so that a control frame is due exactly while the two differ, and again while a pause must be kept
//! alive.

mod held;
mod paused;
mod rates;
mod response;
mod standstill;

pub use held::{Announcement, Held};
pub use paused::{Paused, Resumed};
pub use rates::{AskedRates, KeptRates};
pub use response::{Answer, Fault, Response};
pub use standstill::Standstill;
