//! The MCP server that the conformance suite expects, pinned to one era.
//!
//! ```text
//! conformance-fixture --era handshake|stateless --stdio
//! conformance-fixture --era handshake|stateless --http 127.0.0.1:0
//! ```
//!
//! Names and texts are the suite's. What is listed is in [`offer`], what always answers the same in
//! [`fixed`], what becomes a task in [`jobs`]; [`asking`] has the tools that ask the client, which
//! [`dialogue`] does in both eras.

mod asking;
mod dialogue;
mod era;
mod fixed;
mod fixture;
mod jobs;
mod offer;
mod tools;

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use rmcp::ServiceExt as _;
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::net::TcpListener;

use crate::era::Era;
use crate::fixture::Fixture;

const USAGE: &str = "conformance-fixture --era handshake|stateless (--stdio | --http ADDRESS)";

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["--era", era, way @ ..] => match (Era::named(era), way) {
            (Some(era), ["--stdio"]) => stdio(era).await,
            (Some(era), ["--http", address]) => http(era, address).await,
            _ => Err(USAGE.into()),
        },
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "{error}"));
            ExitCode::FAILURE
        }
    }
}

async fn stdio(era: Era) -> Outcome {
    let running = Fixture::new(era).serve(rmcp::transport::stdio()).await?;
    running.waiting().await?;
    Ok(())
}

async fn http(era: Era, address: &str) -> Outcome {
    let address: SocketAddr = address.parse()?;
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(era == Era::Handshake)
        .with_allowed_origins(["http://127.0.0.1:*", "http://localhost:*"]);
    let fixture = Fixture::new(era);
    let service = StreamableHttpService::new(
        move || Ok(fixture.clone()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let listener = TcpListener::bind(address).await?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "http://{}/mcp", listener.local_addr()?)?;
    stdout.flush()?;
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
