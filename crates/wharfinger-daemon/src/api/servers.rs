//! Servers: what there is, adding and removing, starting afresh, their tools and their log lines.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use wharfinger::config::{self, PastedError};
use wharfinger::doctor::Finding;
use wharfinger::model::{AgentName, Declared, Problem, ServerName, SessionId, Severity, Source};
use wharfinger::{Connect, Connected, Details, Installing, Report, SessionOptions};
use wharfinger_wire::json::{Object, string};

use super::problem::{Body, Path, Query};
use super::{ApiError, uninterrupted};
use crate::serve::Daemon;

/// As which agent to look.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ForAgent {
    /// `default` unless given; for what changes something, all agents unless given.
    agent: Option<String>,
}

impl ForAgent {
    fn one(&self, daemon: &Daemon) -> Result<AgentName, ApiError> {
        Ok(daemon
            .wharf
            .agent(self.agent.as_deref().unwrap_or("default"))?)
    }

    fn any(&self, daemon: &Daemon) -> Result<Option<AgentName>, ApiError> {
        Ok(self
            .agent
            .as_deref()
            .map(|agent| daemon.wharf.agent(agent))
            .transpose()?)
    }
}

/// All servers.
#[derive(Serialize, ToSchema)]
pub(crate) struct ServerList {
    /// In source order.
    servers: Vec<Report>,
}

/// Every server, as it stands for an agent.
#[utoipa::path(get, path = "/api/servers", params(ForAgent), responses((status = 200, body = ServerList)))]
pub(crate) async fn list(
    State(daemon): State<Arc<Daemon>>,
    Query(agent): Query<ForAgent>,
) -> Result<Json<ServerList>, ApiError> {
    Ok(Json(ServerList {
        servers: daemon.wharf.reports(&agent.one(&daemon)?),
    }))
}

/// One server in full.
#[utoipa::path(get, path = "/api/servers/{name}", params(("name" = String, Path), ForAgent),
    responses((status = 200, body = Details), (status = 404, body = ApiError)))]
pub(crate) async fn show(
    State(daemon): State<Arc<Daemon>>,
    Path(name): Path<String>,
    Query(agent): Query<ForAgent>,
) -> Result<Json<Details>, ApiError> {
    daemon
        .wharf
        .details(&name, &agent.one(&daemon)?)
        .map(Json)
        .map_err(ApiError::unknown)
}

/// Servers to add.
#[derive(Deserialize, ToSchema)]
pub(crate) struct NewServers {
    /// As in `mcpServers`: by name, each an entry. Members that are not known are kept.
    #[schema(value_type = std::collections::BTreeMap<String, Object>)]
    servers: Box<RawValue>,
    /// Whether entries of the same name are replaced; else they are refused.
    #[serde(default)]
    replace: bool,
    /// Whether they are connected to before this returns; true unless said otherwise. Those that are not wait for
    /// whoever first lists tools, and are `verified` by that.
    #[serde(default = "yes")]
    connect: bool,
}

fn yes() -> bool {
    true
}

/// What became of a new server.
#[derive(Serialize, ToSchema)]
pub(crate) struct Added {
    /// Its name.
    name: String,
    /// How many tools it offers, when it could be asked.
    tools: Option<usize>,
    /// Why it could not be asked; it is added all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// When it was last connected to as it is now; `null`: never.
    verified: Option<u64>,
    /// How connecting to it went, where that was done in this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<Connected>,
    /// What is wrong with it, why, and the way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    finding: Option<Finding>,
}

/// What became of all of them.
#[derive(Serialize, ToSchema)]
pub(crate) struct AddedServers {
    /// In the order given.
    servers: Vec<Added>,
    /// Warnings about their entries.
    problems: Vec<Problem>,
}

/// Adds servers to `settings.json`, and asks each what it offers before this returns.
#[utoipa::path(post, path = "/api/servers", request_body = NewServers,
    responses((status = 200, body = AddedServers), (status = 409, body = ApiError), (status = 422, body = ApiError)))]
pub(crate) async fn add(
    State(daemon): State<Arc<Daemon>>,
    Body(new): Body<NewServers>,
) -> Result<Json<AddedServers>, ApiError> {
    let block = format!("{{\"mcpServers\":{}}}", new.servers.get());
    let pasted = config::pasted(&block).map_err(invalid)?;
    for server in &pasted {
        may_write(&daemon, server.entry.name.as_str(), new.replace)?;
    }
    let names: Vec<ServerName> = pasted
        .iter()
        .map(|server| server.entry.name.clone())
        .collect();
    let (changing, written) = (daemon.clone(), pasted.clone());
    let change = uninterrupted(&daemon, async move {
        let edit = |text: &str| {
            written.iter().try_fold(text.to_owned(), |text, server| {
                config::set(&text, &server.entry.name, &server.json)
            })
        };
        let connect = if new.connect {
            Connect::Now
        } else {
            Connect::Later
        };
        Ok(changing
            .settings
            .edit_to(&changing.wharf, edit, connect)
            .await?)
    })
    .await?;
    // Who replaces an entry means it to be used.
    for name in &names {
        daemon.wharf.renew_server(name.as_str()).await;
    }
    if !new.connect {
        let waiting = pasted.iter().filter(|server| server.entry.enabled);
        waiting.for_each(|server| daemon.wharf.install_behind(server.entry.name.as_str()));
    }
    let mut asking = tokio::task::JoinSet::new();
    for (index, server) in pasted
        .iter()
        .enumerate()
        .filter(|(_, server)| server.entry.enabled && new.connect)
    {
        let (wharf, entry) = (daemon.wharf.clone(), server.entry.clone());
        asking.spawn(async move {
            let name = entry.name.as_str();
            // Its own limit, not that of a start.
            if entry.package.is_some()
                && let Err(error) = wharf.install_server(name, Installing::default()).await
            {
                let hint = error.hint.as_deref().map(|hint| format!("\n{hint}"));
                return (index, Err(error.message + &hint.unwrap_or_default()));
            }
            (index, wharf.discover(name).await)
        });
    }
    let mut servers: Vec<Added> = names
        .iter()
        .map(|name| Added {
            name: name.to_string(),
            tools: None,
            error: None,
            verified: None,
            connection: None,
            finding: None,
        })
        .collect();
    while let Some(Ok((index, asked))) = asking.join_next().await {
        match asked {
            Ok(tools) => servers[index].tools = Some(tools),
            Err(error) => {
                let added = &mut servers[index];
                added.error = Some(error);
                added.finding = daemon.wharf.finding(&added.name);
            }
        }
    }
    let config = daemon.wharf.config();
    for server in &mut servers {
        let entry = config.server(&server.name);
        server.verified = entry.and_then(|entry| daemon.wharf.verified(entry));
        if server.tools.is_some() || server.error.is_some() {
            server.connection = daemon.wharf.last_connection(&server.name);
        }
    }
    // Of the daemon's own view: a variable may be set in the shell and not here.
    let own = |problem: &Problem| {
        names.iter().any(|name| {
            let rest = problem.key.strip_prefix("mcpServers.");
            let rest = rest.and_then(|rest| rest.strip_prefix(name.as_str()));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let problems = change.problems.into_iter().filter(own).collect();
    Ok(Json(AddedServers { servers, problems }))
}

fn invalid(error: PastedError) -> ApiError {
    match error {
        PastedError::Syntax { .. } | PastedError::Nothing => ApiError::invalid(error.to_string()),
        PastedError::Invalid(problems) => problems.into_iter().fold(
            ApiError::invalid("an entry can't be used"),
            |error, problem: Problem| {
                debug_assert!(problem.severity == Severity::Error);
                let hint = problem
                    .hint
                    .map(|hint| format!(" ({hint})"))
                    .unwrap_or_default();
                error.with_field(problem.key, problem.message + &hint)
            },
        ),
    }
}

/// Only what `settings.json` has, or nobody has, can be written there.
fn may_write(daemon: &Daemon, name: &str, replace: bool) -> Result<(), ApiError> {
    let config = daemon.wharf.config();
    let known = config
        .server(name)
        .map(|entry| (entry.source, entry.place.to_string()));
    let broken = || {
        let found = config
            .broken
            .iter()
            .find(|(broken, ..)| broken.as_str() == name);
        found.map(|(_, source, problem)| (*source, problem.place.to_string()))
    };
    match known.or_else(broken) {
        None => Ok(()),
        Some((Source::Settings, _)) if replace => Ok(()),
        Some((Source::Settings, place)) => Err(ApiError::conflict(format!(
            "there is a server `{name}` already ({place})"
        ))
        .with_hint("give it another name, or add it with `--replace`")),
        Some((Source::Host | Source::Preset | Source::Run | Source::Agent, place)) => Err(
            ApiError::conflict(format!("`{name}` is defined by {place}, which comes first"))
                .with_hint("give it another name, or change it there"),
        ),
    }
}

/// The server, which must be one of `settings.json`.
pub(super) fn own(daemon: &Daemon, name: &str) -> Result<ServerName, ApiError> {
    let known = ServerName::new(name).ok().filter(|name| {
        let config = daemon.wharf.config();
        config.server(name.as_str()).is_some()
            || config.broken.iter().any(|(broken, ..)| broken == name)
    });
    let Some(known) = known else {
        return Err(ApiError::unknown(daemon.wharf.no_such_server(name)));
    };
    may_write(daemon, name, true)?;
    Ok(known)
}

/// What becomes of a server's package.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct WithPackage {
    /// Whether its install goes too, unless somebody else uses it.
    #[serde(default)]
    uninstall: bool,
}

/// Takes a server out of `settings.json` and stops it.
#[utoipa::path(delete, path = "/api/servers/{name}", params(("name" = String, Path), WithPackage),
    responses((status = 204, description = "it is gone"), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(crate) async fn remove(
    State(daemon): State<Arc<Daemon>>,
    Path(name): Path<String>,
    Query(with): Query<WithPackage>,
) -> Result<StatusCode, ApiError> {
    let name = own(&daemon, &name)?;
    let unused = with
        .uninstall
        .then(|| daemon.wharf.unused_after(name.as_str()))
        .flatten();
    let changing = daemon.clone();
    uninterrupted(&daemon, async move {
        let edit = |text: &str| config::remove(text, &name);
        changing.settings.edit(&changing.wharf, edit).await?;
        if let Some((package, _)) = unused {
            changing.wharf.remove_package(&package).await?;
        }
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// Switches a server on.
#[utoipa::path(post, path = "/api/servers/{name}/enable", params(("name" = String, Path)),
    responses((status = 200, body = Report), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(crate) async fn enable(
    State(daemon): State<Arc<Daemon>>,
    Path(name): Path<String>,
) -> Result<Json<Report>, ApiError> {
    switch(&daemon, &name, true).await
}

/// Switches a server off and stops it.
#[utoipa::path(post, path = "/api/servers/{name}/disable", params(("name" = String, Path)),
    responses((status = 200, body = Report), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(crate) async fn disable(
    State(daemon): State<Arc<Daemon>>,
    Path(name): Path<String>,
) -> Result<Json<Report>, ApiError> {
    switch(&daemon, &name, false).await
}

async fn switch(daemon: &Arc<Daemon>, name: &str, on: bool) -> Result<Json<Report>, ApiError> {
    let known = own(daemon, name)?;
    let changing = daemon.clone();
    uninterrupted(daemon, async move {
        let edit = |text: &str| config::set_enabled(text, &known, on);
        changing.settings.edit(&changing.wharf, edit).await?;
        Ok(())
    })
    .await?;
    if on {
        daemon.wharf.discover(name).await.ok();
    }
    report(daemon, name)
}

fn exists(daemon: &Daemon, name: &str) -> Result<(), ApiError> {
    report(daemon, name).map(|_| ())
}

fn report(daemon: &Daemon, name: &str) -> Result<Json<Report>, ApiError> {
    let agent = daemon.wharf.agent("default")?;
    let found = daemon
        .wharf
        .reports(&agent)
        .into_iter()
        .find(|report| report.name == name);
    found
        .map(Json)
        .ok_or_else(|| ApiError::unknown(daemon.wharf.no_such_server(name)))
}

/// Stops a server's processes and forgets that it failed; the next call starts a fresh one.
#[utoipa::path(post, path = "/api/servers/{name}/restart", params(("name" = String, Path), ForAgent),
    responses((status = 200, body = Report), (status = 404, body = ApiError)))]
pub(crate) async fn restart(
    State(daemon): State<Arc<Daemon>>,
    Path(name): Path<String>,
    Query(agent): Query<ForAgent>,
) -> Result<Json<Report>, ApiError> {
    let agent = agent.any(&daemon)?;
    exists(&daemon, &name)?;
    daemon.wharf.restart_server(&name, agent.as_ref()).await;
    report(&daemon, &name)
}

/// Stops a server's processes.
#[utoipa::path(post, path = "/api/servers/{name}/stop", params(("name" = String, Path), ForAgent),
    responses((status = 200, body = Report), (status = 404, body = ApiError)))]
pub(crate) async fn stop(
    State(daemon): State<Arc<Daemon>>,
    Path(name): Path<String>,
    Query(agent): Query<ForAgent>,
) -> Result<Json<Report>, ApiError> {
    let agent = agent.any(&daemon)?;
    exists(&daemon, &name)?;
    daemon.wharf.stop_server(&name, agent.as_ref()).await;
    report(&daemon, &name)
}

/// Asks a server again what it offers, at once, if that failed before.
#[utoipa::path(post, path = "/api/servers/{name}/discover", params(("name" = String, Path)),
    responses((status = 200, body = Report), (status = 404, body = ApiError)))]
pub(crate) async fn discover(
    State(daemon): State<Arc<Daemon>>,
    Path(name): Path<String>,
) -> Result<Json<Report>, ApiError> {
    exists(&daemon, &name)?;
    daemon.wharf.forget_failure(&name);
    daemon.wharf.discover(&name).await.ok();
    report(&daemon, &name)
}

/// Connects to a server as it would be started for its first listing, and says how that went. Its processes that run are
/// left alone, and a failure takes nothing away that is known of it.
#[utoipa::path(post, path = "/api/servers/{name}/test", params(("name" = String, Path)),
    responses((status = 200, body = Connected), (status = 404, body = ApiError)))]
pub(crate) async fn test(
    State(daemon): State<Arc<Daemon>>,
    Path(name): Path<String>,
) -> Result<Json<Connected>, ApiError> {
    let testing = daemon.wharf.test(&name).await;
    testing.map(Json).map_err(ApiError::unknown)
}

/// How many lines.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Lines {
    /// 100 unless given.
    lines: Option<usize>,
}

/// Lines of output.
#[derive(Serialize, ToSchema)]
pub(crate) struct LogLines {
    /// Oldest first.
    lines: Vec<String>,
}

/// The last lines a server wrote to standard error.
#[utoipa::path(get, path = "/api/servers/{name}/logs", params(("name" = String, Path), Lines),
    responses((status = 200, body = LogLines), (status = 404, body = ApiError)))]
pub(crate) async fn logs(
    State(daemon): State<Arc<Daemon>>,
    Path(name): Path<String>,
    Query(lines): Query<Lines>,
) -> Result<Json<LogLines>, ApiError> {
    exists(&daemon, &name)?;
    Ok(Json(LogLines {
        lines: daemon.wharf.log_tail(&name, lines.lines.unwrap_or(100)),
    }))
}

/// A tool an agent can call.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolBody {
    /// What agents call it.
    name: String,
    /// Whose it is.
    server: String,
    /// What its server calls it.
    tool: String,
    /// Possibly empty.
    description: String,
    /// JSON Schema of its arguments.
    #[schema(value_type = Object)]
    input_schema: Box<RawValue>,
}

/// A server without tools.
#[derive(Serialize, ToSchema)]
pub(crate) struct Unavailable {
    /// Its name.
    server: String,
    /// Why.
    reason: String,
}

/// All an agent can call.
#[derive(Serialize, ToSchema)]
pub(crate) struct ToolList {
    /// In server order.
    tools: Vec<ToolBody>,
    /// Servers whose tools are missing.
    unavailable: Vec<Unavailable>,
    /// Tools that are not offered, and why.
    warnings: Vec<String>,
}

/// The tools of an agent. Servers that were never listed are listed now, for a few seconds at most.
#[utoipa::path(get, path = "/api/tools", params(ForAgent), responses((status = 200, body = ToolList)))]
pub(crate) async fn tools(
    State(daemon): State<Arc<Daemon>>,
    Query(agent): Query<ForAgent>,
) -> Result<Json<ToolList>, ApiError> {
    let session = owner_session(&daemon, &agent.one(&daemon)?);
    let catalog = session.tools().await;
    let tools = catalog.tools.iter().map(|exposed| {
        let object = Object::from_raw(&exposed.tool.raw).unwrap_or_default();
        let description = object
            .get("description")
            .and_then(string)
            .unwrap_or_default();
        let schema = object.get("inputSchema").map(ToOwned::to_owned);
        ToolBody {
            name: exposed.name.clone(),
            server: exposed.server.to_string(),
            tool: exposed.tool.name.to_string(),
            description: description.into_owned(),
            input_schema: schema.unwrap_or_else(wharfinger_wire::json::empty_object),
        }
    });
    let missing = daemon.wharf.unavailable().into_iter();
    Ok(Json(ToolList {
        tools: tools.collect(),
        unavailable: missing
            .map(|(server, reason)| Unavailable { server, reason })
            .collect(),
        warnings: catalog.warnings.clone(),
    }))
}

/// The session in which an owner looks and calls from outside of any client.
pub(super) fn owner_session(daemon: &Daemon, agent: &AgentName) -> wharfinger::Session {
    daemon.wharf.session(SessionOptions {
        agent: agent.clone(),
        id: SessionId::new(&format!("owner-{agent}")).expect("an agent's name is visible ASCII"),
        declared: Declared::default(),
        reserved: vec![],
        lasting: true,
    })
}
