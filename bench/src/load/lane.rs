//! A target while it is measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use super::batch::Batch;
use super::{Call, Peer, Work};
use crate::processes;
use crate::session::{Options, Session};
use crate::stats::nanos;

/// The path is warmed up by so many calls, or for so long.
const WARM_UP: (usize, Duration) = (300, Duration::from_millis(700));
/// After so many failures in a row, a round is given up.
const GIVE_UP: usize = 20;

/// Its sessions, and the tool's name on it.
pub(super) struct Lane<'a> {
    pub(super) peer: &'a Peer,
    options: Options,
    pub(super) sessions: Vec<Arc<Session>>,
    tool: String,
    pub(super) failed: Option<String>,
    pub(super) batches: Vec<Batch>,
}

impl<'a> Lane<'a> {
    pub(super) fn new(peer: &'a Peer, options: &Options) -> Self {
        let mut options = options.clone();
        options.token = peer.token.clone().or(options.token);
        Self {
            peer,
            options,
            sessions: Vec::new(),
            tool: String::new(),
            failed: None,
            batches: Vec::new(),
        }
    }

    /// Opens the sessions and warms the path up.
    pub(super) async fn prepare(&mut self, work: &Work) -> Result<()> {
        let (count, call) = match work {
            Work::Calls { call, .. } | Work::Sessions { call, .. } => (1, Some(call)),
            Work::Load { sessions, call, .. } => (*sessions, Some(call)),
            Work::Lists { .. } => (1, None),
        };
        for _ in 0..count {
            let session = Session::open(&self.peer.target, &self.options).await?;
            self.sessions.push(Arc::new(session));
        }
        let Some(call) = call else {
            return Ok(());
        };
        self.tool = self.sessions[0].find_tool(&call.tool).await?;
        let (most, longest) = WARM_UP;
        let until = Instant::now() + longest;
        for i in 0..most {
            let session = &self.sessions[i % count];
            session.call(&self.tool, &call.arguments).await?;
            if Instant::now() > until {
                break;
            }
        }
        Ok(())
    }

    /// Its part of a round. One that has failed for good is left out.
    pub(super) async fn round(&mut self, work: &Work) {
        let batch = if self.failed.is_none() {
            self.measure(work).await
        } else {
            Batch::default()
        };
        if batch.errors.len() >= GIVE_UP && batch.nanos.is_empty() {
            self.failed = batch.errors.first().cloned();
        }
        self.batches.push(batch);
    }

    async fn measure(&self, work: &Work) -> Batch {
        let cpu = |pid| processes::usage(pid).0.cpu_us;
        let before = self.peer.pid.map(cpu);
        let started = Instant::now();
        let mut batch = match work {
            Work::Calls { n, call } => self.calls(*n, call).await,
            Work::Lists { n } => self.lists(*n).await,
            Work::Load {
                callers,
                secs,
                call,
                ..
            } => self.load(*callers, *secs, call).await,
            Work::Sessions { n, call } => self.many_sessions(*n, call).await,
        };
        batch.secs = started.elapsed().as_secs_f64();
        if let Some((pid, before)) = self.peer.pid.zip(before) {
            let usage = processes::usage(pid).0;
            batch.cpu_us = Some(usage.cpu_us.saturating_sub(before));
            batch.usage = batch.usage.or(Some(usage));
        }
        batch
    }

    async fn calls(&self, n: usize, call: &Call) -> Batch {
        let mut batch = Batch::default();
        for _ in 0..n {
            let at = Instant::now();
            let reply = self.sessions[0].call(&self.tool, &call.arguments).await;
            batch.add(at, reply.map(|reply| reply.body.len()));
            if batch.errors.len() >= GIVE_UP {
                break;
            }
        }
        batch
    }

    async fn lists(&self, n: usize) -> Batch {
        let (mut batch, mut names) = (Batch::default(), Vec::new());
        for _ in 0..n {
            let at = Instant::now();
            batch.add(at, self.sessions[0].list(&mut names).await);
        }
        batch.tools = Some(names.len());
        batch
    }

    async fn load(&self, callers: usize, secs: f64, call: &Call) -> Batch {
        let until = Instant::now() + Duration::from_secs_f64(secs);
        let mut tasks = JoinSet::new();
        for i in 0..callers {
            let session = self.sessions[i % self.sessions.len()].clone();
            let (tool, arguments) = (self.tool.clone(), call.arguments.clone());
            tasks.spawn(async move {
                let mut batch = Batch::default();
                while Instant::now() < until && batch.errors.len() < GIVE_UP {
                    let at = Instant::now();
                    let reply = session.call(&tool, &arguments).await;
                    batch.add(at, reply.map(|reply| reply.body.len()));
                }
                batch
            });
        }
        let mut all = Batch::default();
        for batch in tasks.join_all().await {
            all.merge(batch);
        }
        all
    }

    async fn many_sessions(&self, n: usize, call: &Call) -> Batch {
        let mut tasks = JoinSet::new();
        for _ in 0..n {
            let (target, options) = (self.peer.target.clone(), self.options.clone());
            let (tool, arguments) = (self.tool.clone(), call.arguments.clone());
            tasks.spawn(async move {
                let at = Instant::now();
                let session = Session::open(&target, &options).await?;
                session.list(&mut Vec::new()).await?;
                session.call(&tool, &arguments).await?;
                anyhow::Ok((at.elapsed(), session))
            });
        }
        let (mut batch, mut open) = (Batch::default(), Vec::new());
        for outcome in tasks.join_all().await {
            match outcome {
                Ok((took, session)) => {
                    batch.nanos.push(nanos(took));
                    open.push(session);
                }
                Err(error) => batch.errors.push(format!("{error:#}")),
            }
        }
        batch.usage = self.peer.pid.map(|pid| processes::usage(pid).0);
        for session in open {
            session.close().await;
        }
        batch
    }
}
