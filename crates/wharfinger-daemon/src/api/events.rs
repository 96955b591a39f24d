//! Everything that happens, as one stream.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;
use wharfinger::journal::Event;

use crate::serve::Daemon;

/// How often a stream that has nothing to say shows that it lives.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);

/// One server-sent event.
pub(super) fn frame(name: &str, data: &(impl Serialize + ?Sized)) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_else(|_| "{}".into());
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// A response of server-sent events.
pub(super) fn stream(events: impl futures_util::Stream<Item = Bytes> + Send + 'static) -> Response {
    use futures_util::StreamExt as _;
    let body = Body::from_stream(events.map(Ok::<_, Infallible>));
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, body).into_response()
}

/// Events as they happen, each named `event` with the event as its data. One who reads too slowly gets `missed`.
#[utoipa::path(get, path = "/api/events",
    responses((status = 200, content_type = "text/event-stream", body = Event)))]
pub(crate) async fn events(State(daemon): State<Arc<Daemon>>) -> Response {
    let heard = daemon.wharf.events().listen();
    let stop = daemon.stop.clone();
    // The first line goes out at once, so that a listener knows that it listens.
    let begun = Some(Bytes::from_static(b": listening\n\n"));
    stream(futures_util::stream::unfold(
        (heard, stop, begun),
        |(mut heard, stop, begun)| async {
            let bytes = if let Some(begun) = begun {
                begun
            } else {
                let next = timeout(HEARTBEAT, heard.recv());
                match stop.run_until_cancelled(next).await? {
                    Ok(Ok(event)) => frame("event", &event),
                    Ok(Err(RecvError::Lagged(missed))) => {
                        frame("missed", &serde_json::json!({ "missed": missed }))
                    }
                    Ok(Err(RecvError::Closed)) => return None,
                    Err(_) => Bytes::from_static(b": alive\n\n"),
                }
            };
            Some((bytes, (heard, stop, None)))
        },
    ))
}
