//! Target `wire`; its body is in `crates/wharfinger-fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| wharfinger_fuzz::wire::run(input));
