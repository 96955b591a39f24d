//! The journal: its rows, as they are and as they come, and whether they are what was written.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::timeout;
use utoipa::{IntoParams, ToSchema};
use wharfinger::Wharf;
use wharfinger::journal::{Filter, Kind, Part, Row, StoreError, Verified};
use wharfinger::model::nearest;

use super::ApiError;
use super::events::{HEARTBEAT, frame, stream};
use super::problem::Query;
use crate::serve::Daemon;

/// Rows of one answer, unless fewer are asked for, and at most.
const USUAL: usize = 100;
const MOST: usize = 10_000;

/// Rows that a stream reads at once.
const PIECE: usize = 500;

/// How long an answer waits for rows that are on their way to the disk.
const WAIT: Duration = Duration::from_secs(2);

/// Which rows.
#[derive(Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// About this agent, or by it.
    agent: Option<String>,
    /// About this server.
    server: Option<String>,
    /// Of this kind, or of this group of kinds: `call`, `lifecycle`, `lifecycle.started`.
    kind: Option<String>,
    /// From this moment on: milliseconds since 1970, UTC.
    since: Option<u64>,
    /// Only rows before the one of this number: the latest of them.
    before: Option<u64>,
    /// Only rows after the one of this number: the first of them.
    after: Option<u64>,
    /// How many; 100 unless given, 10 000 at most.
    limit: Option<usize>,
}

impl Which {
    fn filter(&self) -> Result<Filter, ApiError> {
        let kinds = || Kind::ALL.iter().map(|kind| kind.as_str());
        let groups = || kinds().filter_map(|kind| Some(kind.split_once('.')?.0));
        if let Some(kind) = self.kind.as_deref()
            && !kinds().chain(groups()).any(|known| known == kind)
        {
            let near = nearest(kind, kinds().chain(groups()));
            let near = near.map(|near| format!(", did you mean `{near}`?"));
            let text = format!("there is no kind `{kind}`{}", near.unwrap_or_default());
            let error = ApiError::invalid("the rows can't be looked for");
            return Err(error.with_field("kind".into(), text));
        }
        Ok(Filter {
            agent: self.agent.clone(),
            server: self.server.clone(),
            kind: self.kind.clone(),
            since: self.since,
        })
    }
}

/// Rows of the journal.
#[derive(Serialize, ToSchema)]
pub(crate) struct Rows {
    /// The oldest first.
    rows: Vec<Row>,
}

/// The latest rows, or those before or after one.
#[utoipa::path(get, path = "/api/journal", params(Which),
    responses((status = 200, body = Rows), (status = 422, body = ApiError)))]
pub(crate) async fn rows(
    State(daemon): State<Arc<Daemon>>,
    Query(which): Query<Which>,
) -> Result<Json<Rows>, ApiError> {
    let filter = which.filter()?;
    let part = match (which.before, which.after) {
        (None, None) => Part::Latest,
        (Some(seq), None) => Part::Before(seq),
        (None, Some(seq)) => Part::After(seq),
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid("`before` and `after` exclude each other"));
        }
    };
    let limit = which.limit.unwrap_or(USUAL).min(MOST);
    settled(&daemon.wharf).await;
    let rows = daemon.wharf.journal().rows(filter, part, limit).await;
    Ok(Json(Rows {
        rows: rows.map_err(|error| unreadable(&error))?,
    }))
}

/// Looks through the whole journal: whether a row was altered, or is missing.
#[utoipa::path(get, path = "/api/journal/verify", responses((status = 200, body = Verified)))]
pub(crate) async fn verify(State(daemon): State<Arc<Daemon>>) -> Result<Json<Verified>, ApiError> {
    settled(&daemon.wharf).await;
    let verified = daemon.wharf.journal().verify().await;
    verified.map(Json).map_err(|error| unreadable(&error))
}

/// Rows as they are written, each named `row`: those after `after`, and those to come; without it, only those to come.
/// `before` and `limit` mean nothing here.
#[utoipa::path(get, path = "/api/journal/follow", params(Which),
    responses((status = 200, content_type = "text/event-stream", body = Row), (status = 422, body = ApiError)))]
pub(crate) async fn follow(
    State(daemon): State<Arc<Daemon>>,
    Query(which): Query<Which>,
) -> Result<Response, ApiError> {
    let filter = which.filter()?;
    let mut last = daemon.wharf.journal().last();
    let after = which.after.unwrap_or(*last.borrow());
    // The first look is due at once.
    last.mark_changed();
    let following = Following {
        filter,
        after,
        last,
        // The first line goes out at once, so that a listener knows that it listens.
        ready: VecDeque::from([Bytes::from_static(b": listening\n\n")]),
    };
    let stop = daemon.stop.clone();
    Ok(stream(futures_util::stream::unfold(
        (following, daemon, stop),
        |(mut following, daemon, stop)| async {
            let next = following.next(&daemon.wharf);
            let bytes = stop.run_until_cancelled(next).await??;
            Some((bytes, (following, daemon, stop)))
        },
    )))
}

/// Somebody who reads along.
struct Following {
    filter: Filter,
    /// The last row that was looked at.
    after: u64,
    last: watch::Receiver<u64>,
    ready: VecDeque<Bytes>,
}

impl Following {
    /// The next bytes of the stream; `None` where it ends.
    async fn next(&mut self, wharf: &Wharf) -> Option<Bytes> {
        while self.ready.is_empty() {
            match timeout(HEARTBEAT, self.last.changed()).await {
                Err(_) => return Some(Bytes::from_static(b": alive\n\n")),
                Ok(changed) => changed.ok()?,
            }
            let newest = *self.last.borrow_and_update();
            let part = Part::After(self.after);
            let rows = wharf.journal().rows(self.filter.clone(), part, PIECE).await;
            // Who is cut off knows where to go on.
            let rows = rows.ok()?;
            if rows.len() == PIECE {
                self.last.mark_changed();
            } else {
                self.after = self.after.max(newest);
            }
            self.after = rows
                .last()
                .map_or(self.after, |row| row.seq.max(self.after));
            self.ready.extend(rows.iter().map(|row| frame("row", row)));
        }
        self.ready.pop_front()
    }
}

/// Whoever asks after a call wants to see it.
async fn settled(wharf: &Wharf) {
    timeout(WAIT, wharf.journal().flush()).await.ok();
}

fn unreadable(error: &StoreError) -> ApiError {
    let text = format!("the journal can't be read: {error}");
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, text)
}
