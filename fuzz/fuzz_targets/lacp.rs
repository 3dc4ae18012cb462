#![no_main]

#[path = "../src/lacp.rs"]
mod lacp;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lacp::check(bytes));
