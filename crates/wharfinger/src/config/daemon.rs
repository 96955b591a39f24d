//! The `daemon` section of `config.json`: where it listens, and every limit.

use std::net::SocketAddr;
use std::time::Duration;

use super::reader::Members;
use crate::model::Limits;

/// Settings of the daemon, read at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Daemon {
    /// Where HTTP is served, `127.0.0.1:7311` unless set. Port 0 takes any free one.
    pub listen: SocketAddr,
    /// Host names, beyond loopback and the address listened on, that requests may name.
    pub allowed_hosts: Vec<String>,
    /// Names or patterns (`*` at either end) of variables whose values are secrets, beyond the built-in ones (V18).
    pub secret_variables: Vec<String>,
    /// Names of host variables every server inherits, beyond the built-in ones (V18).
    pub pass_variables: Vec<String>,
    /// Servers that agents install may run on this machine at all (A29); false unless set.
    pub host_access: bool,
    /// Servers that may, whichever agent installs them: `NAME=SOURCE`, as in `git=npm:@example/git` (A30).
    pub host_approved: Vec<String>,
    /// Where a list of known servers is fetched that takes the place of the one in the program; nowhere unless set (A8).
    pub registry_url: String,
    /// Where the official registry is asked about servers; nobody is asked where it is empty.
    pub official_registry_url: String,
    /// Rows of the journal that are kept; 200 000 unless set.
    pub journal_rows: usize,
    /// See [`Limits`].
    pub limits: Limits,
}

/// The registry of the protocol's own project.
const OFFICIAL: &str = "https://registry.modelcontextprotocol.io";

impl Default for Daemon {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7311)),
            allowed_hosts: vec![],
            secret_variables: vec![],
            pass_variables: vec![],
            registry_url: String::new(),
            official_registry_url: OFFICIAL.to_owned(),
            journal_rows: 200_000,
            host_access: false,
            host_approved: vec![],
            limits: Limits::default(),
        }
    }
}

/// An option of the daemon, for help and the reference page.
pub struct Setting {
    /// In camelCase.
    pub name: &'static str,
    /// What it may hold.
    pub kind: &'static str,
    /// One sentence.
    pub about: &'static str,
    apply: Apply,
}

enum Apply {
    Listen,
    Texts(fn(&mut Daemon) -> &mut Vec<String>),
    Address(fn(&mut Daemon) -> &mut String),
    Flag(fn(&mut Daemon) -> &mut bool),
    Rows(fn(&mut Daemon) -> &mut usize),
    Count(fn(&mut Limits) -> &mut usize),
    Seconds(fn(&mut Limits) -> &mut Duration),
}

const fn setting(
    name: &'static str,
    kind: &'static str,
    about: &'static str,
    apply: Apply,
) -> Setting {
    Setting {
        name,
        kind,
        about,
        apply,
    }
}

const BYTES: &str = "bytes";
const COUNT: &str = "number above 0";
const SECONDS: &str = "seconds above 0";

/// Every option of the daemon.
pub const SETTINGS: &[Setting] = &[
    setting(
        "listen",
        "address:port",
        "Where HTTP is served; port 0 takes any free one",
        Apply::Listen,
    ),
    setting(
        "allowedHosts",
        "list of strings",
        "Host names, beyond loopback and the address listened on, that requests may name",
        Apply::Texts(|d| &mut d.allowed_hosts),
    ),
    setting(
        "secretVariables",
        "list of names or patterns",
        "Variables whose values are secrets, beyond the built-in ones; `*` stands for any text",
        Apply::Texts(|d| &mut d.secret_variables),
    ),
    setting(
        "passVariables",
        "list of names",
        "Host variables every server inherits, beyond the built-in ones",
        Apply::Texts(|d| &mut d.pass_variables),
    ),
    setting(
        "hostAccess",
        "true or false",
        "Whether servers that agents install may run on this machine at all; agents need `hostApproved` or their own access besides",
        Apply::Flag(|d| &mut d.host_access),
    ),
    setting(
        "hostApproved",
        "list of NAME=SOURCE",
        "Servers that may run on this machine whichever agent installs them, such as `git=npm:@example/git`",
        Apply::Texts(|d| &mut d.host_approved),
    ),
    setting(
        "registryUrl",
        "URL, or empty",
        "List of known servers that takes the place of the one in the program, fetched once a day",
        Apply::Address(|d| &mut d.registry_url),
    ),
    setting(
        "officialRegistryUrl",
        "URL, or empty",
        "Registry that `wharf search` asks beside the list; nobody is asked where it is empty",
        Apply::Address(|d| &mut d.official_registry_url),
    ),
    setting(
        "journalRows",
        COUNT,
        "Rows of the journal that are kept, the latest",
        Apply::Rows(|d| &mut d.journal_rows),
    ),
    setting(
        "maxLineBytes",
        BYTES,
        "Longest line a server may send",
        Apply::Count(|l| &mut l.line_bytes),
    ),
    setting(
        "maxBodyBytes",
        BYTES,
        "Largest request of a client",
        Apply::Count(|l| &mut l.body_bytes),
    ),
    setting(
        "maxListPages",
        COUNT,
        "Pages of one tools/list that are read",
        Apply::Count(|l| &mut l.list_pages),
    ),
    setting(
        "maxTools",
        COUNT,
        "Tools of one server that are kept",
        Apply::Count(|l| &mut l.tools),
    ),
    setting(
        "stderrLines",
        COUNT,
        "Lines of standard error kept for each server",
        Apply::Count(|l| &mut l.stderr_lines),
    ),
    setting(
        "stderrLineBytes",
        BYTES,
        "Longest kept part of one such line",
        Apply::Count(|l| &mut l.stderr_line_bytes),
    ),
    setting(
        "maxQueuedCalls",
        COUNT,
        "Calls of one instance that may wait for their turn",
        Apply::Count(|l| &mut l.queued_calls),
    ),
    setting(
        "maxSessionRequests",
        COUNT,
        "Requests of one session that may run at once",
        Apply::Count(|l| &mut l.session_requests),
    ),
    setting(
        "maxSessions",
        COUNT,
        "Sessions of one agent that may be open at once",
        Apply::Count(|l| &mut l.sessions),
    ),
    setting(
        "listWaitSeconds",
        SECONDS,
        "How long a tools/list waits for servers that were never listed",
        Apply::Seconds(|l| &mut l.list_wait),
    ),
    setting(
        "inputWaitSeconds",
        SECONDS,
        "How long a server's question to its client waits for the answer",
        Apply::Seconds(|l| &mut l.input_wait),
    ),
    setting(
        "approvalSeconds",
        SECONDS,
        "How long a call may wait for its approval",
        Apply::Seconds(|l| &mut l.approval_life),
    ),
    setting(
        "approvalPatienceSeconds",
        SECONDS,
        "How long a client of unknown patience waits for an approval before it is told that the call waits",
        Apply::Seconds(|l| &mut l.approval_patience),
    ),
    setting(
        "sessionIdleSeconds",
        SECONDS,
        "A session without a request or an open stream for this long is ended",
        Apply::Seconds(|l| &mut l.session_idle),
    ),
    setting(
        "exitWaitSeconds",
        SECONDS,
        "After closing its input, how long a server may take to exit",
        Apply::Seconds(|l| &mut l.exit_wait),
    ),
    setting(
        "termWaitSeconds",
        SECONDS,
        "After SIGTERM, how long before SIGKILL",
        Apply::Seconds(|l| &mut l.term_wait),
    ),
    setting(
        "probeWaitSeconds",
        SECONDS,
        "How long `server/discover` may stay unanswered before `initialize` is sent as well",
        Apply::Seconds(|l| &mut l.probe_wait),
    ),
];

impl Setting {
    /// The value in force, as it would be written.
    pub fn show(&self, daemon: &Daemon) -> String {
        let mut daemon = daemon.clone();
        match &self.apply {
            Apply::Listen => format!("\"{}\"", daemon.listen),
            Apply::Texts(field) => serde_json::to_string(field(&mut daemon)).unwrap_or_default(),
            Apply::Address(field) => serde_json::to_string(field(&mut daemon)).unwrap_or_default(),
            Apply::Flag(field) => field(&mut daemon).to_string(),
            Apply::Rows(field) => field(&mut daemon).to_string(),
            Apply::Count(field) => field(&mut daemon.limits).to_string(),
            Apply::Seconds(field) => field(&mut daemon.limits).as_secs_f64().to_string(),
        }
    }
}

pub(super) fn read(members: &mut Members<'_>) -> Daemon {
    let mut daemon = Daemon::default();
    for setting in SETTINGS {
        match &setting.apply {
            Apply::Listen => {
                if let Some((text, place)) = members.text(setting.name) {
                    match text.replace("localhost", "127.0.0.1").parse() {
                        Ok(listen) => daemon.listen = listen,
                        Err(_) => members.complain(
                            setting.name,
                            Some(&place),
                            format!(
                                "must be an address and a port like 127.0.0.1:7311, not {text:?}"
                            ),
                        ),
                    }
                }
            }
            Apply::Texts(field) => {
                if let Some(texts) = members.texts(setting.name) {
                    *field(&mut daemon) = texts;
                }
            }
            Apply::Address(field) => {
                if let Some((text, place)) = members.text(setting.name) {
                    if text.is_empty() || is_address(&text) {
                        *field(&mut daemon) = text;
                    } else {
                        let message =
                            format!("must be an address like https://example.com/, not {text:?}");
                        members.complain(setting.name, Some(&place), message);
                    }
                }
            }
            Apply::Flag(field) => {
                if let Some(flag) = members.bool(setting.name) {
                    *field(&mut daemon) = flag;
                }
            }
            Apply::Rows(field) => {
                if let Some(count) = members.count(setting.name) {
                    *field(&mut daemon) = count;
                }
            }
            Apply::Count(field) => {
                if let Some(count) = members.count(setting.name) {
                    *field(&mut daemon.limits) = count;
                }
            }
            Apply::Seconds(field) => {
                if let Some(seconds) = members.seconds(setting.name, false) {
                    *field(&mut daemon.limits) = seconds;
                }
            }
        }
    }
    daemon
}

fn is_address(text: &str) -> bool {
    url::Url::parse(text)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}
