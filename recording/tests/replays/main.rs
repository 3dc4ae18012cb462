#![allow(clippy::unwrap_used)]

mod dry_run;
mod files;
mod records;
