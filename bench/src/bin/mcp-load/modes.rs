//! What is no comparison.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use wharfinger_bench::load::{Call, Peer};
use wharfinger_bench::rpc;
use wharfinger_bench::session::{Options, Session};
use wharfinger_bench::stats::millis;

pub(crate) async fn call(peer: &Peer, options: &Options, call: &Call) -> Result<Value> {
    let session = Session::open(&peer.target, options).await?;
    let tool = session.find_tool(&call.tool).await?;
    let at = Instant::now();
    let outcome = session.call(&tool, &call.arguments).await;
    let ms = millis(at.elapsed());
    let outcome = match outcome {
        Ok(reply) => {
            let start = rpc::excerpt(&reply.body);
            json!({"ok": true, "ms": ms, "bytes": reply.body.len(), "start": start})
        }
        Err(error) => json!({"ok": false, "ms": ms, "error": format!("{error:#}")}),
    };
    session.close().await;
    Ok(json!({"mode": "call", "target": peer.name, "tool": tool, "outcome": outcome}))
}

pub(crate) async fn progress(peer: &Peer, options: &Options, n: u64) -> Result<Value> {
    let session = Session::open(&peer.target, options).await?;
    let tool = session.find_tool("progress").await?;
    let arguments = format!(r#"{{"count":{n}}}"#);
    let reply = session.call_with_progress(&tool, &arguments).await?;
    let told = reply.notes.iter().filter_map(|note| rpc::progress(note));
    let told: Vec<u64> = told.collect();
    session.close().await;
    Ok(json!({
        "mode": "progress", "target": peer.name, "asked": n, "came": told.len(),
        "in_order": told.is_sorted(),
    }))
}

pub(crate) async fn ready(
    peer: &Peer,
    mut options: Options,
    tools: usize,
    within: f64,
) -> Result<Value> {
    options.timeout = options.timeout.min(Duration::from_secs(10));
    let until = Instant::now() + Duration::from_secs_f64(within.min(600.0));
    let (mut tries, mut names) = (0, Vec::new());
    loop {
        tries += 1;
        let attempt = async {
            let session = Session::open(&peer.target, &options).await?;
            let listed = session.list(&mut names).await;
            let now = clock_gettime(ClockId::Monotonic);
            session.close().await;
            listed?;
            ensure!(names.len() >= tools, "only {} tools", names.len());
            anyhow::Ok(now.tv_sec * 1_000_000_000 + now.tv_nsec)
        };
        match attempt.await {
            Ok(clock) => {
                return Ok(json!({
                    "mode": "ready", "target": peer.name, "monotonic_ns": clock,
                    "tries": tries, "tools": names.len(),
                }));
            }
            Err(error) if Instant::now() > until => {
                bail!("not ready after {tries} tries: {error:#}");
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}
