//! A small PFC switch with defects that can be switched on.

fn main() {}
