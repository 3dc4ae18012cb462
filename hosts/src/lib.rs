//! What a host of `xoff traffic` decides: when it sends which frame, what pauses it, and what became of
//! everything that was sent. No socket, no clock, no thread: whoever drives a host (the switch's own
//! command over AF_XDP, a simulator) hands it the time and the bytes.
//!
//! ```text
//!   stream --> schedule --> sender --> payload ---+
//!   what       when         whose turn  the frame |
//!                              ^                  v
//!                  gate, limiter <------- whoever drives ------> sink --> report
//!                  pauses, CNMs obeyed                           track
//! ```
//!
//! A driver gives each received frame to the [`Gate`] (MAC control), to the [`Notices`] (CNMs) or to the
//! [`Sink`] (all else), asks the [`Sender`] what may be sent now, and makes a [`HostReport`] in the end.

#![forbid(unsafe_code)]

pub mod announce;
pub mod control;
mod flow_gate;
pub mod flows;
mod gate;
pub mod limiter;
mod notices;
mod pacer;
mod payload;
mod progress;
mod rate_gate;
pub mod report;
mod schedule;
mod sender;
mod sink;
mod stream;
mod table;
mod track;
pub mod values;

pub use flow_gate::FlowGate;
pub use gate::{Gate, Obedience, PauseCounts};
pub use notices::{CapturedCnm, CnmReport, Notice, Notices};
pub use progress::{Progress, Volume};
pub use report::{HostReport, settle};
pub use sender::{Choice, END_MARKERS, Sender, SenderSettings, Sent, Turn};
pub use sink::{FLOW_BUCKETS, FlowsReceived, Incoming, Sink, Unsorted};
pub use stream::{Pattern, STREAMS_MAX, Stream, StreamErrors, keys_help, parse_streams};
pub use table::Readable;
pub use track::Tracker;
