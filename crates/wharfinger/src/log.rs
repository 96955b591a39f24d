//! What servers write and what becomes of them: kept, told, logged.
//!
//! A ring of entries for each server, over all its instances: its standard error, what it should not have written to
//! standard output, and, of supervised servers, what became of them and of their calls (A188). Whoever keeps a log of
//! its own listens by [`Wharf::log_entries`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::broadcast;

use crate::journal::EventKind;
use crate::model::{AgentName, ServerName, StderrLevel};
use crate::servers::Note;
use crate::vault::Redactor;
use crate::wharf::{Wharf, lock};

/// Where an entry of a server's log comes from.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    /// What it wrote to standard output and is no message.
    Stdout,
    /// What it wrote to standard error.
    Stderr,
    /// What became of it, and its calls.
    System,
}

/// How much an entry of a server's log matters (A189).
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What became of it.
    Info,
    /// What it wrote.
    Warn,
    /// It is in an error state, or a call failed.
    Error,
}

/// An entry of a server's log, redacted.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    /// Milliseconds since 1970, UTC.
    pub at: u64,
    /// Whose process; none while its tools are being discovered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Where it comes from.
    pub stream: LogStream,
    /// How much it matters.
    pub level: LogLevel,
    /// The line.
    pub text: String,
}

/// An entry and whose log it is in.
#[derive(Clone, Debug)]
pub struct Logged {
    /// The server.
    pub server: ServerName,
    /// The entry.
    pub entry: Arc<LogEntry>,
}

/// Characters of a call and of its result that are shown.
const PREVIEW: usize = 200;
/// Servers whose entries are kept, beyond those that are configured.
const SERVERS: usize = 50;

/// All servers' logs.
#[derive(Debug)]
pub(crate) struct Logs {
    rings: HashMap<ServerName, VecDeque<Arc<LogEntry>>>,
    all: broadcast::Sender<Logged>,
}

impl Default for Logs {
    fn default() -> Self {
        Self {
            rings: HashMap::new(),
            all: broadcast::Sender::new(1024),
        }
    }
}

impl Logs {
    /// Keeps an entry. A ring grows by a fifth beyond `limit` before it is cut to that.
    fn push(
        &mut self,
        server: &ServerName,
        entry: Arc<LogEntry>,
        limit: usize,
        is_configured: impl Fn(&ServerName) -> bool,
    ) {
        let ring = self.rings.entry(server.clone()).or_default();
        ring.push_back(entry.clone());
        if ring.len() >= limit + limit / 5 {
            ring.drain(..ring.len() - limit);
        }
        if self.rings.len() > SERVERS {
            let last = |ring: &VecDeque<Arc<LogEntry>>| ring.back().map(|entry| entry.at);
            let others = self.rings.iter().filter(|(name, _)| *name != server);
            let unused = others.filter(|(name, _)| !is_configured(name));
            let quietest = unused.min_by_key(|(_, ring)| last(ring));
            if let Some(quietest) = quietest.map(|(name, _)| name.clone()) {
                self.rings.remove(&quietest);
            }
        }
        // Nobody listening is no failure.
        let server = server.clone();
        self.all.send(Logged { server, entry }).ok();
    }
}

impl Wharf {
    /// Keeps what a server wrote and what became of it, tells it, and logs what it wrote at the level its entry has
    /// (V24). Other notes are not for the log.
    pub(crate) fn log(&self, server: &ServerName, agent: Option<&AgentName>, note: Note) {
        let redactor = self.redactor();
        let said = |failed| {
            if failed {
                LogLevel::Error
            } else {
                LogLevel::Info
            }
        };
        let (stream, level, text) = match note {
            Note::Stderr(line) => (LogStream::Stderr, LogLevel::Warn, clean(&redactor, line)),
            Note::Noise(line) => (LogStream::Stdout, LogLevel::Warn, clean(&redactor, line)),
            Note::System { text, failed } => {
                (LogStream::System, said(failed), clean(&redactor, text))
            }
            Note::Exchange { head, body, failed } => {
                let text = format!("{head}: {}", preview(&redactor, &body));
                (LogStream::System, said(failed), text)
            }
            Note::Status(_) | Note::Notification { .. } | Note::Tools(_) => return,
        };
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        let entry = Arc::new(LogEntry {
            at: u64::try_from(at.unwrap_or_default().as_millis()).unwrap_or(u64::MAX),
            agent: agent.cloned(),
            stream,
            level,
            text,
        });
        let config = self.0.config.load();
        let limit = self.0.context.limits.stderr_lines;
        lock(&self.0.logs).push(server, entry.clone(), limit, |name| {
            config.server(name.as_str()).is_some()
        });
        if stream == LogStream::System {
            let server = server.clone();
            self.0.events.tell(EventKind::Log {
                server,
                agent: agent.cloned(),
                failed: level == LogLevel::Error,
                text: entry.text.clone(),
            });
            return;
        }
        let line = as_line(&entry);
        let level = config
            .server(server.as_str())
            .map(|entry| entry.stderr_level);
        if let Some(left_out) = lock(&self.0.pace).entry(server.clone()).or_default().pass() {
            if left_out > 0 {
                tracing::warn!(target: "wharfinger::stderr", %server, "{left_out} lines are left out here");
            }
            log_at(level.unwrap_or_default(), server, &line);
        }
        self.0.events.tell(EventKind::Stderr {
            server: server.clone(),
            line,
        });
    }

    /// The last lines of a server's output over all its instances, redacted.
    pub fn log_tail(&self, server: &str, count: usize) -> Vec<String> {
        let logs = lock(&self.0.logs);
        let Some(ring) = logs.rings.get(server) else {
            return vec![];
        };
        let written = ring.iter().rev();
        let written = written.filter(|entry| entry.stream != LogStream::System);
        let mut lines: Vec<String> = written.take(count).map(|entry| as_line(entry)).collect();
        lines.reverse();
        lines
    }

    /// The last entries of a server's log, over all its instances: its output, and of supervised servers what became
    /// of them and of their calls (A188).
    pub fn log_of(&self, server: &str, count: usize) -> Vec<Arc<LogEntry>> {
        let logs = lock(&self.0.logs);
        let ring = logs.rings.get(server);
        ring.map(|ring| {
            let older = ring.len().saturating_sub(count);
            ring.iter().skip(older).cloned().collect()
        })
        .unwrap_or_default()
    }

    /// Every entry of every server's log from now on, for whoever keeps one of its own (A189). Nobody waits for a
    /// listener: one that is more than 1024 entries behind loses the oldest, and is told how many.
    pub fn log_entries(&self) -> broadcast::Receiver<Logged> {
        lock(&self.0.logs).all.subscribe()
    }
}

fn as_line(entry: &LogEntry) -> String {
    match entry.stream {
        LogStream::Stdout => format!("(stdout) {}", entry.text),
        LogStream::Stderr | LogStream::System => entry.text.clone(),
    }
}

fn clean(redactor: &Redactor, text: String) -> String {
    match redactor.text(&text) {
        std::borrow::Cow::Owned(clean) => clean,
        std::borrow::Cow::Borrowed(_) => text,
    }
}

/// The beginning, cut after it was redacted: half a secret is not known as one.
fn preview(redactor: &Redactor, body: &str) -> String {
    let json = serde_json::from_str::<&RawValue>(body).ok();
    let json = json.and_then(|json| redactor.json(json));
    let text = json.as_deref().map_or(body, RawValue::get);
    let text = redactor.text(text);
    let mut chars = text.chars();
    let mut shown: String = chars.by_ref().take(PREVIEW).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Lines of one server that reach the log: so many a second, the rest is counted.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    second: u64,
    lines: usize,
    left_out: usize,
}

/// A server that floods its standard error must not fill the owner's disk.
const LINES_A_SECOND: usize = 100;

impl Pace {
    /// Whether this line may pass, and how many before it did not.
    fn pass(&mut self) -> Option<usize> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        if now != self.second {
            (self.second, self.lines) = (now, 0);
        }
        self.lines += 1;
        if self.lines > LINES_A_SECOND {
            self.left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut self.left_out))
    }
}

fn log_at(level: StderrLevel, server: &ServerName, line: &str) {
    match level {
        StderrLevel::Trace => tracing::trace!(target: "wharfinger::stderr", %server, "{line}"),
        StderrLevel::Debug => tracing::debug!(target: "wharfinger::stderr", %server, "{line}"),
        StderrLevel::Information => tracing::info!(target: "wharfinger::stderr", %server, "{line}"),
        StderrLevel::Warning => tracing::warn!(target: "wharfinger::stderr", %server, "{line}"),
        StderrLevel::Error | StderrLevel::Critical => {
            tracing::error!(target: "wharfinger::stderr", %server, "{line}");
        }
        StderrLevel::None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Secret;

    fn entry(at: u64) -> Arc<LogEntry> {
        Arc::new(LogEntry {
            at,
            agent: None,
            stream: LogStream::System,
            level: LogLevel::Info,
            text: at.to_string(),
        })
    }

    #[test]
    fn a188_a_ring_of_500_is_cut_when_it_has_600() {
        let mut logs = Logs::default();
        let server = ServerName::new("s").unwrap();
        let mut kept = vec![];
        for at in 0..601 {
            logs.push(&server, entry(at), 500, |_| true);
            kept.push(logs.rings[&server].len());
        }
        assert_eq!(kept[598..], [599, 500, 501]);
        assert_eq!(logs.rings[&server].front().unwrap().at, 100);
    }

    #[test]
    fn a188_the_quietest_of_too_many_servers_is_forgotten() {
        let mut logs = Logs::default();
        let name = |n: u64| ServerName::new(&format!("s{n}")).unwrap();
        let configured = |server: &ServerName| server.as_str() == "s0";
        for n in 0..52 {
            logs.push(&name(n), entry(n), 500, configured);
        }
        let kept = |n| logs.rings.contains_key(&name(n));
        assert_eq!(
            (kept(0), kept(1), kept(2), kept(3), kept(51)),
            (true, false, false, true, true)
        );
    }

    #[test]
    fn a188_a_preview_is_cut_after_it_is_redacted() {
        let secret = "s3cret-".repeat(40);
        let redactor = Redactor::new(&[Secret::new(secret.clone())]);
        let check = |body: &str, expect: &str| assert_eq!(preview(&redactor, body), expect);
        check(r#"{"a": 1}"#, r#"{"a": 1}"#);
        check(&format!(r#"{{"k":"{secret}"}}"#), r#"{"k":"[REDACTED]"}"#);
        let spelt = secret.replacen('s', r"\u0073", 1);
        check(&format!(r#"{{"k":"{spelt}"}}"#), r#"{"k":"[REDACTED]"}"#);
        check(&format!("no JSON {secret}"), "no JSON [REDACTED]");
        check(&"ü".repeat(201), &format!("{}…", "ü".repeat(200)));
    }

    #[tokio::test]
    async fn a189_what_became_of_a_server_and_its_calls_is_logged_for_its_agent() {
        let folder = tempfile::tempdir().unwrap();
        let loaded = crate::config::load(&crate::config::Inputs::default());
        let environment = [("API_KEY".to_owned(), "s3cret-s3cret".to_owned())];
        let options = crate::Options::in_folder(folder.path(), loaded, environment.into());
        let wharf = Wharf::open(options).await.unwrap();
        let (server, agent) = (
            ServerName::new("s").unwrap(),
            AgentName::new("bot").unwrap(),
        );
        let (mut heard, mut events) = (wharf.log_entries(), wharf.events().listen());
        let system = |text: &str, failed| Note::System {
            text: text.into(),
            failed,
        };
        let exchange = |failed| Note::Exchange {
            head: "call".into(),
            body: r#"{"key":"s3cret-s3cret"}"#.into(),
            failed,
        };
        let notes = [
            system("starting", false),
            system("exited with s3cret-s3cret", true),
            exchange(false),
            exchange(true),
        ];
        for note in notes {
            wharf.log(&server, Some(&agent), note);
        }
        let call = r#"call: {"key":"[REDACTED]"}"#;
        let expect = [
            (LogLevel::Info, "starting"),
            (LogLevel::Error, "exited with [REDACTED]"),
            (LogLevel::Info, call),
            (LogLevel::Error, call),
        ];
        for (level, text) in expect {
            let logged = heard.recv().await.unwrap();
            assert_eq!(logged.server, server);
            let entry = &logged.entry;
            let seen = (entry.stream, entry.level, entry.text.as_str());
            assert_eq!(seen, (LogStream::System, level, text));
            assert_eq!(entry.agent.as_ref(), Some(&agent));
            let told = events.recv().await.unwrap().kind;
            assert!(
                matches!(&told, EventKind::Log { text: told, .. } if told == text),
                "{told:?}"
            );
        }
        assert_eq!(wharf.log_tail("s", 9), Vec::<String>::new());
        assert_eq!(wharf.log_of("s", 9).len(), 4);
        wharf.shut_down().await;
    }
}
