//! The `xoff` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    xoff::cli::main()
}
