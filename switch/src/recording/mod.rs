//! `xoff run --record FILE`, and `xoff sim replay FILE`: all that passes between a dataplane and its worker, in a file that any machine can
//! replay, and that Wireshark opens.
//!
//! ```text
//!   worker    Recorder -> Ring --.
//!   xoff-recorder                '-> pcapng -> FILE -> Replay
//! ```
//!
//! The worker puts records into a ring of bytes and never waits: where that is full the recording is over, which is said in the log and
//! in the file. What a record is, and how it is replayed, is in [`xoff_sim::recording`]; what stands where in the file, in [`mod@file`].

pub mod file;
mod read;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod writing;

pub use read::{NotReplayed, Replayed, replay};
pub use writing::{CannotRecord, Recording, Ring, Wanted};
pub use xoff_sim::recording::{Difference, Ending, Outcome};
