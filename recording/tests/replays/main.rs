//! Records a switch and replays the recording.
#![allow(clippy::unwrap_used)]

mod files;
mod records;
mod rehearsal;
