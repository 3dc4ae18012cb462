#![no_main]

#[path = "../src/header.rs"]
mod header;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| header::check(bytes));
