//! What passes between a dataplane and its driver, recorded where a switch runs and done again anywhere.
//!
//! A driver calls its dataplane through a [`Boundary`](xoff_dataplane::driver::Boundary). A [`Recorder`] is one that writes down each call, what the dataplane answers, and what it asks of its store, into a [`Sink`]. [`Replay`] has a dataplane of
//! the same settings and makes the same calls at the same times; each answer is held against the recorded one.
//!
//! ```text
//!   worker -> Recorder -> dataplane -> Watched -> store of frames
//!                |  calls, answers        | what is freed, copied, made
//!                '--------> Sink <--------'
//! ```

mod books;
mod memory;
mod record;
mod recorder;
pub mod rehearsal;
mod replay;
#[cfg(test)]
mod tests;

pub use books::books;
pub use memory::Memory;
pub use record::{BEFORE_FRAME, Passing, Record, frame_of};
pub use recorder::{Ending, Recorder, Sink};
pub use replay::{Broken, Difference, Outcome, Replay};
