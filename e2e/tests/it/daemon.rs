//! The daemon under test, in a home of its own, and everything it started.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wharfinger_testkit::{Home, binary, processes, wait_for, wait_within};

use crate::http::Session;
use crate::program::{Listener, Said, program, run};

/// Each process that a daemon starts carries this, with a value that ends in `-<pid of the daemon>`.
const OWNER: &str = "WHARFINGER_OWNER";

/// How long what a stopped daemon has ended may take to be gone.
const SWEEP: Duration = Duration::from_secs(2);

pub(crate) struct Daemon {
    home: Home,
    process: Child,
    stdout: Listener,
    stderr: Listener,
}

/// How clients reach the default agent.
pub(crate) struct Endpoint {
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) command: String,
    pub(crate) arguments: Vec<String>,
}

impl Daemon {
    /// Starts `wharf up` and waits until it says where it listens.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same, with more arguments.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        Self::start_in(Home::new(), &[], arguments)
    }

    /// The same, in a home that is there already, with variables of its own.
    pub(crate) fn start_in(home: Home, environment: &[(&str, &str)], arguments: &[&str]) -> Self {
        let mut command = wharf(home.path());
        command
            .args(["up", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .envs(environment.iter().copied());
        let mut process = command.spawn().unwrap();
        let stdout = Listener::to(process.stdout.take());
        let stderr = Listener::to(process.stderr.take());
        let daemon = Self {
            home,
            process,
            stdout,
            stderr,
        };
        wait_for("the daemon to say that it listens", || {
            assert!(
                processes::alive(daemon.pid()),
                "it died: {}",
                daemon.words()
            );
            daemon.words().contains("http://127.0.0.1:").then_some(())
        });
        daemon
    }

    /// A daemon with one server whose tools can be called; the second value is the name under
    /// which the agent sees `tool`.
    pub(crate) fn with_server(name: &str, command: &[&str], tool: &str) -> (Self, String) {
        let daemon = Self::start();
        daemon.add(name, &json!({}), command);
        let exposed = daemon.wait_for_tool(tool);
        (daemon, exposed)
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Runs a command of `wharf` that must succeed.
    #[track_caller]
    pub(crate) fn wharf(&self, arguments: &[&str]) -> Said {
        run(wharf(self.home()).args(arguments))
    }

    /// Adds a server; `environment` is an object of variables.
    #[track_caller]
    pub(crate) fn add(&self, name: &str, environment: &Value, command: &[&str]) {
        let variables: Vec<String> = environment
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap()))
            .collect();
        let mut words = vec!["add", name];
        words.extend(variables.iter().flat_map(|variable| ["--env", variable]));
        words.push("--");
        words.extend(command);
        self.wharf(&words);
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        self.endpoint_of("default")
    }

    pub(crate) fn endpoint_of(&self, agent: &str) -> Endpoint {
        let endpoint = self.wharf(&["agent", "endpoint", agent, "--json"]).json();
        let text = |pointer: &str| {
            let value = endpoint.pointer(pointer).and_then(Value::as_str);
            value
                .unwrap_or_else(|| panic!("no {pointer} in {endpoint}"))
                .to_owned()
        };
        let arguments = endpoint["stdio"]["args"].as_array().unwrap();
        Endpoint {
            url: text("/url"),
            token: text("/token"),
            command: text("/stdio/command"),
            arguments: arguments
                .iter()
                .map(|word| word.as_str().unwrap().to_owned())
                .collect(),
        }
    }

    pub(crate) fn session(&self) -> Session {
        self.session_of("default")
    }

    /// Of a client that can do this.
    pub(crate) fn session_as(&self, capabilities: &serde_json::Value) -> Session {
        let endpoint = self.endpoint_of("default");
        Session::open_as(&endpoint.url, &endpoint.token, capabilities)
    }

    pub(crate) fn session_of(&self, agent: &str) -> Session {
        let endpoint = self.endpoint_of(agent);
        Session::open(&endpoint.url, &endpoint.token)
    }

    /// Waits until the agent sees the tool, and returns the name under which it does.
    #[track_caller]
    pub(crate) fn wait_for_tool(&self, tool: &str) -> String {
        let mut session = self.session();
        let mut names = Vec::new();
        let mut found = None;
        // Some servers need seconds to start for the first time.
        wait_within(Duration::from_mins(1), &format!("the tool {tool}"), || {
            names = session.tool_names();
            found = exposed(&names, tool);
            found.is_some()
        });
        found.unwrap()
    }

    /// The running processes that this daemon started, directly or not. A browser overwrites the
    /// environment of some of its processes, so marks alone miss those.
    pub(crate) fn started(&self) -> Vec<u32> {
        let mut found = processes::children_of(self.pid());
        found.extend(marked(self.pid()));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Stops it politely; it must succeed and leave nothing. Its home is there for another one.
    #[track_caller]
    pub(crate) fn stop(mut self) -> Home {
        let started = self.started();
        processes::terminate(self.pid());
        let status = wait_for("the daemon to stop", || self.process.try_wait().unwrap());
        assert!(status.success(), "{status}: {}", self.words());
        assert_gone(SWEEP, self.pid(), &started);
        std::mem::replace(&mut self.home, Home::new())
    }

    /// Ends it without a chance to clean up; returns what it had started.
    pub(crate) fn kill(&mut self) -> Vec<u32> {
        let started = self.started();
        processes::kill(self.pid());
        self.process.wait().unwrap();
        started
    }

    fn words(&self) -> String {
        let mut words = self.stdout.so_far();
        words.extend(self.stderr.so_far());
        words.join("\n")
    }
}

impl Drop for Daemon {
    /// After a failed test: nothing of it may disturb the others.
    fn drop(&mut self) {
        let started = self.started();
        drop(self.process.kill());
        drop(self.process.wait());
        for pid in started.into_iter().chain(marked(self.pid())) {
            processes::kill(pid);
        }
    }
}

/// Waits until nothing that a daemon started runs any more.
#[track_caller]
pub(crate) fn assert_gone(limit: Duration, daemon: u32, started: &[u32]) {
    let mut left = Vec::new();
    let mut look = || {
        left = started
            .iter()
            .copied()
            .filter(|pid| processes::alive(*pid))
            .collect();
        left.extend(marked(daemon));
        left.sort_unstable();
        left.dedup();
        left.is_empty()
    };
    let end = Instant::now() + limit;
    while !look() && Instant::now() < end {
        thread::sleep(Duration::from_millis(20));
    }
    let named: Vec<String> = left
        .iter()
        .map(|pid| format!("{pid} {}", processes::command_line(*pid)))
        .collect();
    assert!(
        named.is_empty(),
        "{limit:?} after the daemon these still run: {named:#?}"
    );
}

fn marked(daemon: u32) -> Vec<u32> {
    let ending = format!("-{daemon}");
    let marks = processes::environment_marks(OWNER).into_iter();
    marks
        .filter(|(_, value)| value.ends_with(&ending))
        .map(|(pid, _)| pid)
        .collect()
}

pub(crate) fn wharf(home: &Path) -> Command {
    let wharf: PathBuf = binary("wharf", "wharf");
    let mut command = program(wharf, home);
    command.arg("--home").arg(home);
    // npx and uvx keep what they downloaded in the real home.
    if let Some(real) = std::env::home_dir() {
        command.env("HOME", real);
    }
    command
}

/// The name under which an agent sees a tool: its own, or one that ends with it.
pub(crate) fn exposed(names: &[String], tool: &str) -> Option<String> {
    let ending = format!("_{tool}");
    let own = names.iter().find(|name| *name == tool);
    own.or_else(|| names.iter().find(|name| name.ends_with(&ending)))
        .cloned()
}
