//! Traffic host on one interface over AF_XDP: sender and sink in one, with the decisions of `xoff_host`. Unlike
//! Linux' own stack, it obeys pause frames and accounts for every frame.
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
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod emit;
mod host;
pub mod station;

pub use host::{Host, HostError, HostOptions};
