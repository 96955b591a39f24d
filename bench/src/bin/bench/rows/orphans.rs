//! What is left of a server that ignores SIGTERM and the end of its input when its gateway is ended.
#![expect(
    clippy::cast_precision_loss,
    reason = "figures of a benchmark need no more than 52 bits"
)]

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use tokio::task::JoinSet;
use wharfinger_bench::processes::{self, Process};
use wharfinger_bench::session::Options;

use super::PROTOCOL;
use crate::gateway::{Gateway, Server};
use crate::lab::{Lab, WHARF};
use crate::report::{Row, Target};

/// How long everything may take to be gone.
const PATIENCE: Duration = Duration::from_secs(15);
/// `npx` starts slowly, in particular several of it at once.
const START: Duration = Duration::from_secs(30);

const SIGNALS: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::KILL];

pub(super) async fn measure(lab: &Lab) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut slowest = Duration::ZERO;
    for (title, server) in servers(lab) {
        let mut row = Row::new(format!("left behind, {title}"), "");
        let mut notes = Vec::new();
        for name in lab.names() {
            let mut left = 0;
            for ended in end(lab, &server, &name).await? {
                left += ended.left;
                if name == WHARF {
                    slowest = slowest.max(ended.after);
                    if ended.left > 0 {
                        notes.push(format!("{} after {:?}", ended.left, ended.signal));
                    }
                }
            }
            row = row.figure(&name, Some(left as f64));
        }
        rows.push(
            row.target(Target::Most(0.0))
                .note(notes.join(", "))
                .headline(),
        );
    }
    let seconds = slowest.as_secs_f64();
    rows.push(Row::new("until nothing is left, at most", "s").figure(WHARF, Some(seconds)));
    Ok(rows)
}

/// The stubborn server: by itself, and behind programs that start others.
fn servers(lab: &Lab) -> Vec<(&'static str, Server)> {
    let server = lab.usual_server(&[("STUBBORN", "1")]);
    let behind = |words: [&str; 2], end: &str| {
        let mut server = server.clone();
        let line = format!("'{}'{end}", server.command[0]);
        server.command = words.map(str::to_owned).to_vec();
        server.command.push(line);
        server
    };
    let mut all = vec![
        ("a stubborn server", server.clone()),
        // With something to do afterwards, it stays.
        ("behind `sh -c`", behind(["sh", "-c"], "; true")),
    ];
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join("npx").is_file()) {
        all.push(("behind `npx`", behind(["npx", "-c"], "")));
    }
    all
}

struct Ended {
    signal: Signal,
    left: usize,
    /// Until nothing was left, or until the end of patience.
    after: Duration,
}

/// Ends three gateways in the middle of a call, each by another signal, all at once.
async fn end(lab: &Lab, server: &Server, name: &str) -> Result<Vec<Ended>> {
    let mut victims = Vec::new();
    let mut calls = JoinSet::new();
    for signal in SIGNALS {
        let gateway = lab.gateway(name, server).await?;
        let mut options = Options::new(PROTOCOL);
        options.timeout = Duration::from_secs(60);
        let session = gateway.session(&options).await?;
        let sleep = session.find_tool("sleep").await?;
        calls.spawn(async move {
            // Its outcome is that of its gateway.
            session.call(&sleep, r#"{"ms":60000}"#).await.ok();
        });
        victims.push((signal, gateway));
    }
    for (_, gateway) in &victims {
        runs(gateway).await?;
    }
    let begun = Instant::now();
    let mut ending: Vec<(Signal, Gateway, Vec<Process>)> = Vec::new();
    for (signal, gateway) in victims {
        let mut started = processes::all(gateway.pid());
        started.retain(|process| process.pid != gateway.pid());
        gateway.signal(signal);
        ending.push((signal, gateway, started));
    }
    let mut ended = Vec::new();
    while !ending.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let late = begun.elapsed() > PATIENCE;
        ending.retain_mut(|(signal, gateway, started)| {
            let alive = started.iter().filter(|process| process.is_alive()).count();
            let left = alive + usize::from(!gateway.has_ended());
            if left > 0 && !late {
                return true;
            }
            for process in &*started {
                process.signal(Signal::KILL);
            }
            ended.push(Ended {
                signal: *signal,
                left,
                after: begun.elapsed(),
            });
            false
        });
    }
    calls.shutdown().await;
    Ok(ended)
}

/// Waits until its server runs, with the call in it.
async fn runs(gateway: &Gateway) -> Result<()> {
    let end = Instant::now() + START;
    while gateway.servers().is_empty() {
        let name = &gateway.name;
        (Instant::now() < end)
            .then_some(())
            .with_context(|| format!("the server of {name} does not start"))?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok(())
}
