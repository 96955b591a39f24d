//! One client of an agent: its session, what it speaks, and its requests in flight.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use wharfinger::Session;
use wharfinger::catalog::{Catalog, needs_portable};
use wharfinger_wire::era::Version;
use wharfinger_wire::message::Id;

/// A client, from its first request to its goodbye.
pub(super) struct Client {
    session: Session,
    pub(super) version: Version,
    /// Would drop a whole list for a schema it does not know.
    portable: bool,
    /// The list it was sent last, to see whether it changed since.
    seen: Mutex<Option<Arc<RawValue>>>,
    running: Mutex<HashMap<Id, CancellationToken>>,
    count: AtomicUsize,
    /// Its stream is open, so it is there even when it asks nothing.
    pub(super) streaming: AtomicBool,
    born: Instant,
    last: AtomicU64,
    /// Its session is over.
    over: CancellationToken,
    /// A request of it has ended.
    settled: Notify,
}

impl Client {
    pub(super) fn new(session: Session, version: Version, name: &str) -> Self {
        Self {
            session,
            version,
            portable: needs_portable(name),
            seen: Mutex::default(),
            running: Mutex::default(),
            count: AtomicUsize::new(0),
            streaming: AtomicBool::new(false),
            born: Instant::now(),
            last: AtomicU64::new(0),
            over: CancellationToken::new(),
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

    /// It is sent this list.
    pub(super) fn sees(&self, list: &Arc<RawValue>) {
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

    /// A request begins; `None` when too many run already.
    pub(super) fn begin(self: &Arc<Self>, id: &Id) -> Option<Running> {
        self.touch();
        let limit = self.session.wharf().limits().session_requests;
        let counted = self
            .count
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
                (count < limit).then_some(count + 1)
            });
        counted.ok()?;
        let cancelled = CancellationToken::new();
        self.running().insert(id.clone(), cancelled.clone());
        Some(Running {
            client: self.clone(),
            id: id.clone(),
            cancelled,
        })
    }

    /// The client takes a request back.
    pub(super) fn cancel(&self, id: &Id) {
        if let Some(cancelled) = self.running().remove(id) {
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
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.count.load(Ordering::Acquire) == 0
            && !self.streaming.load(Ordering::Acquire)
            && self.born.elapsed().saturating_sub(last) >= limit
    }

    /// It was sent a list, so that a change of it means something to it.
    pub(super) fn knows_a_list(&self) -> bool {
        self.seen().is_some()
    }

    /// Waits until none of its requests runs.
    pub(super) async fn idle(&self) {
        loop {
            let settled = self.settled.notified();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            settled.await;
        }
    }

    /// Waits until its session is over.
    pub(super) async fn ended(&self) {
        self.over.cancelled().await;
    }

    /// Takes back all its requests and ends its session.
    pub(super) async fn end(&self) {
        for (_, cancelled) in self.running().drain() {
            cancelled.cancel();
        }
        self.over.cancel();
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
        self.client.count.fetch_sub(1, Ordering::AcqRel);
        self.client.touch();
        self.client.settled.notify_waiters();
    }
}
