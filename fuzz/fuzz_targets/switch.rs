#![no_main]

#[path = "../src/switch/mod.rs"]
mod switch;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    switch::check(bytes);
});
