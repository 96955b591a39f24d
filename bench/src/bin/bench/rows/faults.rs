//! A server that is killed in a call, and one that tells a lot at once.
#![expect(
    clippy::cast_precision_loss,
    reason = "figures of a benchmark need no more than 52 bits"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use tokio::task::JoinSet;
use wharfinger_bench::rpc;
use wharfinger_bench::session::Options;
use wharfinger_bench::stats::{median, millis};

use super::PROTOCOL;
use crate::gateway::Gateway;
use crate::lab::{Lab, WHARF};
use crate::report::{Row, Target};

/// Notifications in one burst.
const BURST: u64 = 200;

pub(super) async fn measure(lab: &Lab) -> Result<Vec<Row>> {
    let gateways = lab.gateways(&lab.usual_server(&[])).await?;
    let (mut told, mut works, mut came) = (Vec::new(), Vec::new(), Vec::new());
    for gateway in &gateways {
        // Before its server is killed: not everybody starts another.
        came.push(progress(gateway).await.ok());
        let (mut errors, mut next) = (Vec::new(), 0_u32);
        let runs = lab.of(5, 2);
        for _ in 0..runs {
            match killed(gateway).await {
                Ok(Killed { error_after, works }) => {
                    errors.push(millis(error_after));
                    next += u32::from(works);
                }
                // Some never start a server again.
                Err(error) if gateway.name != WHARF => {
                    eprintln!("bench: {} after a killed server: {error:#}", gateway.name);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        told.push(median(&errors));
        works.push(Some(f64::from(next) * 100.0 / f64::from(runs)));
    }
    let names = || gateways.iter().map(|gateway| gateway.name.as_str());
    Ok(vec![
        Row::new("server killed in a call: until the error", "ms")
            .figures(names().zip(told))
            .target(Target::Most(20.0))
            .headline(),
        Row::new("server killed: the session's next call works", "%")
            .figures(names().zip(works))
            .target(Target::Least(100.0))
            .headline(),
        Row::new("progress: in order, of a burst of 200", "")
            .figures(names().zip(came))
            .target(Target::Least(BURST as f64))
            .headline(),
    ])
}

struct Killed {
    error_after: Duration,
    /// Whether the next call on the same session does.
    works: bool,
}

async fn killed(gateway: &Gateway) -> Result<Killed> {
    let mut options = Options::new(PROTOCOL);
    options.timeout = Duration::from_secs(15);
    let session = Arc::new(gateway.session(&options).await?);
    let echo = session.find_tool("echo").await?;
    let sleep = session.find_tool("sleep").await?;
    let hello = r#"{"text":"hello"}"#;
    session.call(&echo, hello).await?;
    let mut calling = JoinSet::new();
    let caller = session.clone();
    calling.spawn(async move {
        let outcome = caller.call(&sleep, r#"{"ms":60000}"#).await;
        (Instant::now(), outcome.is_err())
    });
    // Until the call is surely there.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let servers = gateway.servers();
    ensure!(!servers.is_empty(), "no server runs");
    let at = Instant::now();
    for server in servers {
        server.signal(Signal::KILL);
    }
    let (ended, failed) = calling.join_next().await.context("no call")??;
    ensure!(failed, "the call has a result");
    let works = session.call(&echo, hello).await.is_ok();
    if let Some(session) = Arc::into_inner(session) {
        session.close().await;
    }
    Ok(Killed {
        error_after: ended.saturating_duration_since(at),
        works,
    })
}

/// How many notifications came before the reply, each in its place.
async fn progress(gateway: &Gateway) -> Result<f64> {
    let session = gateway.session(&Options::new(PROTOCOL)).await?;
    let tool = session.find_tool("progress").await?;
    let arguments = format!(r#"{{"count":{BURST}}}"#);
    let reply = session.call_with_progress(&tool, &arguments).await?;
    session.close().await;
    let told = reply.notes.iter().filter_map(|note| rpc::progress(note));
    let in_place = told.zip(1..).filter(|(told, place)| told == place);
    Ok(in_place.count() as f64)
}
