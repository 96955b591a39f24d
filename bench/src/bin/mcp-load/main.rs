//! `mcp-load`: drives MCP servers and gateways, and prints one JSON line per run.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measuring tool: figures on standard output, troubles on standard error"
)]

mod cli;
mod modes;

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use serde_json::{Value, json};
use wharfinger_bench::load::{Call, Figures, Peer, Work, compare};
use wharfinger_bench::processes;
use wharfinger_bench::session::Options;

use crate::cli::{Cli, Common, Mode};

fn main() -> ExitCode {
    let cli = Cli::parse();
    // One thread, so that it takes at most one core from what it measures.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run(cli)));
    match outcome {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("mcp-load: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> Result<Value> {
    let common = &cli.common;
    let pids = pids(common)?;
    if let Mode::Proc = cli.mode {
        let trees: Vec<_> = pids.iter().map(|(name, pid)| tree(name, *pid)).collect();
        return Ok(json!({"mode": "proc", "results": trees}));
    }
    let peers = peers(common, &pids)?;
    let first = peers.first().context("no --target")?;
    let options = common.options()?;
    let rounds = common.rounds.max(1);
    let measure = async |work: Work| compare(&peers, &options, rounds, &work).await;
    let told = |mode: &str, results: Vec<Figures>| {
        let protocol = &options.protocol;
        json!({"mode": mode, "protocol": protocol, "rounds": rounds, "results": results})
    };
    Ok(match cli.mode {
        Mode::Proc => unreachable!("it needs no target"),
        Mode::Latency { call, n } => {
            let call = call.into();
            told("latency", measure(Work::Calls { n, call }).await?)
        }
        Mode::Throughput {
            call,
            c,
            secs,
            sessions,
        } => {
            let work = Work::Load {
                callers: c,
                sessions: sessions.clamp(1, c.max(1)),
                secs: secs.min(60.0),
                call: call.into(),
            };
            told("throughput", measure(work).await?)
        }
        Mode::Sessions { call, m } => {
            let (n, call) = (m.min(2000), call.into());
            told("sessions", measure(Work::Sessions { n, call }).await?)
        }
        Mode::List { n } => told("list", measure(Work::Lists { n }).await?),
        Mode::Payload { sizes, n, kind } => {
            let mut by_size = serde_json::Map::new();
            for size in sizes {
                let call = Call::sized(&kind, cli::bytes(&size)?);
                let figures = measure(Work::Calls { n, call }).await?;
                by_size.insert(size, json!(figures));
            }
            json!({"mode": "payload", "protocol": options.protocol, "rounds": rounds, "sizes": by_size})
        }
        Mode::Ready { tools, within } => modes::ready(first, options, tools, within).await?,
        Mode::Call { call } => modes::call(first, &options, &call.into()).await?,
        Mode::Progress { n } => modes::progress(first, &options, n).await?,
    })
}

fn tree(name: &str, pid: u32) -> Value {
    let (own, servers) = processes::usage(pid);
    let pids: Vec<u32> = processes::servers(pid).iter().map(|one| one.pid).collect();
    json!({"target": name, "gateway": own, "servers": servers, "server_pids": pids})
}

fn pids(common: &Common) -> Result<Vec<(String, u32)>> {
    let pids = common.pids.iter().map(|pid| {
        let (name, pid) = pid.split_once('=').context("--pid NAME=PID")?;
        Ok((name.to_owned(), pid.parse()?))
    });
    pids.collect()
}

fn peers(common: &Common, pids: &[(String, u32)]) -> Result<Vec<Peer>> {
    let peers = common.targets.iter().map(|target| {
        let (name, target) = target.split_once('=').context("--target NAME=TARGET")?;
        let pid = pids.iter().find(|(known, _)| known == name);
        Ok(Peer {
            name: name.to_owned(),
            target: target.parse()?,
            pid: pid.map(|(_, pid)| *pid),
            token: None,
        })
    });
    let peers: Vec<_> = peers.collect::<Result<_>>()?;
    for (name, _) in pids {
        ensure!(
            peers.iter().any(|peer| peer.name == *name),
            "--pid {name}: no such target"
        );
    }
    Ok(peers)
}

impl Common {
    fn options(&self) -> Result<Options> {
        let headers = self.headers.iter().map(|header| {
            let (name, value) = header.split_once(':').context("--header NAME:VALUE")?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        });
        Ok(Options {
            token: self.token.clone(),
            headers: headers.collect::<Result<_>>()?,
            timeout: std::time::Duration::try_from_secs_f64(self.timeout)?,
            stderr: self.stderr,
            ..Options::new(&self.protocol)
        })
    }
}
