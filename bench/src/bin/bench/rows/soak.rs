//! Whether memory stays where it is, over many calls and many sessions.
#![expect(
    clippy::cast_precision_loss,
    reason = "figures of a benchmark need no more than 52 bits"
)]

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use wharfinger_bench::processes::resident;
use wharfinger_bench::session::{Options, Session};

use super::PROTOCOL;
use crate::gateway::{Gateway, Home};
use crate::lab::Lab;
use crate::report::{Row, Target};

/// What may come and go without anything being lost, in MB.
const FLAT: f64 = 1.0;
/// Parts of a run; the first one warms up.
const PARTS: usize = 10;
const CALLERS: usize = 16;
/// Sessions that are open at once.
const AT_ONCE: usize = 50;
const HELLO: &str = r#"{"text":"hello"}"#;

pub(super) async fn measure(lab: &Lab) -> Result<Vec<Row>> {
    let (calls, sessions) = (lab.of(100_000, 10_000), lab.of(2000, 500));
    let (mut by_calls, mut by_sessions) = (Vec::new(), Vec::new());
    for (name, program) in &lab.wharfs {
        let home = Home::new(&[lab.usual_server(&[])])?;
        let daemon = Gateway::wharf(name, program, &home, None)?;
        by_calls.push((name.as_str(), Some(many_calls(&daemon, calls).await?)));
        drop(daemon);
        by_sessions.push((
            name.as_str(),
            Some(many_sessions(program, &home, sessions).await?),
        ));
    }
    Ok(vec![
        Row::new(format!("memory grown over {calls} calls"), "MB")
            .figures(by_calls)
            .target(Target::Most(FLAT)),
        Row::new(format!("memory grown over {sessions} sessions"), "MB")
            .figures(by_sessions)
            .target(Target::Most(FLAT)),
    ])
}

async fn many_calls(daemon: &Gateway, count: usize) -> Result<f64> {
    let session = Arc::new(daemon.session(&Options::new(PROTOCOL)).await?);
    let tool = session.find_tool("echo").await?;
    let mut growth = Growth::of(daemon.pid());
    for _ in 0..PARTS {
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (session, tool) = (session.clone(), tool.clone());
            callers.spawn(async move {
                for _ in 0..count / PARTS / CALLERS {
                    session.call(&tool, HELLO).await?;
                }
                anyhow::Ok(())
            });
        }
        callers
            .join_all()
            .await
            .into_iter()
            .collect::<Result<()>>()?;
        growth.look().await;
    }
    if let Some(session) = Arc::into_inner(session) {
        session.close().await;
    }
    Ok(growth.megabytes())
}

async fn many_sessions(program: &Path, home: &Rc<Home>, count: usize) -> Result<f64> {
    let daemon = Gateway::wharf("wharf", program, home, None)?;
    let options = Options::new(PROTOCOL);
    // One that stays, so that the server does.
    let first = daemon.session(&options).await?;
    let tool = first.find_tool("echo").await?;
    first.call(&tool, HELLO).await?;
    let mut growth = Growth::of(daemon.pid());
    for _ in 0..PARTS {
        for _ in 0..count / PARTS / AT_ONCE {
            let mut opening = JoinSet::new();
            for _ in 0..AT_ONCE {
                let (target, tool) = (daemon.target.clone(), tool.clone());
                let mut options = options.clone();
                options.token.clone_from(&daemon.token);
                opening.spawn(async move {
                    let session = Session::open(&target, &options).await?;
                    session.list(&mut Vec::new()).await?;
                    session.call(&tool, HELLO).await?;
                    session.close().await;
                    anyhow::Ok(())
                });
            }
            opening
                .join_all()
                .await
                .into_iter()
                .collect::<Result<()>>()?;
        }
        growth.look().await;
    }
    let servers = daemon.servers().len();
    ensure!(servers == 1, "{servers} servers run");
    first.close().await;
    Ok(growth.megabytes())
}

/// Memory over time.
struct Growth {
    pid: u32,
    kilobytes: Vec<u64>,
}

impl Growth {
    fn of(pid: u32) -> Self {
        Self {
            pid,
            kilobytes: Vec::new(),
        }
    }

    async fn look(&mut self) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.kilobytes.push(resident(self.pid));
    }

    /// From the end of the first part to the end of the last.
    fn megabytes(&self) -> f64 {
        match (self.kilobytes.first(), self.kilobytes.last()) {
            (Some(first), Some(last)) => (*last as f64 - *first as f64) / 1024.0,
            _ => f64::NAN,
        }
    }
}
