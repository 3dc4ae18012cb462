//! Captures: copies of frames, from the workers to a client.
//!
//! A [`Probe`] copies the first bytes of each [selected](Filter) frame into a ring. If the ring is full, the frame
//! counts as missed: a slow client costs copies, never a frame.
//!
//! ```text
//!   worker    dataplane -> Probe -> ring --.
//!   worker    dataplane -> Probe -> ring ----> control thread: Reader -> pcapng -> HTTP -> xoff capture
//! ```

mod filter;
mod record;

pub use filter::{Filter, FilterError, REASONS, Reasons};
pub use record::{CaptureCounts, CaptureReader, Probe, channel};
