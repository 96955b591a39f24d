//! `wharf up`: the daemon, in the foreground or the background.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use wharfinger::config::{File as Text, Inputs, load};
use wharfinger::model::{Place, ServerEntry, Source};
use wharfinger_daemon::{HomeError, Options, Ready, ServeError, serve};

use super::read;
use super::status;
use super::tools::{self, Listing};
use crate::World;
use crate::cli::Up;
use crate::failure::{Exit, Failure};
use crate::ui::{count, exit_interrupted};

/// A background daemon that does not answer after this is said to have failed.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often to look whether it answers.
const LOOK: Duration = Duration::from_millis(10);
/// A log longer than this, in bytes, becomes the old one, and a new one is begun.
const LOG_LIMIT: u64 = 4 * 1024 * 1024;

/// The reference server, for `--try`.
const TRIAL: &str = r#"{"mcpServers": {"everything": {
    "command": "npx",
    "args": ["-y", "@modelcontextprotocol/server-everything@2026.8.31"]
}}}"#;

pub(super) async fn run(world: &World, up: Up) -> Result<(), Failure> {
    if up.background {
        return start(world, &up).await;
    }
    let levels = levels(world, &up)?;
    if up.background_child {
        // Out of the terminal's reach: neither its Ctrl-C nor its closing ends the daemon.
        rustix::process::setsid().ok();
    }
    let log = Log {
        file: up.background_child.then(|| world.paths.log()),
        written: Arc::default(),
    };
    let writer = tracing_subscriber::fmt::layer()
        .with_writer(move || log.clone())
        .with_ansi(false);
    tracing_subscriber::registry()
        .with(writer.with_target(false))
        .with(levels)
        .init();

    let stop = CancellationToken::new();
    let options = Options {
        home: world.paths.home().to_owned(),
        listen: up.listen,
        environment: world.environment.clone(),
        run: if up.trial { trial() } else { vec![] },
        program: world.program.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        remember_environment: !up.for_client,
        stop: stop.clone(),
    };
    let (tell, told) = oneshot::channel();
    let serving = serve(options, |ready| {
        tell.send(ready).ok();
    });
    let talking = async {
        // Without an answer there is no daemon, and `serving` says why.
        if let Ok(ready) = told.await {
            announce(world, &ready);
            if up.trial
                && let Err(Failure::Told(told)) = show_trial(world).await
            {
                world.ui.warn(&told.message);
            }
        }
    };
    let serving = async {
        let outcome = serving.await;
        stop.cancel();
        outcome
    };
    let (outcome, ()) = tokio::join!(
        async {
            tokio::select! {
                outcome = serving => outcome,
                () = interrupted(&stop) => unreachable!("it waits for ever"),
            }
        },
        async {
            tokio::select! {
                () = talking => {}
                () = stop.cancelled() => {}
            }
        },
    );
    outcome.or_else(|error| refused(world, error, up.background_child))
}

/// Asks for a stop at the first signal; ends at once at the second Ctrl-C.
async fn interrupted(stop: &CancellationToken) {
    let (Ok(mut interrupts), Ok(mut terminations)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return std::future::pending().await;
    };
    loop {
        tokio::select! {
            _ = interrupts.recv() => {
                if stop.is_cancelled() {
                    exit_interrupted();
                }
            }
            _ = terminations.recv() => {}
        }
        stop.cancel();
    }
}

/// What is logged: `--log`, else `RUST_LOG`, else `info`.
fn levels(world: &World, up: &Up) -> Result<Targets, Failure> {
    let variable = world
        .environment
        .get("RUST_LOG")
        .filter(|text| !text.is_empty());
    let text = up.log.as_ref().or(variable).map_or("info", String::as_str);
    // A word alone would be taken for a module, of which everything is logged.
    let level = |part: &str| part.contains('=') || LevelFilter::from_str(part).is_ok();
    let targets = Targets::from_str(text)
        .ok()
        .filter(|_| text.split(',').all(level));
    targets.ok_or_else(|| {
        Failure::usage(format!("`{text}` is no level to log"))
            .hint("use `error`, `warn`, `info`, `debug`, `trace` or `off`, and `MODULE=LEVEL` after a comma")
    })
}

fn refused(world: &World, error: ServeError, background: bool) -> Result<(), Failure> {
    match error {
        ServeError::Config(problems) => {
            let failure = Failure::usage("not started, since the configuration has errors");
            if world.ui.json {
                return Err(failure.with("problems", json!(problems)));
            }
            for problem in &problems {
                world.ui.problem(problem);
            }
            Err(failure)
        }
        // Two were started at once, and the other one serves.
        ServeError::Home(HomeError::Held { .. }) if background => Ok(()),
        ServeError::Home(HomeError::Held { .. }) => Err(Failure::failed(error.to_string())
            .hint("`wharf status` tells about it, `wharf stop` stops it")),
        ServeError::Listen { .. } => Err(Failure::failed(error.to_string()).hint(
            format!(
                "another program, or the daemon of another home, may use that port (WF-005): choose one for {} with `--listen`, or `daemon.listen` in config.json",
                world.paths.home().display()
            ),
        )),
        ServeError::Home(_) | ServeError::Open(_) => Err(Failure::failed(error.to_string()).hint(
            format!("`{} doctor` finds out why", world.paths.wharf()),
        )),
        ServeError::Guard(_) => Err(Failure::failed(error.to_string())),
    }
}

/// The first words on standard output; scripts wait for `listening on`.
fn announce(world: &World, ready: &Ready) {
    let Ready {
        url,
        servers,
        problems,
        halted,
        ..
    } = ready;
    if world.ui.json {
        let mut facts = json!({"url": url, "home": ready.home.path(), "servers": servers, "problems": problems});
        if let Some(halted) = halted {
            facts["halted"] = json!(halted);
        }
        // Whoever started it may read no more, which is no reason to end.
        world.ui.answer_json_line(&facts).ok();
        return;
    }
    for problem in problems {
        world.ui.problem(problem);
    }
    if let Some(halted) = halted {
        status::halted(world, halted);
    }
    let text = if *servers == 0 {
        let wharf = world.paths.wharf();
        format!(
            "listening on {url}, with no servers yet\n\
             add a server   {wharf} add time -- uvx mcp-server-time\n\
             see its tools  {wharf} tools\n\
             wire a client  {wharf} agent endpoint\n\
             learn more     wharf --help"
        )
    } else {
        let problems = match problems.len() {
            0 => String::new(),
            many => format!(" and {}, see above", count(many, "warning")),
        };
        format!(
            "listening on {url}, with {}{problems}",
            count(*servers, "server")
        )
    };
    world.ui.answer(&text).ok();
}

fn trial() -> Vec<ServerEntry> {
    let settings = Some(Text {
        name: "--try".into(),
        text: TRIAL.to_owned(),
    });
    let servers = load(&Inputs {
        settings,
        ..Inputs::default()
    })
    .config
    .servers;
    let here = |entry| ServerEntry {
        installed_by: None,
        source: Source::Run,
        place: Place::Run,
        ..entry
    };
    servers.into_iter().map(here).collect()
}

/// What the trial server offers, and something to do with it.
async fn show_trial(world: &World) -> Result<(), Failure> {
    world
        .ui
        .say("starting `everything`, the reference server; npx may have to download it first");
    let client = world.paths.client();
    let started = Instant::now();
    let listing = loop {
        let listing: Listing = read(&tools::ask(world, &client, "default").await?)?;
        let waiting = listing
            .unavailable
            .iter()
            .any(|missing| missing.server == "everything");
        let there = listing.tools.iter().any(|tool| tool.server == "everything");
        if there || !waiting || started.elapsed() > Duration::from_secs(60) {
            break listing;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    };
    tools::complain(world, &listing);
    if listing.tools.is_empty() {
        return Ok(());
    }
    tools::print(world, &listing)?;
    Ok(world.ui.answer(&format!(
        "\nin another terminal, call one:\n  {} call everything/echo message='hello there'",
        world.paths.wharf()
    ))?)
}

/// `--background`: starts the daemon and waits until it answers.
async fn start(world: &World, up: &Up) -> Result<(), Failure> {
    levels(world, up)?;
    let client = world.paths.client();
    if client.is_running().await {
        return listening(world, up).await;
    }
    let log = open_log(world)?;
    let begin = log.metadata().map_or(0, |log| log.len());
    let mut child = spawn(world, up, &log)?;
    let started = Instant::now();
    loop {
        if client.is_running().await {
            return listening(world, up).await;
        }
        let ended = child.try_wait().ok().flatten();
        if let Some(status) = ended.filter(|status| !status.success()) {
            return Err(last_words(world, begin, status.code()));
        }
        if started.elapsed() > PATIENCE {
            return Err(Failure::failed("the daemon does not answer")
                .hint(format!("its log is {}", world.paths.log().display())));
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn listening(world: &World, up: &Up) -> Result<(), Failure> {
    let status = world.paths.client().get("/api/status").await?;
    let listen = status["listen"]
        .as_str()
        .and_then(|listen| listen.parse().ok());
    if let (Some(wanted), Some(listen)) = (up.listen, listen)
        && !is_answered_by(wanted, listen)
    {
        let home = world.paths.home().display();
        let failure = format!("a daemon runs for {home} already, and listens on {listen}");
        return Err(
            Failure::failed(failure).hint("`wharf status` tells about it, `wharf stop` stops it")
        );
    }
    if world.ui.json {
        return Ok(world.ui.answer_json(&status)?);
    }
    let url = status["url"].as_str().unwrap_or_default();
    if !up.for_client {
        world.ui.answer(&format!("listening on {url}"))?;
        if !status["halted"].is_null() {
            status::halted(world, &read(&status["halted"])?);
        }
    }
    Ok(())
}

/// Whether who wanted to listen there has what they wanted; port 0 is any.
fn is_answered_by(wanted: SocketAddr, listen: SocketAddr) -> bool {
    wanted.ip() == listen.ip() && (wanted.port() == 0 || wanted.port() == listen.port())
}

/// Standard error; in the background that is a file, which must not grow for ever.
#[derive(Clone)]
struct Log {
    file: Option<PathBuf>,
    written: Arc<AtomicU64>,
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = io::stderr().write(bytes)?;
        let more = u64::try_from(count).unwrap_or(0);
        let written = self.written.fetch_add(more, Ordering::Relaxed) + more;
        if let Some(file) = self.file.as_ref().filter(|_| written > LOG_LIMIT) {
            self.written.store(0, Ordering::Relaxed);
            roll(file)?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The log becomes the old one. It is open for appending, so what is written next begins it anew.
fn roll(log: &Path) -> io::Result<()> {
    fs::copy(log, log.with_extension("log.1"))?;
    File::options().write(true).open(log)?.set_len(0)
}

/// A log of its own for the background daemon, which has no terminal.
fn open_log(world: &World) -> Result<File, Failure> {
    let path = world.paths.log();
    let failed = |error: io::Error| {
        Failure::failed(format!("can't write {}", path.display())).because(&error)
    };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(world.paths.home())
        .map_err(failed)?;
    let log = File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    if log.metadata().is_ok_and(|log| log.len() > LOG_LIMIT) {
        roll(&path).map_err(failed)?;
    }
    Ok(log)
}

fn spawn(world: &World, up: &Up, log: &File) -> Result<std::process::Child, Failure> {
    let failed = |error: io::Error| Failure::failed("can't start the daemon").because(&error);
    #[expect(
        clippy::disallowed_methods,
        reason = "the daemon is ours, and outlives this process"
    )]
    let mut command = Command::new(&world.program);
    command
        .arg("--home")
        .arg(world.paths.home())
        .args(["up", "--background-child"]);
    if up.for_client {
        command.arg("--for-client");
    }
    if let Some(listen) = up.listen {
        command.arg(format!("--listen={listen}"));
    }
    if let Some(log) = &up.log {
        command.arg(format!("--log={log}"));
    }
    let log = log.try_clone().map_err(failed)?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .current_dir("/");
    command.spawn().map_err(failed)
}

/// The daemon said why it did not start, in its log.
fn last_words(world: &World, begin: u64, code: Option<i32>) -> Failure {
    let mut words = String::new();
    if let Ok(mut log) = File::open(world.paths.log()) {
        // A log that can't be read leaves the message without them.
        log.seek(SeekFrom::Start(begin))
            .and_then(|_| log.read_to_string(&mut words))
            .ok();
    }
    for line in words
        .lines()
        .filter(|line| !line.starts_with(|c: char| c.is_ascii_digit()))
    {
        world.ui.say(line);
    }
    if words.contains("error:") {
        return Failure::Known(if code == Some(2) {
            Exit::Usage
        } else {
            Exit::Failed
        });
    }
    Failure::failed("the daemon ended as soon as it was started")
        .hint(format!("its log is {}", world.paths.log().display()))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_daemon_that_listens_elsewhere_is_not_what_was_wanted() {
        let check = |wanted: &str, listen: &str, expect: bool| {
            let address = |text: &str| text.parse().expect("an address");
            assert_eq!(
                is_answered_by(address(wanted), address(listen)),
                expect,
                "{wanted} {listen}"
            );
        };
        check("127.0.0.1:0", "127.0.0.1:4000", true);
        check("127.0.0.1:4000", "127.0.0.1:4000", true);
        check("127.0.0.1:4001", "127.0.0.1:4000", false);
        check("0.0.0.0:0", "127.0.0.1:4000", false);
    }

    #[test]
    fn a_log_that_is_rolled_begins_anew_and_keeps_the_old_one() {
        let home = wharfinger_testkit::Home::new();
        let path = home.file("daemon.log");
        let mut log = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .expect("a file");
        log.write_all(b"old\n").expect("it is written");
        roll(&path).expect("it is rolled");
        log.write_all(b"new\n").expect("it is written");
        let read = |path: &Path| fs::read_to_string(path).expect("it is there");
        assert_eq!(read(&path), "new\n");
        assert_eq!(read(&home.file("daemon.log.1")), "old\n");
    }
}
