#![no_main]

#[path = "../src/config.rs"]
mod config;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| config::check(bytes));
