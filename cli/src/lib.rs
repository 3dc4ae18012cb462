//! The command `xoff`: arguments, tables and screens; what it does is in the crates that it stands on.

#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;

pub use commands::main_with;
pub use xoff_config::{OwnPolicy, Parameters};
