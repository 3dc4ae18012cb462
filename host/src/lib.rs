//! Decisions of an `xoff traffic` host: frames to send, obedience to pauses, and counts of all frames. It has no
//! socket, clock or thread: a driver, such as `xoff_traffic` or a simulator, passes in time and bytes.
//!
//! ```text
//!   stream  -->  schedule  -->  sender  -->  payload ---+
//!   load         due times      next stream  frame      |
//!                                  ^                    v
//!               gate, limiter <------------ driver ------> sink --> report
//!               obey pauses, CNMs                          track
//! ```
//!
//! The driver passes received frames to the [`Gate`] (MAC control), the [`Notices`] (CNMs) or the [`Sink`] (all
//! else). The [`Sender`] returns the next frame.
//!
//! A pause of class 3 lasts 1000 quanta: 512 microseconds at a gigabit.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use xoff_wire::{Header, units::{BitRate, MacAddr, Nanos}};
//! use xoff_host::control::{Distortion, build, parse_control};
//! use xoff_host::report::ReceivedStream;
//! use xoff_host::{Choice, END_MARKERS, Gate, Obedience, Sender, SenderSettings, Sink, parse_streams};
//!
//! let line = BitRate::from_gbps(1);
//! let streams = parse_streams(&["class=3,dst=02:02:02:02:02:02,size=1000,count=100"])?;
//! let settings = SenderSettings {
//!     address: MacAddr([6; 6]),
//!     id: 1,
//!     line,
//!     catch_up: Nanos::ZERO,
//!     end_markers: END_MARKERS,
//!     qcn: None,
//! };
//! let mut now = Nanos::from_secs(1);
//! let mut sender = Sender::new(&streams, settings, now, Arc::default());
//! let mut gate = Gate::new(line, Obedience::Obey, false);
//! let mut sink = Sink::new(MacAddr([2; 6]), false, Nanos::ZERO, Arc::default());
//! let mut pause_at = now.after(Nanos::from_micros(100));
//!
//! loop {
//!     if now >= pause_at {
//!         let pause = build(&parse_control("3=1000")?, MacAddr([10; 6]), &Distortion::default());
//!         gate.receive(now, &Header::parse(&pause).expect("the frame must be valid"), &pause);
//!         pause_at = Nanos::NEVER;
//!     }
//!     match sender.choose(now, gate.paused(now)) {
//!         Choice::Send(turn) => {
//!             let mut frame = vec![0; turn.frame_len() as usize];
//!             sender.send(&turn, now, &mut frame);
//!             let arrival = now.after(Nanos::from_micros(5));
//!             let header = Header::parse(&frame).expect("the frame must be valid");
//!             sink.receive(arrival, &header, &frame, turn.frame_len());
//!         }
//!         Choice::Wait(until) => now = until.min(gate.next_change()).min(pause_at),
//!         Choice::Done => break,
//!     }
//! }
//!
//! let received = ReceivedStream::from(&sink.streams()[0]);
//! assert_eq!((received.sent, received.frames, received.lost), (100, 100, 0));
//! assert_eq!(gate.counts(now).classes[3].paused, Nanos::from_micros(512));
//! # Ok(()) }
//! ```

#![forbid(unsafe_code)]

pub mod announce;
pub mod control;
mod flow_gate;
pub mod flows;
mod gate;
pub mod habits;
pub mod limiter;
mod notices;
mod pacer;
mod parts;
pub mod payload;
mod progress;
mod rate_gate;
pub mod report;
mod schedule;
mod sender;
mod sink;
pub mod sizes;
mod stream;
mod table;
pub mod tcp;
mod track;
pub mod values;

pub use flow_gate::FlowGate;
pub use gate::{ClassPauses, Gate, Obedience, PauseCounts};
pub use notices::{CapturedCnm, CnmReport, Notice, Notices};
pub use parts::HostParts;
pub use progress::{Progress, Volume};
pub use report::{HostReport, settle};
pub use sender::{Choice, END_MARKERS, Sender, SenderSettings, Sent, Turn};
pub use sink::{FLOW_BUCKETS, FlowsReceived, Incoming, Sink, Unsorted};
pub use stream::{Pattern, STREAMS_MAX, Stream, StreamErrors, keys_help, parse_streams};
pub use table::Readable;
pub use track::Tracker;
