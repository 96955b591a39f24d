//! Who wants to hear of which resource, and what keeps each server telling.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::timeout;
use wharfinger_wire::connection::Call;
use wharfinger_wire::json::{Object, Raw, empty_object, raw};
use wharfinger_wire::message::{ErrorObject, RESOURCE_NOT_FOUND};

use crate::call::Refusal;
use crate::catalog::{self, Kind};
use crate::conversation::SessionState;
use crate::instances::Place;
use crate::servers::{CallError, Hold, Outgoing, Patience, ServerHandle};
use crate::session::{Session, SessionNote};
use crate::wharf::{Wharf, lock};

/// All subscriptions, by instance and its server's own URI.
pub(crate) type Subscriptions = HashMap<(Place, String), Subscription>;

/// One resource of one instance that somebody wants to hear of.
pub(crate) struct Subscription {
    /// As agents know it.
    exposed: String,
    listeners: HashSet<Listener>,
    handle: ServerHandle,
    keeps: Keeps,
}

/// What keeps the server telling: it is not idle, and in the stateless era a request stays open.
#[derive(Default)]
struct Keeps {
    _hold: Option<Hold>,
    _listen: Option<Call>,
}

/// Who wants to hear.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Listener {
    /// By its serial.
    session: u64,
    /// One of the streams of a client without sessions; 0 is the session itself.
    stream: u64,
}

/// How long a server may take to hear that nobody listens any more.
const GOODBYE: Duration = Duration::from_secs(2);

/// Numbers streams.
static STREAMS: AtomicU64 = AtomicU64::new(1);

/// Subscriptions of one stream, until dropped; made by [`Session::watch`]. Their servers are not stopped as idle
/// meanwhile.
pub struct Watch {
    session: Session,
    listener: Listener,
    /// The URIs that will be told of, as agents know them.
    pub uris: Vec<String>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let session = self.session.clone();
        let listener = self.listener.clone();
        let leaving = async move { session.leave(&listener, None).await };
        self.session.wharf.0.context.tasks.spawn(leaving);
    }
}

fn unknown(uri: &str) -> Refusal {
    let error = ErrorObject::new(RESOURCE_NOT_FOUND, "there is no such resource");
    Refusal::Server(error.with_data(raw(&json!({ "uri": uri }))))
}

impl Session {
    /// This session wants to hear when a resource changes; its server is started for that, and kept running.
    pub(crate) async fn subscribe(&self, uri: &str) -> Result<Raw, Refusal> {
        let listener = Listener {
            session: self.state.serial,
            stream: 0,
        };
        let place = self.place_of(uri).await;
        self.join(listener, uri, place).await
    }

    /// It no longer does.
    pub(crate) async fn unsubscribe(&self, uri: &str) -> Result<Raw, Refusal> {
        let listener = Listener {
            session: self.state.serial,
            stream: 0,
        };
        self.leave(&listener, Some(uri)).await;
        Ok(empty_object())
    }

    /// Subscribes to resources until the [`Watch`] is dropped, starting their servers; changes come as
    /// [`SessionNote`]s. Those that can't be subscribed to are not among its URIs.
    pub async fn watch(&self, uris: &[String]) -> Watch {
        let listener = Listener {
            session: self.state.serial,
            stream: STREAMS.fetch_add(1, Ordering::Relaxed),
        };
        let mut watch = Watch {
            session: self.clone(),
            listener: listener.clone(),
            uris: vec![],
        };
        // Once, however many there are that nobody lists.
        if !self.knows_all() {
            drop(self.list(Kind::Resource).await);
        }
        for uri in uris {
            let place = self.directory().resource(uri);
            match self.join(listener.clone(), uri, place).await {
                Ok(_) => watch.uris.push(uri.clone()),
                Err(refusal) => tracing::debug!("no subscription: {refusal}"),
            }
        }
        watch
    }

    async fn join(
        &self,
        listener: Listener,
        uri: &str,
        place: catalog::Place,
    ) -> Result<Raw, Refusal> {
        let catalog::Place::Known(server, own) = place else {
            return Err(unknown(uri));
        };
        let entry = self.entry(&server)?;
        let handle = self.instance_of(&entry)?;
        let key = (Place::of(&self.state, &entry), own);
        if let Some(known) = lock(&self.wharf.0.subscriptions).get_mut(&key) {
            known.listeners.insert(listener);
            return Ok(empty_object());
        }
        let (result, keeps) = begin(&handle, &key.1).await.map_err(|error| match error {
            CallError::Server { error, .. } => {
                let error = error.to_raw();
                let clean = self.wharf.redactor().json(&error).unwrap_or(error);
                Refusal::Server(ErrorObject::from_raw(&clean))
            }
            error => Refusal::Failed {
                text: self.wharf.redactor().text(&error.to_string()).into_owned(),
                error: Box::new(error),
            },
        })?;
        let mut subscriptions = lock(&self.wharf.0.subscriptions);
        let subscription = subscriptions.entry(key).or_insert_with(|| Subscription {
            exposed: uri.to_owned(),
            listeners: HashSet::new(),
            handle,
            keeps,
        });
        subscription.listeners.insert(listener);
        Ok(result)
    }

    /// One listener leaves one resource, or all; servers hear of it when nobody else listens.
    async fn leave(&self, listener: &Listener, uri: Option<&str>) {
        let mut over = vec![];
        lock(&self.wharf.0.subscriptions).retain(|key, subscription| {
            let meant = uri.is_none_or(|uri| subscription.exposed == uri);
            if meant && subscription.listeners.remove(listener) && subscription.listeners.is_empty()
            {
                let keeps = std::mem::take(&mut subscription.keeps);
                over.push((subscription.handle.clone(), key.clone(), keeps));
                return false;
            }
            true
        });
        for (handle, key, keeps) in over {
            end(&handle, &key.1).await;
            drop(keeps);
            // Somebody may have joined meanwhile, and been heard before this one's goodbye.
            if lock(&self.wharf.0.subscriptions).contains_key(&key) {
                self.wharf.renew(key).await;
            }
        }
    }

    /// The session is over.
    pub(crate) async fn unsubscribe_all(&self) {
        let listeners: HashSet<Listener> = {
            let subscriptions = lock(&self.wharf.0.subscriptions);
            let all = subscriptions
                .values()
                .flat_map(|subscription| &subscription.listeners);
            all.filter(|listener| listener.session == self.state.serial)
                .cloned()
                .collect()
        };
        for listener in listeners {
            self.leave(&listener, None).await;
        }
    }
}

/// Asks a server to tell of a resource, in the way of its era.
async fn begin(handle: &ServerHandle, own: &str) -> Result<(Raw, Keeps), CallError> {
    let description = handle.ready().await?;
    if description.version.is_modern() {
        let wanted = raw(&json!({ "notifications": { "resourceSubscriptions": [own] } }));
        let listen = handle.listen(&wanted).await?;
        let keeps = Keeps {
            _hold: handle.hold(),
            _listen: Some(listen),
        };
        return Ok((empty_object(), keeps));
    }
    let result = tell(handle, "resources/subscribe", own).await?;
    let keeps = Keeps {
        _hold: handle.hold(),
        _listen: None,
    };
    Ok((result, keeps))
}

/// Tells a server of the handshake era that nobody listens; one that does not run knows.
async fn end(handle: &ServerHandle, own: &str) {
    let speaks = handle
        .description()
        .is_some_and(|description| !description.version.is_modern());
    if !speaks {
        return;
    }
    // A session must not last because a server does not answer its goodbye.
    match timeout(GOODBYE, tell(handle, "resources/unsubscribe", own)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::debug!("{error}"),
        Err(_) => tracing::debug!("no answer to a goodbye"),
    }
}

async fn tell(handle: &ServerHandle, method: &str, own: &str) -> Result<Raw, CallError> {
    let params = raw(&json!({ "uri": own }));
    let outgoing = Outgoing {
        method,
        params: Some(&params),
        log_level: None,
        progress: false,
        patience: Patience::Call,
    };
    handle.call(outgoing, |_| (), |_| ()).await
}

impl Wharf {
    /// A server that runs again is asked again for what is still wanted.
    pub(crate) fn subscribe_again(&self, place: &Place) {
        let wanted: Vec<(Place, String)> = {
            let subscriptions = lock(&self.0.subscriptions);
            let own = subscriptions.keys().filter(|(at, _)| at == place);
            own.cloned().collect()
        };
        if wanted.is_empty() {
            return;
        }
        let wharf = self.clone();
        self.0.context.tasks.spawn(async move {
            for key in wanted {
                wharf.renew(key).await;
            }
        });
    }

    /// Asks for one resource again, of the instance that is there now.
    async fn renew(&self, key: (Place, String)) {
        let Some(handle) = self.at(&key.0) else {
            return;
        };
        match begin(&handle, &key.1).await {
            Ok((_, keeps)) => {
                if let Some(known) = lock(&self.0.subscriptions).get_mut(&key) {
                    known.handle = handle;
                    known.keeps = keeps;
                }
            }
            Err(error) => tracing::debug!("no subscription: {error}"),
        }
    }

    /// A resource changed: those who want to hear of it do, by the URI they know. It may be a part of the one that they
    /// asked for.
    pub(crate) fn updated(
        &self,
        place: &Place,
        params: Option<&RawValue>,
        sessions: &[Arc<SessionState>],
    ) {
        let object = params.and_then(|params| Object::from_raw(params).ok());
        let Some(mut object) = object else { return };
        let Some(own) = object.text("uri").map(std::borrow::Cow::into_owned) else {
            return;
        };
        let mut told: HashMap<u64, String> = HashMap::new();
        {
            let subscriptions = lock(&self.0.subscriptions);
            for ((at, uri), subscription) in subscriptions.iter() {
                if at != place || !catalog::covers(uri, &own) {
                    continue;
                }
                let rest = &own[uri.len()..];
                for listener in &subscription.listeners {
                    let exposed = format!("{}{rest}", subscription.exposed);
                    told.insert(listener.session, exposed);
                }
            }
        }
        drop(object.remove("_meta"));
        for session in sessions {
            if let Some(exposed) = told.get(&session.serial) {
                object.set("uri", raw(exposed));
                let params = object.to_raw();
                let clean = self.redactor().json(&params).unwrap_or(params);
                session.tell(SessionNote::Notification {
                    server: place.server.clone(),
                    method: "notifications/resources/updated".to_owned(),
                    params: Some(Arc::from(clean)),
                });
            }
        }
    }
}
