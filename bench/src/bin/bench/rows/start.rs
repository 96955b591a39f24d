//! From the start of the daemon to the first list of tools, with servers that are slow to start.

use std::path::Path;
use std::rc::Rc;

use anyhow::{Result, ensure};
use wharfinger_bench::session::Options;
use wharfinger_bench::stats::{median, millis};

use super::PROTOCOL;
use crate::gateway::{Gateway, Home};
use crate::lab::Lab;
use crate::report::{Row, Target};

const SERVERS: usize = 20;
/// What each of them needs to start.
const DELAY_MS: &str = "300";

pub(super) async fn measure(lab: &Lab) -> Result<Vec<Row>> {
    let (mut warm, mut cold) = (Vec::new(), Vec::new());
    for (name, program) in &lab.wharfs {
        let (first, later) = lists(lab, program).await?;
        cold.push((name.as_str(), median(&first)));
        warm.push((name.as_str(), median(&later)));
    }
    let note = format!("{SERVERS} servers that need {DELAY_MS} ms each");
    Ok(vec![
        Row::new("first list after the start, tools known", "ms")
            .figures(warm)
            .target(Target::Most(50.0))
            .note(&note)
            .headline(),
        Row::new("first list after the start, nothing known", "ms")
            .figures(cold)
            .target(Target::Most(400.0))
            .note(&note)
            .headline(),
    ])
}

/// Milliseconds until the first list: in homes that know nothing, and in those that know the tools.
async fn lists(lab: &Lab, program: &Path) -> Result<(Vec<f64>, Vec<f64>)> {
    let servers = lab.servers(SERVERS, &[("START_DELAY_MS", DELAY_MS)]);
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for _ in 0..lab.of(3, 1) {
        let home = Home::new(&servers)?;
        // Makes the token, and asks nobody for tools.
        let token = Gateway::wharf("wharf", program, &home, None)?.token.clone();
        cold.push(list(program, &home, token.clone()).await?);
        for _ in 0..lab.of(5, 2) {
            warm.push(list(program, &home, token.clone()).await?);
        }
    }
    Ok((cold, warm))
}

async fn list(program: &Path, home: &Rc<Home>, token: Option<String>) -> Result<f64> {
    let daemon = Gateway::wharf("wharf", program, home, token)?;
    let session = daemon.session(&Options::new(PROTOCOL)).await?;
    let mut names = Vec::new();
    session.list(&mut names).await?;
    let took = millis(daemon.started.elapsed());
    ensure!(names.len() >= SERVERS * 6, "only {} tools", names.len());
    session.close().await;
    Ok(took)
}
