//! The life of one started process, up to and past its end.

use std::time::Duration;

use rustix::process::Signal;
use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout};

use super::tree::{self, INSTANCE};
use crate::model::Exit;

/// How long each step of stopping may take.
#[derive(Clone, Copy, Debug)]
pub struct Grace {
    /// After the end of its input, until SIGTERM.
    pub exit: Duration,
    /// After SIGTERM, until SIGKILL.
    pub term: Duration,
}

/// A process, its group, and everything that descends from it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pid: i32,
    mark: String,
    exit: Option<Exit>,
}

/// How often a group without a leader is looked at while it ends.
const LOOK: Duration = Duration::from_millis(20);

impl Process {
    pub(super) fn new(child: Child, mark: String) -> Self {
        // Only a child that was waited for has no id.
        let pid = child
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .unwrap_or(0);
        Self {
            child,
            pid,
            mark,
            exit: None,
        }
    }

    /// Its process id, which is also that of its group.
    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Waits for it to end. Safe to drop and call again.
    pub async fn wait(&mut self) -> Exit {
        if let Some(exit) = self.exit {
            return exit;
        }
        let exit = self.child.wait().await.map_or(Exit::Unknown, exit_of);
        self.exit = Some(exit);
        exit
    }

    /// Asks it and its group to end, and waits for them and everything below them, at most this long. For those that
    /// take leave on SIGTERM alone; [`stop`](Self::stop) comes next.
    pub async fn ask_to_end(&mut self, patience: Duration) {
        let mark = self.mark.clone();
        let mut family = blocking(move || tree::marked(INSTANCE, &mark)).await;
        self.signal_group(Signal::TERM);
        let deadline = Instant::now() + patience;
        timeout(patience, self.wait()).await.ok();
        while self.has_family(&mut family).await && Instant::now() < deadline {
            sleep(LOOK).await;
        }
    }

    /// Ends it and everything below it (V67): its input must be closed by now. Waits, sends SIGTERM to the group,
    /// waits, sends SIGKILL to the group and to every process that was seen to belong to it.
    pub async fn stop(&mut self, grace: Grace) -> Exit {
        let mark = self.mark.clone();
        let mut family = blocking(move || tree::marked(INSTANCE, &mark)).await;
        if timeout(grace.exit, self.wait()).await.is_err() {
            self.signal_group(Signal::TERM);
            timeout(grace.term, self.wait()).await.ok();
        } else if self.has_family(&mut family).await {
            // The leader is gone and has left others: `npx` and `sh -c` do that.
            self.signal_group(Signal::TERM);
            for seen in &family {
                tree::signal(*seen, Signal::TERM);
            }
        } else {
            return self.wait().await;
        }
        let patience = Instant::now() + grace.term;
        while self.has_family(&mut family).await && Instant::now() < patience {
            sleep(LOOK).await;
        }
        self.kill(&mut family).await;
        self.waited().await
    }

    /// After SIGKILL a process ends at once, unless the system itself holds it; that is not waited for.
    async fn waited(&mut self) -> Exit {
        timeout(Duration::from_secs(5), self.wait())
            .await
            .unwrap_or(Exit::Unknown)
    }

    async fn kill(&mut self, family: &mut std::collections::BTreeSet<tree::Seen>) {
        if self.exit.is_some() && family.is_empty() {
            // The id of its group may be somebody else's by now.
            return;
        }
        self.signal_group(Signal::KILL);
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            for seen in family.iter() {
                tree::signal(*seen, Signal::KILL);
            }
            self.waited().await;
            if !self.has_family(family).await || Instant::now() > deadline {
                return;
            }
            sleep(LOOK).await;
        }
    }

    /// Forgets who has ended, adds who has been born; whether anybody is left.
    async fn has_family(&self, family: &mut std::collections::BTreeSet<tree::Seen>) -> bool {
        let (mark, mut known) = (self.mark.clone(), std::mem::take(family));
        *family = blocking(move || {
            known.extend(tree::marked(INSTANCE, &mark));
            known.retain(|seen| tree::is_alive(*seen));
            known
        })
        .await;
        !family.is_empty() || (cfg!(not(target_os = "linux")) && tree::has_group(self.pid))
    }

    /// Only while a member of the group is known to be ours: the id of a group that has ended may be given again.
    fn signal_group(&self, signal: Signal) {
        if self.exit.is_none() || tree::has_group(self.pid) {
            tree::signal_group(self.pid, signal);
        }
    }
}

/// Looking through the process table takes milliseconds, so not on a thread that serves calls.
async fn blocking<T: Send + 'static + Default>(look: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(look).await.unwrap_or_default()
}

#[cfg(unix)]
fn exit_of(status: std::process::ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}

#[cfg(not(unix))]
fn exit_of(status: std::process::ExitStatus) -> Exit {
    status.code().map_or(Exit::Unknown, Exit::Code)
}
