//! Examines from outside whether a switch or NIC obeys and sends PFC as IEEE 802.1Qbb requires (`xoff test`).
//!
//! ```text
//!   setup (file) --> examination --> accuracy, cases --> bench --> test ports
//!                         |               |
//!                         v               v
//!                      report  <----  judgement
//! ```

#![forbid(unsafe_code)]

mod accuracy;
pub mod bench;
pub mod cases;
pub mod dcbx;
mod describe;
pub mod examination;
pub mod judgement;
mod pressure;
pub mod report;
pub mod setup;

pub use bench::{Bench, Void};
pub use examination::{TestError, examine};
pub use judgement::Judgement;
pub use setup::Setup;
