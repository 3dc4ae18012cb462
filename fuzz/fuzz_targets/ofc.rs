#![no_main]

#[path = "../src/ofc.rs"]
mod ofc;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ofc::check(bytes));
