//! The `xoff` command.
fn main() {}
