//! What one target did in one round.
#![expect(
    clippy::cast_precision_loss,
    reason = "figures of a benchmark need no more than 52 bits"
)]

use std::time::Instant;

use anyhow::Result;

use super::Marks;
use crate::processes::Usage;
use crate::stats::{nanos, percentile};

#[derive(Default)]
pub(super) struct Batch {
    pub(super) nanos: Vec<u64>,
    pub(super) errors: Vec<String>,
    pub(super) secs: f64,
    pub(super) cpu_us: Option<u64>,
    pub(super) usage: Option<Usage>,
    pub(super) reply_bytes: usize,
    pub(super) tools: Option<usize>,
}

impl Batch {
    pub(super) fn add(&mut self, started: Instant, outcome: Result<usize>) {
        match outcome {
            Ok(bytes) => {
                self.nanos.push(nanos(started.elapsed()));
                self.reply_bytes = bytes;
            }
            Err(error) => self.errors.push(format!("{error:#}")),
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.nanos.extend(other.nanos);
        self.errors.extend(other.errors);
        self.reply_bytes = self.reply_bytes.max(other.reply_bytes);
    }

    pub(super) fn marks(&self) -> Marks {
        let mut sorted = self.nanos.clone();
        let mut at = |q| percentile(&mut sorted, q).unwrap_or(f64::NAN);
        let n = self.nanos.len() as f64;
        Marks {
            p50: at(0.5),
            p99: at(0.99),
            per_sec: if n > 0.0 { n / self.secs } else { f64::NAN },
            cpu: self.cpu_us.map_or(f64::NAN, |cpu| cpu as f64 / n),
        }
    }
}
