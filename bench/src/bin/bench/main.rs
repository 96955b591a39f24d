//! `bench`: the daemon beside the direct connection, the bare endpoint and the least possible gateway, interleaved.
//!
//! It builds what it measures, starts everything in folders of its own, prints a table with targets, and stops all it
//! has started. A missed target is a figure, not a failure: only what could not be measured is one.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a measuring tool: it builds and runs programs, and prints figures"
)]

mod build;
mod callgrind;
mod gateway;
mod lab;
mod machine;
mod peers;
mod report;
mod rows;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use serde_json::json;

use crate::lab::Lab;
use crate::machine::Machine;
use crate::report::Report;

/// Measures the daemon beside what costs the least that can do its work
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Only measurements whose name has this word; may be repeated. See bench/README.md for the names
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,
    /// Shorter runs: good enough to see that everything works, not to quote
    #[arg(long)]
    quick: bool,
    /// Write all figures here, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Replace the table between the `bench` markers of this Markdown file
    #[arg(long, value_name = "FILE")]
    update: Option<PathBuf>,
    /// Another build of `wharf` to measure beside this one; may be repeated
    #[arg(long, value_name = "NAME=PROGRAM", value_parser = named)]
    also: Vec<(String, PathBuf)>,
    /// Gateways to measure beside it, as `bench/peers/install` describes them
    #[arg(long, value_name = "FILE")]
    peers: Option<PathBuf>,
}

fn named(text: &str) -> Result<(String, PathBuf)> {
    let (name, program) = text.split_once('=').context("NAME=PROGRAM")?;
    Ok((name.to_owned(), program.into()))
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run(Cli::parse())));
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything could be measured.
async fn run(cli: Cli) -> Result<bool> {
    let programs = build::programs()?;
    let mut wharfs = vec![("wharf".to_owned(), programs.wharf)];
    wharfs.extend(cli.also);
    let lab = Lab {
        echo: programs.echo,
        floor: programs.floor,
        wharfs,
        peers: cli.peers.map(|file| peers::read(&file)).transpose()?,
        quick: cli.quick,
    };
    let machine = Machine::look();
    println!("{machine}");
    let mut report = Report::default();
    let wanted = |name: &str| {
        let named = cli.only.iter().any(|word| name.contains(word.as_str()));
        named || (cli.only.is_empty() && name != rows::INSTRUCTIONS)
    };
    let mut whole = true;
    for name in rows::NAMES {
        if !wanted(name) {
            continue;
        }
        eprintln!("bench: {name}");
        match rows::measure(name, &lab).await {
            Ok(rows) => report.rows.extend(rows),
            Err(error) => {
                whole = false;
                eprintln!("bench: {name}: {error:#}");
            }
        }
    }
    println!("{report}");
    if let Some(file) = cli.json {
        let all = json!({"machine": machine, "quick": cli.quick, "rows": report.rows});
        std::fs::write(&file, format!("{all:#}\n"))
            .with_context(|| format!("can't write {}", file.display()))?;
    }
    if let Some(file) = cli.update {
        report.update(&file, &machine)?;
    }
    Ok(whole)
}
