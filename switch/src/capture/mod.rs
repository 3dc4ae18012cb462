//! Captures: copies of frames, from the workers to a client.
//!
//! A [`Probe`](record::Probe) copies the first bytes of each frame that a [`Filter`] selects into a ring. If the ring is
//! full, the frame counts as missed: a slow client costs copies, but the switch drops no frame.
//!
//! ```text
//!   worker    dataplane -> Probe -> ring --.
//!   worker    dataplane -> Probe -> ring ----> control thread: Reader -> pcapng -> HTTP -> xoff capture
//! ```

mod filter;
mod record;

pub use filter::{Filter, FilterError};
pub use record::{CaptureCounts, CaptureReader, channel};
