//! One file a command: it asks the daemon, and says what came of it.

mod add;
mod agent;
mod agent_tools;
mod approvals;
mod arguments;
mod call;
mod clients;
mod config;
mod connect;
pub(crate) mod docs;
mod doctor;
mod import;
mod journal;
mod known;
mod list;
mod logs;
mod mcp;
mod packages;
mod places;
mod registry;
mod secret;
mod server;
mod status;
mod stdio;
mod stop;
mod test;
mod times;
mod tools;
mod up;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::runtime::Builder;
use wharfinger_daemon::client::part;

pub(crate) use self::add::nothing_to_run;
use self::server::Verb;
pub(crate) use self::times::moment;
use crate::World;
use crate::cli::Command;
use crate::failure::Failure;

/// Runs a command to its end.
pub(crate) fn run(world: &World, command: Command) -> Result<(), Failure> {
    // One thread, the daemon too: what it does is short, and handing a call from one thread to another costs more
    // than the call. Measured with 16 callers, two threads took half as much processor time again and answered fewer.
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed("can't start the runtime").because(&error))?;
    let outcome = runtime.block_on(dispatch(world, command));
    // A read of standard input may still wait, on a thread of its own.
    runtime.shutdown_background();
    outcome
}

async fn dispatch(world: &World, command: Command) -> Result<(), Failure> {
    match command {
        // The daemon's whole life, which is large.
        Command::Up(up) => Box::pin(up::run(world, up)).await,
        Command::Status => status::run(world).await,
        Command::Doctor(doctor) => doctor::run(world, doctor).await,
        Command::Stop(stop) => stop::run(world, &stop).await,
        Command::Release => stop::release(world).await,
        Command::Add(add) => add::run(world, *add).await,
        Command::Search(search) => registry::search(world, &search).await,
        Command::Registry(command) => registry::registry(world, &command).await,
        Command::List(agent) => list::run(world, &agent.agent).await,
        Command::Show(show) => server::show(world, &show.name, &show.agent.agent).await,
        Command::Install(install) => packages::install(world, &install).await,
        Command::Outdated(outdated) => packages::outdated(world, &outdated).await,
        Command::Upgrade(upgrade) => packages::upgrade(world, &upgrade).await,
        Command::Remove(remove) => packages::remove(world, &remove).await,
        Command::Enable(named) => server::change(world, &named.name, Verb::Enable, None).await,
        Command::Disable(named) => server::change(world, &named.name, Verb::Disable, None).await,
        Command::Restart(restart) => {
            server::change(
                world,
                &restart.name,
                Verb::Restart,
                restart.agent.as_deref(),
            )
            .await
        }
        Command::Test(test) => test::run(world, &test.name).await,
        Command::Logs(logs) => logs::run(world, logs).await,
        Command::Journal(journal) => journal::run(world, journal).await,
        Command::Tools(tools) => match tools.command {
            None => tools::run(world, &tools.agent.agent, tools.schema).await,
            Some(command) => agent_tools::run(world, command).await,
        },
        Command::Call(call) => call::run(world, call).await,
        Command::Approvals(approvals) => approvals::run(world, &approvals).await,
        Command::Approve(approve) => approvals::approve(world, &approve).await,
        Command::Deny(deny) => approvals::deny(world, &deny).await,
        Command::Mcp(mcp) => mcp::run(world, &mcp.words, &mcp.agent.agent).await,
        Command::Stdio(agent) => stdio::run(world, &agent.agent).await,
        Command::Clients(clients) => clients::run(world, &clients),
        Command::Import(import) => import::run(world, &import).await,
        Command::Connect(connect) => connect::connect(world, &connect).await,
        Command::Disconnect(disconnect) => connect::disconnect(world, &disconnect),
        Command::Agent(command) => agent::run(world, command).await,
        Command::Secret(command) => secret::run(world, command).await,
        Command::Config(command) => config::run(world, command),
        Command::Guard(_) | Command::Completions(_) | Command::Man(_) | Command::Docs => {
            unreachable!("these need neither home nor runtime, so `main` runs them")
        }
    }
}

/// An answer of the daemon, as the type that a command prints.
fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Failure> {
    T::deserialize(value).map_err(|error| {
        Failure::failed("the daemon's answer is not understood")
            .because(&error)
            .hint("it may be of another version; `wharf stop` and `wharf up` start this one")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_part_of_a_path() {
        assert_eq!(part("io.github.a/b c%é"), "io.github.a%2Fb%20c%25%C3%A9");
    }
}
