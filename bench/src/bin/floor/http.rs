//! An MCP endpoint with nothing around it.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tokio::task::LocalSet;

use crate::announce;
use crate::upstream::Upstream;

/// Serves on one thread until killed; without a command, its own few answers.
pub(crate) fn run(port: u16, command: &[String]) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build()?;
    runtime.block_on(LocalSet::new().run_until(async {
        let upstream = match command {
            [] => None,
            command => Some(Upstream::start(command)?),
        };
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        announce(listener.local_addr()?)?;
        serve(listener, upstream).await
    }))
}

async fn serve(listener: TcpListener, upstream: Option<Rc<Upstream>>) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let upstream = upstream.clone();
        tokio::task::spawn_local(async move {
            let service = service_fn(|request| answer(request, upstream.clone()));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // A client that goes away is no failure.
            connection.await.ok();
        });
    }
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: &'a str,
    #[serde(default)]
    params: Params,
}

#[derive(Deserialize, Default)]
struct Params {
    #[serde(default)]
    arguments: Arguments,
}

#[derive(Deserialize, Default)]
struct Arguments {
    bytes: Option<usize>,
}

async fn answer(
    request: Request<Incoming>,
    upstream: Option<Rc<Upstream>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let Ok(body) = request.into_body().collect().await else {
        return Ok(status(StatusCode::BAD_REQUEST));
    };
    let body = body.to_bytes();
    if body.is_empty() {
        return Ok(status(StatusCode::OK)); // a goodbye
    }
    let Ok(message) = serde_json::from_slice::<Message<'_>>(&body) else {
        return Ok(status(StatusCode::BAD_REQUEST));
    };
    let Some(id) = message.id else {
        return Ok(status(StatusCode::ACCEPTED));
    };
    if let Some(upstream) = upstream {
        return Ok(match upstream.ask(&body).await {
            Ok(reply) => json(reply),
            Err(_) => status(StatusCode::BAD_GATEWAY),
        });
    }
    let size = message.params.arguments.bytes.unwrap_or(0).min(64 << 20);
    let result = match message.method {
        "initialize" => r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"floor","version":"0"}}"#.to_owned(),
        "tools/list" => r#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"blob","inputSchema":{"type":"object"}}]}"#.to_owned(),
        _ if size > 0 => text(&"x".repeat(size)),
        _ => text("hello"),
    };
    Ok(json(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
    )))
}

fn text(text: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#)
}

fn json(reply: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(reply)));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn status(code: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = code;
    response
}
