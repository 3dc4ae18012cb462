#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    xoff_reference::main()
}
