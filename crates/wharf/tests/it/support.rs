//! A home, the program, and a daemon that is gone when the test is.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use wharfinger_testkit::{Filters, Home, fake_server, processes, wait_for, wait_until};

/// Each process that a daemon starts carries this, with a value that ends in `-<pid of the daemon>`.
const OWNER: &str = "WHARFINGER_OWNER";

/// A home and the commands run in it.
pub(crate) struct Wharf {
    pub(crate) home: Home,
}

impl Wharf {
    pub(crate) fn new() -> Self {
        Self { home: Home::new() }
    }

    /// The program, with nothing of the test's own environment but `PATH`.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wharf"));
        command
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("WHARFINGER_HOME", self.home.path())
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a command; everything it said, and its exit code.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        self.said(words, &self.command(words).output().unwrap())
    }

    /// The same, with something on standard input.
    pub(crate) fn run_with_input(&self, words: &[&str], input: &str) -> String {
        let mut child = self.command(words).stdin(Stdio::piped()).spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        self.said(words, &child.wait_with_output().unwrap())
    }

    /// The answer of a command that must succeed.
    #[track_caller]
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let output = self.command(words).arg("--json").output().unwrap();
        assert!(output.status.success(), "{}", self.said(words, &output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// An agent `bot` of the agent profile that has a fake server `s`.
    #[track_caller]
    pub(crate) fn make_bot(&self, modes: &[&str]) {
        self.add_fake("s", modes);
        self.json(&["agent", "new", "bot", "--profile", "agent"]);
        self.json(&["agent", "attach", "bot", "s"]);
    }

    /// Starts a command that waits for an approval, and waits until it does; the id.
    #[track_caller]
    pub(crate) fn ask(&self, words: &[&str]) -> (Child, String) {
        let child = self.command(words).spawn().unwrap();
        let id = wait_for("an approval", || {
            let open = self.json(&["approvals"]);
            open[0]["id"].as_str().map(str::to_owned)
        });
        (child, id)
    }

    pub(crate) fn said(&self, words: &[&str], output: &Output) -> String {
        let answer = String::from_utf8_lossy(&output.stdout);
        let talk = String::from_utf8_lossy(&output.stderr);
        let talk: Vec<String> = talk.lines().map(|line| format!("! {line}\n")).collect();
        let code = output.status.code().filter(|code| *code != 0);
        let code = code
            .map(|code| format!("[exit {code}]\n"))
            .unwrap_or_default();
        let said = format!(
            "$ wharf {}\n{answer}{}{code}",
            words.join(" "),
            talk.concat()
        );
        self.filter(&said)
    }

    /// Without what differs from run to run.
    pub(crate) fn filter(&self, text: &str) -> String {
        let program = env!("CARGO_BIN_EXE_wharf");
        let filters = Filters::new()
            .path(self.home.path(), "[HOME]")
            .path(&fake_server(), "[FAKE]");
        filters.path(program.as_ref(), "[WHARF]").apply(text)
    }

    /// Starts `wharf up` and waits until it listens.
    pub(crate) fn up(&self) -> Daemon {
        Daemon::start(self.command(&["up", "--listen", "127.0.0.1:0"]))
    }

    /// Adds a fake server, which must work.
    #[track_caller]
    pub(crate) fn add_fake(&self, name: &str, modes: &[&str]) {
        let block = json!({name: {"command": fake_server(), "args": modes}}).to_string();
        let output = self.command(&["add", &block]).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            self.said(&["add", name], &output)
        );
    }

    /// What still runs of this home, the test's own daemon aside.
    pub(crate) fn left(&self) -> Vec<u32> {
        let home = self.home.path().display().to_string();
        processes::with_environment_mark("WHARFINGER_HOME", &home)
    }

    /// Stops a daemon that was started in the background; nothing of it may be left.
    #[track_caller]
    pub(crate) fn stop_background(&self) {
        let pid = u32::try_from(self.json(&["status"])["pid"].as_u64().unwrap()).unwrap();
        let started = processes::children_of(pid);
        assert_eq!(self.run(&["stop"]), "$ wharf stop\nstopped\n");
        wait_until("everything to be gone", || {
            self.left().is_empty() && !started.iter().any(|pid| processes::alive(*pid))
        });
    }
}

impl Drop for Wharf {
    /// After a failed test: a daemon in the background would outlive it.
    fn drop(&mut self) {
        for pid in self.left() {
            processes::kill(pid);
        }
    }
}

/// A daemon in the foreground.
pub(crate) struct Daemon {
    pub(crate) process: Child,
    /// What it has said on standard output until it listened.
    pub(crate) said: String,
    stderr: Option<JoinHandle<String>>,
    /// Ends after the daemon, when that was killed.
    guard: Vec<u32>,
}

impl Daemon {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut process = command.spawn().unwrap();
        let mut stderr = process.stderr.take().unwrap();
        // Read all the time, so that it never waits.
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut said = String::new();
        stdout.read_line(&mut said).unwrap();
        assert!(
            said.starts_with("listening on"),
            "it said {said:?} and {}",
            stderr.join().unwrap()
        );
        if said.contains("no servers") {
            for _ in 0..4 {
                stdout.read_line(&mut said).unwrap();
            }
        }
        let guard = processes::children_of(process.id());
        Self {
            process,
            said,
            stderr: Some(stderr),
            guard,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits for its end; its exit code and what it said on standard error. Nothing of it may be left.
    #[track_caller]
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let status = wait_for("the daemon to end", || self.process.try_wait().unwrap());
        let stderr = self.stderr.take().unwrap().join().unwrap();
        wait_until("its processes to be gone", || self.left().is_empty());
        (status.code(), stderr)
    }

    fn left(&self) -> Vec<u32> {
        let ending = format!("-{}", self.pid());
        let marks = processes::environment_marks(OWNER).into_iter();
        let marked = marks
            .filter(|(_, owner)| owner.ends_with(&ending))
            .map(|(pid, _)| pid);
        let guard = self.guard.iter().copied();
        marked
            .chain(guard.filter(|pid| processes::alive(*pid)))
            .collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.stderr.is_none() {
            return;
        }
        processes::terminate(self.pid());
        if thread::panicking() {
            drop(self.process.kill());
        }
        wait_for("the daemon to end", || self.process.try_wait().unwrap());
        wait_until("its processes to be gone", || self.left().is_empty());
    }
}
