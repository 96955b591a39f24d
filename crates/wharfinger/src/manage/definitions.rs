//! The tools as a model sees them, and the declarations an agent begins with.

use serde_json::{Value, json};

/// A tool of this room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `mcp_install`
    Install,
    /// `mcp_available`
    Available,
    /// `mcp_restart`
    Restart,
    /// `mcp_uninstall`
    Uninstall,
    /// `sys_get_config`
    GetConfig,
    /// `sys_update_config`
    UpdateConfig,
    /// `fs_read`
    FsRead,
    /// `fs_write`
    FsWrite,
    /// `sys_fetch`
    Fetch,
}

impl Tool {
    /// All of them. They are there whether or not an agent has servers, in every mode of running (A89, P4, P8).
    pub const ALL: [Self; 9] = [
        Self::Install,
        Self::Available,
        Self::Restart,
        Self::Uninstall,
        Self::GetConfig,
        Self::UpdateConfig,
        Self::FsRead,
        Self::FsWrite,
        Self::Fetch,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Install => "mcp_install",
            Self::Available => "mcp_available",
            Self::Restart => "mcp_restart",
            Self::Uninstall => "mcp_uninstall",
            Self::GetConfig => "sys_get_config",
            Self::UpdateConfig => "sys_update_config",
            Self::FsRead => "fs_read",
            Self::FsWrite => "fs_write",
            Self::Fetch => "sys_fetch",
        }
    }

    /// The tool of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Its MCP definition: name, description, schema of the arguments, hints.
    pub fn definition(self) -> Value {
        let (description, properties, required) = match self {
            Self::Install => install(),
            Self::Available => (
                "List the MCP servers that `mcp_install` would attach for you because your owner made them available, and find well-known ones to install: with `query`, the result has their packages, the variables they need, and advisories to weigh and to tell your principal. Installs nothing.",
                json!({
                    "query": {"type": "string", "description": "Words to look for, such as `calendar`; without, the available servers alone."},
                }),
                &[][..],
            ),
            Self::Restart => named(
                "Connect an MCP server again, for instance after correcting its credentials. Its tools stay as they are declared, and what is newly offered is added. The result says where the server ran, and its error and last lines if it did not come up.",
            ),
            Self::Uninstall => named(
                "Remove an MCP server and its tools from your configuration. Sealed credentials stay, and are used if it is installed again.",
            ),
            Self::GetConfig => (
                "Read your own configuration: which tools you may call, your limits, your MCP servers. Values of credentials are shown as `__redacted__`.",
                json!({
                    "section": {
                        "type": "string", "enum": ["config", "tools", "limits", "mcp"], "default": "config",
                        "description": "The part to read; `config` is all of it.",
                    },
                }),
                &[][..],
            ),
            Self::UpdateConfig => (
                "Change your own configuration at a path: below `tools`, `limits` or `mcp`. Name members of lists: `tools.mcp_install.enabled`, `mcp.servers.github.tool_call_timeout_ms`. Locked fields cannot be changed. What widens your rights, such as enabling a tool, waits for your principal's approval. Fields of a connected server take effect with `mcp_restart`. Read with `sys_get_config` first.",
                json!({
                    "path": {
                        "type": "string", "minLength": 1,
                        "description": "Members by name, with dots between.",
                    },
                    "value": {
                        "description": "The new value. An object is laid over what is there: members you leave out stay.",
                    },
                    "action": {
                        "type": "string", "enum": ["set", "append", "remove"], "default": "set",
                        "description": "`append` adds an entry to `mcp.servers`; `remove` takes away a limit or a server.",
                    },
                }),
                &["path"][..],
            ),
            Self::FsRead => (
                "Read one of your files. The result holds its content, MIME type, size, protection and times. Text comes as text, anything else as base64.",
                json!({
                    "path": {"type": "string", "description": "Relative, with `/` between parts, such as `mind/log.md`."},
                    "encoding": {
                        "type": "string", "enum": ["utf8", "base64"],
                        "description": "How the content is given; by what it is, unless you say.",
                    },
                    "start_line": {"type": "integer", "minimum": 1, "description": "First line wanted, counted from 1. Text only."},
                    "end_line": {"type": "integer", "minimum": 1, "description": "Last line wanted. Text only."},
                }),
                &["path"][..],
            ),
            Self::FsWrite => fs_write(),
            Self::Fetch => (
                "Fetch a public web address by GET. The result holds the status, the final URL, the content type, and the content as `text` or `base64`. At most 25 MB, 5 redirects, 60 seconds. Private and local addresses are refused. Nothing but the address is sent: no headers, no cookies.",
                json!({
                    "url": {"type": "string", "description": "http or https, without user or password."},
                    "method": {"type": "string", "enum": ["GET", "HEAD"], "default": "GET"},
                }),
                &["url"][..],
            ),
        };
        let mut schema = json!({
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        });
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        let (read_only, destructive, open_world) = match self {
            Self::Available | Self::GetConfig | Self::FsRead => (true, false, false),
            Self::Fetch => (true, false, true),
            Self::Install | Self::Restart => (false, false, true),
            Self::Uninstall | Self::UpdateConfig | Self::FsWrite => (false, true, false),
        };
        json!({
            "name": self.name(),
            "description": description,
            "inputSchema": schema,
            "annotations": {
                "readOnlyHint": read_only,
                "destructiveHint": destructive,
                "openWorldHint": open_world,
            },
        })
    }
}

type Parts = (&'static str, Value, &'static [&'static str]);

fn named(description: &'static str) -> Parts {
    let properties = json!({"name": {"type": "string", "description": "The server's name, as in `mcp.servers`."}});
    (description, properties, &["name"])
}

fn fs_write() -> Parts {
    (
        "Write one of your files. Mode `write` makes or replaces it and `append` adds to its end, both with `content`; `edit` replaces `old_text`, which must occur exactly once, by `new_text`.",
        json!({
            "mode": {"type": "string", "enum": ["write", "edit", "append"], "default": "write"},
            "path": {"type": "string", "description": "Relative, with `/` between parts."},
            "content": {"type": "string", "description": "Modes `write` and `append`."},
            "encoding": {
                "type": "string", "enum": ["utf8", "base64"], "default": "utf8",
                "description": "How `content` is given; base64 for anything but text.",
            },
            "old_text": {"type": "string", "minLength": 1, "description": "Mode `edit`: the text to replace, to the letter."},
            "new_text": {"type": "string", "description": "Mode `edit`: what replaces it; empty deletes it."},
            "mime_type": {"type": "string", "description": "By the name, unless given."},
            "protection": {
                "type": "string", "enum": ["read_only", "no_delete", "none"], "default": "none",
                "description": "Of a new file; that of one that is there stays.",
            },
        }),
        &["path"][..],
    )
}

fn install() -> Parts {
    let description = "Add an MCP server and connect it at once; its tools can be called in the same turn, each call with your principal's approval until the restriction is removed. A server the owner set up and made available is attached instead, with its configuration and credentials, when `name` or `package` is its. Calling again for an installed server stores the `env` and `credential_files` you pass, or signs in again with `auth`. Credentials are sealed, never written into configuration. After a failure the result says in `persisted` what stays.";
    let properties = json!({
        "package": {
            "type": "string",
            "description": "The package, optionally with a version (`@scope/server@1.2.3`); for type `custom` the command.",
        },
        "type": {
            "type": "string", "enum": ["npm", "pypi", "custom", "http"], "default": "npm",
            "description": "Where it comes from. `http` is a remote Streamable HTTP endpoint.",
        },
        "url": {"type": "string", "description": "Type `http`: the endpoint."},
        "name": {"type": "string", "description": "What to call it; made from the package unless given. Needed for type `custom`."},
        "args": {"type": "array", "items": {"type": "string"}, "description": "Arguments beyond the package. No secrets."},
        "host": {"type": "boolean", "default": false, "description": "Run on the host instead of a container. Needs host access."},
        "env_keys": {"type": "array", "items": {"type": "string"}, "description": "Names of variables it needs whose values are stored already, or will be."},
        "env": {
            "type": "object", "additionalProperties": {"type": "string"},
            "description": "Variables with credentials. Sealed; passed on as they are, `~` is not expanded.",
        },
        "headers": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Type `http`: headers that are no secrets."},
        "header_env": {
            "type": "array",
            "items": {
                "type": "object", "required": ["header", "env"], "additionalProperties": false,
                "properties": {"header": {"type": "string"}, "env": {"type": "string"}},
            },
            "description": "Type `http`: headers whose values are in variables; give the values in `env`.",
        },
        "bearer_token_env_var": {"type": "string", "description": "Type `http`: the variable with the token for `Authorization: Bearer`."},
        "auth": {"type": "boolean", "description": "Sign in before connecting: the server is run once with `auth_args`, and your principal completes the sign-in in a browser."},
        "auth_args": {"type": "array", "items": {"type": "string"}, "description": "Arguments for signing in, such as [\"auth\"]."},
        "auth_port": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "The port a sign-in comes back to; found in the printed address unless given."},
        "credential_files": {
            "type": "array",
            "items": {
                "type": "object", "required": ["path"], "additionalProperties": false,
                "properties": {
                    "path": {"type": "string", "description": "Where the server looks for it: `~/…`, or absolute in a container."},
                    "required": {"type": "boolean", "default": false},
                    "write_back": {"type": "boolean", "default": true, "description": "Keep what the server writes there when signing in."},
                    "content": {"type": "string", "description": "What is in it; sealed. At most 256 KiB."},
                    "encoding": {"type": "string", "enum": ["utf8", "base64"], "default": "utf8"},
                },
            },
            "description": "Files with credentials, put where the server runs before every start.",
        },
    });
    (description, properties, &[])
}

/// The definitions of all tools.
pub fn definitions() -> Vec<Value> {
    Tool::ALL.into_iter().map(Tool::definition).collect()
}

/// The rows of `tools[]` an agent begins with: nothing is on before its owner says so (A89).
pub fn default_declarations() -> Vec<Value> {
    Tool::ALL
        .into_iter()
        .map(|tool| {
            json!({"name": tool.name(), "enabled": false, "visible": false, "restricted": true})
        })
        .collect()
}

/// Adds the rows that are missing; those that are there stay as they are. Says whether any was added.
pub fn merge_missing(config: &mut Value) -> bool {
    let Some(members) = config.as_object_mut() else {
        return false;
    };
    let tools = members.entry("tools").or_insert_with(|| json!([]));
    // What is no list is left for the owner to see.
    let Some(rows) = tools.as_array_mut() else {
        return false;
    };
    let missing: Vec<Value> = default_declarations()
        .into_iter()
        .filter(|row| !rows.iter().any(|kept| kept["name"] == row["name"]))
        .collect();
    let any = !missing.is_empty();
    rows.extend(missing);
    any
}

/// What an agent may do with a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the four flags of the file format"
)]
pub struct Declaration {
    /// May be called.
    pub enabled: bool,
    /// The model is told of it.
    pub visible: bool,
    /// A call waits for approval.
    pub restricted: bool,
    /// The declaration is not changed by agents or in bulk.
    pub locked: bool,
}

/// What a configuration says of one of these tools. An old file that says nothing allows nothing (P16). Of several rows
/// the first counts, and a guard in any of them (A149).
pub fn declaration(config: &Value, tool: Tool) -> Declaration {
    let rows = config["tools"].as_array().into_iter().flatten();
    let mut rows = rows.filter(|row| row["name"] == tool.name()).peekable();
    let Some(first) = rows.peek() else {
        return Declaration {
            restricted: true,
            ..Declaration::default()
        };
    };
    let mut declaration = Declaration {
        enabled: first["enabled"] == true,
        visible: first["visible"] == true,
        ..Declaration::default()
    };
    for row in rows {
        declaration.restricted |= row["restricted"] == true;
        declaration.locked |= row["locked"] == true;
    }
    declaration
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manage::{
        Available, Error, Fetch, FsRead, FsWrite, GetConfig, Install, Restart, Uninstall,
        UpdateConfig,
    };

    fn complaints(tool: Tool, arguments: &Value) -> Vec<String> {
        fn of<T>(read: Result<T, Error>) -> Vec<String> {
            match read.err() {
                Some(Error::Arguments(list)) => list.iter().map(ToString::to_string).collect(),
                _ => vec![],
            }
        }
        match tool {
            Tool::Install => of(Install::read(arguments)),
            Tool::Available => of(Available::read(arguments)),
            Tool::Restart => of(Restart::read(arguments)),
            Tool::Uninstall => of(Uninstall::read(arguments)),
            Tool::GetConfig => of(GetConfig::read(arguments)),
            Tool::UpdateConfig => of(UpdateConfig::read(arguments)),
            Tool::FsRead => of(FsRead::read(arguments)),
            Tool::FsWrite => of(FsWrite::read(arguments)),
            Tool::Fetch => of(Fetch::read(arguments)),
        }
    }

    #[test]
    fn p30_the_schema_and_the_reader_know_the_same_arguments() {
        for tool in Tool::ALL {
            let schema = &tool.definition()["inputSchema"];
            let properties = schema["properties"].as_object().unwrap();
            for name in properties.keys() {
                // Of a wrong type: known to the reader, and complained of for its type alone.
                let given = json!({name: {"_": 1}});
                let texts = complaints(tool, &given);
                let unknown = format!("`{name}` is not known");
                assert!(
                    !texts.iter().any(|t| t.starts_with(&unknown)),
                    "{tool:?} {texts:?}"
                );
            }
            let unknown = complaints(tool, &json!({"no_such_argument_at_all": 1}));
            let all = unknown.iter().find(|t| t.contains("is not known")).unwrap();
            for name in properties.keys() {
                assert!(all.contains(name.as_str()), "{tool:?} {name}: {all}");
            }
            let listed = all
                .rsplit("there are: ")
                .next()
                .unwrap()
                .split(", ")
                .count();
            assert_eq!(listed, properties.len(), "{tool:?}");
            let required = schema["required"].as_array().into_iter().flatten();
            let missing = complaints(tool, &json!({}));
            for name in required {
                let text = format!("`{}` is missing", name.as_str().unwrap());
                assert!(missing.contains(&text), "{tool:?}: {missing:?}");
            }
        }
    }

    #[test]
    fn a78_the_definitions_are_tools_of_the_protocol() {
        let all = definitions();
        assert_eq!(all.len(), Tool::ALL.len());
        for (tool, definition) in Tool::ALL.into_iter().zip(all) {
            assert_eq!(Tool::named(tool.name()), Some(tool));
            assert_eq!(definition["name"], tool.name());
            assert!(definition["description"].as_str().unwrap().len() > 40);
            assert_eq!(definition["inputSchema"]["type"], "object");
            assert!(definition["annotations"]["readOnlyHint"].is_boolean());
        }
        assert_eq!(Tool::named("mcp_instal"), None);
    }

    #[test]
    fn a89_all_are_off_and_hidden_and_restricted_at_first() {
        let mut config = json!({"id": "x"});
        assert!(merge_missing(&mut config));
        assert_eq!(config["tools"].as_array().unwrap().len(), 9);
        for tool in Tool::ALL {
            let expect = Declaration {
                restricted: true,
                ..Declaration::default()
            };
            assert_eq!(declaration(&config, tool), expect);
        }
        let before = config.clone();
        assert!(!merge_missing(&mut config));
        assert_eq!(config, before);
    }

    #[test]
    fn a89_rows_that_are_there_stay() {
        let row = json!({"name": "mcp_install", "enabled": true, "visible": true, "x": 1});
        let mut config = json!({"tools": [{"name": "other"}, row]});
        merge_missing(&mut config);
        let rows = config["tools"].as_array().unwrap();
        assert_eq!(rows.len(), 10);
        assert_eq!(rows[1], row);
        let mut odd = json!({"tools": {"fs_read": true}});
        assert!(!merge_missing(&mut odd));
        assert_eq!(odd, json!({"tools": {"fs_read": true}}));
    }

    #[test]
    fn p16_what_is_not_declared_is_not_allowed() {
        let nothing = declaration(&json!({}), Tool::Install);
        assert!(!nothing.enabled && nothing.restricted);
        let twice = json!({"tools": [
            {"name": "fs_read", "enabled": true},
            {"name": "fs_read", "enabled": false, "restricted": true, "locked": true},
        ]});
        assert_eq!(
            declaration(&twice, Tool::FsRead),
            Declaration {
                enabled: true,
                visible: false,
                restricted: true,
                locked: true,
            }
        );
    }
}
