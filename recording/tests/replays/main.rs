//! Records a switch and replays the recording.
#![allow(clippy::unwrap_used)]

mod dry_run;
mod files;
mod records;
