//! Which tool a call means.

use std::borrow::Cow;

use crate::call::{Refusal, Target, gone};
use crate::config::Config;
use crate::model::{Profile, ServerEntry, ServerName, Transport, nearest};
use crate::session::Session;

/// A tool that may be called, as far as its server goes.
#[derive(Clone, Debug)]
pub(crate) struct Found<'a> {
    /// Its server; `None` for the tools with which an agent manages itself.
    pub(crate) entry: Option<&'a ServerEntry>,
    /// As its server names it.
    pub(crate) tool: String,
    /// As the agent names it.
    pub(crate) exposed: Cow<'a, str>,
}

impl Found<'_> {
    pub(crate) fn server(&self) -> ServerName {
        self.entry
            .map_or_else(ServerName::own, |entry| entry.name.clone())
    }
}

impl Session {
    /// The server and its own name for the tool (V45).
    pub(crate) fn find<'a>(
        &self,
        config: &'a Config,
        target: Target<'a>,
        as_owner: bool,
    ) -> Result<Found<'a>, Refusal> {
        let (server, tool, exposed) = match target {
            Target::Exposed(name) => self.named(name, as_owner)?,
            Target::Direct { server, tool } => {
                let name = known_server(config, server)?;
                let rights = self.state.own.rights();
                let exposed = match self.profile() {
                    Profile::Chat => Cow::Borrowed(tool),
                    Profile::Agent => match rights.exposed(&name, tool) {
                        Some(exposed) => Cow::Owned(exposed.to_owned()),
                        None if as_owner => Cow::Borrowed(tool),
                        None => {
                            let text = format!(
                                "{server}: no tool `{tool}` of it is declared for the agent `{}`",
                                self.state.agent
                            );
                            return Err(Refusal::Unknown(text));
                        }
                    },
                };
                (name, tool.to_owned(), exposed)
            }
        };
        if server == ServerName::own() {
            return Ok(Found {
                entry: None,
                tool,
                exposed,
            });
        }
        let entry = config
            .server(server.as_str())
            .ok_or_else(|| gone(&server))?;
        if !entry.enabled {
            return Err(Refusal::Unavailable(format!(
                "{server}: this MCP server is disabled; its owner can switch it on with `wharf enable {server}`"
            )));
        }
        if let Transport::Http { .. } = entry.transport {
            return Err(Refusal::Unavailable(format!(
                "{server}: remote MCP servers come later"
            )));
        }
        Ok(Found {
            entry: Some(entry),
            tool,
            exposed,
        })
    }

    fn named<'a>(
        &self,
        name: &'a str,
        as_owner: bool,
    ) -> Result<(ServerName, String, Cow<'a, str>), Refusal> {
        let catalog = self.known_tools();
        if let Some(exposed) = catalog.find(name) {
            let tool = exposed.tool.name.to_string();
            return Ok((exposed.server.clone(), tool, Cow::Borrowed(name)));
        }
        let rights = self.state.own.rights();
        if let Some(pin) = rights.pin(name) {
            if as_owner {
                let tool = pin.tool.as_str().to_owned();
                return Ok((pin.server.clone(), tool, Cow::Borrowed(name)));
            }
            return Err(Refusal::Unavailable(self.why_not(name)));
        }
        if rights.declaration(name).is_some() {
            return Err(Refusal::Unavailable(self.why_not(name)));
        }
        Err(self.unknown(name, &catalog))
    }

    pub(crate) fn profile(&self) -> Profile {
        self.state.own.profile
    }
}

fn known_server(config: &Config, server: &str) -> Result<ServerName, Refusal> {
    if let Some(entry) = config.server(server) {
        return Ok(entry.name.clone());
    }
    let known = config.servers.iter().map(|entry| entry.name.as_str());
    let near = nearest(server, known).map(|name| format!("; did you mean `{name}`?"));
    Err(Refusal::Unknown(format!(
        "there is no server `{server}`{}",
        near.unwrap_or_default()
    )))
}
