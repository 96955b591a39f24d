//! What an entry and a profile decide together, and what an agent's declarations decide about a call.
//!
//! Pure. Whoever asks for a verdict has looked the tool up by its exposed name, and tells of it what is here needed.

mod bulk;
mod digest;
mod effective;
mod internal;
mod verdict;

pub use bulk::{Flag, Tri, bulk, tri_state};
pub use digest::policy_digest;
pub use effective::effective;
pub use internal::{INTERNAL, Stripped, Unreadable, strip_internal, with_reason};
pub use verdict::{Caller, Reason, Rights, Verdict, Why, is_listed, verdict};
