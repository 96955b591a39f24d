//! `wharf mcp`

use super::part;
use crate::World;
use crate::failure::Failure;

pub(super) async fn run(world: &World, words: &[String], agent: &str) -> Result<(), Failure> {
    let client = world.paths.client();
    let agent = part(agent);
    let value = match words {
        [] => client.get(&format!("/api/agents/{agent}/mcp")).await?,
        [name] => {
            client
                .get(&format!("/api/agents/{agent}/mcp?server={}", part(name)))
                .await?
        }
        [verb, name] if verb == "restart" => {
            let path = format!("/api/agents/{agent}/mcp/restart?server={}", part(name));
            world
                .ui
                .wait(&format!("stopping {name}"), client.post(&path, None))
                .await?
        }
        [verb, ..] => {
            return Err(
                Failure::usage(format!("`{verb}` is no command of `wharf mcp`"))
                    .hint("it is `wharf mcp`, `wharf mcp NAME` or `wharf mcp restart NAME`"),
            );
        }
    };
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    Ok(world
        .ui
        .answer(value["text"].as_str().unwrap_or_default())?)
}
