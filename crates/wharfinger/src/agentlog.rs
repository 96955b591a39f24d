//! The log of each agent in its own file (A189): what its servers wrote, and what became of them.

use std::collections::HashMap;
use std::sync::Weak;
use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, timeout_at};

use crate::agentfile::LogRow;
use crate::log::{LogLevel, LogStream, Logged};
use crate::model::{AgentName, Profile};
use crate::waiting::on;
use crate::wharf::{Inner, Wharf};

/// Lines that are written together, and how long the first of them waits for others.
const BATCH: usize = 256;
const LINGER: Duration = Duration::from_millis(200);

/// Keeps the lines, until the wharf is over.
pub(crate) async fn keep(wharf: Weak<Inner>, mut lines: Receiver<Logged>) {
    let Some(stop) = wharf.upgrade().map(|wharf| wharf.context.stop.clone()) else {
        return;
    };
    loop {
        let first = match stop.run_until_cancelled(lines.recv()).await {
            // What a server says when it is stopped still counts.
            None => match lines.try_recv() {
                Ok(line) => line,
                Err(_) => return,
            },
            Some(Ok(line)) => line,
            Some(Err(RecvError::Lagged(_))) => continue,
            Some(Err(RecvError::Closed)) => return,
        };
        let mut batch = vec![first];
        let until = Instant::now() + LINGER;
        while batch.len() < BATCH
            && let Ok(Ok(line)) = timeout_at(until, lines.recv()).await
        {
            batch.push(line);
        }
        let Some(wharf) = wharf.upgrade().map(Wharf) else {
            return;
        };
        write(&wharf, batch).await;
    }
}

async fn write(wharf: &Wharf, batch: Vec<Logged>) {
    let mut by_agent: HashMap<AgentName, Vec<LogRow>> = HashMap::new();
    for line in batch {
        if let Some(agent) = &line.entry.agent {
            by_agent.entry(agent.clone()).or_default().push(row(&line));
        }
    }
    for (name, rows) in by_agent {
        let agent = wharf.own_agent(&name);
        if agent.profile != Profile::Agent {
            continue;
        }
        let Ok(file) = agent.file() else { continue };
        if file.is_read_only() {
            continue;
        }
        if let Err(error) = on(&file, move |file| file.append_logs(&rows)).await {
            tracing::warn!(agent = %name, "its log could not be kept: {error}");
        }
    }
}

fn row(line: &Logged) -> LogRow {
    let level = match line.entry.level {
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error => "error",
    };
    let event = match line.entry.stream {
        LogStream::Stdout | LogStream::Stderr => "mcp.log",
        LogStream::System => "mcp.status.changed",
    };
    LogRow {
        level: level.into(),
        origin: Some("mcp".into()),
        event: Some(event.into()),
        target: Some(line.server.to_string()),
        message: line.entry.text.clone(),
        data: None,
        created_at: i64::try_from(line.entry.at).unwrap_or(i64::MAX),
    }
}
