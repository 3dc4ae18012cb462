//! The command `xoff`: arguments, tables and screens on top of the other crates.

#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;

pub use commands::main_with;
pub use xoff_config::{OwnPolicy, Parameters};
