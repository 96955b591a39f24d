//! Connections: accepted, bounded, and asked who they are before anything is read.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use std::convert::Infallible;

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::gateway;
use crate::serve::Daemon;

/// By which way a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The Unix socket in the home, which only its owner can open.
    Socket,
    /// TCP: anybody on this machine, a web page in a browser included.
    Tcp,
}

/// Headers of a request, all together, in bytes.
const HEADER_BYTES: usize = 64 << 10;
/// How long they may take to arrive, or the next request to begin on an idle connection.
const HEADER_TIME: Duration = Duration::from_secs(60);
/// How long the first ones may take: nobody is known yet.
const FIRST_TIME: Duration = Duration::from_secs(5);
/// Connections over TCP at once. The socket in the home has none of this, so its owner always gets in.
const CONNECTIONS: usize = 512;

/// Serves until stopped; then connections that do nothing are closed, and the others end with their response.
pub(crate) async fn tcp(
    listener: TcpListener,
    doors: Arc<Doors>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let next = async {
            // When all are taken, the others wait in the system's queue.
            let place = room.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let Some((place, accepted)) = stop.run_until_cancelled(next).await else {
            return;
        };
        match accepted {
            Ok((stream, _)) => {
                // Without it, a reply in two writes waits 40 ms for an acknowledgement.
                stream.set_nodelay(true).ok();
                let (doors, stop) = (doors.clone(), stop.clone());
                tasks.spawn(async move {
                    let mut first = [0];
                    let begun = tokio::time::timeout(FIRST_TIME, stream.peek(&mut first)).await;
                    if matches!(begun, Ok(Ok(1))) {
                        connection(stream, doors, Way::Tcp, stop).await;
                    }
                    drop(place);
                });
            }
            Err(error) => pause(&error).await,
        }
    }
}

/// The same on the Unix socket.
pub(crate) async fn unix(
    listener: UnixListener,
    doors: Arc<Doors>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, _)) => {
                tasks.spawn(connection(stream, doors.clone(), Way::Socket, stop.clone()));
            }
            Err(error) => pause(&error).await,
        }
    }
}

/// Out of file descriptors, most likely: trying again at once would only burn time.
async fn pause(error: &std::io::Error) {
    tracing::warn!("a connection could not be accepted: {error}");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    doors: Arc<Doors>,
    way: Way,
    stop: CancellationToken,
) {
    let service = service_fn(move |request| {
        let doors = doors.clone();
        async move { Ok::<_, Infallible>(doors.enter(way, request).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_BYTES.max(8192))
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ended early: {error}");
    }
}

/// The body of the request was not read, so nothing more can be said on its connection.
fn unread(mut response: Response) -> Response {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}

/// All that requests can reach.
pub(crate) struct Doors {
    pub(crate) daemon: Arc<Daemon>,
    pub(crate) hosts: Hosts,
    pub(crate) router: Router,
}

impl Doors {
    async fn enter(&self, way: Way, mut request: hyper::Request<Incoming>) -> Response {
        if way == Way::Tcp && !self.hosts.allows(request.headers()) {
            let text = "this host or origin is not allowed here; add it to daemon.allowedHosts if it should be\n";
            return unread((StatusCode::FORBIDDEN, text).into_response());
        }
        let agent = request.uri().path().strip_prefix("/agents/");
        let agent = agent.and_then(|rest| rest.strip_suffix("/mcp"));
        // The way of every call; a router, with its layers and boxes, would be a sixth of its cost.
        if let Some(agent) = agent.filter(|agent| !agent.contains(['/', '%'])) {
            let agent = gateway::admit(&self.daemon, agent, way, request.headers());
            return match agent {
                Ok(agent) => gateway::endpoint(self.daemon.clone(), agent, request).await,
                Err(refusal) => unread(*refusal),
            };
        }
        request.extensions_mut().insert(way);
        let router = TowerToHyperService::new(self.router.clone());
        match router.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// Which hosts requests over TCP may name: rebinding a name to loopback must not let a web page in.
#[derive(Clone, Debug)]
pub(crate) struct Hosts(Arc<Vec<String>>);

impl Hosts {
    pub(crate) fn new(listen: SocketAddr, allowed: &[String]) -> Self {
        let mut names: Vec<String> = ["localhost", "127.0.0.1", "[::1]"]
            .map(str::to_owned)
            .to_vec();
        names.push(match listen.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        });
        names.extend(allowed.iter().map(|name| name.to_ascii_lowercase()));
        Self(Arc::new(names))
    }

    fn allows(&self, headers: &HeaderMap) -> bool {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(header::HOST).is_some_and(|host| self.knows(host));
        let origin = headers.contains_key(header::ORIGIN).then(|| {
            let origin = text(header::ORIGIN).unwrap_or_default();
            let site = origin
                .split_once("://")
                .filter(|(scheme, _)| scheme.starts_with("http"));
            site.is_some_and(|(_, host)| self.knows(host))
        });
        host && origin.unwrap_or(true)
    }

    fn knows(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => &host,
        };
        self.0.iter().any(|known| known == name)
    }
}

/// The bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_hosts_and_origins_come_in() {
        let hosts = Hosts::new(([192, 168, 1, 5], 1).into(), &["Wharf.Example".into()]);
        let check = |host: &str, origin: Option<&str>, expect: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            origin.map(|origin| headers.insert(header::ORIGIN, origin.parse().unwrap()));
            assert_eq!(hosts.allows(&headers), expect, "{host} {origin:?}");
        };
        check("127.0.0.1:7311", None, true);
        check("localhost", Some("http://localhost:3000"), true);
        check("[::1]:7311", None, true);
        check("192.168.1.5:7311", None, true);
        check("wharf.example", Some("https://wharf.example"), true);
        check("evil.example", None, false);
        check("127.0.0.1.evil.example", None, false);
        check("127.0.0.1:7311", Some("http://evil.example"), false);
        check("127.0.0.1:7311", Some("null"), false);
        check("127.0.0.1:7311", Some("file://localhost"), false);
        assert!(!hosts.allows(&HeaderMap::new()));
    }

    #[test]
    fn a_bearer_token_is_read_in_any_case() {
        let check = |value: &str, expect: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            assert_eq!(bearer(&headers), expect);
        };
        check("Bearer abc", Some("abc"));
        check("bearer  abc ", Some("abc"));
        check("Basic abc", None);
        check("Bearer", None);
    }
}
