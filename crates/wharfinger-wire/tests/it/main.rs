//! A connection and a server at the other end of two pipes in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod calls;
mod eras;
mod oddities;
mod pressure;
mod support;
