//! Custody of secrets: which variables hold them, and keeping their values out of everything that leaves.
//!
//! Sealed storage joins it with credentials.

mod forms;
mod json;
mod known;
mod redact;
mod shapes;

pub use known::{SecretNames, in_arguments, is_secret_name};
pub use redact::{REDACTED, Redactor, Stream};
pub use shapes::looks_secret;
