//! Runs a program that installs, within a limit, and keeps the end of what it says.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::InstallError;
use crate::launch::{Grace, Inherit, Owner, Plan, spawn};
use crate::model::{Exit, Secret};

/// Lines of a program's output that an error carries.
const TAIL: usize = 20;
/// Bytes of one such line.
const LINE: usize = 400;
/// How long the rest of what a program said is waited for once it has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Bytes of an answer.
const ANSWER: usize = 1024 * 1024;

/// What is needed to install something.
pub struct Work<'a> {
    /// Whose the processes are.
    pub owner: &'a Owner,
    /// What of the host's environment they get.
    pub inherit: &'a Inherit,
    /// For all of it.
    pub limit: Duration,
    /// When that is over.
    pub deadline: Instant,
    /// Ends it.
    pub stop: &'a CancellationToken,
    /// Hears what is being done.
    pub say: &'a (dyn Fn(&'static str) + Send + Sync),
}

/// One run of a program.
pub(super) struct Run<'a> {
    pub(super) doing: &'static str,
    pub(super) program: &'a str,
    pub(super) args: Vec<String>,
    pub(super) folder: &'a Path,
}

impl Work<'_> {
    /// A variable of the host.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.inherit.host.get(name).map(String::as_str)
    }

    /// Runs a program to its end; gives what it wrote to standard output.
    pub(super) async fn run(&self, run: Run<'_>) -> Result<String, InstallError> {
        let Run {
            doing,
            program,
            args,
            folder,
        } = run;
        (self.say)(doing);
        if self.stop.is_cancelled() {
            return Err(InstallError::Stopped);
        }
        let plan = Plan {
            program: program.to_owned(),
            args,
            cwd: folder.to_owned(),
            env: Secret::new(self.environment()),
            refused: vec![],
            secrets: vec![],
        };
        let launched = spawn(&plan, self.owner)?;
        // Nothing that installs may ask anybody.
        drop(launched.stdin);
        let mut process = launched.process;
        let (mut answer, mut tail) = (vec![], VecDeque::new());
        let ended = {
            let said = async {
                tokio::join!(
                    read_all(launched.stdout, &mut answer),
                    read_tail(launched.stderr, &mut tail)
                );
            };
            tokio::pin!(said);
            let exit = async {
                tokio::select! {
                    exit = process.wait() => {
                        // What it has started may hold its pipes open after it.
                        timeout(LAST_WORDS, &mut said).await.ok();
                        exit
                    }
                    () = &mut said => process.wait().await,
                }
            };
            tokio::select! {
                exit = exit => Ended::Exited(exit),
                () = sleep_until(self.deadline) => Ended::TimedOut,
                () = self.stop.cancelled() => Ended::Stopped,
            }
        };
        let grace = Grace {
            exit: Duration::ZERO,
            term: Duration::from_secs(2),
        };
        process.stop(grace).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let output = || {
            let said = answer.lines().map(cut);
            let lines: Vec<String> = said.chain(tail.iter().cloned()).collect();
            lines[lines.len().saturating_sub(TAIL)..].join("\n")
        };
        match ended {
            Ended::Exited(Exit::Code(0)) => Ok(answer),
            Ended::Exited(exit) => Err(InstallError::Failed {
                doing,
                how: exit.to_string(),
                output: output(),
            }),
            Ended::TimedOut => Err(InstallError::TimedOut {
                doing,
                limit: self.limit,
                output: output(),
            }),
            Ended::Stopped => Err(InstallError::Stopped),
        }
    }

    fn environment(&self) -> BTreeMap<String, String> {
        let mut environment = self.inherit.base(&[]);
        environment.insert("NO_COLOR".into(), "1".into());
        environment
    }
}

enum Ended {
    Exited(Exit),
    TimedOut,
    Stopped,
}

async fn read_all(from: impl AsyncRead + Unpin, into: &mut Vec<u8>) {
    let mut from = from;
    let mut piece = [0; 4096];
    while let Ok(read) = from.read(&mut piece).await {
        if read == 0 {
            return;
        }
        // The rest is read all the same, or it would wait.
        if into.len() < ANSWER {
            into.extend_from_slice(&piece[..read]);
        }
    }
}

async fn read_tail(from: impl AsyncRead + Unpin, into: &mut VecDeque<String>) {
    let mut from = BufReader::new(from);
    let mut line = vec![];
    loop {
        line.clear();
        let mut limited = (&mut from).take(64 * 1024);
        match limited.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        if text.trim().is_empty() {
            continue;
        }
        if into.len() == TAIL {
            into.pop_front();
        }
        into.push_back(cut(text.trim_end()));
    }
}

fn cut(line: &str) -> String {
    let end = line.floor_char_boundary(LINE);
    line[..end].to_owned()
}
