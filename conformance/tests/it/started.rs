//! The programs under test: the fixture alone, and the daemon with the fixture as its only server.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use wharfinger_testkit::{Home, PATIENCE, binary, processes, wait_for};

/// A program that runs until this goes, its output in files of its home.
struct Running {
    process: Child,
    home: Home,
}

impl Running {
    fn start(home: Home, command: &mut Command) -> Self {
        let file = |name| File::create(home.file(name)).unwrap();
        let process = command
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .unwrap();
        Self { process, home }
    }

    /// Waits for the first URL on its standard output.
    fn url(&self) -> String {
        wait_for("the program to say where it listens", || {
            let said = self.home.read("stdout");
            let alive = processes::alive(self.process.id());
            assert!(alive, "it died: {said}{}", self.home.read("stderr"));
            // Only of a line that is written to its end.
            let (lines, _) = said.rsplit_once('\n')?;
            let mut words = lines.split_whitespace();
            words
                .find(|word| word.starts_with("http://127.0.0.1:"))
                .map(str::to_owned)
        })
    }
}

impl Drop for Running {
    /// Politely at first: the daemon ends what it has started.
    fn drop(&mut self) {
        let started = processes::children_of(self.process.id());
        processes::terminate(self.process.id());
        let end = Instant::now() + PATIENCE;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        drop(self.process.kill());
        drop(self.process.wait());
        for pid in started {
            processes::kill(pid);
        }
    }
}

/// The fixture, served over HTTP by itself.
pub(crate) struct BareFixture {
    _running: Running,
    url: String,
}

impl BareFixture {
    pub(crate) fn start(era: &str) -> Self {
        let mut command = Command::new(fixture());
        command.args(["--era", era, "--http", "127.0.0.1:0"]);
        let running = Running::start(Home::new(), &mut command);
        let url = running.url();
        Self {
            _running: running,
            url,
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

/// The daemon in a home of its own.
pub(crate) struct Daemon {
    running: Running,
}

/// Where the default agent is served.
pub(crate) struct Endpoint {
    pub(crate) address: String,
    pub(crate) path: String,
    pub(crate) token: String,
}

impl Daemon {
    pub(crate) fn with_fixture(era: &str) -> Self {
        let home = Home::new();
        let mut command = wharf(home.path());
        command.args(["up", "--listen", "127.0.0.1:0"]);
        let running = Running::start(home, &mut command);
        running.url();
        let daemon = Self { running };
        let fixture = fixture();
        let program = fixture.to_string_lossy();
        // Otherwise the daemon says itself which folders there are, and the suite isn't asked.
        let add = ["add", "fixture", "--roots", "client"];
        let command = ["--", &program, "--era", era, "--stdio"];
        daemon.wharf(&[&add[..], &command].concat());
        daemon
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        let said = self.wharf(&["agent", "endpoint", "default", "--json"]);
        let said: Value = serde_json::from_str(&said).unwrap();
        let url = said["url"].as_str().unwrap();
        let (address, path) = url
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once('/'))
            .unwrap();
        Endpoint {
            address: address.to_owned(),
            path: path.to_owned(),
            token: said["token"].as_str().unwrap().to_owned(),
        }
    }

    /// Runs a command that must succeed, and returns what it answered.
    fn wharf(&self, words: &[&str]) -> String {
        let said = wharf(self.running.home.path())
            .args(words)
            .output()
            .unwrap();
        assert!(said.status.success(), "{words:?}: {said:?}");
        String::from_utf8(said.stdout).unwrap()
    }
}

fn wharf(home: &Path) -> Command {
    let mut command = Command::new(binary("wharf", "wharf"));
    command.arg("--home").arg(home);
    command.env("HOME", home).current_dir(home);
    command
}

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_conformance-fixture"))
}
