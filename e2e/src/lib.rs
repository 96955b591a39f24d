//! Tests of the real `wharf` with real MCP servers, clients and browsers: see `tests/it`.
//!
//! `cargo xtask test` installs what they need. A test whose server, client or browser isn't there
//! says so and passes, except under `CI=true`.
