//! The fake server does what its modes say; the other parts of the kit see what is there.
#![expect(
    clippy::disallowed_methods,
    reason = "these tests start the fake server by hand, to see its bytes"
)]
#![expect(clippy::unwrap_used, reason = "the client is part of the tests")]

mod calls;
mod client;
mod handshake;
mod lifetime;
mod modern;
mod processes;
mod tools;
