//! `wharf tools` with a subcommand: the tools of an agent of the agent profile.

use serde::Deserialize;
use serde_json::{Value, json};
use wharfinger::model::{Difference, Suspicion};
use wharfinger_daemon::client::Client;

use super::{part, read};
use crate::World;
use crate::cli::{DiffTool, OfAgent, OneTool, ReviewTool, SomeTools, ToolsCommand};
use crate::failure::{Exit, Failure};
use crate::ui::count;

/// So much of a hash tells two definitions apart.
const HASH: usize = 12;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the flags of a declaration"
)]
struct Tool {
    name: String,
    server: Option<String>,
    #[serde(rename = "tool")]
    own_name: String,
    enabled: bool,
    visible: bool,
    restricted: bool,
    locked: bool,
    status: Option<String>,
    change: Option<Difference>,
    #[serde(default)]
    suspicions: Vec<Suspicion>,
    hash: Option<String>,
}

/// Whose tools, and where to ask.
struct Desk<'a> {
    world: &'a World,
    client: Client,
    agent: String,
    /// How commands name the agent.
    option: String,
}

pub(super) async fn run(world: &World, command: ToolsCommand) -> Result<(), Failure> {
    match command {
        ToolsCommand::List(of) => Desk::new(world, &of).await?.list().await,
        ToolsCommand::Show(one) => show(world, &one).await,
        ToolsCommand::Enable(some) => switch(world, &some, "enabled", true).await,
        ToolsCommand::Disable(some) => switch(world, &some, "enabled", false).await,
        ToolsCommand::Unhide(some) => switch(world, &some, "visible", true).await,
        ToolsCommand::Hide(some) => switch(world, &some, "visible", false).await,
        ToolsCommand::Restrict(some) => switch(world, &some, "restricted", true).await,
        ToolsCommand::Unrestrict(some) => switch(world, &some, "restricted", false).await,
        ToolsCommand::Lock(one) => lock(world, &one, true).await,
        ToolsCommand::Unlock(one) => lock(world, &one, false).await,
        ToolsCommand::Diff(diff) => self::diff(world, &diff).await,
        ToolsCommand::Review(review) => self::review(world, &review).await,
    }
}

impl<'a> Desk<'a> {
    async fn new(world: &'a World, of: &OfAgent) -> Result<Self, Failure> {
        let client = world.paths.client();
        let (agent, option) = match &of.agent {
            Some(agent) => (agent.clone(), format!(" --agent {agent}")),
            None => (the_one(&client).await?, String::new()),
        };
        Ok(Self {
            world,
            client,
            agent,
            option,
        })
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/agents/{}/tools{rest}", part(&self.agent))
    }

    async fn all(&self) -> Result<(Value, Vec<Tool>), Failure> {
        let path = self.path("");
        let asking = self.client.get(&path);
        let value = self.world.ui.wait("listing tools", asking).await?;
        let tools = read(&value["tools"])?;
        Ok((value, tools))
    }

    /// The name that the agent sees, of that or of SERVER/TOOL.
    async fn name(&self, text: &str) -> Result<String, Failure> {
        if !text.contains('/') {
            return Ok(text.to_owned());
        }
        let (_, tools) = self.all().await?;
        let is_it = |tool: &&Tool| {
            let server = tool.server.as_deref();
            server.is_some_and(|server| format!("{server}/{}", tool.own_name) == text)
        };
        // What is not known is refused by the daemon in its words.
        let found = tools.iter().find(is_it);
        Ok(found.map_or_else(|| text.to_owned(), |tool| tool.name.clone()))
    }

    async fn list(&self) -> Result<(), Failure> {
        let (value, tools) = self.all().await?;
        let ui = &self.world.ui;
        if ui.json {
            return Ok(ui.answer_json(&value)?);
        }
        if tools.is_empty() {
            ui.say("no tools");
            ui.hint(&format!(
                "`wharf agent attach {} SERVER` gives it those of a server",
                self.agent
            ));
            return Ok(());
        }
        let rows: Vec<_> = tools.iter().map(Tool::row).collect();
        ui.table(&["NAME", "SERVER/TOOL", "SWITCHES", "REVIEW"], &rows)?;
        if tools.iter().any(|tool| tool.change.is_some()) {
            ui.hint(&format!(
                "`wharf tools diff{}` shows what changed",
                self.option
            ));
        }
        Ok(())
    }
}

/// The agent that is meant where none is named.
async fn the_one(client: &Client) -> Result<String, Failure> {
    let value = client.get("/api/agents").await?;
    let agents = value["agents"].as_array().into_iter().flatten();
    let agents = agents.filter(|agent| agent["profile"] == "agent");
    let names: Vec<&str> = agents.filter_map(|agent| agent["name"].as_str()).collect();
    match names.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(
            Failure::told(Exit::Unknown, "there is no agent of the agent profile")
                .hint("`wharf agent new NAME --profile agent` makes one"),
        ),
        many => Err(Failure::usage(format!(
            "`--agent` says which one is meant: {}",
            many.join(", ")
        ))),
    }
}

impl Tool {
    fn place(&self) -> String {
        match &self.server {
            Some(server) => format!("{server}/{}", self.own_name),
            None => "its own".to_owned(),
        }
    }

    /// How it stands, in words.
    fn switches(&self) -> String {
        let on = match (self.enabled, self.visible) {
            (false, _) => "off",
            (true, false) => "hidden",
            (true, true) => "on",
        };
        let asks = if self.restricted { ", asks" } else { "" };
        let locked = if self.locked { ", locked" } else { "" };
        format!("{on}{asks}{locked}")
    }

    fn review(&self) -> String {
        let status = self.status.as_deref().unwrap_or_default();
        let mut words = vec![match &self.change {
            Some(change) => format!("{status}, {}", change.class.as_str()),
            None => status.to_owned(),
        }];
        if !self.suspicions.is_empty() {
            words.push("suspicious".to_owned());
        }
        words.retain(|word| !word.is_empty());
        words.join(", ")
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.place(),
            self.switches(),
            self.review(),
        ]
    }

    fn short_hash(&self) -> &str {
        let hash = self.hash.as_deref().unwrap_or_default();
        hash.get(..HASH).unwrap_or(hash)
    }
}

async fn show(world: &World, one: &OneTool) -> Result<(), Failure> {
    let desk = Desk::new(world, &one.of).await?;
    let name = desk.name(&one.tool).await?;
    let value = desk
        .client
        .get(&desk.path(&format!("/{}", part(&name))))
        .await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let tool: Tool = read(&value)?;
    let mut lines = vec![
        format!("name      {}", tool.name),
        format!("from      {}", tool.place()),
        format!("is        {}", tool.switches()),
    ];
    let review = tool.review();
    if !review.is_empty() {
        lines.push(format!("review    {review}"));
    }
    for suspicion in &tool.suspicions {
        lines.push(format!("suspicion {suspicion}"));
    }
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
    let (current, reviewed) = (&value["current"], &value["reviewed"]);
    if !current.is_null() {
        lines.push(pretty(current));
    }
    if !reviewed.is_null() && reviewed != current {
        lines.push(format!("as it was reviewed:\n{}", pretty(reviewed)));
    }
    Ok(world.ui.answer(&lines.join("\n"))?)
}

async fn switch(world: &World, some: &SomeTools, flag: &str, on: bool) -> Result<(), Failure> {
    let desk = Desk::new(world, &some.of).await?;
    let tool = some.tool.as_deref();
    let server = some
        .server
        .as_deref()
        .or_else(|| tool.and_then(|tool| tool.strip_suffix('/')));
    let (kind, what) = if let Some(server) = server {
        ("server", server.to_owned())
    } else {
        ("tool", desk.name(tool.unwrap_or_default()).await?)
    };
    let body = json!({kind: what, "flag": flag, "on": on});
    let value = desk.client.post(&desk.path(""), Some(&body)).await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let now = match (flag, on) {
        ("enabled", true) => "may be called",
        ("enabled", false) => "may not be called any more",
        ("visible", true) => "is shown to the model",
        ("visible", false) => "is hidden from the model",
        (_, true) => "waits for a person at each call",
        (_, false) => "needs no approval",
    };
    let changed = value["changed"].as_u64().unwrap_or_default();
    let changed = usize::try_from(changed).unwrap_or_default();
    let text = match (server, changed) {
        (_, 0) => format!("{what}: nothing to change"),
        (Some(_), _) => format!("{what}: each {now}, {} changed", count(changed, "tool")),
        (None, _) => format!("{what} {now}"),
    };
    Ok(world.ui.answer(&text)?)
}

async fn lock(world: &World, one: &OneTool, locked: bool) -> Result<(), Failure> {
    let desk = Desk::new(world, &one.of).await?;
    let name = desk.name(&one.tool).await?;
    let path = desk.path(&format!("/{}/lock", part(&name)));
    let body = json!({ "locked": locked });
    let value = desk.client.post(&path, Some(&body)).await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let word = if locked { "locked" } else { "unlocked" };
    let tool: Tool = read(&value)?;
    let switches = tool.switches().replace(", locked", "");
    Ok(world.ui.answer(&format!("{word} {name}: {switches}"))?)
}

async fn diff(world: &World, diff: &DiffTool) -> Result<(), Failure> {
    let desk = Desk::new(world, &diff.of).await?;
    let tools: Vec<(Value, Tool)> = if let Some(tool) = &diff.tool {
        let name = desk.name(tool).await?;
        let path = desk.path(&format!("/{}", part(&name)));
        let value = desk.client.get(&path).await?;
        let tool = read(&value)?;
        vec![(value, tool)]
    } else {
        let (value, tools) = desk.all().await?;
        let values = value["tools"].as_array().cloned().unwrap_or_default();
        let both = values.into_iter().zip(tools);
        both.filter(|(_, tool)| tool.waits()).collect()
    };
    if world.ui.json {
        let values: Vec<&Value> = tools.iter().map(|(value, _)| value).collect();
        return Ok(world.ui.answer_json(&values)?);
    }
    if tools.is_empty() {
        world.ui.say("no tool waits for a review");
        return Ok(());
    }
    for (index, (_, tool)) in tools.iter().enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        world
            .ui
            .answer(&format!("{gap}{}", tool.difference(&desk.option)))?;
    }
    Ok(())
}

impl Tool {
    /// Whether somebody should look at it.
    fn waits(&self) -> bool {
        self.change.is_some() || matches!(self.status.as_deref(), Some("changed" | "removed"))
    }

    /// What changed, and what to do about it.
    fn difference(&self, option: &str) -> String {
        let mut lines = vec![format!("{} ({})", self.name, self.place())];
        let mut line = |text: &str| {
            lines.extend(text.lines().map(|line| format!("  {line}")));
        };
        match (self.status.as_deref(), &self.change) {
            (Some("removed"), _) => line(
                "removed: its server does not list it any more; it comes back as it was if the server lists it again",
            ),
            (_, Some(change)) => {
                line(&format!(
                    "{}: {}",
                    change.class.as_str(),
                    meaning(change.class.as_str())
                ));
                for one in &change.lines {
                    line(&format!("- {one}"));
                }
            }
            (Some("new"), None) => line("new: nobody has reviewed it yet"),
            (_, None) => line("as it was reviewed"),
        }
        for suspicion in &self.suspicions {
            line(&format!("! {suspicion}"));
        }
        if self.change.is_some() && self.status.as_deref() != Some("removed") {
            line(&format!(
                "accept: wharf tools review {name}{option} --accept --seen {hash}\n\
                 reject: wharf tools review {name}{option} --reject",
                name = self.name,
                hash = self.short_hash(),
            ));
        }
        lines.join("\n")
    }
}

fn meaning(class: &str) -> &'static str {
    match class {
        "cosmetic" => "nothing that matters changed",
        "wider" => "it only allows more than before",
        "narrower" => "what was right before may be wrong now",
        "meaning" => "it may do something else than before",
        _ => "it looks like an attempt to deceive",
    }
}

async fn review(world: &World, review: &ReviewTool) -> Result<(), Failure> {
    let desk = Desk::new(world, &review.of).await?;
    let name = desk.name(&review.tool).await?;
    let path = desk.path(&format!("/{}", part(&name)));
    let mut body = json!({ "accept": review.accept });
    if review.accept {
        let tool: Tool = read(&desk.client.get(&path).await?)?;
        let hash = tool.hash.unwrap_or_default();
        let seen = review.seen.as_deref().unwrap_or_default();
        if !hash.starts_with(seen) {
            return Err(
                Failure::failed(format!("`{name}` is not what was seen any more")).hint(format!(
                    "`wharf tools diff {name}{}` shows what it is now",
                    desk.option
                )),
            );
        }
        // What comes in between from here on is refused.
        if !hash.is_empty() {
            body["seen"] = hash.into();
        }
    }
    let value = desk
        .client
        .post(&format!("{path}/review"), Some(&body))
        .await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let tool: Tool = read(&value)?;
    let word = if review.accept {
        "accepted"
    } else {
        "rejected"
    };
    Ok(world
        .ui
        .answer(&format!("{word} {name}: {}", tool.switches()))?)
}
