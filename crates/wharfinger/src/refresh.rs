//! Lists that running servers give: what is known follows them.

use std::sync::{Arc, Weak};

use tokio::sync::mpsc;

use crate::discover::{Found, settle};
use crate::journal::{EventKind, StoreError};
use crate::kept::{clean, joined, keep_discovered};
use crate::model::{AgentName, Declared, ServerName};
use crate::servers::Discovered;
use crate::wharf::{Inner, Wharf, lock};

/// A list that a running server gave.
pub(crate) struct Update {
    /// Whose instance it is.
    pub(crate) agent: AgentName,
    pub(crate) server: ServerName,
    pub(crate) declared: Declared,
    pub(crate) key: String,
    pub(crate) discovered: Discovered,
}

/// Takes the lists that running servers give, one after the other, and keeps those that are new.
pub(crate) async fn keep(wharf: Weak<Inner>, mut updates: mpsc::Receiver<Update>) {
    let Some(stop) = wharf.upgrade().map(|wharf| wharf.context.stop.clone()) else {
        return;
    };
    while let Some(Some(update)) = stop.run_until_cancelled(updates.recv()).await {
        let Some(wharf) = wharf.upgrade().map(Wharf) else {
            return;
        };
        if let Err(error) = refresh(&wharf, update).await {
            tracing::warn!("a changed list of tools could not be kept: {error}");
        }
    }
}

async fn refresh(wharf: &Wharf, update: Update) -> Result<(), StoreError> {
    let Update {
        agent,
        server,
        declared,
        key,
        discovered,
    } = update;
    // What an agent has installed is in its view alone.
    let config = wharf.own_agent(&agent).view(wharf.config(), wharf);
    // An instance that outlives its entry tells nothing about the new one.
    let Some(entry) = config.server(server.as_str()) else {
        return Ok(());
    };
    let place = crate::discover::place(entry, &declared);
    let state = {
        let discoveries = lock(&wharf.0.discoveries);
        discoveries
            .get(&place)
            .filter(|known| known.key == key)
            .map(|discovery| discovery.state.clone())
    };
    let Some(state) = state else { return Ok(()) };
    let listed = clean(wharf, joined(discovered.tools.iter().map(|tool| &**tool)));
    let same = match &*state.borrow() {
        Found::Known(known) => known.tools == listed.get(),
        Found::Asking | Found::Failed { .. } => false,
    };
    if same {
        return Ok(());
    }
    let known = keep_discovered(wharf, entry, &key, &discovered).await?;
    let tools = known.listing.tools.len();
    tracing::info!(%server, tools, "its tools changed");
    settle(wharf, &state, Found::Known(Arc::new(known)));
    wharf.relisted(&server, &declared).await;
    wharf
        .0
        .events
        .tell(EventKind::ToolsChanged { server, tools });
    Ok(())
}
