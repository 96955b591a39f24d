//! Everything a client asks of servers that is no tool call: prompts, resources, completions, tasks.
//!
//! As in story 1, `catalog` says whose it is, `servers` asks, `vault` keeps secrets in. What agents see under another
//! name than its server's is told to the server by its own, and its answer to the agent by the agent's.

use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use wharfinger_wire::json::{Object, Raw, raw};
use wharfinger_wire::message::{ErrorObject, INVALID_PARAMS};

use crate::call::{CallNote, Refusal, gone, with_member};
use crate::catalog::{Directory, Items, Kind, Offers, Page, Place, items};
use crate::discover::{self, Found};
use crate::kept::clean;
use crate::links;
use crate::model::{ServerEntry, ServerName, Transport};
use crate::record::Recording;
use crate::servers::{Lists, Outgoing, Patience, ServerHandle};
use crate::session::Session;
use crate::wharf::lock;

/// A request as an agent makes it, of any method but `tools/call` and the lists.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `prompts/get`, `resources/read`, `resources/subscribe`, `resources/unsubscribe`, `completion/complete`,
    /// `tasks/get`, `tasks/result`, `tasks/list`, `tasks/cancel` or `tasks/update`.
    pub method: &'a str,
    /// Its params as they came.
    pub params: Option<&'a RawValue>,
    /// Whether progress is wanted.
    pub progress: bool,
    /// From which level on log messages are wanted, where the client says so with each request.
    pub log_level: Option<&'a str>,
}

impl Request<'_> {
    /// Whether [`Session::request`] knows a method.
    pub fn knows(method: &str) -> bool {
        matches!(
            method,
            "prompts/get"
                | "resources/read"
                | "resources/subscribe"
                | "resources/unsubscribe"
                | "completion/complete"
                | "tasks/get"
                | "tasks/result"
                | "tasks/list"
                | "tasks/cancel"
                | "tasks/update"
        )
    }
}

/// The lists that a kind is found in.
fn lists(kind: Kind) -> Lists {
    match kind {
        Kind::Prompt => Lists::PROMPTS,
        Kind::Resource => Lists::RESOURCES,
        Kind::Template => Lists::TEMPLATES,
    }
}

fn invalid(text: impl Into<String>) -> Refusal {
    Refusal::Server(ErrorObject::new(INVALID_PARAMS, text))
}

impl Session {
    /// Prompts, resources or templates of all servers. Waits for those that were never listed, for at most
    /// [`Limits::list_wait`](crate::model::Limits::list_wait). Those that run are asked anew; of the others, what they
    /// listed when they were last asked.
    pub async fn list(&self, kind: Kind) -> Page {
        let wait = self.wharf.limits().list_wait;
        self.discover_all(wait).await;
        self.ask_again(kind).await;
        self.directory().page(kind).clone()
    }

    /// Prompts, resources and templates, as far as they are known at this moment.
    pub fn directory(&self) -> Arc<Directory> {
        let config = self.config();
        let mut all: Vec<(ServerName, Arc<Offers>)> = vec![];
        for entry in config.servers.iter().filter(|entry| entry.enabled) {
            let own = self.wharf.offers_of_instance(&self.state, entry);
            let offers = own.or_else(|| self.discovered(entry));
            if let Some(offers) = offers {
                all.push((entry.name.clone(), offers));
            }
        }
        let mut seen = lock(&self.state.directory);
        if let Some((from, directory)) = &*seen {
            let same = from.len() == all.len()
                && from
                    .iter()
                    .zip(&all)
                    .all(|(one, other)| one.0 == other.0 && Arc::ptr_eq(&one.1, &other.1));
            if same {
                return directory.clone();
            }
        }
        self.wharf.claim(&all);
        let directory = Arc::new(Directory::join(&all, &lock(&self.wharf.0.claims)));
        *seen = Some((all, directory.clone()));
        directory
    }

    /// Waits until every enabled server has been asked what it offers, for so long at most, and no longer than
    /// [`Limits::list_wait`](crate::model::Limits::list_wait).
    pub async fn settle(&self, wait: std::time::Duration) {
        let wait = wait.min(self.wharf.limits().list_wait);
        self.discover_all(wait).await;
    }

    /// Whether every enabled server has been asked what it offers.
    pub fn knows_all(&self) -> bool {
        let config = self.config();
        let mut enabled = config.servers.iter().filter(|entry| entry.enabled);
        enabled.all(|entry| {
            let found = self.wharf.found(entry, &self.state.declared);
            matches!(entry.transport, Transport::Http { .. })
                || matches!(found, Some(Found::Known(_) | Found::Failed { .. }))
        })
    }

    fn discovered(&self, entry: &ServerEntry) -> Option<Arc<Offers>> {
        match self.wharf.found(entry, &self.state.declared)? {
            Found::Known(known) => Some(known.offers.clone()),
            Found::Asking | Found::Failed { .. } => None,
        }
    }

    /// Asks the servers that run what they list now, all at once.
    async fn ask_again(&self, kind: Kind) {
        let config = self.config();
        let mut asking = JoinSet::new();
        for entry in config.servers.iter().filter(|entry| entry.enabled) {
            let Some((handle, before)) = self.wharf.running(&self.state, entry) else {
                continue;
            };
            let before = before
                .or_else(|| self.discovered(entry))
                .unwrap_or_default();
            if before.can(lists(kind).capability) {
                let (session, entry) = (self.clone(), entry.clone());
                asking.spawn(async move {
                    if let Some(now) = session.listed_by(&handle, kind).await {
                        let offers = with(&before, kind, now);
                        session.wharf.see_offers(&session.state, &entry, offers);
                    }
                });
            }
        }
        asking.join_all().await;
    }

    async fn listed_by(&self, handle: &ServerHandle, kind: Kind) -> Option<Items> {
        let lists = lists(kind);
        match handle.list(lists, self.wharf.limits()).await {
            Ok(list) => {
                let cleaned: Vec<_> = list
                    .items
                    .iter()
                    .map(|item| clean(&self.wharf, item.as_ref().to_owned()))
                    .collect();
                Some(Items {
                    items: items(kind, cleaned.iter().map(|item| &**item)),
                    ttl_ms: list.ttl_ms,
                })
            }
            Err(reason) => {
                let reason = self.wharf.redactor().text(&reason).into_owned();
                tracing::debug!("{} failed: {reason}", lists.method);
                None
            }
        }
    }

    /// Makes a request. Progress and log messages come in order, before the result. Dropping the future cancels it at
    /// the server (V65).
    pub async fn request(
        &self,
        request: Request<'_>,
        notes: impl FnMut(CallNote) + Send,
    ) -> Result<Raw, Refusal> {
        let mut recording = Recording::of_request(self, &request);
        let reply = self.request_recorded(request, notes, &mut recording).await;
        recording.end(&reply).await;
        reply
    }

    async fn request_recorded(
        &self,
        request: Request<'_>,
        mut notes: impl FnMut(CallNote) + Send,
        recording: &mut Recording<'_>,
    ) -> Result<Raw, Refusal> {
        // First, so that what stops the session's calls stops this one.
        let stopping = self.state.stopping();
        if self.is_over() {
            return Err(Refusal::Unavailable("this session is over".into()));
        }
        let asking = self.route(request, &mut notes);
        match stopping.run_until_cancelled(asking).await {
            Some(reply) => reply,
            None => recording.stopped(),
        }
    }

    /// The answer to `roots/list` of the server that a request goes to, where its owner has decided it; `None` where its
    /// client is to be asked.
    pub fn own_roots(&self, method: &str, params: &RawValue) -> Option<Raw> {
        let params = Object::from_raw(params).ok()?;
        let server = match method {
            "tools/call" => self
                .known_tools()
                .find(&params.text("name")?)?
                .server
                .clone(),
            "prompts/get" => self.directory().prompt(&params.text("name")?)?.0.clone(),
            _ => match self.directory().resource(&params.text("uri")?) {
                Place::Known(server, _) => server,
                Place::Unlisted(_) => return None,
            },
        };
        let entry = self.entry(&server).ok()?;
        let workspace = self.wharf.workspace(&self.state.agent);
        let roots = discover::roots(&entry, &self.state.declared, &workspace)?;
        let roots: Vec<_> = roots.iter().map(|uri| json!({ "uri": uri })).collect();
        Some(raw(&json!({ "roots": roots })))
    }

    async fn route(
        &self,
        request: Request<'_>,
        notes: &mut (impl FnMut(CallNote) + Send),
    ) -> Result<Raw, Refusal> {
        let params = request.params.unwrap_or(RawValue::NULL);
        let object = Object::from_raw(params).map_err(|_| invalid("params must be an object"))?;
        let text = |member: &'static str| {
            let text = object.text(member).map(std::borrow::Cow::into_owned);
            text.ok_or_else(|| invalid(format!("params.{member} must be a string")))
        };
        match request.method {
            "prompts/get" => self.prompt(request, &text("name")?, notes).await,
            "resources/read" => self.read(request, &text("uri")?, notes).await,
            "resources/subscribe" => self.subscribe(&text("uri")?).await,
            "resources/unsubscribe" => self.unsubscribe(&text("uri")?).await,
            "completion/complete" => self.complete(request, &object, notes).await,
            "tasks/list" => self.task_list().await,
            _ => self.task(request, &text("taskId")?, notes).await,
        }
    }

    async fn prompt(
        &self,
        request: Request<'_>,
        name: &str,
        notes: &mut (impl FnMut(CallNote) + Send),
    ) -> Result<Raw, Refusal> {
        let mut directory = self.directory();
        // A client may ask without having listed: what it knows from before is found out then.
        if directory.prompt(name).is_none() {
            drop(self.list(Kind::Prompt).await);
            directory = self.directory();
        }
        let Some((server, own)) = directory.prompt(name) else {
            let near = directory.nearest_prompt(name);
            let near = near.map(|near| format!("; did you mean `{near}`?"));
            return Err(invalid(format!(
                "there is no prompt `{name}`{}",
                near.unwrap_or_default()
            )));
        };
        let result = self
            .ask_server(server, request, ("name", name, own), notes)
            .await?;
        Ok(self.with_links(server, result))
    }

    /// A result whose links lead to the server it is from, also where another one has the same URIs.
    pub(crate) fn with_links(&self, server: &ServerName, result: Raw) -> Raw {
        let links =
            |text: &str| text.contains("\"resource_link\"") || text.contains("\"resource\"");
        if self.config().servers.len() < 2 || !links(result.get()) {
            return result;
        }
        let directory = self.directory();
        let exposed = |uri: &str| {
            let found = directory.resource(uri);
            let there = matches!(&found, Place::Known(known, own) if known == server && own == uri);
            (!there && directory.reads(server)).then(|| Kind::Resource.marked(server, uri))
        };
        links::renamed(&result, &exposed).unwrap_or(result)
    }

    async fn read(
        &self,
        request: Request<'_>,
        uri: &str,
        notes: &mut (impl FnMut(CallNote) + Send),
    ) -> Result<Raw, Refusal> {
        match self.place_of(uri).await {
            Place::Known(server, own) => {
                let result = self
                    .ask_server(&server, request, ("uri", uri, &own), notes)
                    .await?;
                Ok(if own == uri {
                    result
                } else {
                    with_uri(&result, &own, uri).unwrap_or(result)
                })
            }
            Place::Unlisted(servers) => {
                let mut first = None;
                for server in servers {
                    match self
                        .ask_server(&server, request, ("uri", uri, uri), notes)
                        .await
                    {
                        Err(refused @ Refusal::Server(_)) => drop(first.get_or_insert(refused)),
                        reply => return reply,
                    }
                }
                Err(first.unwrap_or_else(|| {
                    let error = ErrorObject::new(
                        wharfinger_wire::message::RESOURCE_NOT_FOUND,
                        "there is no such resource",
                    );
                    Refusal::Server(error.with_data(raw(&json!({ "uri": uri }))))
                }))
            }
        }
    }

    /// Where a URI is read; servers that were never listed are listed first.
    pub(crate) async fn place_of(&self, uri: &str) -> Place {
        let known = self.directory().resource(uri);
        if !matches!(known, Place::Unlisted(_)) && self.knows_all() {
            return known;
        }
        drop(self.list(Kind::Resource).await);
        self.directory().resource(uri)
    }

    async fn complete(
        &self,
        request: Request<'_>,
        params: &Object<'_>,
        notes: &mut (impl FnMut(CallNote) + Send),
    ) -> Result<Raw, Refusal> {
        let about = params
            .object("ref")
            .ok_or_else(|| invalid("params.ref must be an object"))?;
        if !self.knows_all() {
            drop(self.list(Kind::Prompt).await);
        }
        let directory = self.directory();
        let (member, exposed) = match about.text("type").as_deref() {
            Some("ref/prompt") => ("name", about.text("name")),
            Some("ref/resource") => ("uri", about.text("uri")),
            _ => {
                return Err(invalid(
                    "params.ref.type must be ref/prompt or ref/resource",
                ));
            }
        };
        let exposed =
            exposed.ok_or_else(|| invalid(format!("params.ref.{member} must be a string")))?;
        let (server, own) = if member == "name" {
            let found = directory.prompt(&exposed).cloned();
            found.ok_or_else(|| invalid(format!("there is no prompt `{exposed}`")))?
        } else if let Some((server, own)) = directory.template(&exposed) {
            (server.clone(), own.to_owned())
        } else {
            match directory.resource(&exposed) {
                Place::Known(server, own) => (server, own),
                Place::Unlisted(_) => {
                    return Err(invalid(format!("there is no resource `{exposed}`")));
                }
            }
        };
        let mut renamed = params.clone();
        if own != exposed {
            let mut about = about.clone();
            about.set(member, raw(&own));
            let about = about.to_raw();
            renamed.set("ref", about);
        }
        let entry = self.entry(&server)?;
        let handle = self.instance_of(&entry)?;
        let renamed = renamed.to_raw();
        let outgoing = outgoing(request, Some(&renamed), Patience::Call);
        self.exchange(&server, &handle, outgoing, notes).await
    }

    /// A request to one server, with its own word for what the agent calls otherwise.
    async fn ask_server(
        &self,
        server: &ServerName,
        request: Request<'_>,
        (member, exposed, own): (&'static str, &str, &str),
        notes: &mut (impl FnMut(CallNote) + Send),
    ) -> Result<Raw, Refusal> {
        let entry = self.entry(server)?;
        let handle = self.instance_of(&entry)?;
        let params = request.params.unwrap_or(RawValue::NULL);
        let renamed = (own != exposed)
            .then(|| with_member(params, member, own))
            .flatten();
        let params = renamed.as_deref().unwrap_or(params);
        let outgoing = outgoing(request, Some(params), Patience::Call);
        self.exchange(server, &handle, outgoing, notes).await
    }

    /// The entry of a server that may be used.
    pub(crate) fn entry(&self, server: &ServerName) -> Result<ServerEntry, Refusal> {
        let config = self.config();
        let entry = config.server(server.as_str()).ok_or_else(|| gone(server))?;
        if entry.enabled {
            Ok(entry.clone())
        } else {
            Err(Refusal::Unavailable(format!(
                "{server}: this MCP server is disabled"
            )))
        }
    }

    /// This session's instance of a server.
    pub(crate) fn instance_of(&self, entry: &ServerEntry) -> Result<ServerHandle, Refusal> {
        let handle = self.wharf.instance(&self.state, entry);
        handle.ok_or_else(|| gone(&entry.name))
    }
}

pub(crate) fn outgoing<'a>(
    request: Request<'a>,
    params: Option<&'a RawValue>,
    patience: Patience,
) -> Outgoing<'a> {
    Outgoing {
        method: request.method,
        params,
        log_level: request.log_level,
        progress: request.progress,
        patience,
    }
}

/// The same offers with another list of one kind.
fn with(offers: &Offers, kind: Kind, now: Items) -> Arc<Offers> {
    let mut offers = offers.clone();
    match kind {
        Kind::Prompt => offers.prompts = now,
        Kind::Resource => offers.resources = now,
        Kind::Template => offers.templates = now,
    }
    Arc::new(offers)
}

/// The contents of a resource under the URI that the agent knows it by. `None` where nothing names it.
fn with_uri(result: &RawValue, own: &str, exposed: &str) -> Option<Raw> {
    let mut object = Object::from_raw(result).ok()?;
    let contents = links::each(object.get("contents")?, |content| {
        let mut one = Object::from_raw(content).ok()?;
        (one.text("uri").as_deref() == Some(own)).then(|| {
            one.set("uri", raw(exposed));
            one.to_raw()
        })
    })?;
    object.set("contents", contents);
    Some(object.to_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_told_by_the_uri_that_was_asked_for() {
        let result = r#"{"contents":[{"uri":"x://1","text":"1e400","n":1e400},{"uri":"x://1/sub"}],"ttlMs":5}"#;
        let result = RawValue::from_string(result.to_owned()).unwrap();
        assert_eq!(
            with_uri(&result, "x://1", "wharf.b+x://1").unwrap().get(),
            r#"{"contents":[{"uri":"wharf.b+x://1","text":"1e400","n":1e400},{"uri":"x://1/sub"}],"ttlMs":5}"#
        );
    }
}
