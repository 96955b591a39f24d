//! Which instance of a server serves which session.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use crate::discover::{Found, key, spec};
use crate::journal::EventKind;
use crate::model::{AgentName, Declared, Scope, ServerEntry, ServerName, SessionId, Status};
use crate::refresh::Update;
use crate::servers::{Audience, Note, ServerHandle};
use crate::session::SessionState;
use crate::wharf::{Inner, Wharf, lock};

/// All instances of an owner.
pub(crate) type Instances = HashMap<Place, Instance>;

/// Sessions of one agent that declare the same share an instance, unless the server is one for each session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) agent: AgentName,
    pub(crate) server: ServerName,
    declared: Declared,
    session: Option<SessionId>,
}

/// An instance and who uses it.
pub(crate) struct Instance {
    pub(crate) handle: ServerHandle,
    /// The entry it was made from; a running one keeps it until it stops (C26).
    entry: ServerEntry,
    /// When the last of them ends, the instance stops (V60).
    users: HashSet<SessionId>,
}

impl Wharf {
    /// The instance that serves a session; made if there is none, started by the first call to it.
    pub(crate) fn instance(
        &self,
        session: &SessionState,
        entry: &ServerEntry,
    ) -> Option<ServerHandle> {
        let place = Place {
            agent: session.agent.clone(),
            server: entry.name.clone(),
            declared: session.declared.clone(),
            session: match entry.scope {
                Scope::Agent => None,
                Scope::Session => Some(session.id.clone()),
            },
        };
        let mut instances = lock(&self.0.instances);
        if let Some(instance) = instances.get_mut(&place) {
            let running = match instance.handle.status() {
                Status::Running { .. } | Status::Starting => true,
                // Its end is told first; after that a mended entry counts.
                Status::Exited { .. } => instance.handle.has_untold_end(),
                Status::NotStarted | Status::Failed { .. } | Status::Disabled => false,
            };
            if running || same(&instance.entry, entry) {
                if !instance.users.contains(&session.id) {
                    instance.users.insert(session.id.clone());
                }
                return Some(instance.handle.clone());
            }
        }
        let remembered = match self.found(&entry.name, &session.declared) {
            Some(Found::Known(known)) => Some(known.version),
            Some(Found::Asking | Found::Failed { .. }) | None => None,
        };
        let workspace: PathBuf = self.workspace(&session.agent);
        let spec = spec(self, entry, &session.declared, &workspace, remembered)?;
        let ear = Ear {
            wharf: Arc::downgrade(&self.0),
            place: place.clone(),
            key: key(&self.0, entry, &session.declared),
        };
        let handle = ServerHandle::new(&self.0.context, spec, Arc::new(ear));
        let mut users = instances
            .remove(&place)
            .map(|old| old.users)
            .unwrap_or_default();
        users.insert(session.id.clone());
        let instance = Instance {
            handle: handle.clone(),
            entry: entry.clone(),
            users,
        };
        instances.insert(place, instance);
        Some(handle)
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
    pub(crate) fn used_by(&self, session: &SessionId) -> Vec<ServerHandle> {
        let instances = lock(&self.0.instances);
        let used = instances
            .values()
            .filter(|instance| instance.users.contains(session));
        used.map(|instance| instance.handle.clone()).collect()
    }

    /// A session is over: its instances that nobody else uses stop; waits for that. Sessions that never end do not
    /// count, but for their calls in flight.
    pub(crate) async fn release(&self, session: &SessionId) {
        let lasting: HashSet<SessionId> = {
            let sessions = lock(&self.0.sessions);
            let lasting = sessions.values().filter(|state| state.lasting);
            lasting.map(|state| state.id.clone()).collect()
        };
        let mut unused = vec![];
        lock(&self.0.instances).retain(|_, instance| {
            let used = instance.users.remove(session);
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
}

impl Audience for Ear {
    fn note(&self, note: Note) {
        let Some(wharf) = self.wharf.upgrade().map(Wharf) else {
            return;
        };
        let server = &self.place.server;
        match note {
            Note::Status(status) => {
                let status = wharf.clean(status);
                let agent = Some(self.place.agent.clone());
                let server = server.clone();
                wharf.0.events.tell(EventKind::ServerStatus {
                    server,
                    agent,
                    status,
                });
            }
            Note::Notification { method, params } => {
                for session in self.sessions(&wharf) {
                    session.notice(&wharf, server, &method, params.as_deref());
                }
            }
            Note::Tools(discovered) => {
                let update = Update {
                    server: server.clone(),
                    declared: self.place.declared.clone(),
                    key: self.key.clone(),
                    discovered,
                };
                if wharf.0.updates.try_send(update).is_err() {
                    tracing::warn!(%server, "too many changed lists at once; one was dropped");
                }
            }
            Note::Stderr(line) => wharf.log(server, &line),
            Note::Noise(line) => wharf.log(server, &format!("(stdout) {line}")),
        }
    }
}

impl Ear {
    fn sessions(&self, wharf: &Wharf) -> Vec<Arc<SessionState>> {
        let users: Vec<SessionId> = {
            let instances = lock(&wharf.0.instances);
            let instance = instances.get(&self.place);
            instance
                .map(|instance| instance.users.iter().cloned().collect())
                .unwrap_or_default()
        };
        let sessions = lock(&wharf.0.sessions);
        users
            .iter()
            .filter_map(|user| sessions.get(user).cloned())
            .collect()
    }
}
