//! What the daemon keeps when it has little to do.
#![expect(
    clippy::cast_precision_loss,
    reason = "figures of a benchmark need no more than 52 bits"
)]

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use wharfinger_bench::processes::usage;
use wharfinger_bench::session::Options;

use super::PROTOCOL;
use crate::gateway::{Gateway, Home};
use crate::lab::Lab;
use crate::report::{Row, Target};

/// What one build needs.
struct Needs {
    resident_mb: f64,
    shared_once_mb: f64,
    threads: u64,
    session_kb: f64,
    server_kb: f64,
}

pub(super) async fn measure(lab: &Lab) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (servers, most) in [(20, 15.0), (50, 25.0)] {
        let mut all = Vec::new();
        for (name, program) in &lab.wharfs {
            all.push((name.as_str(), needs(lab, program, servers).await?));
        }
        let row = |title: String, unit, of: fn(&Needs) -> f64| {
            let figures = all.iter().map(|(name, needs)| (*name, Some(of(needs))));
            Row::new(title, unit).figures(figures)
        };
        let idle = format!("idle, {servers} servers configured");
        rows.push(
            row(format!("{idle}: resident"), "MB", |needs| needs.resident_mb)
                .target(Target::Most(most))
                .note("no server runs")
                .headline(),
        );
        if servers == 20 {
            rows.push(
                row(format!("{idle}: with its guard"), "MB", |needs| {
                    needs.shared_once_mb
                })
                .note("shared pages once"),
            );
            rows.push(row(format!("{idle}: threads"), "", |needs| {
                needs.threads as f64
            }));
            rows.push(row("for each open session".into(), "KB", |needs| {
                needs.session_kb
            }));
            rows.push(row("for each running server".into(), "KB", |needs| {
                needs.server_kb
            }));
        }
    }
    Ok(rows)
}

async fn needs(lab: &Lab, program: &Path, servers: usize) -> Result<Needs> {
    let options = Options::new(PROTOCOL);
    let home = Home::new(&lab.servers(servers, &[]))?;
    // The first one finds out what there is; the second one is as it is every day.
    let first = Gateway::wharf("wharf", program, &home, None)?;
    let tools = first.list(&options).await?;
    ensure!(tools.len() >= servers, "only {} tools", tools.len());
    let token = first.token.clone();
    drop(first);
    let daemon = Gateway::wharf("wharf", program, &home, token)?;
    daemon.list(&options).await?;
    settle().await;
    let (idle, running) = usage(daemon.pid());
    ensure!(running.processes == 0, "{} servers run", running.processes);

    let many = lab.of(400, 50);
    let mut open = Vec::new();
    for _ in 0..many {
        let session = daemon.session(&options).await?;
        session.list(&mut Vec::new()).await?;
        open.push(session);
    }
    settle().await;
    let (with_sessions, running) = usage(daemon.pid());
    ensure!(running.processes == 0, "{} servers run", running.processes);

    for tool in tools.iter().filter(|tool| tool.ends_with("_echo")) {
        open[0].call(tool, r#"{"text":"hello"}"#).await?;
    }
    settle().await;
    let (with_servers, running) = usage(daemon.pid());
    ensure!(
        running.processes == servers,
        "{} servers run",
        running.processes
    );
    for session in open {
        session.close().await;
    }
    let more = |now: u64, before: u64, count: usize| (now as f64 - before as f64) / count as f64;
    Ok(Needs {
        resident_mb: idle.main_rss_kb as f64 / 1024.0,
        shared_once_mb: idle.pss_kb as f64 / 1024.0,
        threads: idle.threads,
        session_kb: more(with_sessions.main_rss_kb, idle.main_rss_kb, many),
        server_kb: more(with_servers.main_rss_kb, with_sessions.main_rss_kb, servers),
    })
}

/// Until what was begun is done.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(700)).await;
}
