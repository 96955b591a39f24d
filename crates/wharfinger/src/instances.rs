//! Which instance of a server serves which session.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use serde_json::value::RawValue;
use wharfinger_wire::era::SUBSCRIPTION_ID;
use wharfinger_wire::json::Object;
use wharfinger_wire::message::{ErrorObject, INTERNAL_ERROR, METHOD_NOT_FOUND};

use crate::call::CallNote;

use crate::catalog::Offers;
use crate::conversation::{SessionState, Stage};
use crate::discover::{Found, Made, key, spec};
use crate::journal::EventKind;
use crate::keys::Keyed;
use crate::launch::Scratch;
use crate::model::{AgentName, Declared, Profile, Roots, Scope, ServerEntry, ServerName, Status};
use crate::refresh::Update;
use crate::servers::{Asked, Audience, Note, Plans, ServerHandle};
use crate::session::Session;
use crate::tasks;
use crate::wharf::{Inner, Wharf, lock};

/// All instances of an owner.
pub(crate) type Instances = HashMap<Place, Instance>;

/// Sessions of one agent that declare the same share an instance, unless the server is one for each session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) agent: AgentName,
    pub(crate) server: ServerName,
    declared: Declared,
    /// By its serial, where it is one session's own.
    session: Option<u64>,
}

impl Place {
    /// Where a session's instance of a server is. What only one client can be asked for, its roots, is for one session.
    pub(crate) fn of(session: &SessionState, entry: &ServerEntry) -> Self {
        let declared = entry.tells(&session.declared);
        let asks_client =
            entry.roots == Roots::Client && declared.can("roots") && declared.roots.is_empty();
        // The client does tasks of its own, whose ids mean nothing to another.
        let alone = asks_client || entry.scope == Scope::Session || declared.can("tasks");
        Self {
            agent: session.agent.clone(),
            server: entry.name.clone(),
            session: alone.then_some(session.serial),
            declared,
        }
    }
}

/// An instance and who uses it.
pub(crate) struct Instance {
    pub(crate) handle: ServerHandle,
    /// The entry it was made from; a running one keeps it until it stops (C26).
    entry: ServerEntry,
    /// Where its process stands, as long as it is there (A193).
    _scratch: Option<Arc<Scratch>>,
    /// When the last of them ends, the instance stops (V60).
    users: HashSet<u64>,
    /// What this one was last seen to offer beside tools.
    offers: Option<Arc<Offers>>,
}

impl Wharf {
    /// The instance that serves a session; made if there is none, started by the first call to it.
    pub(crate) fn instance(
        &self,
        session: &SessionState,
        entry: &ServerEntry,
    ) -> Option<ServerHandle> {
        let place = Place::of(session, entry);
        let mut instances = lock(&self.0.instances);
        if let Some(instance) = instances.get_mut(&place) {
            let running = match instance.handle.status() {
                Status::Running { .. } | Status::Starting => true,
                // Its end is told first; after that a mended entry counts.
                Status::Exited { .. } => instance.handle.has_untold_end(),
                Status::NotStarted
                | Status::Failed { .. }
                | Status::NeedsKeys { .. }
                | Status::Disabled => false,
            };
            if running || same(&instance.entry, entry) {
                instance.users.insert(session.serial);
                return Some(instance.handle.clone());
            }
        }
        let remembered = match self.found(entry, &place.declared) {
            Some(Found::Known(known)) => Some(known.version),
            Some(Found::Asking | Found::Failed { .. }) | None => None,
        };
        let workspace: PathBuf = self.workspace(&session.agent);
        let scratch = session.own.scratch(self);
        let made = Made {
            profile: session.own.profile,
            workspace: &workspace,
            scratch: scratch.as_deref().map(Scratch::path),
            remembered,
        };
        let mut spec = spec(self, entry, &place.declared, &made)?;
        let stands = scratch.as_deref().map(|scratch| scratch.path().to_owned());
        let keyed = Keyed::new(self, Some(&session.own), entry, workspace.clone(), stands);
        if let Some(keyed) = keyed {
            spec.plan = Plans::Made(keyed);
        }
        let ear = Ear {
            wharf: Arc::downgrade(&self.0),
            place: place.clone(),
            key: key(&self.0, entry, &place.declared),
            runs: AtomicBool::new(false),
        };
        let handle = ServerHandle::new(&self.0.context, spec, Arc::new(ear));
        let mut users = instances
            .remove(&place)
            .map(|old| old.users)
            .unwrap_or_default();
        users.insert(session.serial);
        let instance = Instance {
            handle: handle.clone(),
            entry: entry.clone(),
            _scratch: scratch,
            users,
            offers: None,
        };
        instances.insert(place, instance);
        Some(handle)
    }

    /// The instance that serves a session, if it runs, and what it was last seen to offer.
    pub(crate) fn running(
        &self,
        session: &SessionState,
        entry: &ServerEntry,
    ) -> Option<(ServerHandle, Option<Arc<Offers>>)> {
        let instances = lock(&self.0.instances);
        let instance = instances.get(&Place::of(session, entry))?;
        let runs = matches!(instance.handle.status(), Status::Running { .. });
        runs.then(|| (instance.handle.clone(), instance.offers.clone()))
    }

    /// The state of the instance that serves a session, if there is one.
    pub(crate) fn status_for(&self, session: &SessionState, entry: &ServerEntry) -> Option<Status> {
        let instances = lock(&self.0.instances);
        let instance = instances.get(&Place::of(session, entry))?;
        Some(instance.handle.status())
    }

    /// The instance at a place, as it is now.
    pub(crate) fn at(&self, place: &Place) -> Option<ServerHandle> {
        let instances = lock(&self.0.instances);
        instances.get(place).map(|instance| instance.handle.clone())
    }

    /// What a session's instance was last seen to offer.
    pub(crate) fn offers_of_instance(
        &self,
        session: &SessionState,
        entry: &ServerEntry,
    ) -> Option<Arc<Offers>> {
        let instances = lock(&self.0.instances);
        instances.get(&Place::of(session, entry))?.offers.clone()
    }

    /// A session's instance offers this now.
    pub(crate) fn see_offers(
        &self,
        session: &SessionState,
        entry: &ServerEntry,
        offers: Arc<Offers>,
    ) {
        let mut instances = lock(&self.0.instances);
        if let Some(instance) = instances.get_mut(&Place::of(session, entry)) {
            instance.offers = Some(offers);
        }
    }

    /// Whether a process of this agent runs that was started from another entry.
    pub(crate) fn is_outdated(&self, entry: &ServerEntry, agent: &AgentName) -> bool {
        let instances = lock(&self.0.instances);
        instances.iter().any(|(place, instance)| {
            place.server == entry.name
                && place.agent == *agent
                && matches!(instance.handle.status(), Status::Running { .. })
                && !same(&instance.entry, entry)
        })
    }

    /// Instances that a session has used.
    pub(crate) fn used_by(&self, session: &SessionState) -> Vec<ServerHandle> {
        let instances = lock(&self.0.instances);
        let used = instances
            .values()
            .filter(|instance| instance.users.contains(&session.serial));
        used.map(|instance| instance.handle.clone()).collect()
    }

    /// The least severe log messages that any session of an instance wants, by their rank.
    pub(crate) fn least_level(&self, handle: &ServerHandle) -> Option<usize> {
        let users = {
            let instances = lock(&self.0.instances);
            let instance = instances
                .values()
                .find(|instance| instance.handle.is(handle));
            instance?.users.clone()
        };
        let sessions = lock(&self.0.sessions);
        let levels = sessions
            .values()
            .filter(|session| users.contains(&session.serial))
            .filter_map(|session| *lock(&session.log_level));
        levels.min()
    }

    /// A session is over: its instances that nobody else uses stop; waits for that. Sessions that never end do not
    /// count, but for their calls in flight.
    pub(crate) async fn release_instances(&self, session: &SessionState) {
        let lasting: HashSet<u64> = {
            let sessions = lock(&self.0.sessions);
            let lasting = sessions.values().filter(|state| state.lasting);
            lasting.map(|state| state.serial).collect()
        };
        let mut unused = vec![];
        lock(&self.0.instances).retain(|_, instance| {
            let used = instance.users.remove(&session.serial);
            let others = instance.users.iter().any(|user| !lasting.contains(user));
            let last = used && !others && !instance.handle.is_busy();
            if last {
                unused.push(instance.handle.clone());
            }
            !last
        });
        stop_all(unused).await;
    }

    /// Stops a server's instances, of one agent or of all, and waits until they are gone.
    pub async fn stop_server(&self, server: &str, agent: Option<&AgentName>) {
        stop_all(self.handles(server, agent)).await;
    }

    /// The same, and a failed start is forgotten too, so that the next call starts a fresh one; for active agents of the
    /// agent profile it is started at once, and what went wrong before does not count any more (A91).
    pub async fn restart_server(&self, server: &str, agent: Option<&AgentName>) {
        self.record_restart(server, agent).await;
        self.forget_failure(server);
        self.stop_server(server, agent).await;
        let sessions: Vec<_> = lock(&self.0.sessions).values().cloned().collect();
        let active = sessions.into_iter().filter(|state| {
            state.own.profile == Profile::Agent && agent.is_none_or(|agent| *agent == state.agent)
        });
        for state in active {
            let session = Session {
                wharf: self.clone(),
                state,
            };
            self.0
                .context
                .tasks
                .spawn(async move { session.become_active().await });
        }
    }

    /// Stops those instances of a server that were started from another entry and have no call in flight, so that the
    /// next call uses the one in force.
    pub async fn renew_server(&self, server: &str) {
        let config = self.config();
        let Some(entry) = config.server(server) else {
            return;
        };
        let outdated = {
            let instances = lock(&self.0.instances);
            let outdated = instances.iter().filter(|(place, instance)| {
                place.server == entry.name
                    && !instance.handle.is_busy()
                    && !same(&instance.entry, entry)
            });
            outdated
                .map(|(_, instance)| instance.handle.clone())
                .collect()
        };
        stop_all(outdated).await;
    }

    /// Stops a server's instances and forgets them.
    pub(crate) async fn drop_server(&self, server: &str) {
        let mut gone = vec![];
        lock(&self.0.instances).retain(|place, instance| {
            let matches = place.server.as_str() == server;
            if matches {
                gone.push(instance.handle.clone());
            }
            !matches
        });
        stop_all(gone).await;
    }

    /// Stops one agent's instances of a server and forgets them.
    pub(crate) async fn drop_server_of(&self, server: &str, agent: &AgentName) {
        let mut gone = vec![];
        lock(&self.0.instances).retain(|place, instance| {
            let matches = place.server.as_str() == server && place.agent == *agent;
            if matches {
                gone.push(instance.handle.clone());
            }
            !matches
        });
        stop_all(gone).await;
    }

    /// Instances of a server, of one agent or of all.
    pub(crate) fn handles(&self, server: &str, agent: Option<&AgentName>) -> Vec<ServerHandle> {
        let instances = lock(&self.0.instances);
        let wanted = instances.iter().filter(|(place, _)| {
            place.server.as_str() == server && agent.is_none_or(|agent| *agent == place.agent)
        });
        wanted
            .map(|(_, instance)| instance.handle.clone())
            .collect()
    }
}

/// Which of our subscriptions it came by is no business of clients.
fn without_subscription(params: Option<&RawValue>) -> Option<Cow<'_, RawValue>> {
    let raw = params?;
    if !raw.get().contains(SUBSCRIPTION_ID) {
        return Some(Cow::Borrowed(raw));
    }
    let Ok(mut object) = Object::from_raw(raw) else {
        return Some(Cow::Borrowed(raw));
    };
    let mut meta = object.object("_meta").unwrap_or_default();
    drop(meta.remove(SUBSCRIPTION_ID));
    let rest = (!meta.is_empty()).then(|| meta.to_raw());
    match rest {
        Some(rest) => object.set("_meta", rest),
        None => drop(object.remove("_meta")),
    }
    (!object.is_empty()).then(|| Cow::Owned(object.to_raw()))
}

async fn stop_all(handles: Vec<ServerHandle>) {
    let mut stopping = tokio::task::JoinSet::new();
    for handle in handles {
        stopping.spawn(async move { handle.stop().await });
    }
    stopping.join_all().await;
}

/// Where an entry stands in its file does not make it another one.
fn same(one: &ServerEntry, other: &ServerEntry) -> bool {
    let mut one = one.clone();
    one.place = other.place.clone();
    one == *other
}

/// Hears an instance, and passes on what concerns its sessions.
struct Ear {
    wharf: Weak<Inner>,
    place: Place,
    key: String,
    /// As it was last told.
    runs: AtomicBool,
}

impl Audience for Ear {
    fn note(&self, note: Note) {
        let Some(wharf) = self.wharf.upgrade().map(Wharf) else {
            return;
        };
        let server = &self.place.server;
        match note {
            Note::Status(status) => {
                if matches!(status, Status::Running { .. }) {
                    wharf.subscribe_again(&self.place);
                    wharf.declare_used(&self.place.agent, server);
                }
                wharf.record_life(server, &self.place.agent, &status, &self.runs);
                let status = wharf.clean(status);
                if wharf.own_agent(&self.place.agent).profile == Profile::Agent {
                    // Which tools it is offered depends on it (A164).
                    wharf.changed();
                }
                let agent = Some(self.place.agent.clone());
                let server = server.clone();
                wharf.0.events.tell(EventKind::ServerStatus {
                    server,
                    agent,
                    status,
                });
            }
            Note::Notification { method, params } => {
                self.notice(&wharf, &method, params.as_deref());
            }
            Note::Tools(discovered) => {
                let update = Update {
                    agent: self.place.agent.clone(),
                    server: server.clone(),
                    declared: self.place.declared.clone(),
                    key: self.key.clone(),
                    discovered: *discovered,
                };
                if wharf.0.updates.try_send(update).is_err() {
                    tracing::warn!(%server, "too many changed lists at once; one was dropped");
                }
            }
            note => wharf.log(server, Some(&self.place.agent), note),
        }
    }

    /// Servers of an active agent run, asked or not (A180). Clients without sessions do not make it one.
    fn keeps(&self) -> bool {
        let Some(wharf) = self.wharf.upgrade().map(Wharf) else {
            return false;
        };
        let sessions = self.sessions(&wharf);
        let active = |user: &Arc<SessionState>| user.own.profile == Profile::Agent && !user.lasting;
        sessions.iter().any(active)
    }

    fn asked(&self, mut asked: Asked) {
        let Some(wharf) = self.wharf.upgrade().map(Wharf) else {
            return;
        };
        if let Some(params) = &asked.params
            && let Some(clean) = wharf.redactor().json(params)
        {
            asked.params = Some(Arc::from(clean));
        }
        let mut sessions = self.sessions(&wharf);
        // A task is its session's own business, whoever else uses the server.
        if let Some((owner, _)) = wharf.owner_of_task(&self.place, asked.params.as_deref()) {
            sessions.retain(|session| owner.is(session));
        }
        let about = sessions
            .iter()
            .filter_map(|session| session.asked_about(&self.place.server))
            .min_by_key(|about| about.order);
        // What one client is asked when a server starts would be every client's answer.
        let shared = sessions.iter().any(|session| session.lasting);
        let starts = about
            .as_ref()
            .is_none_or(|about| about.order.0 == Stage::Waiting);
        if asked.method == "roots/list" && shared && starts {
            let text = "clients without sessions are only asked for roots in their calls";
            asked.answer(Err(ErrorObject::new(METHOD_NOT_FOUND, text)));
            return;
        }
        if let Some(about) = about {
            if let Some(turn) = about.turn {
                asked.is_about(turn);
            }
            about.heard.push(CallNote::Asked(asked));
            return;
        }
        for session in sessions {
            match session.ask(asked) {
                None => return,
                Some(back) => asked = back,
            }
        }
        let error = ErrorObject::new(INTERNAL_ERROR, "no client is there that could answer");
        asked.answer(Err(error));
    }
}

impl Ear {
    /// A notification goes to the sessions that it is about.
    fn notice(&self, wharf: &Wharf, method: &str, params: Option<&RawValue>) {
        let server = &self.place.server;
        let mut sessions = self.sessions(wharf);
        match method {
            "notifications/resources/updated" => {
                return wharf.updated(&self.place, params, &sessions);
            }
            "notifications/resources/list_changed" | "notifications/prompts/list_changed" => {
                // Asked for again when a client wants it.
                if let Some(instance) = lock(&wharf.0.instances).get_mut(&self.place) {
                    instance.offers = None;
                }
            }
            "notifications/tasks/status" | "notifications/tasks" => {
                let Some((owner, exposed)) = wharf.owner_of_task(&self.place, params) else {
                    return;
                };
                sessions.retain(|session| owner.is(session));
                let named = params.and_then(|params| tasks::with_id(params, &exposed));
                for session in sessions {
                    session.notice(wharf, server, method, named.as_deref().or(params));
                }
                return;
            }
            _ => {}
        }
        let params = without_subscription(params);
        for session in sessions {
            session.notice(wharf, server, method, params.as_deref());
        }
    }

    fn sessions(&self, wharf: &Wharf) -> Vec<Arc<SessionState>> {
        let users: HashSet<u64> = {
            let instances = lock(&wharf.0.instances);
            let instance = instances.get(&self.place);
            instance
                .map(|instance| instance.users.clone())
                .unwrap_or_default()
        };
        let sessions = lock(&wharf.0.sessions);
        let own = sessions
            .values()
            .filter(|state| users.contains(&state.serial));
        own.cloned().collect()
    }
}
