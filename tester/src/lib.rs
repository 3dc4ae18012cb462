//! An instrument that examines switches and NICs from outside: whether they obey, send and survive PFC as IEEE 802.1Qbb
//! requires.
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
pub mod examination;
pub mod judgement;
mod pressure;
pub mod report;
pub mod setup;

pub use bench::{Bench, Void};
pub use examination::{TestError, examine};
pub use judgement::Judgement;
pub use setup::Setup;
