//! Calls, lists, results and sessions: everybody interleaved.
#![expect(
    clippy::cast_precision_loss,
    reason = "figures of a benchmark need no more than 52 bits"
)]

use std::time::Duration;

use anyhow::{Result, ensure};
use wharfinger_bench::load::{Call, Figures, Peer, Work, compare};
use wharfinger_bench::processes;
use wharfinger_bench::session::Options;

use super::PROTOCOL;
use crate::gateway::Server;
use crate::lab::{Lab, LineUp};
use crate::machine::Pinned;
use crate::report::{Row, Target};

async fn measured(
    peers: &[Peer],
    protocol: &str,
    rounds: usize,
    work: &Work,
) -> Result<Vec<Figures>> {
    let figures = compare(peers, &Options::new(protocol), rounds, work).await?;
    for one in &figures {
        if let Some(error) = &one.error {
            eprintln!(
                "bench: {}: {} calls failed: {error}",
                one.target, one.errors
            );
        }
    }
    Ok(figures)
}

fn row(title: &str, unit: &'static str, all: &[Figures], of: fn(&Figures) -> Option<f64>) -> Row {
    let figures = all.iter().map(|one| (one.target.as_str(), of(one)));
    Row::new(title, unit).figures(figures)
}

fn p50(figures: &Figures) -> Option<f64> {
    figures.latency.map(|latency| latency.p50_us)
}

fn p50_millis(figures: &Figures) -> Option<f64> {
    p50(figures).map(|us| us / 1000.0)
}

async fn one_caller(lab: &Lab, protocol: &str, server: &Server) -> Result<Vec<Figures>> {
    let line_up = lab.line_up(server).await?;
    let (n, call) = (lab.of(1000, 200), Call::echo());
    let work = Work::Calls { n, call };
    measured(&line_up.measured, protocol, lab.of(15, 3), &work).await
}

pub(super) async fn latency(lab: &Lab) -> Result<Vec<Row>> {
    let all = one_caller(lab, PROTOCOL, &lab.usual_server(&[])).await?;
    Ok(vec![
        row("one caller: median", "µs", &all, p50),
        row("one caller: added to the median", "µs", &all, |one| {
            one.added_p50_us
        })
        .target(Target::TimesAtMost(1.5))
        .headline(),
        row("one caller: added to p99", "µs", &all, |one| {
            one.added_p99_us
        })
        .target(Target::TimesAtMost(3.0))
        .headline(),
    ])
}

pub(super) async fn pinned(lab: &Lab) -> Result<Vec<Row>> {
    let pinned = Pinned::to_one_core()?;
    let all = one_caller(lab, PROTOCOL, &lab.usual_server(&[])).await?;
    drop(pinned);
    Ok(vec![
        row("all on one core: added to the median", "µs", &all, |one| {
            one.added_p50_us
        })
        .target(Target::TimesAtMost(1.5))
        .headline(),
        row("all on one core: added to p99", "µs", &all, |one| {
            one.added_p99_us
        })
        .target(Target::TimesAtMost(3.0)),
    ])
}

pub(super) async fn stateless(lab: &Lab) -> Result<Vec<Row>> {
    let all = one_caller(lab, "2026-07-28", &lab.server("echo", &[])).await?;
    let title = "stateless requests: added to the median";
    let stateless = row(title, "µs", &all, |one| one.added_p50_us).compared();
    // A client of the one era, a server of the other.
    let all = one_caller(lab, PROTOCOL, &lab.server("echo", &[])).await?;
    let title = "between the eras: added to the median";
    let between = row(title, "µs", &all, |one| one.added_p50_us).compared();
    Ok(vec![stateless, between])
}

pub(super) async fn throughput(lab: &Lab, callers: usize) -> Result<Vec<Row>> {
    let line_up = lab.line_up(&lab.usual_server(&[])).await?;
    let work = Work::Load {
        callers,
        sessions: 1,
        secs: lab.of(2.0, 0.5),
        call: Call::echo(),
    };
    let all = measured(&line_up.measured, PROTOCOL, lab.of(7, 3), &work).await?;
    let title = format!("{callers} callers: calls per second");
    let calls = row(&title, "/s", &all, |one| one.per_sec)
        .target(Target::TimesAtLeast(0.6))
        .headline();
    let title = format!("{callers} callers: processor time per call");
    let cpu = row(&title, "µs", &all, |one| one.cpu_us_per_call).compared();
    let cpu = match callers {
        16 => cpu.target(Target::Most(20.0)).headline(),
        _ => cpu,
    };
    Ok(vec![calls, cpu])
}

pub(super) async fn list(lab: &Lab) -> Result<Vec<Row>> {
    let line_up = lab.line_up(&lab.usual_server(&[("TOOLS", "500")])).await?;
    // The bare endpoint has no tools.
    let peers: Vec<Peer> = (line_up.measured.iter())
        .filter(|peer| peer.name != "http")
        .cloned()
        .collect();
    let n = lab.of(50, 10);
    let all = measured(&peers, PROTOCOL, lab.of(9, 3), &Work::Lists { n }).await?;
    for one in &all {
        let tools = one.tools.unwrap_or(0);
        ensure!(tools >= 500, "{} lists {tools} tools", one.target);
    }
    let list = row("a list of 500 tools", "ms", &all, p50_millis);
    Ok(vec![list.target(Target::TimesAtMost(1.0)).headline()])
}

pub(super) async fn payload(lab: &Lab) -> Result<Vec<Row>> {
    let line_up = lab.line_up(&lab.usual_server(&[])).await?;
    let mut rows = Vec::new();
    let before = resident(&line_up);
    for (title, bytes, n) in [
        ("a result of 1 KB", 1 << 10, lab.of(200, 20)),
        ("a result of 100 KB", 100 << 10, lab.of(50, 10)),
        ("a result of 5 MB", 5 << 20, lab.of(10, 3)),
    ] {
        let call = Call::sized("blob", bytes);
        let work = Work::Calls { n, call };
        let all = measured(&line_up.measured, PROTOCOL, lab.of(7, 3), &work).await?;
        let row = row(title, "ms", &all, p50_millis).compared();
        rows.push(match bytes {
            0x0050_0000 => row.target(Target::TimesAtMost(1.5)).headline(),
            _ => row,
        });
    }
    // Some give back what they do not need after a moment.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let kept = before.iter().zip(resident(&line_up));
    let kept = kept.map(|((name, before), (_, after))| (name.as_str(), Some(after - before)));
    rows.push(
        Row::new("kept after results of 5 MB", "MB")
            .figures(kept)
            .target(Target::Most(15.0))
            .headline(),
    );
    Ok(rows)
}

/// Memory of the gateways, in MB.
fn resident(line_up: &LineUp) -> Vec<(String, f64)> {
    let of = |pid| processes::usage(pid).0.rss_kb as f64 / 1024.0;
    let gateways = line_up.gateways.iter();
    gateways
        .map(|one| (one.name.clone(), of(one.pid())))
        .collect()
}

pub(super) async fn sessions(lab: &Lab) -> Result<Vec<Row>> {
    let line_up = lab.line_up(&lab.usual_server(&[])).await?;
    let (n, call) = (50, Call::echo());
    let work = Work::Sessions { n, call };
    let all = measured(&line_up.measured, PROTOCOL, lab.of(15, 3), &work).await?;
    let title = "50 sessions opened at once: median until called";
    let opened = row(title, "ms", &all, p50_millis);
    Ok(vec![opened.target(Target::TimesAtMost(2.0)).headline()])
}
