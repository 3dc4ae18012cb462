//! Captures: copies of the frames of some ports, from the workers that forward them to whoever wants to see them.
//!
//! In a worker a capture is a [`Probe`], a tap on its dataplane. It looks whether a frame is [wanted](Filter), and copies
//! its first bytes into a ring of bytes that the worker alone writes and the control thread alone reads. Where the ring is
//! full the frame is counted as missed, and nothing waits: a reader that is slow costs copies, and never a frame.
//!
//! ```text
//!   worker    dataplane -> Probe -> ring --.
//!   worker    dataplane -> Probe -> ring ----> control thread: Reader -> pcapng -> HTTP -> xoff capture
//! ```

mod filter;
mod record;

pub use filter::{Filter, FilterError, REASONS, Reasons};
pub use record::{Counts, Probe, Reader, channel};
