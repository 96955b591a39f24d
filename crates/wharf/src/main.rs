//! `wharf`: the command line of Wharfinger.
//!
//! What was typed ([`cli`]) becomes a command ([`commands`]), which talks to the daemon or is the daemon, says
//! something ([`ui`]), and ends as an exit code ([`failure`]). Only this file looks at the environment.

mod cli;
mod commands;
mod failure;
mod paths;
mod ui;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::commands::docs;
use crate::failure::Failure;
use crate::paths::Paths;
use crate::ui::Ui;

/// Everything a command gets to know of the world.
struct World {
    ui: Ui,
    paths: Paths,
    environment: BTreeMap<String, String>,
    /// The person's own home folder, where other programs keep their settings.
    user: Option<PathBuf>,
    /// This program.
    program: PathBuf,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse_from(cli::understand(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => {
            let words: Vec<_> = std::env::args_os().skip(1).collect();
            if error.kind() == clap::error::ErrorKind::UnknownArgument
                && let Some((name, command)) = cli::command_without_dashes(&words)
            {
                let ui = Ui::new(&environment(), false);
                return ui.fail(commands::nothing_to_run(&name, &command, &[]));
            }
            // Nobody to read the help: no failure.
            error.print().ok();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let environment = environment();
    let ui = Ui::new(&environment, cli.json);
    match run(cli, ui.clone(), environment) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ui.fail(failure),
    }
}

fn run(cli: Cli, ui: Ui, environment: BTreeMap<String, String>) -> Result<(), Failure> {
    match &cli.command {
        // A second, tiny process: no runtime, no configuration.
        Command::Guard(guard) => {
            wharfinger::launch::guard::run(&guard.owner, std::io::stdin());
            return Ok(());
        }
        Command::Completions(completions) => return docs::completions(&ui, completions.shell),
        Command::Man(man) => return docs::man(&ui, &man.command),
        Command::Docs => return docs::markdown(&ui),
        _ => {}
    }
    let paths = Paths::find(cli.home.as_deref(), &environment, std::env::home_dir())?;
    let user = std::env::home_dir();
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed("can't find out which program this is").because(&error))?;
    let world = World {
        ui,
        paths,
        environment,
        user,
        program,
    };
    commands::run(&world, cli.command)
}

/// Variables that are not UTF-8 can't be configuration, nor be told to a server.
fn environment() -> BTreeMap<String, String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}
