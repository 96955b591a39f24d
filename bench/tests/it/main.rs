//! The tools against each other: what they print is what happened.
#![expect(
    clippy::disallowed_methods,
    reason = "tests run the programs of this package"
)]
#![expect(clippy::unwrap_used, reason = "everything here is part of a test")]

mod tools;
