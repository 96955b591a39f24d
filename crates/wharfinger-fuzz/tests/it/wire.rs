//! Target `wire`.

use proptest::test_runner::TestCaseError;
use wharfinger_fuzz::{corpus, wire};

use crate::support::{for_a_while, outcome};

/// Words of the protocol.
const WORDS: &[&str] = &["tools/call", "notifications/cancelled", "progressToken"];

#[test]
fn the_corpus_passes() {
    for input in corpus::inputs("wire") {
        if let Err(said) = outcome(|| wire::run(&input.bytes)) {
            panic!("{}: {said}", input.file.display());
        }
    }
}

#[test]
fn variations_of_the_corpus_pass() {
    let corpus = corpus::inputs("wire");
    for_a_while(&corpus::variations(&corpus, WORDS), |input| {
        outcome(|| wire::run(&input.0)).map_err(TestCaseError::fail)
    });
}
