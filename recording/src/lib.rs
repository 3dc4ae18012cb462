//! What passes between a dataplane and its driver, recorded where a switch runs and done again anywhere.
//!
//! A driver calls its dataplane through a [`Boundary`](xoff_dataplane::driver::Boundary). A [`Recorder`] is one that writes
//! down each call, what the dataplane answers, and what it asks of its store, into a [`Sink`]. [`Replay`] has a dataplane of
//! the same settings and makes the same calls at the same times; each answer is held against the recorded one.
//!
//! ```text
//!   worker -> Recorder -> dataplane -> Watched -> store of frames
//!                |  calls, answers        | what is freed, copied, made
//!                '--------> Ring <--------'
//!                             |
//!   thread of its own         '-> FileWriter -> pcapng -> FILE -> replay
//! ```
//!
//! The worker puts records into a ring of bytes and never waits: where that is full the recording is over, which the file says.

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
