//! The tools of configured servers in a program of one's own: list them, call one, stop everything.
//!
//! ```text
//! cargo run -p wharfinger --example embed -- SERVERS [TOOL [ARGUMENTS]]
//! cargo run -p wharfinger --example embed -- 'npx -y @modelcontextprotocol/server-everything' echo '{"message": "hello"}'
//! ```
//!
//! `SERVERS` is the text of a `settings.json`, `{"mcpServers": {…}}`, or the command line of one server.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program talks to people; the library does not"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;

use serde_json::{Value, json};
use wharfinger::config::{File, Inputs, load};
use wharfinger::model::SessionId;
use wharfinger::wire::json::raw;
use wharfinger::{Options, SessionOptions, ToolCall, Wharf};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.as_slice() {
        [servers] => embed(servers, None).await,
        [servers, tool] => embed(servers, Some((tool, "{}"))).await,
        [servers, tool, arguments] => embed(servers, Some((tool, arguments))).await,
        _ => Err("usage: embed SERVERS [TOOL [ARGUMENTS]]".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn embed(servers: &str, call: Option<(&str, &str)>) -> Result<(), Box<dyn Error>> {
    let text = if servers.trim_start().starts_with('{') {
        servers.to_owned()
    } else {
        let words = shell_words::split(servers)?;
        let (command, args) = words.split_first().ok_or("the command is empty")?;
        json!({"mcpServers": {"server": {"command": command, "args": args}}}).to_string()
    };
    let variables = std::env::vars_os();
    let environment: BTreeMap<String, String> = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let settings = Some(File {
        name: "SERVERS".into(),
        text,
    });
    let loaded = load(&Inputs {
        settings,
        environment: environment.clone(),
        ..Inputs::default()
    });
    for problem in &loaded.problems {
        eprintln!("{problem}");
    }
    if loaded.has_errors() {
        return Err("the servers can't be used as they are written".into());
    }

    // What a program keeps is in this folder: with one that stays, listing tools starts no server the next time.
    let folder = tempfile::tempdir()?;
    let wharf = Wharf::open(Options::in_folder(folder.path(), loaded, environment)).await?;
    let outcome = converse(&wharf, call).await;
    // However it went, no process is left after this.
    wharf.shut_down().await;
    outcome
}

async fn converse(wharf: &Wharf, call: Option<(&str, &str)>) -> Result<(), Box<dyn Error>> {
    let options = SessionOptions::new(wharf.agent("default")?, SessionId::new("embed")?);
    let session = wharf.session(options);
    for tool in &session.tools().await.tools {
        let description = tool.tool.description();
        println!(
            "{}  {}",
            tool.name,
            description.lines().next().unwrap_or_default()
        );
    }
    for (server, reason) in session.unavailable() {
        eprintln!("{server}: {reason}");
    }
    if let Some((name, arguments)) = call {
        let arguments: Value = serde_json::from_str(arguments)?;
        let params = raw(&json!({"name": name, "arguments": arguments}));
        let result = session.call(ToolCall::new(name, &params), |_| ()).await?;
        println!("{result}");
    }
    Ok(())
}
