//! Both halves of 802.1Qbb: pauses by the peer ([`Paused`]), and by this switch at the peer ([`Held`]).

mod held;
mod paused;
mod rates;
mod response;
mod standstill;

pub use held::{Announcement, Held};
pub use paused::{Paused, Resumed};
pub use rates::{KeptRates, RequestedRates};
pub use response::{Fault, Judgement, Response};
pub use standstill::Standstill;
