//! Records the calls between a driver and its dataplane, and replays them anywhere.
//!
//! ```text
//!   worker -> Recorder -> dataplane -> Watched -> frame store
//!                |  calls, answers        | frees, copies, new frames
//!                '--------> Ring <--------'
//!                             |
//!   writer thread             '-> FileWriter -> pcapng -> FILE -> replay
//! ```
//!
//! The worker never waits: if the ring is full, the recording ends with that reason. [`Replay`] repeats the calls on a
//! dataplane with the same settings, and compares the answers.

#![forbid(unsafe_code)]

mod books;
mod file;
mod memory;
pub mod pcapng;
mod read;
mod record;
mod recorder;
mod replay;
mod ring;

pub use books::books;
pub use file::{FORMAT, FileWriter, HEAD, Head};
pub use read::{NotReplayed, Replayed, replay, replay_of};
pub use record::{BEFORE_FRAME, Passing, Record, frame_of, is_call};
pub use recorder::{Ending, Recorder, Sink};
pub use replay::{Broken, Difference, Outcome, Replay};
pub use ring::{Records, Ring, write};
