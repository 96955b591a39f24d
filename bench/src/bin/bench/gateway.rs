//! A gateway that runs, in a folder of its own, until dropped.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use wharfinger_bench::load::Peer;
use wharfinger_bench::processes::{self, Process};
use wharfinger_bench::session::{Options, Session, Target};

use crate::peers::{PeerEntry, filled};

/// How long one may take to end before it is made to.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Gateway {
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) token: Option<String>,
    pub(crate) started: Instant,
    process: Child,
    /// Kept open, so that it can go on talking.
    _stdout: Option<BufReader<ChildStdout>>,
    /// Goes after it has ended.
    _kept: Kept,
}

/// Where it lives.
enum Kept {
    Nothing,
    Home { _home: Rc<Home> },
    Folder { _folder: TempDir },
}

/// A server as gateways are told of it.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
}

impl Server {
    /// As one command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let variables = self.env.iter().map(|(key, value)| format!("{key}={value}"));
        let mut words = vec!["env".to_owned()];
        words.extend(variables);
        words.extend_from_slice(&self.command);
        words
    }
}

/// `{"mcpServers": …}`, as everybody reads it.
pub(crate) fn settings(servers: &[Server]) -> Value {
    let entries = servers.iter().map(|server| {
        let entry = json!({
            "command": server.command[0],
            "args": server.command[1..],
            "env": server.env,
            "parallel": true,
        });
        (server.name.clone(), entry)
    });
    json!({"mcpServers": entries.collect::<serde_json::Map<_, _>>()})
}

/// The home of a daemon, which outlives it.
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    pub(crate) fn new(servers: &[Server]) -> Result<Rc<Self>> {
        let folder = tempfile::Builder::new().prefix("wharf-bench-").tempdir()?;
        let text = settings(servers).to_string();
        std::fs::write(folder.path().join("settings.json"), text)?;
        Ok(Rc::new(Self { folder }))
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // Nothing of whoever runs this but the way to programs.
        command
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", self.folder.path())
            .env("WHARFINGER_HOME", self.folder.path())
            .stdin(Stdio::null());
        command
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("bench.log")).unwrap_or_default()
    }

    /// The agent's token, which a daemon has made.
    fn token(&self, program: &Path) -> Result<String> {
        let mut command = self.command(program);
        command.args(["agent", "endpoint", "default", "--json"]);
        let out = command.output().context("can't run wharf")?;
        let words = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "wharf agent endpoint: {words}");
        let endpoint: Value = serde_json::from_slice(&out.stdout)?;
        let token = endpoint["token"].as_str().context("no token")?;
        Ok(token.to_owned())
    }
}

impl Gateway {
    /// A daemon in that home. With the token of an earlier one, nothing but its own words is waited for.
    pub(crate) fn wharf(
        name: &str,
        program: &Path,
        home: &Rc<Home>,
        token: Option<String>,
    ) -> Result<Self> {
        let mut command = home.command(program);
        let log = std::fs::File::create(home.folder.path().join("bench.log"))?;
        command
            .args(["up", "--listen", "127.0.0.1:0", "--log", "warn"])
            .stderr(log);
        let mut gateway = Self::listening(
            name,
            &mut command,
            Kept::Home {
                _home: home.clone(),
            },
        )
        .with_context(|| format!("{name} does not start: {}", home.log()))?;
        let base = gateway.target.to_string();
        let base = base.trim_end_matches('/');
        gateway.target = format!("{base}/agents/default/mcp").parse()?;
        gateway.token = Some(match token {
            Some(token) => token,
            None => home.token(program)?,
        });
        Ok(gateway)
    }

    /// One of the floors.
    pub(crate) fn floor(name: &str, program: &Path, arguments: &[String]) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        Self::listening(name, &mut command, Kept::Nothing)
            .with_context(|| format!("{name} does not start"))
    }

    /// Starts it and waits until it says where it listens.
    fn listening(name: &str, command: &mut Command, kept: Kept) -> Result<Self> {
        let started = Instant::now();
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let stdout = process.stdout.take().context("no standard output")?;
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        let url = loop {
            line.clear();
            ensure!(stdout.read_line(&mut line)? > 0, "it ended");
            if let Some((_, rest)) = line.split_once("listening on ") {
                break rest.split([',', ' ', '\n']).next().unwrap_or_default();
            }
        };
        Ok(Self {
            name: name.to_owned(),
            target: url.parse()?,
            token: None,
            started,
            process,
            _stdout: Some(stdout),
            _kept: kept,
        })
    }

    /// Another gateway; waits until it lists tools.
    pub(crate) async fn peer(folder: &Path, entry: &PeerEntry, server: &Server) -> Result<Self> {
        let own = tempfile::Builder::new().prefix("peer-bench-").tempdir()?;
        let config = own.path().join("mcp.json");
        let servers = std::slice::from_ref(server);
        std::fs::write(&config, settings(servers).to_string())?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let (port, line) = (port.port().to_string(), server.words().join(" "));
        let (folder, config) = (folder.to_string_lossy(), config.to_string_lossy());
        let fill = [
            ("port", port.as_str()),
            ("peers", &folder),
            ("config", &config),
            ("server", &line),
        ];
        let words = entry.words(&fill, &server.words());
        let (program, arguments) = words.split_first().context("an empty command")?;
        let started = Instant::now();
        let log = std::fs::File::create(own.path().join("log"))?;
        let process = Command::new(program)
            .args(arguments)
            .env("HOME", own.path())
            .envs(&entry.env)
            .current_dir(own.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("can't start {program}"))?;
        let gateway = Self {
            name: entry.name.clone(),
            target: filled(&entry.target, &fill).parse()?,
            token: None,
            started,
            process,
            _stdout: None,
            _kept: Kept::Folder { _folder: own },
        };
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            match gateway.list(&Options::new("2025-11-25")).await {
                Ok(tools) if !tools.is_empty() => return Ok(gateway),
                outcome => {
                    let name = &gateway.name;
                    ensure!(Instant::now() < end, "{name} does not start: {outcome:?}");
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// As it is measured.
    pub(crate) fn measured(&self) -> Peer {
        Peer {
            name: self.name.clone(),
            target: self.target.clone(),
            pid: Some(self.pid()),
            token: self.token.clone(),
        }
    }

    pub(crate) async fn session(&self, options: &Options) -> Result<Session> {
        let mut options = options.clone();
        options.token.clone_from(&self.token);
        Session::open(&self.target, &options).await
    }

    /// Its tools, in a session of its own.
    pub(crate) async fn list(&self, options: &Options) -> Result<Vec<String>> {
        let session = self.session(options).await?;
        let mut names = Vec::new();
        session.list(&mut names).await?;
        session.close().await;
        Ok(names)
    }

    pub(crate) fn servers(&self) -> Vec<Process> {
        processes::servers(self.pid())
    }

    /// Signals it alone.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(process) = Process::find(self.pid()) {
            process.signal(signal);
        }
    }

    /// Whether it has ended by itself; a child that is not waited for would count as running.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(Some(_)))
    }
}

impl Drop for Gateway {
    /// Asks, waits, and then makes sure.
    fn drop(&mut self) {
        let all = processes::all(self.pid());
        self.signal(Signal::TERM);
        let end = Instant::now() + PATIENCE;
        while !self.has_ended() && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        for process in all {
            process.signal(Signal::KILL);
        }
        self.process.wait().ok();
    }
}
