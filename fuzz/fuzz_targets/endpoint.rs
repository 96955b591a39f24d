//! Target `endpoint`; its body is in `crates/wharfinger-fuzz`.
#![no_main]

use std::sync::OnceLock;

use wharfinger_fuzz::endpoint::Endpoint;
use wharfinger_fuzz::helper;

static ENDPOINT: OnceLock<Endpoint> = OnceLock::new();

/// The daemon starts this program as its guard and as its servers.
fn begin() {
    let arguments: Vec<String> = std::env::args().collect();
    if helper::runs(&arguments) {
        std::process::exit(0);
    }
    let program = std::env::current_exe().expect("a program knows where it is");
    // It ends with this process: its guard sees to its servers.
    ENDPOINT.get_or_init(|| Endpoint::start(&program, None));
}

libfuzzer_sys::fuzz_target!(init: begin(), |input: &[u8]| {
    if let Some(endpoint) = ENDPOINT.get() {
        endpoint.run(input);
    }
});
