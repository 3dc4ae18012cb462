#![no_main]

#[path = "../src/gfc.rs"]
mod gfc;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gfc::check(bytes));
