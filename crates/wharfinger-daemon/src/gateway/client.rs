//! One client of an agent: its session, what it speaks, and its requests in flight.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use wharfinger::Session;
use wharfinger::catalog::{Catalog, Kind, needs_portable};
use wharfinger_wire::era::Version;
use wharfinger_wire::message::{ErrorObject, INTERNAL_ERROR, INVALID_REQUEST, Id};

use super::ask::Questions;
use super::patience;

/// A client, from its first request to its goodbye.
pub(super) struct Client {
    session: Session,
    pub(super) version: Version,
    /// Would drop a whole list for a schema it does not know.
    portable: bool,
    /// How long a call of it may wait for a person.
    pub(super) patience: Duration,
    /// The list of tools it was sent last, to see whether it changed since.
    seen: Mutex<Option<Arc<RawValue>>>,
    /// Other lists it was sent last, by kind.
    others: Mutex<HashMap<Kind, Arc<RawValue>>>,
    pub(super) questions: Questions,
    running: Mutex<HashMap<Id, CancellationToken>>,
    /// Its stream is open, so it is there even when it asks nothing.
    pub(super) streaming: AtomicBool,
    born: Instant,
    last: AtomicU64,
    /// A request of it has ended.
    settled: Notify,
}

impl Client {
    pub(super) fn new(session: Session, version: Version, name: &str) -> Self {
        let unknown = session.wharf().limits().approval_patience;
        Self {
            session,
            version,
            portable: needs_portable(name),
            patience: patience::of_client(name, unknown),
            seen: Mutex::default(),
            others: Mutex::default(),
            questions: Questions::default(),
            running: Mutex::default(),
            streaming: AtomicBool::new(false),
            born: Instant::now(),
            last: AtomicU64::new(0),
            settled: Notify::new(),
        }
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// The list as this client can take it.
    pub(super) fn list(&self, catalog: &Catalog) -> Arc<RawValue> {
        let portable = catalog.portable.as_ref().filter(|_| self.portable);
        portable.unwrap_or(&catalog.list).clone()
    }

    /// It is sent this list of another kind.
    pub(super) fn sees(&self, kind: Kind, list: &Arc<RawValue>) {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.insert(kind, list.clone());
    }

    /// Kinds of which the list is another one than it was sent; says so once for each.
    pub(super) fn others_changed(&self) -> Vec<Kind> {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if others.is_empty() {
            return vec![];
        }
        let directory = self.session.directory();
        let mut changed = vec![];
        for (kind, seen) in others.iter_mut() {
            let now = &directory.page(*kind).list;
            if now.get() != seen.get() {
                *seen = now.clone();
                changed.push(*kind);
            }
        }
        changed
    }

    /// It is sent this list.
    pub(super) fn sees_tools(&self, list: &Arc<RawValue>) {
        *self.seen() = Some(list.clone());
    }

    /// Whether the list is another one than it was sent; says so once for each.
    pub(super) fn list_changed(&self) -> bool {
        let list = self.list(&self.session.known_tools());
        let mut seen = self.seen();
        let same = seen.as_ref().is_some_and(|seen| seen.get() == list.get());
        if !same {
            *seen = Some(list);
        }
        !same
    }

    fn seen(&self) -> MutexGuard<'_, Option<Arc<RawValue>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Id, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request begins, unless too many run already or one of that id does.
    pub(super) fn begin(self: &Arc<Self>, id: &Id) -> Result<Running, ErrorObject> {
        self.touch();
        let limit = self.session.wharf().limits().session_requests;
        let cancelled = CancellationToken::new();
        let mut running = self.running();
        if running.len() >= limit {
            let text = format!("{limit} requests of this session run already");
            return Err(ErrorObject::new(INTERNAL_ERROR, text));
        }
        if running.contains_key(id) {
            let text = "a request of this id runs already";
            return Err(ErrorObject::new(INVALID_REQUEST, text));
        }
        running.insert(id.clone(), cancelled.clone());
        Ok(Running {
            client: self.clone(),
            id: id.clone(),
            cancelled,
        })
    }

    /// The client takes a request back.
    pub(super) fn cancel(&self, id: &Id) {
        if let Some(cancelled) = self.running().get(id) {
            cancelled.cancel();
        }
    }

    /// It was heard of.
    pub(super) fn touch(&self) {
        let since = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(since, Ordering::Relaxed);
    }

    /// It was not heard of for that long, and nothing of it runs.
    pub(super) fn is_idle(&self, limit: Duration) -> bool {
        self.running().is_empty()
            && !self.streaming.load(Ordering::Acquire)
            && self.silent_for() >= limit
    }

    /// It was sent a list, so that a change of it means something to it.
    pub(super) fn knows_a_list(&self) -> bool {
        self.seen().is_some()
    }

    /// Waits until none of its requests runs.
    pub(super) async fn idle(&self) {
        loop {
            let settled = self.settled.notified();
            if self.running().is_empty() {
                return;
            }
            settled.await;
        }
    }

    /// How long it was not heard of.
    pub(super) fn silent_for(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.born.elapsed().saturating_sub(last)
    }

    /// Takes back all its requests and ends its session.
    pub(super) async fn end(&self) {
        for cancelled in self.running().values() {
            cancelled.cancel();
        }
        self.session.end().await;
    }
}

/// A request in flight, until dropped.
pub(super) struct Running {
    client: Arc<Client>,
    id: Id,
    pub(super) cancelled: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.client.running().remove(&self.id);
        self.client.touch();
        self.client.settled.notify_waiters();
    }
}
