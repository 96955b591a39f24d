//! A server as configuration describes it, and the policy that follows from it.

use std::time::Duration;

use serde::Serialize;

use super::{AgentName, Declared, Package, Place, Roots, ServerName};

/// Which of the sources a server comes from; the first one wins a name (V3).
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// `config.json` and the environment, sorted by name.
    Host,
    /// The Playwright preset.
    Preset,
    /// `settings.json`, in file order.
    Settings,
    /// Given for this run alone, by the program that embeds the library or `wharf up --try`.
    Run,
    /// The file of an agent that has installed it.
    Agent,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A process of this machine that speaks over its standard input and output.
    Stdio {
        /// What to run; `${workspace}` is replaced when it starts.
        command: String,
        /// Its arguments, likewise.
        args: Vec<String>,
        /// Working directory, likewise; the workspace when `None`, and relative to it (V14).
        cwd: Option<String>,
    },
    /// A remote server. Kept as it was written; such servers can't be used yet.
    Http {
        /// Its endpoint.
        url: String,
    },
}

/// Who shares a running instance of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The sessions of one agent that declare the same (the default).
    #[default]
    Agent,
    /// Nobody: each session has its own.
    Session,
}

/// The level at which the lines of a server's standard error are logged (V24).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Default)]
pub enum StderrLevel {
    /// Finest.
    Trace,
    /// For developers.
    Debug,
    /// Worth knowing.
    Information,
    /// The default.
    #[default]
    Warning,
    /// Something failed.
    Error,
    /// Everything failed.
    Critical,
    /// Lines are kept for `wharf logs` but not logged.
    None,
}

impl StderrLevel {
    /// Every level and its name.
    pub const ALL: [(&'static str, Self); 7] = [
        ("Trace", Self::Trace),
        ("Debug", Self::Debug),
        ("Information", Self::Information),
        ("Warning", Self::Warning),
        ("Error", Self::Error),
        ("Critical", Self::Critical),
        ("None", Self::None),
    ];
}

/// A server as it was configured (V11), checked, nothing expanded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct ServerEntry {
    /// Unique over all sources.
    pub name: ServerName,
    /// Where it comes from.
    pub source: Source,
    /// The line or variable it was found at.
    pub place: Place,
    /// How it is reached.
    pub transport: Transport,
    /// Variables in the order written; `None` removes one (V17). Values may hold `${workspace}` and `${env:NAME}`.
    pub env: Vec<(String, Option<String>)>,
    /// Host variables inherited beyond the usual ones.
    pub inherit_env: Vec<String>,
    /// Put before each tool's name (V21).
    pub tool_prefix: String,
    /// Off: not started, no tools, but it keeps its name (V12).
    pub enabled: bool,
    /// Calls may overlap (V50).
    pub parallel: bool,
    /// For starting and listing, 60 s unless set (V11).
    pub startup_timeout: Duration,
    /// For one call, 120 s unless set (V64).
    pub call_timeout: Duration,
    /// Without calls for this long it is stopped; `None` never (V59). 1800 s unless set.
    pub idle_timeout: Option<Duration>,
    /// See [`StderrLevel`].
    pub stderr_level: StderrLevel,
    /// Text for the model while the server's tools are active (V25).
    pub prompt_section: Option<String>,
    /// See [`Scope`].
    pub scope: Scope,
    /// See [`Roots`].
    pub roots: Roots,
    /// Keeps state in a browser: an error says that it was lost (V62), and a stop begins with SIGTERM (V38).
    pub browser: bool,
    /// Agents may take it by themselves, as it is (A73); false unless set, since all servers run on this machine (A74).
    pub agent_visible: bool,
    /// The agent in whose file alone it is; two agents may have installed different servers of one name.
    pub installed_by: Option<AgentName>,
    /// The package it is, where its entry names one in place of a command; `transport` then says what would fetch it.
    pub package: Option<Package>,
}

impl ServerEntry {
    /// What [`startup_timeout`](Self::startup_timeout) is where nobody set it.
    pub const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);

    /// What [`call_timeout`](Self::call_timeout) is where nobody set it.
    pub const CALL_TIMEOUT: Duration = Duration::from_secs(120);

    /// An entry that says nothing but what is reached and how; everything else is as if nobody had set it.
    pub fn plain(name: ServerName, source: Source, transport: Transport) -> Self {
        Self {
            name,
            source,
            place: Place::Default,
            transport,
            env: vec![],
            inherit_env: vec![],
            tool_prefix: String::new(),
            enabled: true,
            parallel: false,
            startup_timeout: Self::STARTUP_TIMEOUT,
            call_timeout: Self::CALL_TIMEOUT,
            idle_timeout: Some(Duration::from_secs(1800)),
            stderr_level: StderrLevel::default(),
            prompt_section: None,
            scope: Scope::default(),
            roots: Roots::default(),
            browser: false,
            agent_visible: false,
            installed_by: None,
            package: None,
        }
    }

    /// The package it runs, and what that is given: as its entry says, or as its command line does (A61).
    pub fn runs_package(&self) -> Option<(Package, Vec<String>)> {
        let Transport::Stdio { command, args, .. } = &self.transport else {
            return None;
        };
        match &self.package {
            None => Package::fetched_by(command, args),
            Some(package) => {
                let own = package.fetched(&[]).1.len();
                Some((package.clone(), args.get(own..)?.to_vec()))
            }
        }
    }

    /// What it is told of a client that declares this. A browser is one for its agent, whatever clients declare: it has
    /// one profile, and their roots would take its files out of the workspace (V36).
    pub fn tells(&self, client: &Declared) -> Declared {
        if self.browser {
            Declared::default()
        } else {
            client.with(self.roots)
        }
    }
}

/// Agents' defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Trusted, static, lazy.
    #[default]
    Chat,
    /// Gated, installable, supervised.
    Agent,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 2] = [Self::Chat, Self::Agent];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Agent => "agent",
        }
    }

    /// The profile of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.as_str() == word)
    }
}

/// What becomes of a tool whose exposed name is taken (V47, V48).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnClash {
    /// It is left out, with a warning that names both.
    SkipAndWarn,
    /// It has got a name of its own, with a suffix that never changes (A145).
    Suffix,
}

/// When a server's process starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartMode {
    /// With the first call (V57).
    OnFirstCall,
    /// As soon as an agent that uses it is active, until none is (A180).
    WhenActive,
}

/// What follows an unexpected end of a server's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// The next call starts it again (V61).
    OnNextCall,
    /// It is started again by itself (A183). The count begins anew once it runs; after the last attempt it stays down
    /// until somebody starts it.
    Backoff {
        /// How long before each attempt; there are as many attempts as waits.
        waits: [Duration; 3],
        /// What follows where a server that was to start did not (A182).
        again: [Again; 3],
    },
}

/// Another attempt to start a server that did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// How long before it.
    pub wait: Duration,
    /// How long it may take; never less than the limit of the first one.
    pub limit: Duration,
    /// Whoever has asked for the server waits for this one, too; the others happen behind their back.
    pub inline: bool,
}

/// How a running server is asked whether it still answers (A186).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// From one `ping` to the next.
    pub every: Duration,
    /// How long the answer may take.
    pub limit: Duration,
}

/// Everything an entry and a profile decide together; naming, starting, environment and results read only this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectivePolicy {
    /// Longest exposed name, in characters (V44).
    pub name_limit: usize,
    /// Put before each tool's name.
    pub prefix: String,
    /// See [`OnClash`].
    pub on_clash: OnClash,
    /// See [`StartMode`].
    pub start: StartMode,
    /// See [`Restart`].
    pub restart: Restart,
    /// Limit of each attempt to start.
    pub startup_timeout: Duration,
    /// Limit of one call.
    pub call_timeout: Duration,
    /// Whether progress starts the limit of a call afresh.
    pub progress_extends: bool,
    /// See [`ServerEntry::idle_timeout`]. An agent of the agent profile keeps its servers while a session is open that
    /// ends (A180), whatever this says.
    pub idle_timeout: Option<Duration>,
    /// See [`Health`]; `None` where it is not asked.
    pub health: Option<Health>,
    /// Whether calls and their results leave a line each in the server's log (A188).
    pub log_calls: bool,
    /// Calls that may run at once; more wait their turn.
    pub parallel_calls: usize,
    /// After a failed discovery, the shortest time until the next attempt (V53).
    pub retry_after: Duration,
    /// See [`Scope`].
    pub scope: Scope,
    /// See [`Roots`].
    pub roots: Roots,
}

impl EffectivePolicy {
    /// Whether it is kept running without anybody's call (A183).
    pub fn is_supervised(&self) -> bool {
        match self.restart {
            Restart::OnNextCall => false,
            Restart::Backoff { .. } => true,
        }
    }
}

/// A name given before: to the `nth` tool of that name (from 0) of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownName {
    /// As the server names it.
    pub tool: String,
    /// Counts tools of one server that have the same name.
    pub nth: usize,
    /// What agents see.
    pub exposed: String,
}

/// Variables no server may be given, by inheritance or by its entry (A197, A198): they make a program run other code.
pub const BLOCKED: &[&str] = &[
    "BASH_ENV",
    "DYLD_INSERT_LIBRARIES",
    "DYLD_LIBRARY_PATH",
    "ELECTRON_RUN_AS_NODE",
    "ENV",
    "GCONV_PATH",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PYTHONPATH",
    "PYTHONSTARTUP",
];

/// Whether a variable may never reach a server. Case does not count.
pub fn is_blocked(name: &str) -> bool {
    BLOCKED
        .iter()
        .any(|blocked| blocked.eq_ignore_ascii_case(name))
}

/// Variables that decide where a program looks, whom it trusts, or what it loads besides; where a server is its owner's,
/// its agent sets none of them.
const DELICATE: &[&str] = &["PATH", "HOME", "NODE_EXTRA_CA_CERTS"];

/// Whether a variable is not for an agent to set in a server of its owner. Case does not count.
pub fn is_delicate(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    is_blocked(&name)
        || DELICATE.contains(&name.as_str())
        || name.ends_with("_PROXY")
        || name.contains("_CA_")
        || ["SSL_CERT_", "PYTHON", "NPM_CONFIG_"]
            .iter()
            .any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_whom_a_server_trusts_is_delicate() {
        for name in [
            "Path",
            "HOME",
            "https_proxy",
            "NO_PROXY",
            "REQUESTS_CA_BUNDLE",
            "SSL_CERT_FILE",
            "NODE_EXTRA_CA_CERTS",
            "PYTHONHOME",
            "npm_config_registry",
            "LD_PRELOAD",
        ] {
            assert!(is_delicate(name), "{name}");
        }
        for name in ["TOKEN", "API_KEY", "PROXY_KEY", "DATA_PATH"] {
            assert!(!is_delicate(name), "{name}");
        }
    }

    #[test]
    fn profiles_have_words() {
        assert_eq!(Profile::ALL.map(Profile::as_str), ["chat", "agent"]);
        assert_eq!(Profile::parse("chat"), Some(Profile::Chat));
        assert_eq!(Profile::parse("agent"), Some(Profile::Agent));
        assert_eq!(Profile::parse("Agent"), None);
        assert_eq!(Profile::default(), Profile::Chat);
    }
}
