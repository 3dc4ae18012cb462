//! Captures: workers copy frames for a client.
//!
//! ```text
//! worker    dataplane -> Probe -> ring --.
//! worker    dataplane -> Probe -> ring ----> control thread: Reader -> pcapng -> HTTP -> xoff capture
//! ```

mod filter;
mod record;

pub use filter::{Filter, FilterError};
pub use record::{CaptureCounts, CaptureReader, channel};
