//! Several targets measured one after the other, round by round in a rotating order, and each round compared with the
//! first target's part of it: on a machine that others use too, only such ratios hold.

mod batch;
mod lane;

use std::sync::Arc;

use anyhow::Result;
use serde::Serialize;

use crate::processes::Usage;
use crate::session::{Options, Target};
use crate::stats::{Summary, median};
use batch::Batch;
use lane::Lane;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Peer {
    /// What it is called in results.
    pub name: String,
    /// Where it is.
    pub target: Target,
    /// The process of its gateway, for memory and processor time.
    pub pid: Option<u32>,
    /// The bearer token it wants, in place of the options' one.
    pub token: Option<String>,
}

/// A tool and its arguments.
#[derive(Clone, Debug)]
pub struct Call {
    /// A gateway's prefix before the name is found by itself.
    pub tool: String,
    /// As JSON.
    pub arguments: String,
}

impl Call {
    /// The cheapest call.
    pub fn echo() -> Self {
        Self {
            tool: "echo".into(),
            arguments: r#"{"text":"hello"}"#.into(),
        }
    }

    /// A result of that many bytes, of text or of an image.
    pub fn sized(tool: &str, bytes: u64) -> Self {
        Self {
            tool: tool.to_owned(),
            arguments: format!(r#"{{"bytes":{bytes}}}"#),
        }
    }
}

/// What is done in each round.
#[derive(Clone, Debug)]
pub enum Work {
    /// Calls one after the other.
    Calls {
        /// How many.
        n: usize,
        /// Which.
        call: Call,
    },
    /// Full lists of tools, one after the other.
    Lists {
        /// How many.
        n: usize,
    },
    /// Callers in a closed loop.
    Load {
        /// How many.
        callers: usize,
        /// Sessions that they share.
        sessions: usize,
        /// For how long.
        secs: f64,
        /// What they call.
        call: Call,
    },
    /// Sessions opened at once, each listing the tools and making one call; all are held until the last is there.
    Sessions {
        /// How many.
        n: usize,
        /// What they call.
        call: Call,
    },
}

/// What was found about one target.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Its name.
    pub target: String,
    /// Over all calls of all rounds.
    pub latency: Option<Summary>,
    /// Calls per second; this and what follows are medians over the rounds.
    pub per_sec: Option<f64>,
    /// Median latency beyond the first target's.
    pub added_p50_us: Option<f64>,
    /// The same of the 99th percentile.
    pub added_p99_us: Option<f64>,
    /// Median latency, in the first target's.
    pub ratio_p50: Option<f64>,
    /// Calls per second, in the first target's.
    pub ratio_per_sec: Option<f64>,
    /// Processor time of the gateway's own processes.
    pub cpu_us_per_call: Option<f64>,
    /// Of the gateway after the last round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// How many tools were listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<usize>,
    /// Size of the last reply.
    pub reply_bytes: usize,
    /// TCP connections that were opened.
    pub connections: u64,
    /// Calls that failed. They are never counted as samples.
    pub errors: usize,
    /// The first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Measures the peers; the first one is the base of what is compared.
pub async fn compare(
    peers: &[Peer],
    options: &Options,
    rounds: usize,
    work: &Work,
) -> Result<Vec<Figures>> {
    let mut lanes = Vec::new();
    for peer in peers {
        let mut lane = Lane::new(peer, options);
        if let Err(error) = lane.prepare(work).await {
            lane.failed = Some(format!("{error:#}"));
        }
        lanes.push(lane);
    }
    for turn in 0..rounds {
        for step in 0..lanes.len() {
            let at = (turn + step) % lanes.len();
            lanes[at].round(work).await;
        }
    }
    let base: Vec<Marks> = lanes.first().map(marks).unwrap_or_default();
    let mut all = Vec::new();
    for lane in lanes {
        all.push(figures(&lane, &base));
        for session in lane.sessions {
            if let Some(session) = Arc::into_inner(session) {
                session.close().await;
            }
        }
    }
    Ok(all)
}

/// What one round comes to; NaN where it is not known.
struct Marks {
    p50: f64,
    p99: f64,
    per_sec: f64,
    cpu: f64,
}

fn marks(lane: &Lane<'_>) -> Vec<Marks> {
    lane.batches.iter().map(Batch::marks).collect()
}

fn figures(lane: &Lane<'_>, base: &[Marks]) -> Figures {
    let own = marks(lane);
    let over_rounds = |of: &dyn Fn(&Marks, &Marks) -> f64| {
        let rounds = own.iter().zip(base).map(|(own, base)| of(own, base));
        median(&rounds.collect::<Vec<_>>())
    };
    let batches = &lane.batches;
    let mut nanos: Vec<u64> = batches.iter().flat_map(|b| b.nanos.clone()).collect();
    let errors: Vec<&String> = batches.iter().flat_map(|batch| &batch.errors).collect();
    let last = batches.last();
    Figures {
        target: lane.peer.name.clone(),
        latency: Summary::of(&mut nanos),
        per_sec: over_rounds(&|own, _| own.per_sec),
        added_p50_us: over_rounds(&|own, base| (own.p50 - base.p50) / 1000.0),
        added_p99_us: over_rounds(&|own, base| (own.p99 - base.p99) / 1000.0),
        ratio_p50: over_rounds(&|own, base| own.p50 / base.p50),
        ratio_per_sec: over_rounds(&|own, base| own.per_sec / base.per_sec),
        cpu_us_per_call: over_rounds(&|own, _| own.cpu),
        usage: last.and_then(|batch| batch.usage.clone()),
        tools: last.and_then(|batch| batch.tools),
        reply_bytes: last.map_or(0, |batch| batch.reply_bytes),
        connections: lane.sessions.iter().map(|s| s.connections()).sum(),
        errors: errors.len() + usize::from(lane.failed.is_some()),
        error: (lane.failed.clone()).or_else(|| errors.first().map(ToString::to_string)),
    }
}
