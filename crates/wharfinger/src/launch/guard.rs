//! The guard: a second, tiny process that outlives a killed owner just long enough to end what it left.
//!
//! It is told nothing. It holds the reading end of a pipe; when that ends, the owner is gone, and every process that
//! carries the owner's mark is ended. After an orderly stop there is none.

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::process::{Child, ChildStdin, Command};

use super::tree::{self, OWNER, Owner};

/// The guard could not be started.
#[derive(Debug, thiserror::Error)]
#[error("can't start the guard `{}`: {source}", .program.display())]
pub struct GuardError {
    program: PathBuf,
    source: io::Error,
}

/// A running guard, as its owner holds it. It costs a process that waits; the daemon has one, and so has the example
/// `chat`.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    pipe: ChildStdin,
}

impl Guard {
    /// Starts `program args… OWNER`, which must end in [`run`]: normally the own program, with an argument of its own.
    pub fn start(program: PathBuf, args: &[&str], owner: &Owner) -> Result<Self, GuardError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that starts the guard"
        )]
        let mut command = Command::new(&program);
        command
            .args(args)
            .arg(owner.as_str())
            .env_clear()
            .current_dir("/");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Not in the terminal's group: what ends the owner must not end the guard first.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command
            .spawn()
            .map_err(|source| GuardError { program, source })?;
        let pipe = child.stdin.take().expect("its input was asked for");
        Ok(Self { child, pipe })
    }

    /// After an orderly stop: lets it look once more, and waits for it.
    pub async fn dismiss(mut self) {
        drop(self.pipe);
        self.child.wait().await.ok();
    }
}

/// The guard's whole life; blocks until its owner is gone and nothing of it is left, for 5 s at most after that.
pub fn run(owner: &str, mut pipe: impl Read) {
    let mut buffer = [0; 64];
    while matches!(pipe.read(&mut buffer), Ok(read) if read > 0) {}
    // One that is just being started may not show its mark yet, so it looks again.
    end_all(3, || tree::marked(OWNER, owner));
}

/// Ends what earlier owners of this home have left behind, should their guards have been killed with them. Only for
/// who holds the home and has started nothing yet. Blocks.
pub fn sweep(home: &str) {
    end_all(1, || tree::of_home(home));
}

fn end_all(looks: usize, find: impl Fn() -> std::collections::BTreeSet<tree::Seen>) {
    let started = Instant::now();
    let mut asked = std::collections::BTreeSet::new();
    let mut looks_left = looks;
    while started.elapsed() < Duration::from_secs(5) {
        let left = find();
        looks_left = if left.is_empty() {
            looks_left - 1
        } else {
            looks
        };
        if looks_left == 0 {
            return;
        }
        let patient = started.elapsed() < Duration::from_millis(1500);
        for seen in left {
            if !patient {
                tree::signal(seen, Signal::KILL);
            } else if asked.insert(seen) {
                tree::signal(seen, Signal::TERM);
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
