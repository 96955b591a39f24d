//! `wharf test NAME`, and how connecting to a server is told.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;

use super::{part, read};
use crate::World;
use crate::failure::{Exit, Failure};
use crate::ui::count;

/// How connecting to a server went.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Trial {
    pub(super) success: bool,
    error: Option<String>,
    tools: Vec<String>,
    #[serde(default)]
    notes: Vec<String>,
    server_version: Option<String>,
    protocol: Option<String>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    step: String,
    millis: u64,
}

impl Trial {
    /// The steps and how long they took.
    pub(super) fn steps(&self) -> String {
        let all: u64 = self.steps.iter().map(|step| step.millis).sum();
        let seconds = |millis: u64| format!("{}.{} s", millis / 1000, millis % 1000 / 100);
        let mut text = format!("connected in {}", seconds(all));
        let steps: Vec<String> = self
            .steps
            .iter()
            .map(|step| format!("{} {}", step.step, seconds(step.millis)))
            .collect();
        if !steps.is_empty() {
            write!(text, " ({})", steps.join(", ")).expect("a string takes everything");
        }
        text
    }
}

pub(super) async fn run(world: &World, name: &str) -> Result<(), Failure> {
    let path = format!("/api/servers/{}/test", part(name));
    let client = world.paths.client();
    let value: Value = world
        .ui
        .wait(&format!("connecting to {name}"), client.post(&path, None))
        .await?;
    let trial: Trial = read(&value)?;
    if world.ui.json {
        world.ui.answer_json(&value)?;
        return if trial.success {
            Ok(())
        } else {
            Err(Failure::Known(Exit::Failed))
        };
    }
    if !trial.success {
        let step = trial
            .steps
            .last()
            .map(|step| format!(" ({})", step.step))
            .unwrap_or_default();
        let error = trial.error.unwrap_or_default();
        return Err(
            Failure::failed(format!("{name} can't be connected to{step}"))
                .causes(&[error])
                .hint(format!("`wharf logs {name}` shows all it wrote")),
        );
    }
    let parts = [
        Some(count(trial.tools.len(), "tool")),
        trial.server_version.clone(),
        trial.protocol.clone(),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    world
        .ui
        .answer(&format!("{name} works: {}", parts.join(", ")))?;
    world.ui.say(&trial.steps());
    for note in &trial.notes {
        world.ui.warn(note);
    }
    Ok(())
}
