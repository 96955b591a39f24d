//! Calls that wait for a person (A223–A233): what they are bound to, who may still answer them, and what was decided.
//!
//! A book of values: it is given the time, and knows neither servers nor files. Whoever waits is told by a channel.

mod book;
mod grant;
mod request;
#[cfg(test)]
mod tests;

pub use book::{Attached, Book, COLLECT, DecideError, Decided, Ended, Given, NewApproval, Told};
pub use grant::{Grant, Grants};
pub use request::{
    Approval, ApprovalId, Binding, Caller, Decision, Mismatch, Reason, Scope, Stage,
};
