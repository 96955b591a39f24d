//! How many instructions a call takes, and whose they are: the figure that no neighbour on the machine can change.
#![expect(
    clippy::cast_precision_loss,
    reason = "figures of a benchmark need no more than 52 bits"
)]

use std::cmp::Reverse;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use tokio::task::JoinSet;
use wharfinger_bench::session::{Options, Session};

use super::PROTOCOL;
use crate::build;
use crate::callgrind::Counts;
use crate::gateway::Gateway;
use crate::lab::{Lab, WHARF};
use crate::report::Row;

const CALLERS: usize = 16;
const HELLO: &str = r#"{"text":"hello"}"#;

pub(super) async fn measure(lab: &Lab) -> Result<Vec<Row>> {
    // With line numbers, without which nobody could say whose an instruction is.
    let programs = build::with_lines()?;
    let folder = tempfile::Builder::new().prefix("callgrind-").tempdir()?;
    let lab = Lab {
        wharfs: vec![(WHARF.to_owned(), under(&folder, &programs.wharf)?)],
        floor: under(&folder, &programs.floor)?,
        echo: lab.echo.clone(),
        peers: None,
        quick: lab.quick,
    };
    let mut all = Vec::new();
    for name in lab.names() {
        let counts = count(&lab, &name, folder.path()).await?;
        all.push((name, counts));
    }
    Ok(rows(&all))
}

/// A program that runs another one under callgrind, which counts nothing until told to.
fn under(folder: &TempDir, program: &Path) -> Result<PathBuf> {
    let name = program.file_name().context("no program")?;
    let script = folder.path().join(name);
    let text = format!(
        "#!/bin/sh\nexec valgrind --quiet --tool=callgrind --instr-atstart=no \\\n  --callgrind-out-file='{}/%p' '{}' \"$@\" 2>/dev/null\n",
        folder.path().display(),
        program.display()
    );
    fs::write(&script, text)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok(script)
}

struct Counted {
    calls: usize,
    counts: Counts,
}

async fn count(lab: &Lab, name: &str, folder: &Path) -> Result<Counted> {
    let gateway = lab.gateway(name, &lab.usual_server(&[])).await?;
    let session = Arc::new(gateway.session(&Options::new(PROTOCOL)).await?);
    let tool = session.find_tool("echo").await?;
    calls(&session, &tool, 10).await?;
    control(&gateway, "--instr=on")?;
    let each = lab.of(200, 20);
    calls(&session, &tool, each).await?;
    control(&gateway, "--instr=off")?;
    control(&gateway, "--dump")?;
    let dump = folder.join(format!("{}.1", gateway.pid()));
    let text = fs::read_to_string(&dump).context("callgrind has dumped nothing")?;
    Ok(Counted {
        calls: each * CALLERS,
        counts: Counts::read(&text),
    })
}

async fn calls(session: &Arc<Session>, tool: &str, each: usize) -> Result<()> {
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (session, tool) = (session.clone(), tool.to_owned());
        callers.spawn(async move {
            for _ in 0..each {
                session.call(&tool, HELLO).await?;
            }
            anyhow::Ok(())
        });
    }
    callers.join_all().await.into_iter().collect()
}

fn control(gateway: &Gateway, what: &str) -> Result<()> {
    let mut command = Command::new("callgrind_control");
    command.arg(what).arg(gateway.pid().to_string());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().context("this needs valgrind")?;
    ensure!(status.success(), "callgrind_control {what} failed");
    Ok(())
}

fn rows(all: &[(String, Counted)]) -> Vec<Row> {
    let row = |title: &str, of: &dyn Fn(&Counts) -> u64| {
        let per_call = |counted: &Counted| of(&counted.counts) as f64 / counted.calls as f64;
        let figures = all
            .iter()
            .map(|(name, counted)| (name.as_str(), Some(per_call(counted))));
        Row::new(title, "").figures(figures).headline()
    };
    let of = |counts: &Counts, part: &str| counts.parts.get(part).copied().unwrap_or(0);
    let own = all.iter().find(|(name, _)| name == WHARF);
    let mut parts: Vec<(&String, u64)> = own
        .map(|(_, own)| {
            own.counts
                .parts
                .iter()
                .map(|(part, n)| (part, *n))
                .collect()
        })
        .unwrap_or_default();
    let whole: u64 = parts.iter().map(|(_, n)| n).sum();
    // What is less than a hundredth is no part worth a row.
    parts.retain(|(_, n)| n * 100 >= whole);
    parts.sort_by_key(|(_, n)| Reverse(*n));
    let mut rows = vec![row("instructions per call, 16 callers", &Counts::total).compared()];
    for (part, _) in &parts {
        rows.push(row(&format!("… {part}"), &|counts| of(counts, part)));
    }
    rows.push(row("… the rest", &|counts| {
        let told: u64 = parts.iter().map(|(part, _)| of(counts, part)).sum();
        counts.total() - told
    }));
    rows.push(row("allocations per call", &|counts| counts.allocations).compared());
    rows
}
