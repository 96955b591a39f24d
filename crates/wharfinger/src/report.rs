//! What `/mcp`, the CLI and the admin API tell about servers (V69–V73). Everything is redacted.

use std::fmt::Write as _;

use serde::Serialize;
use wharfinger_wire::json::Object;

use crate::discover::{Found, Known};
use crate::doctor::Finding;
use crate::model::{
    AgentName, Declared, PackageKind, ServerEntry, Severity, Source, Status, Transport, nearest,
};
use crate::packages::PackageReport;
use crate::servers::{Ping, ServerHandle};
use crate::session::Session;
use crate::wharf::Wharf;

/// A server at a glance.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Its name.
    pub name: String,
    /// Where its entry comes from.
    pub source: Source,
    /// Whether it is switched on.
    pub enabled: bool,
    /// Its state, of this agent's process where there is one.
    pub status: Status,
    /// The same in words.
    pub status_text: String,
    /// How many tools it offers, if that is known.
    pub tools: Option<usize>,
    /// Command line, package with its arguments, or address; without values of variables.
    pub command: String,
    /// `stdio` or `http`.
    pub transport: &'static str,
    /// When it was last connected to as it is now, in milliseconds since 1970; `null`: never (A19).
    pub verified: Option<u64>,
    /// Its package of npm or Python, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<PackageReport>,
    /// Keys of secrets that it can't start without and that are not set for this agent.
    pub needs_keys: Vec<String>,
    /// Why its entry can't be used; the last good one is in force, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A tool, briefly.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolReport {
    /// What agents call it.
    pub name: String,
    /// What its server calls it.
    pub tool: String,
    /// Its description, possibly empty.
    pub description: String,
}

/// A server in full.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// The same as in the list.
    #[serde(flatten)]
    pub report: Report,
    /// File and line, or variable.
    pub place: String,
    /// Its working directory, when one is set.
    pub cwd: Option<String>,
    /// Names of its own variables.
    pub env_names: Vec<String>,
    /// Protocol version it speaks.
    pub protocol: Option<String>,
    /// Its own name and version.
    pub server_info: Option<String>,
    /// Its tools.
    pub tool_names: Vec<ToolReport>,
    /// What is odd about its list.
    pub warnings: Vec<String>,
    /// The last lines it wrote to standard error, 20 at most.
    pub stderr_tail: Vec<String>,
    /// Its process, when one runs for this agent.
    pub pid: Option<u32>,
    /// What came of the last ping, where this agent's is pinged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_ping: Option<Ping>,
    /// What is wrong with it, why, and the way out, where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
}

/// Lines of standard error that a report shows.
const TAIL: usize = 20;

impl Wharf {
    /// Every server, as it stands for an agent, those with broken entries last.
    pub fn reports(&self, agent: &AgentName) -> Vec<Report> {
        let config = self.config();
        let mut reports: Vec<Report> = config
            .servers
            .iter()
            .map(|entry| self.report(entry, agent))
            .collect();
        for (name, source, problem) in &config.broken {
            let error = self.redactor().text(&problem.text()).into_owned();
            match reports
                .iter_mut()
                .find(|report| report.name == name.as_str())
            {
                Some(kept) => kept.error = Some(error),
                None => reports.push(broken(name.as_str(), *source, error)),
            }
        }
        reports
    }

    /// One server in full; or the message to show when there is none of that name (V72).
    pub fn details(&self, name: &str, agent: &AgentName) -> Result<Details, String> {
        let config = self.config();
        let report = self
            .reports(agent)
            .into_iter()
            .find(|report| report.name == name);
        let Some(report) = report else {
            return Err(self.no_such_server(name));
        };
        let entry = config.server(name);
        let known = entry.and_then(|entry| self.known(entry, agent));
        let handle = self.handles(name, Some(agent)).into_iter().next();
        let redactor = self.redactor();
        let info = known.as_ref().and_then(|known| server_info(known));
        let last_ping = handle.as_ref().and_then(ServerHandle::last_ping);
        let own = handle
            .map(|handle| handle.stderr(TAIL))
            .filter(|lines| !lines.is_empty());
        let stderr = own.unwrap_or_else(|| self.log_tail(name, TAIL));
        Ok(Details {
            place: entry
                .map(|entry| entry.place.to_string())
                .unwrap_or_default(),
            cwd: entry.and_then(|entry| match &entry.transport {
                Transport::Stdio { cwd, .. } => cwd.clone(),
                Transport::Http { .. } => None,
            }),
            env_names: entry
                .map(|entry| entry.env.iter().map(|(name, _)| name.clone()).collect())
                .unwrap_or_default(),
            protocol: known
                .as_ref()
                .map(|known| known.version.as_str().to_owned()),
            server_info: info.map(|info| redactor.text(&info).into_owned()),
            tool_names: known
                .as_ref()
                .map(|known| tools(known, &redactor))
                .unwrap_or_default(),
            warnings: self.warnings(name, known.as_deref()),
            stderr_tail: stderr
                .iter()
                .map(|line| redactor.text(line).into_owned())
                .collect(),
            pid: match report.status {
                Status::Running { pid } => Some(pid),
                _ => None,
            },
            last_ping,
            finding: self.finding(name),
            report,
        })
    }

    /// What is odd about its entry and about its list.
    fn warnings(&self, name: &str, known: Option<&Known>) -> Vec<String> {
        let problems = self.problems();
        let own = problems.iter().filter(|problem| {
            let of = |section: &str| {
                let rest = problem.key.strip_prefix(section);
                let rest = rest.and_then(|rest| rest.strip_prefix(name));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            problem.severity == Severity::Warning && (of("mcpServers.") || of("mcp.servers."))
        });
        let listed = known
            .map(|known| known.listing.warnings.clone())
            .unwrap_or_default();
        let redactor = self.redactor();
        let entry = own.map(|problem| redactor.text(&problem.text()).into_owned());
        entry.chain(listed).collect()
    }

    /// Why a server's tools are missing, for those that are switched on and as clients see them that declare nothing:
    /// name and reason. [`Session::unavailable`] tells the same for one session.
    pub fn unavailable(&self) -> Vec<(String, String)> {
        self.unavailable_to(&Declared::default())
    }

    fn unavailable_to(&self, declared: &Declared) -> Vec<(String, String)> {
        let config = self.config();
        let reason = |entry: &ServerEntry| match (&entry.transport, self.found(entry, declared)) {
            (Transport::Http { .. }, _) => Some("remote servers come later".to_owned()),
            (_, Some(Found::Failed { reason, .. })) => Some(reason),
            (_, Some(Found::Asking)) => Some("its tools are still being listed".to_owned()),
            (_, Some(Found::Known(_)) | None) => None,
        };
        let enabled = config.servers.iter().filter(|entry| entry.enabled);
        enabled
            .filter_map(|entry| Some((entry.name.to_string(), reason(entry)?)))
            .collect()
    }

    /// Names what there is (V72).
    pub fn no_such_server(&self, name: &str) -> String {
        let config = self.config();
        let known: Vec<&str> = config
            .servers
            .iter()
            .map(|entry| entry.name.as_str())
            .chain(config.broken.iter().map(|(name, ..)| name.as_str()))
            .collect();
        if known.is_empty() {
            return format!("there is no MCP server `{name}`; none is configured");
        }
        let known_names = known.join(", ");
        match nearest(name, known) {
            Some(near) => format!(
                "there is no MCP server `{name}`, did you mean `{near}`? Known: {known_names}"
            ),
            None => format!("there is no MCP server `{name}`; known: {known_names}"),
        }
    }

    /// What `/mcp` prints (V69): a line for each server, with its state and the number of its tools. No model is asked.
    pub fn mcp_list(&self, agent: &AgentName) -> String {
        let reports = self.reports(agent);
        if reports.is_empty() {
            return "No MCP servers are configured. Add one with `wharf add`.".into();
        }
        let width = reports
            .iter()
            .map(|report| report.name.chars().count())
            .max()
            .unwrap_or(0);
        let lines: Vec<String> = reports
            .iter()
            .map(|report| {
                let tools = match report.tools {
                    Some(1) => " (1 tool)".to_owned(),
                    Some(count) => format!(" ({count} tools)"),
                    None => String::new(),
                };
                let status = report.status_text.lines().next().unwrap_or_default();
                let error = report
                    .error
                    .iter()
                    .map(|error| format!("\n  {}", error.replace('\n', "\n  ")));
                format!(
                    "{:width$}  {status}{tools}{}",
                    report.name,
                    error.collect::<String>()
                )
            })
            .collect();
        lines.join("\n")
    }

    /// What `/mcp NAME` prints (V70); the error is the message for an unknown name (V72).
    pub fn mcp_show(&self, name: &str, agent: &AgentName) -> Result<String, String> {
        let details = self.details(name, agent)?;
        let mut text = format!("{}: {}\n", details.report.name, details.report.status_text);
        let mut line = |label: &str, value: &str| {
            if !value.is_empty() {
                writeln!(text, "{label}: {value}").expect("a string takes everything");
            }
        };
        line("command", &details.report.command);
        line("env", &details.env_names.join(", "));
        line("cwd", details.cwd.as_deref().unwrap_or_default());
        line("from", &details.place);
        line("server", details.server_info.as_deref().unwrap_or_default());
        line("protocol", details.protocol.as_deref().unwrap_or_default());
        line("error", details.report.error.as_deref().unwrap_or_default());
        let names: Vec<&str> = details
            .tool_names
            .iter()
            .map(|tool| tool.name.as_str())
            .collect();
        line("tools", &names.join(", "));
        line("warnings", &details.warnings.join("; "));
        if !details.stderr_tail.is_empty() {
            line(
                "stderr",
                &format!("\n  {}", details.stderr_tail.join("\n  ")),
            );
        }
        Ok(text.trim_end().to_owned())
    }

    /// What `/mcp restart NAME` does and prints (V71): waits until the agent's processes of that server are gone. The
    /// error is the message for an unknown name (V72).
    pub async fn mcp_restart(&self, name: &str, agent: &AgentName) -> Result<String, String> {
        if self.config().server(name).is_none() {
            return Err(self.no_such_server(name));
        }
        let stopped = !self.handles(name, Some(agent)).is_empty();
        self.restart_server(name, Some(agent)).await;
        Ok(if stopped {
            format!("{name}: stopped; the next call starts a fresh one")
        } else {
            format!("{name}: was not running; the next call starts it")
        })
    }

    fn report(&self, entry: &ServerEntry, agent: &AgentName) -> Report {
        let needs_keys = self.needs_keys(entry, &self.own_agent(agent));
        let status = match self.status(entry, agent) {
            // What runs has what it needs, and what is off needs nothing.
            status @ (Status::Running { .. } | Status::Disabled) => status,
            status if needs_keys.is_empty() => status,
            _ => Status::NeedsKeys {
                keys: needs_keys.clone(),
            },
        };
        let redactor = self.redactor();
        let mut words = status.to_string();
        if self.is_outdated(entry, agent) {
            words.push_str(" with an older configuration; a restart applies the new one");
        }
        let package = self.package_report(entry);
        if let Some(doing) = package
            .as_ref()
            .and_then(|package| package.doing.as_deref())
        {
            words = format!("installing, {doing}");
        }
        Report {
            name: entry.name.to_string(),
            package,
            source: entry.source,
            enabled: entry.enabled,
            status_text: redactor.text(&words).into_owned(),
            status,
            tools: self
                .known(entry, agent)
                .map(|known| known.listing.tools.len()),
            command: redactor.text(&command_line(entry)).into_owned(),
            transport: match entry.transport {
                Transport::Stdio { .. } => "stdio",
                Transport::Http { .. } => "http",
            },
            verified: self.verified(entry),
            needs_keys,
            error: None,
        }
    }

    /// One of this agent's processes tells; without one, the discovery does (V69).
    fn status(&self, entry: &ServerEntry, agent: &AgentName) -> Status {
        if !entry.enabled {
            return Status::Disabled;
        }
        if let Transport::Http { .. } = entry.transport {
            return Status::Failed {
                reason: "remote servers come later".into(),
            };
        }
        let all = self.handles(entry.name.as_str(), Some(agent));
        let busiest = all
            .iter()
            .map(crate::servers::ServerHandle::status)
            .max_by_key(|status| match status {
                Status::Running { .. } => 4,
                Status::Starting => 3,
                Status::Exited { .. } => 2,
                Status::Failed { .. } | Status::NeedsKeys { .. } => 1,
                Status::NotStarted | Status::Disabled => 0,
            });
        match (busiest, self.seen(entry, agent)) {
            (Some(status), _) if status != Status::NotStarted => self.clean(status),
            (_, Some(Found::Failed { reason, .. })) => Status::Failed { reason },
            _ => Status::NotStarted,
        }
    }

    pub(crate) fn clean(&self, status: Status) -> Status {
        match status {
            Status::Failed { reason } => Status::Failed {
                reason: self.redactor().text(&reason).into_owned(),
            },
            other => other,
        }
    }

    fn known(&self, entry: &ServerEntry, agent: &AgentName) -> Option<std::sync::Arc<Known>> {
        match self.seen(entry, agent) {
            Some(Found::Known(known)) => Some(known),
            Some(Found::Asking | Found::Failed { .. }) | None => None,
        }
    }

    /// What was found out for clients that declare nothing; where that was never asked, for a session of the agent.
    fn seen(&self, entry: &ServerEntry, agent: &AgentName) -> Option<Found> {
        self.found(entry, &Declared::default()).or_else(|| {
            let mut sessions = self.sessions_of(agent);
            sessions.sort_by(|one, other| one.id().cmp(other.id()));
            sessions
                .iter()
                .find_map(|session| self.found(entry, session.declared()))
        })
    }
}

impl Session {
    /// Why the tools of servers are missing from its list: name and reason of each.
    pub fn unavailable(&self) -> Vec<(String, String)> {
        self.wharf().unavailable_to(self.declared())
    }
}

fn broken(name: &str, source: Source, error: String) -> Report {
    let status = Status::Failed {
        reason: "its entry can't be used".into(),
    };
    Report {
        name: name.to_owned(),
        source,
        enabled: false,
        status_text: status.to_string(),
        status,
        tools: None,
        command: String::new(),
        transport: "stdio",
        verified: None,
        package: None,
        needs_keys: vec![],
        error: Some(error),
    }
}

/// As it is written, or the package and what it is given.
fn command_line(entry: &ServerEntry) -> String {
    if let (Some(package), Some((_, args))) = (&entry.package, entry.runs_package()) {
        let kind = match package.kind {
            PackageKind::Npm => "npm",
            PackageKind::Pypi => "pypi",
        };
        let package = format!("{kind}:{}", package.spec());
        return shell_words::join(std::iter::once(&package).chain(&args));
    }
    match &entry.transport {
        Transport::Stdio { command, args, .. } => {
            shell_words::join(std::iter::once(command).chain(args))
        }
        Transport::Http { url } => url.clone(),
    }
}

pub(crate) fn server_info(known: &Known) -> Option<String> {
    let description = Object::from_raw(&known.description).ok()?;
    let info = description.object("info")?;
    let name = info.text("name")?.into_owned();
    Some(match info.text("version") {
        Some(version) => format!("{name} {version}"),
        None => name,
    })
}

fn tools(known: &Known, redactor: &crate::vault::Redactor) -> Vec<ToolReport> {
    let listed = known.listing.tools.iter().zip(&known.names);
    listed
        .map(|(tool, name)| ToolReport {
            name: name.clone(),
            tool: tool.name.to_string(),
            description: redactor.text(&tool.description()).into_owned(),
        })
        .collect()
}
