#![no_main]

#[path = "../src/lldp.rs"]
mod lldp;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lldp::check(bytes));
