//! Listing a server's tools.

use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::timeout;
use wharfinger_wire::json::{Object, Raw, array, raw};

use super::connect::{Live, TAIL, connect};
use super::{Audience, Context, Discovered, Lines, Note, Spec, StartError};
use crate::model::{Limits, Status};

/// Starts a server for a moment, in a directory of its own, to learn what it offers (V51). The process is stopped
/// behind the caller's back, on the context's tasks; `dir` goes with it.
pub async fn discover(
    context: &Context,
    spec: &Spec,
    dir: tempfile::TempDir,
    audience: Arc<dyn Audience>,
) -> Result<Discovered, StartError> {
    let stderr = Lines::new(context.limits.stderr_lines);
    audience.note(Note::Status(Status::Starting));
    let mut started = connect(context, spec, &stderr, &audience, &context.stop).await?;
    let limit = spec.policy.startup_timeout;
    let listing = timeout(limit, list(&started.live, &context.limits));
    let listed = context.stop.run_until_cancelled(listing).await;
    let live = started.live.clone();
    let started_lines = started.own.clone();
    let grace = context.grace();
    context.tasks.spawn(async move {
        live.connection.close();
        started.process.stop(grace).await;
        live.connection.abandon();
        drop(dir);
    });
    let stderr = started_lines;
    match listed {
        None => Err(StartError::Stopped),
        Some(Ok(Ok(discovered))) => Ok(discovered),
        Some(Ok(Err(reason))) => Err(StartError::List {
            reason,
            stderr: stderr.tail(TAIL),
        }),
        Some(Err(_)) => Err(StartError::TimedOut {
            limit,
            stderr: stderr.tail(TAIL),
        }),
    }
}

/// All pages of `tools/list` (V56).
pub(super) async fn list(live: &Live, limits: &Limits) -> Result<Discovered, String> {
    let mut discovered = Discovered {
        description: live.description.clone(),
        tools: vec![],
        warnings: vec![],
    };
    let capabilities = Object::from_raw(&live.description.capabilities).unwrap_or_default();
    if !capabilities.contains("tools") {
        return Ok(discovered);
    }
    let mut cursor: Option<Raw> = None;
    let mut previous: Option<String> = None;
    for _ in 0..limits.list_pages {
        let page = page(live, cursor.as_deref()).await?;
        let object = Object::from_raw(&page).map_err(|_| "the answer is not an object")?;
        let items = object.get("tools").ok_or("the answer has no `tools`")?;
        // A server that gives the same page for ever would fill any list.
        if previous.as_deref() == Some(items.get()) {
            discovered
                .warnings
                .push("its tools/list repeats a page; the rest was not read".into());
            return Ok(discovered);
        }
        previous = Some(items.get().to_owned());
        let items = array(items).map_err(|_| "`tools` is not a list")?;
        let room = limits.tools - discovered.tools.len();
        if items.len() > room {
            discovered.warnings.push(format!(
                "it lists more than {} tools; the rest was not read",
                limits.tools
            ));
        }
        discovered.tools.extend(
            items
                .into_iter()
                .take(room)
                .map(|item| Arc::<RawValue>::from(item.to_owned())),
        );
        match object.get("nextCursor").filter(|next| next.get() != "null") {
            Some(next) if discovered.tools.len() < limits.tools => cursor = Some(next.to_owned()),
            _ => return Ok(discovered),
        }
    }
    let warning = format!(
        "its tools/list has more than {} pages; the rest was not read",
        limits.list_pages
    );
    discovered.warnings.push(warning);
    Ok(discovered)
}

async fn page(live: &Live, cursor: Option<&RawValue>) -> Result<Raw, String> {
    let params = cursor.map(|cursor| raw(&json!({ "cursor": cursor })));
    let params = live.params(params.as_deref(), None);
    let call = live.connection.call("tools/list", params.as_deref(), false);
    call.map_err(|error| error.to_string())?
        .reply()
        .await
        .map_err(|error| error.to_string())
}
