//! The targets without a fuzzer: the committed corpus, then variations of it for a while.

mod endpoint;
mod json_text;
mod support;
mod unchanged;
mod wire;
