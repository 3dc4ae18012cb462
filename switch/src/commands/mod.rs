//! The commands of `xoff`, one file each.

pub mod status;
