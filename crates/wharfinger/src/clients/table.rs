//! The clients we know.

use super::Format;
use super::references::Syntax;
use super::shape::Shape;

/// A client and how its file is written.
#[derive(Debug)]
pub struct Client {
    /// As it is typed.
    pub id: &'static str,
    /// As its makers call it.
    pub name: &'static str,
    /// What its file is written in.
    pub format: Format,
    /// The member that holds its servers.
    pub key: &'static str,
    /// How it writes an entry.
    pub shape: Shape,
    /// How its values name variables.
    pub(super) syntax: Syntax,
    /// How a changed file takes effect.
    pub reload: &'static str,
}

const fn json(
    id: &'static str,
    name: &'static str,
    shape: Shape,
    syntax: Syntax,
    reload: &'static str,
) -> Client {
    Client {
        id,
        name,
        format: Format::Json,
        key: "mcpServers",
        shape,
        syntax,
        reload,
    }
}

/// In the order in which they are shown.
pub const CLIENTS: &[Client] = &[
    json(
        "claude-code",
        "Claude Code",
        Shape::Stdio,
        Syntax::Shell,
        "start a new session of `claude`; `/mcp` in it shows the connection",
    ),
    json(
        "claude-desktop",
        "Claude Desktop",
        Shape::CommandOnly,
        Syntax::None,
        "quit Claude Desktop and open it again",
    ),
    json(
        "cursor",
        "Cursor",
        Shape::Url,
        Syntax::Named,
        "switch `wharf` on under Settings, MCP, or restart Cursor",
    ),
    Client {
        key: "servers",
        ..json(
            "vscode",
            "VS Code",
            Shape::Stdio,
            Syntax::Named,
            "run `MCP: List Servers` from the command palette and start `wharf`",
        )
    },
    Client {
        format: Format::Toml,
        key: "mcp_servers",
        ..json(
            "codex",
            "Codex",
            Shape::Codex,
            Syntax::None,
            "start a new session of `codex`",
        )
    },
    json(
        "gemini",
        "Gemini CLI",
        Shape::Typed,
        Syntax::Dollar,
        "start `gemini` anew, or `/mcp refresh` in it",
    ),
    json(
        "windsurf",
        "Windsurf",
        Shape::ServerUrl,
        Syntax::Named,
        "press refresh in Cascade's MCP panel",
    ),
    json(
        "antigravity",
        "Antigravity",
        Shape::ServerUrl,
        Syntax::Named,
        "press refresh under Manage MCP Servers",
    ),
    Client {
        key: "context_servers",
        ..json(
            "zed",
            "Zed",
            Shape::Zed,
            Syntax::None,
            "it reads its settings as they change",
        )
    },
    Client {
        format: Format::Yaml,
        key: "extensions",
        ..json(
            "goose",
            "Goose",
            Shape::Goose,
            Syntax::None,
            "start a new session of `goose`",
        )
    },
    Client {
        key: "mcp",
        ..json(
            "opencode",
            "opencode",
            Shape::OpenCode,
            Syntax::Braces,
            "start `opencode` anew",
        )
    },
    Client {
        key: "mcp",
        ..json(
            "kilo",
            "Kilo Code",
            Shape::OpenCode,
            Syntax::Braces,
            "start Kilo Code anew",
        )
    },
    json(
        "cline",
        "Cline",
        Shape::Cline,
        Syntax::Named,
        "it reads its settings as they change",
    ),
    json(
        "cline-cli",
        "Cline CLI",
        Shape::Cline,
        Syntax::Named,
        "start `cline` anew",
    ),
    json(
        "copilot",
        "Copilot CLI",
        Shape::Copilot,
        Syntax::Shell,
        "start `copilot` anew",
    ),
    json(
        "kiro",
        "Kiro",
        Shape::Url,
        Syntax::Shell,
        "it reads its settings as they change",
    ),
    json(
        "junie",
        "Junie",
        Shape::Url,
        Syntax::None,
        "start Junie anew",
    ),
    json(
        "mcporter",
        "mcporter",
        Shape::Typed,
        Syntax::Dollar,
        "it reads its settings each time it runs",
    ),
];

/// The client of that name, in any case.
pub fn client(id: &str) -> Option<&'static Client> {
    CLIENTS
        .iter()
        .find(|client| client.id.eq_ignore_ascii_case(id) || client.name.eq_ignore_ascii_case(id))
}
