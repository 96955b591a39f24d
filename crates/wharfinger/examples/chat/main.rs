//! A chat host, with a person in the place of the model.
//!
//! ```text
//! cargo run -p wharfinger --example chat -- npx -y @modelcontextprotocol/server-everything
//! cargo run -p wharfinger --example chat -- --settings FILE
//! ```
//!
//! `NAME {json}` calls a tool, and more may be typed while it runs; `/help` lists the rest. What servers ask is asked
//! here. At the end of input it waits for what runs, then stops everything; Ctrl-C stops everything at once.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program talks to people; the library does not"
)]

mod call;
mod chat;
mod question;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::stdin;
use std::process::ExitCode;

use serde_json::json;
use tokio::sync::mpsc;
use wharfinger::config::{File, Inputs, Loaded, load};
use wharfinger::launch::guard::{self, Guard};
use wharfinger::{Options, Wharf};

use crate::chat::Chat;

const USAGE: &str = "usage: chat COMMAND [ARGUMENTS…] | chat --settings FILE";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, owner] = arguments.as_slice()
        && flag == "--guard"
    {
        guard::run(owner, stdin().lock());
        return ExitCode::SUCCESS;
    }
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let variables = std::env::vars_os();
    let environment: BTreeMap<String, String> = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let loaded = read(arguments, &environment)?;
    for problem in &loaded.problems {
        eprintln!("{problem}");
    }
    if loaded.has_errors() {
        return Err("not started, since the configuration has errors".into());
    }
    let folder = tempfile::tempdir()?;
    let options = Options::in_folder(folder.path(), loaded, environment);
    // If this program is killed, the guard ends the servers.
    let guard = Guard::start(std::env::current_exe()?, &["--guard"], &options.owner)?;
    let wharf = Wharf::open(options).await?;
    let outcome = converse(&wharf).await;
    wharf.shut_down().await;
    guard.dismiss().await;
    outcome
}

async fn converse(wharf: &Wharf) -> Result<(), Box<dyn Error>> {
    Chat::begin(wharf, lines())?.run().await;
    Ok(())
}

fn read(
    arguments: &[String],
    environment: &BTreeMap<String, String>,
) -> Result<Loaded, Box<dyn Error>> {
    let (name, text) = match arguments {
        [] => return Err(USAGE.into()),
        [flag, file] if flag == "--settings" => {
            let text = std::fs::read_to_string(file);
            (
                file.as_str(),
                text.map_err(|error| format!("can't read {file}: {error}"))?,
            )
        }
        [command, args @ ..] => {
            let entry = json!({"command": command, "args": args});
            (
                "the command line",
                json!({"mcpServers": {"server": entry}}).to_string(),
            )
        }
    };
    let settings = Some(File {
        name: name.into(),
        text,
    });
    Ok(load(&Inputs {
        settings,
        environment: environment.clone(),
        ..Inputs::default()
    }))
}

/// What is typed. Nothing ends a read of standard input, so a thread does that, and goes with the program.
fn lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
