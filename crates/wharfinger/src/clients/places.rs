//! Where clients keep their files.

use std::path::{Path, PathBuf};

use super::Client;

/// Folders of a person on this machine, as whoever embeds us knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    /// The home folder.
    pub home: PathBuf,
    /// For settings of programs, `~/.config`.
    pub config: PathBuf,
    /// Where desktop programs keep theirs: `~/.config`, on macOS `~/Library/Application Support`.
    pub programs: PathBuf,
    /// `CODEX_HOME`, where it is set.
    pub codex: Option<PathBuf>,
    /// `CLAUDE_CONFIG_DIR`, where it is set.
    pub claude: Option<PathBuf>,
}

impl Folders {
    /// The usual ones under a home.
    pub fn of(home: &Path) -> Self {
        let config = home.join(".config");
        let programs = if cfg!(target_os = "macos") {
            home.join("Library/Application Support")
        } else {
            config.clone()
        };
        Self {
            home: home.to_owned(),
            config,
            programs,
            codex: None,
            claude: None,
        }
    }
}

impl Client {
    /// Where its file may be, the usual place first.
    fn candidates(&self, folders: &Folders) -> Vec<PathBuf> {
        let home = |path: &str| folders.home.join(path);
        let config = |path: &str| folders.config.join(path);
        let programs = |path: &str| folders.programs.join(path);
        match self.id {
            "claude-code" => vec![
                folders
                    .claude
                    .as_ref()
                    .map_or_else(|| home(".claude.json"), |dir| dir.join(".claude.json")),
            ],
            "claude-desktop" => vec![programs("Claude/claude_desktop_config.json")],
            "cursor" => vec![home(".cursor/mcp.json")],
            "vscode" => vec![programs("Code/User/mcp.json")],
            "codex" => vec![
                folders
                    .codex
                    .clone()
                    .unwrap_or_else(|| home(".codex"))
                    .join("config.toml"),
            ],
            "gemini" => vec![home(".gemini/settings.json")],
            "windsurf" => vec![home(".codeium/windsurf/mcp_config.json")],
            "antigravity" => vec![
                home(".gemini/config/mcp_config.json"),
                home(".gemini/antigravity/mcp_config.json"),
            ],
            "zed" => vec![config("zed/settings.json")],
            "goose" => vec![config("goose/config.yaml")],
            "opencode" => vec![
                config("opencode/opencode.json"),
                config("opencode/opencode.jsonc"),
            ],
            "kilo" => vec![config("kilo/kilo.json"), config("kilo/kilo.jsonc")],
            "cline" => vec![programs(
                "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            )],
            "cline-cli" => vec![home(".cline/data/settings/cline_mcp_settings.json")],
            "copilot" => vec![home(".copilot/mcp-config.json")],
            "kiro" => vec![home(".kiro/settings/mcp.json")],
            "junie" => vec![home(".junie/mcp/mcp.json")],
            "mcporter" => vec![home(".mcporter/mcporter.json")],
            _ => vec![],
        }
    }

    /// Its file of this person: the one that is there, else the one it would read.
    pub fn file(&self, folders: &Folders) -> PathBuf {
        first(self.candidates(folders))
    }

    /// Its file in a project, where it reads one there.
    pub fn project_file(&self, project: &Path) -> Option<PathBuf> {
        let names: &[&str] = match self.id {
            "claude-code" | "copilot" => &[".mcp.json"],
            "cursor" => &[".cursor/mcp.json"],
            "vscode" => &[".vscode/mcp.json"],
            "codex" => &[".codex/config.toml"],
            "gemini" => &[".gemini/settings.json"],
            "zed" => &[".zed/settings.json"],
            "opencode" => &["opencode.json", "opencode.jsonc"],
            "kilo" => &["kilo.json", "kilo.jsonc"],
            "kiro" => &[".kiro/settings/mcp.json"],
            "junie" => &[".junie/mcp/mcp.json"],
            "mcporter" => &["config/mcporter.json"],
            _ => return None,
        };
        Some(first(names.iter().map(|name| project.join(name)).collect()))
    }

    /// Whether the client seems to be used here: it has its file, or the folder that it makes for itself.
    pub fn is_found(&self, folders: &Folders) -> bool {
        let file = self.file(folders);
        let own = match self.id {
            "claude-code" => folders
                .claude
                .clone()
                .unwrap_or_else(|| folders.home.join(".claude")),
            // Its own folder is one further up than the settings.
            "cline" => file
                .ancestors()
                .nth(2)
                .map(Path::to_owned)
                .unwrap_or_default(),
            "kiro" => folders.home.join(".kiro"),
            "junie" => folders.home.join(".junie"),
            "cline-cli" => folders.home.join(".cline"),
            _ => file.parent().map(Path::to_owned).unwrap_or_default(),
        };
        file.exists() || own.is_dir()
    }
}

/// The one that is there, else the first.
fn first(mut candidates: Vec<PathBuf>) -> PathBuf {
    let at = candidates
        .iter()
        .position(|path| path.symlink_metadata().is_ok());
    candidates.swap_remove(at.unwrap_or(0))
}

/// The client whose file has such a name, for files that are named themselves; `mcp.json` and the like are read by
/// what is in them.
pub(super) fn by_name(path: &Path) -> Option<&'static Client> {
    let text = path.to_string_lossy().replace('\\', "/");
    let ends: &[(&str, &str)] = &[
        (".claude.json", "claude-code"),
        (".mcp.json", "claude-code"),
        ("claude_desktop_config.json", "claude-desktop"),
        (".cursor/mcp.json", "cursor"),
        (".vscode/mcp.json", "vscode"),
        ("Code/User/mcp.json", "vscode"),
        (".codex/config.toml", "codex"),
        (".gemini/settings.json", "gemini"),
        ("windsurf/mcp_config.json", "windsurf"),
        ("mcp_config.json", "antigravity"),
        ("zed/settings.json", "zed"),
        ("goose/config.yaml", "goose"),
        ("opencode.json", "opencode"),
        ("opencode.jsonc", "opencode"),
        ("kilo.json", "kilo"),
        ("kilo.jsonc", "kilo"),
        ("cline_mcp_settings.json", "cline"),
        ("mcp-config.json", "copilot"),
        (".kiro/settings/mcp.json", "kiro"),
        (".junie/mcp/mcp.json", "junie"),
        ("mcporter.json", "mcporter"),
    ];
    let found = ends.iter().find(|(end, _)| text.ends_with(end));
    let by_kind = || match path.extension()?.to_str()? {
        "toml" => Some("codex"),
        "yaml" | "yml" => Some("goose"),
        _ => None,
    };
    super::client(found.map(|(_, id)| *id).or_else(by_kind)?)
}
