#![no_main]

#[path = "../src/mac_control.rs"]
mod mac_control;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mac_control::check(bytes));
