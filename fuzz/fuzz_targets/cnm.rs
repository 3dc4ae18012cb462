#![no_main]

#[path = "../src/cnm.rs"]
mod cnm;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cnm::check(bytes));
