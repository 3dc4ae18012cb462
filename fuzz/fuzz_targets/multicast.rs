#![no_main]

#[path = "../src/multicast.rs"]
mod multicast;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| multicast::check(bytes));
