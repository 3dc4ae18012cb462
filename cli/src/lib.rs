//! The command `xoff`: arguments, tables and screens on top of the other crates.

#![forbid(unsafe_code)]

mod cli;
mod commands;

pub use commands::{main, main_with};
pub use xoff_config::{OwnPolicy, Parameters};
