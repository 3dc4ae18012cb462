//! A host on one interface over AF_XDP: sender and sink in one.
//!
//! A switch is proven by the traffic that crosses it, and Linux' own hosts cannot prove this one: they
//! ignore pause frames and do not tell which frame of a stream went where. These can. `xoff traffic`
//! is one such host; the demo and tests run several in one process, each on a thread inside its own
//! network namespace.
//!
//! What a host decides is in the crate `xoff_host`, a function of time and bytes. Here is what drives it: the
//! loop that reads the clock (`host`), the interface (`station`), and single frames from a packet socket
//! ([`emit`]).
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::{Arc, atomic::AtomicBool};
//! use xoff_traffic::{Host, HostOptions};
//! use xoff_host::{Progress, parse_streams};
//!
//! let streams = parse_streams(&["class=3,dst=02:00:00:00:00:02,rate=200M,count=1000"])?;
//! let host = Host::open(HostOptions::new("eth0"))?;
//! let report = host.run(&streams, &AtomicBool::new(false), &Arc::new(Progress::default()))?;
//! println!("{} frames sent", report.sent[0].frames);
//! # Ok(()) }
//! ```

#![forbid(unsafe_code)]

pub mod emit;
mod host;
mod station;

pub use host::{Host, HostError, HostOptions};
