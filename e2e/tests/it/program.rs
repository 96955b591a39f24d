//! Running a program to its end, with everything it said.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use wharfinger_testkit::{processes, wait_for, wait_within};

use crate::installed;

/// Real clients are slow to start, slower still on a busy machine.
const LIMIT: Duration = Duration::from_secs(90);

/// A program that sees Node 22 first, keeps its files in `home`, and gets no input.
pub(crate) fn program(name: impl AsRef<OsStr>, home: &Path) -> Command {
    let mut command = Command::new(name);
    command
        .current_dir(home)
        .env("HOME", home)
        .env("PATH", installed::path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What a program said.
#[derive(Debug)]
#[expect(dead_code, reason = "stderr is for the messages of failed tests")]
pub(crate) struct Said {
    pub(crate) stdout: String,
    stderr: String,
}

impl Said {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }
}

/// Runs a program that must succeed.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Said {
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{error}: {command:?}"));
    let (stdout, stderr) = (
        Listener::to(child.stdout.take()),
        Listener::to(child.stderr.take()),
    );
    let mut status = None;
    wait_within(LIMIT, &format!("the end of {command:?}"), || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    let said = Said {
        stdout: stdout.all(),
        stderr: stderr.all(),
    };
    assert!(status.unwrap().success(), "{command:?}: {said:#?}");
    said
}

/// Reads a stream so that its writer never waits, and keeps the lines.
pub(crate) struct Listener {
    lines: Arc<Mutex<Vec<String>>>,
    reader: JoinHandle<()>,
}

impl Listener {
    pub(crate) fn to(stream: Option<impl Read + Send + 'static>) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let stream = BufReader::new(stream.expect("the stream is piped"));
        let heard = Arc::clone(&lines);
        let reader = thread::spawn(move || {
            for line in stream.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                heard.lock().unwrap().push(line);
            }
        });
        Self { lines, reader }
    }

    pub(crate) fn so_far(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Everything, when the stream has ended: when nobody holds it open any more.
    #[track_caller]
    fn all(self) -> String {
        wait_within(LIMIT, "the end of its output", || self.reader.is_finished());
        self.so_far().join("\n")
    }
}

/// One of our scripted stand-ins for a model API; it ends with the value.
pub(crate) struct StandIn {
    process: Child,
    pub(crate) port: u16,
}

impl StandIn {
    /// A script that calls `tool` with `arguments` once.
    pub(crate) fn start(script: &str, tool: &str, arguments: &str, home: &Path) -> Self {
        Self::start_with(script, tool, arguments, home, &[])
    }

    /// The same, with more options of that script.
    pub(crate) fn start_with(
        script: &str,
        tool: &str,
        arguments: &str,
        home: &Path,
        more: &[&str],
    ) -> Self {
        let mut command = program("python3", home);
        command.arg(installed::script(script));
        command
            .args(["--tool", tool, "--arguments", arguments])
            .args(more);
        let mut process = command.spawn().unwrap();
        let (stdout, stderr) = (
            Listener::to(process.stdout.take()),
            Listener::to(process.stderr.take()),
        );
        let port = wait_for("the port of the stand-in", || {
            assert!(
                processes::alive(process.id()),
                "{script} died: {:?}",
                stderr.so_far()
            );
            stdout.so_far().first()?.parse().ok()
        });
        Self { process, port }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // Gone already if it crashed, which the client has complained about by then.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
