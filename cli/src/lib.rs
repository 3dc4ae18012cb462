#![recursion_limit = "256"] // `json!` of a port takes a step for each token
#![forbid(unsafe_code)]

mod cli;
mod commands;

pub use commands::{main, main_with};
pub use xoff_config::{OwnPolicy, Parameters};
