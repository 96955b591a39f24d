//! Target `endpoint`.

use std::panic::AssertUnwindSafe;
use std::path::Path;

use proptest::test_runner::TestCaseError;
use wharfinger_fuzz::corpus;
use wharfinger_fuzz::endpoint::Endpoint;
use wharfinger_testkit::fake_server;

use crate::support::{for_a_while, outcome};

const HELPER: &str = env!("CARGO_BIN_EXE_fuzz-helper");

/// What scripts are made of.
const WORDS: &[&str] = &[
    "\nh ",
    "\no ",
    "\ns ",
    "\np ",
    "\nl ",
    "\nk ",
    "\ng\n",
    "\nd\n",
    "\nw\n",
    "\nm GET\n",
    "\na neighbour\n",
    "\n+ Mcp-Session-Id: $HIS_SESSION\n",
    "\n- Authorization\n",
    "$SESSION",
    "$STATE",
    "$QUESTION",
    "$TASK",
    "$HIS_SESSION",
    "$HIS_STATE",
    "$HIS_PARKED",
    "$HIS_TASK",
    "$DEEP",
    "$LONG",
    "tools/call",
    "old_ask",
    "new_ask",
    "notifications/cancelled",
];

#[test]
fn the_corpus_and_variations_of_it_pass() {
    let endpoint = Endpoint::start(Path::new(HELPER), Some(fake_server()));
    let corpus = corpus::inputs("endpoint");
    let run = |input: &[u8]| outcome(AssertUnwindSafe(|| endpoint.run(input)));
    for input in &corpus {
        if let Err(said) = run(&input.bytes) {
            panic!("{}: {said}", input.file.display());
        }
    }
    for_a_while(&corpus::variations(&corpus, WORDS), |input| {
        run(&input.0).map_err(TestCaseError::fail)
    });
    endpoint.close();
}
