//! What is measured, in the order of the report.

mod calls;
mod faults;
mod idle;
mod instructions;
mod orphans;
mod soak;
mod start;

use anyhow::Result;

use crate::lab::Lab;
use crate::report::Row;

/// Names of measurements, which `--only` looks for words in.
pub(crate) const NAMES: [&str; 14] = [
    "latency",
    "latency-pinned",
    "latency-stateless",
    "throughput-16",
    "throughput-64",
    "list",
    "payload",
    "sessions",
    "idle",
    "start",
    "faults",
    "orphans",
    "soak",
    INSTRUCTIONS,
];

/// Takes valgrind and a build of its own, so it is only done when it is asked for.
pub(crate) const INSTRUCTIONS: &str = "instructions";

pub(crate) async fn measure(name: &str, lab: &Lab) -> Result<Vec<Row>> {
    match name {
        "latency" => calls::latency(lab).await,
        "latency-pinned" => calls::pinned(lab).await,
        "latency-stateless" => calls::stateless(lab).await,
        "throughput-16" => calls::throughput(lab, 16).await,
        "throughput-64" => calls::throughput(lab, 64).await,
        "list" => calls::list(lab).await,
        "payload" => calls::payload(lab).await,
        "sessions" => calls::sessions(lab).await,
        "idle" => idle::measure(lab).await,
        "start" => start::measure(lab).await,
        "faults" => faults::measure(lab).await,
        "orphans" => orphans::measure(lab).await,
        "soak" => soak::measure(lab).await,
        INSTRUCTIONS => instructions::measure(lab).await,
        other => unreachable!("{other} is no measurement"),
    }
}

/// The protocol that agents speak, unless said otherwise.
const PROTOCOL: &str = "2025-11-25";
