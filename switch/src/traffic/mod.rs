//! A host on one interface over AF_XDP: sender and sink in one.
//!
//! A switch is proven by the traffic that crosses it, and Linux' own hosts cannot prove this one: they
//! ignore pause frames and do not tell which frame of a stream went where. These can. `xoff traffic`
//! is one such host; the demo and tests run several in one process, each on a thread inside its own
//! network namespace.
//!
//! ```text
//!   stream --> schedule --> sender --> payload ---+
//!   what       when         whose turn  the frame |
//!                              ^                  v
//!                  gate, limiter <--------- host (station: the interface) ---> sink --> report
//!                  pauses, CNMs obeyed                                         track
//! ```
//!
//! Everything but `host` and `station` is a function of time and bytes, without clock or socket.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::{Arc, atomic::AtomicBool};
//! use xoff::traffic::{Host, HostOptions, Progress, parse_streams};
//!
//! let streams = parse_streams(&["class=3,dst=02:00:00:00:00:02,rate=200M,count=1000"])?;
//! let host = Host::open(HostOptions::new("eth0"))?;
//! let report = host.run(&streams, &AtomicBool::new(false), &Arc::new(Progress::default()))?;
//! println!("{} frames sent", report.sent[0].frames);
//! # Ok(()) }
//! ```

mod announce;
pub mod control;
pub mod emit;
mod flow_gate;
pub mod flows;
mod gate;
mod host;
pub mod limiter;
mod notices;
mod pacer;
mod payload;
mod progress;
mod rate_gate;
pub mod report;
mod schedule;
mod sender;
mod sink;
mod station;
mod stream;
mod table;
#[cfg(test)]
mod testing;
mod track;
pub mod values;

pub use gate::Obedience;
pub use host::{Host, HostError, HostOptions};
pub use notices::CapturedCnm;
pub use progress::{Progress, Volume};
pub use report::{HostReport, settle};
pub use stream::{Pattern, STREAMS_MAX, Stream, StreamErrors, keys_help, parse_streams};
pub use table::Readable;
