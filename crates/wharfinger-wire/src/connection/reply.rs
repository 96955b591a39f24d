//! The answer that a request of the server waits for.

use std::sync::Weak;

use serde_json::value::RawValue;

use super::shared::Shared;
use super::{CallError, ErrorObject};
use crate::json::Raw;
use crate::message::{INTERNAL_ERROR, Id};

/// The right to answer one request of the server. It does not keep the connection open; dropped unused, it answers
/// with an error, so that no server waits for ever.
#[must_use = "dropped, it answers with an error"]
pub struct Reply {
    shared: Weak<Shared>,
    id: Id,
    given: bool,
}

impl Reply {
    pub(super) fn new(shared: Weak<Shared>, id: Id) -> Self {
        Self {
            shared,
            id,
            given: false,
        }
    }

    /// The id of the request, which is the server's own.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Answers.
    #[expect(clippy::needless_pass_by_value, reason = "an answer is given once")]
    pub fn give(mut self, outcome: Result<Raw, ErrorObject>) -> Result<(), CallError> {
        self.send(&outcome)
    }

    /// Tells the server something about the request: progress, most of all.
    pub fn notify(&self, method: &str, params: Option<&RawValue>) -> Result<(), CallError> {
        let shared = self.shared.upgrade().ok_or(CallError::Closed)?;
        shared.notify(method, params)
    }

    /// Lets the request go without a word: the server has taken it back.
    pub fn withhold(mut self) {
        self.given = true;
    }

    fn send(&mut self, outcome: &Result<Raw, ErrorObject>) -> Result<(), CallError> {
        self.given = true;
        let shared = self.shared.upgrade().ok_or(CallError::Closed)?;
        shared.answer(&self.id, outcome)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.given {
            let error = ErrorObject::new(INTERNAL_ERROR, "nobody answered");
            // A full queue is counted, a closed one has nobody to read the answer.
            self.send(&Err(error)).ok();
        }
    }
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Reply").field(&self.id).finish()
    }
}
