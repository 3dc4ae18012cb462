//! TCP endpoints as state machines, without socket and clock: a driver passes in the time and received segments.
//!
//! ```text
//! Sender ----- Transmission, as TcpHeader ---> Receiver
//! scoreboard      (data, window, CWR)          reassembly
//! rtt, control                                 delayed acknowledgements
//!   ^                                             |
//!   +--- Ack, as TcpHeader (blocks, ECE) ---------+
//! ```
//!
//! Endpoints count in segments of the maximum segment size, from zero; only [`wire`] counts bytes. Data flow in one direction.

pub mod control;
mod receiver;
mod rtt;
mod scoreboard;
mod sender;
mod settings;
pub mod wire;

pub use control::{Algorithm, Congestion};
pub use receiver::{Ack, Arrival, Blocks, Receiver};
pub use rtt::Rtt;
pub use sender::{Path, Sender, Transmission};
pub use settings::{Detection, TcpSettings};
