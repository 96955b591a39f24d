//! What `wharf connect` writes, read by the clients themselves: they find the entry, and those that try it connect.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::daemon::{Daemon, wharf};
use crate::installed;
use crate::program::{program, run};

/// A daemon with a server behind it, in whose home clients keep their files too.
fn daemon() -> Option<Daemon> {
    let server = installed::npm("reference", "mcp-server-everything")?;
    let (daemon, _) = Daemon::with_server("everything", &[&server.to_string_lossy()], "echo");
    Some(daemon)
}

fn file(daemon: &Daemon, path: &str, text: &str) -> PathBuf {
    let file = daemon.home().join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, text).unwrap();
    file
}

/// Runs a command of `wharf` with the clients' files in the home of the test, and never those of whoever runs it.
#[track_caller]
fn wharf_here(daemon: &Daemon, arguments: &[&str]) {
    let mut command = wharf(daemon.home());
    command
        .env("HOME", daemon.home())
        .env_remove("CODEX_HOME")
        .env_remove("CLAUDE_CONFIG_DIR")
        .env_remove("XDG_CONFIG_HOME");
    run(command.args(arguments));
}

fn client(path: &Path, daemon: &Daemon) -> Command {
    let mut command = program(path, daemon.home());
    command
        .env_remove("CODEX_HOME")
        .env_remove("CLAUDE_CONFIG_DIR")
        .env_remove("XDG_CONFIG_HOME");
    command
}

/// Connects, lets the client look, and disconnects; the file is then as it was, unless the client wrote to it.
#[track_caller]
fn wired(daemon: &Daemon, id: &str, path: &str, before: &str, look: impl Fn()) {
    let file = file(daemon, path, before);
    for how in [&["--yes"] as &[&str], &["--http", "--yes"]] {
        set_private(&file);
        wharf_here(daemon, &[&["connect", id], how].concat());
        let written = fs::read_to_string(&file).unwrap();
        look();
        let is_untouched = fs::read_to_string(&file).unwrap() == written;
        wharf_here(daemon, &["disconnect", id]);
        let after = fs::read_to_string(&file).unwrap();
        assert!(!after.contains("wharf"), "{after}");
        if is_untouched {
            assert_eq!(after, before);
        }
        fs::write(&file, before).unwrap();
    }
}

fn set_private(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn claude_code_is_connected() {
    let Some(claude) = installed::npm("claude", "claude") else {
        return;
    };
    let Some(daemon) = daemon() else {
        return;
    };
    wired(
        &daemon,
        "claude-code",
        ".claude.json",
        "{\n  \"numStartups\": 3\n}\n",
        || {
            let said = run(client(&claude, &daemon)
                .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
                .args(["mcp", "list"]));
            let line = said.stdout.lines().find(|line| line.starts_with("wharf: "));
            assert!(
                line.is_some_and(|line| line.ends_with("Connected")),
                "{said:#?}"
            );
        },
    );
    daemon.stop();
}

#[test]
fn codex_reads_the_entry() {
    let Some(codex) = installed::npm("codex", "codex") else {
        return;
    };
    let Some(daemon) = daemon() else {
        return;
    };
    let before = "# mine\nmodel = \"m\"\n\n[mcp_servers.other] # theirs\ncommand = \"other\"\n";
    wired(&daemon, "codex", ".codex/config.toml", before, || {
        let list = run(client(&codex, &daemon).args(["mcp", "list", "--json"])).json();
        let servers = list.as_array().unwrap();
        let found = servers
            .iter()
            .find(|server| server["name"] == "wharf")
            .unwrap();
        let transport = &found["transport"];
        assert!(
            transport["args"][2] == "stdio"
                || transport["url"]
                    .as_str()
                    .unwrap()
                    .ends_with("/agents/default/mcp"),
            "{list}"
        );
        assert_eq!(
            (servers.len(), &found["enabled"]),
            (2, &json!(true)),
            "{list}"
        );
    });
    daemon.stop();
}

#[test]
fn gemini_is_connected() {
    let Some(gemini) = installed::npm("gemini", "gemini") else {
        return;
    };
    let Some(daemon) = daemon() else {
        return;
    };
    let before = "{\n  // mine\n  \"ui\": {\"theme\": \"Default\"}\n}\n";
    wired(&daemon, "gemini", ".gemini/settings.json", before, || {
        let said = run(client(&gemini, &daemon)
            .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
            .args(["mcp", "list"]));
        // It says so on standard error.
        let said = format!("{said:?}");
        assert!(
            said.contains("wharf: ") && said.contains(" - Connected"),
            "{said}"
        );
    });
    daemon.stop();
}

#[test]
fn mcporter_lists_the_tools() {
    let Some(mcporter) = installed::npm("mcporter", "mcporter") else {
        return;
    };
    let Some(daemon) = daemon() else {
        return;
    };
    wired(
        &daemon,
        "mcporter",
        ".mcporter/mcporter.json",
        "{\"mcpServers\": {}}",
        || {
            let list = run(client(&mcporter, &daemon).args(["list", "--json"])).json();
            assert_eq!(list["counts"]["ok"], 1, "{list}");
            assert!(
                list["servers"][0]["tools"].to_string().contains("echo"),
                "{list}"
            );
        },
    );
    // It reads other clients' files too.
    for (id, path) in [
        ("cursor", ".cursor/mcp.json"),
        ("claude-code", ".claude.json"),
        ("windsurf", ".codeium/windsurf/mcp_config.json"),
        ("vscode", ".config/Code/User/mcp.json"),
        ("codex", ".codex/config.toml"),
    ] {
        file(&daemon, path, "");
        wharf_here(&daemon, &["connect", id, "--yes"]);
        let imported =
            run(client(&mcporter, &daemon).args(["config", "import", id, "--json"])).json();
        assert!(
            imported.to_string().contains("\"stdio\""),
            "{id}: {imported}"
        );
    }
    daemon.stop();
}

#[test]
fn fastmcp_discovers_the_entries_of_others() {
    let Some(fastmcp) = installed::pypi("fastmcp", "fastmcp") else {
        return;
    };
    let Some(daemon) = daemon() else {
        return;
    };
    let clients = [
        ("claude-code", ".claude.json"),
        (
            "claude-desktop",
            ".config/Claude/claude_desktop_config.json",
        ),
        ("cursor", ".cursor/mcp.json"),
        ("gemini", ".gemini/settings.json"),
        ("goose", ".config/goose/config.yaml"),
    ];
    for (_, path) in clients {
        file(&daemon, path, "");
    }
    wharf_here(&daemon, &["connect", "--all", "--yes"]);
    let found = run(client(&fastmcp, &daemon).args(["discover", "--json"])).json();
    let sources: Vec<&Value> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|server| &server["source"])
        .collect();
    for (id, _) in clients {
        assert!(sources.contains(&&json!(id)), "{id}: {found}");
    }
    let listed = run(client(&fastmcp, &daemon).args(["list", "goose:wharf", "--json"])).json();
    assert!(listed.to_string().contains("echo"), "{listed}");
    wharf_here(&daemon, &["disconnect", "--all"]);
    for (id, path) in clients {
        assert_eq!(
            fs::read_to_string(daemon.home().join(path)).unwrap(),
            "",
            "{id}"
        );
    }
    daemon.stop();
}
