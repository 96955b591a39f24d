//! The sessions of clients that have none of their own: one for each agent and each way a client may describe itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use wharfinger::model::{AgentName, Declared, SessionId};
use wharfinger::{Session, SessionOptions};

use crate::serve::Daemon;

/// Ways to describe itself that clients of one agent have at once. Beyond that the one that was not used for longest is
/// let go: its servers stop, and come back when it does.
const MOST: usize = 32;

/// When each was last used.
#[derive(Default)]
pub(super) struct Shared(Mutex<HashMap<(AgentName, u64), (Session, Instant)>>);

/// The session of all clients of an agent that have none of their own and describe themselves like this.
pub(super) fn session(daemon: &Arc<Daemon>, agent: &AgentName, declared: Declared) -> Session {
    let key = (agent.clone(), declared.key());
    let shared = &daemon.gateway.shared.0;
    let mut all = shared.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((session, last)) = all.get_mut(&key).filter(|(session, _)| session.is_open()) {
        *last = Instant::now();
        return session.clone();
    }
    let mut own: Vec<_> = all
        .iter()
        .filter(|((of, _), _)| of == agent)
        .map(|(key, (_, last))| (*last, key.clone()))
        .collect();
    own.sort_by_key(|(last, _)| *last);
    for (_, old) in own.iter().take((own.len() + 1).saturating_sub(MOST)) {
        if let Some((session, _)) = all.remove(old) {
            daemon.tasks.spawn(async move { session.end().await });
        }
    }
    let id = format!("stateless-{agent}-{:016x}", key.1);
    let session = daemon.wharf.session(SessionOptions {
        agent: agent.clone(),
        id: SessionId::new(&id).expect("an agent's name and hex are visible ASCII"),
        declared,
        reserved: vec![],
        lasting: true,
    });
    all.insert(key, (session.clone(), Instant::now()));
    session
}
