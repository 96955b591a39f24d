//! Real clients against the endpoint of the default agent, over HTTP with its token and over
//! `wharf stdio`, with the server `everything` behind it.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::daemon::{Daemon, Endpoint};
use crate::installed;
use crate::program::{StandIn, program, run};

const MESSAGE: &str = r#"{"message":"hi"}"#;

/// A daemon with `everything`, the name of its `echo`, and how to reach it.
fn daemon() -> Option<(Daemon, String, Endpoint)> {
    let server = installed::npm("reference", "mcp-server-everything")?;
    let (daemon, echo) = Daemon::with_server("everything", &[&server.to_string_lossy()], "echo");
    let endpoint = daemon.endpoint();
    Some((daemon, echo, endpoint))
}

/// The entry of an `mcpServers` block, as clients read it.
pub(crate) fn entries(endpoint: &Endpoint) -> [Value; 2] {
    let bearer = format!("Bearer {}", endpoint.token);
    [
        json!({"type": "http", "url": endpoint.url, "headers": {"Authorization": bearer}}),
        json!({"type": "stdio", "command": endpoint.command, "args": endpoint.arguments}),
    ]
}

#[test]
fn inspector() {
    let Some(inspector) = installed::npm("inspector", "mcp-inspector") else {
        return;
    };
    let Some((daemon, echo, endpoint)) = daemon() else {
        return;
    };
    let header = format!("Authorization: Bearer {}", endpoint.token);
    let over_http = [&endpoint.url, "--transport", "http", "--header", &header].map(str::to_owned);
    let mut over_stdio = vec![endpoint.command.clone()];
    over_stdio.extend(endpoint.arguments.iter().cloned());
    let inspect = |target: &[String], words: &[&str]| {
        let mut command = program(&inspector, daemon.home());
        // Of a command to start, everything up to `--` belongs to that command.
        command.arg("--cli").args(target).args(words);
        run(command.args(["--format", "json", "-q"])).json()
    };
    for target in [over_http.as_slice(), over_stdio.as_slice()] {
        let list = inspect(target, &["--method", "tools/list"]);
        assert!(
            list["result"]["tools"].to_string().contains(&echo),
            "{list}"
        );
        let called = inspect(
            target,
            &[
                "--method",
                "tools/call",
                "--tool-name",
                &echo,
                "--tool-args-json",
                MESSAGE,
            ],
        );
        assert_eq!(called["result"]["content"][0]["text"], "Echo: hi");
    }
    for era in ["legacy", "auto", "modern"] {
        let list = inspect(
            &over_http,
            &["--protocol-era", era, "--method", "tools/list"],
        );
        assert!(
            list["result"]["tools"].to_string().contains(&echo),
            "{era}: {list}"
        );
    }
    daemon.stop();
}

#[test]
fn python_sdk() {
    let Some(python) = installed::pypi("mcp", "python") else {
        return;
    };
    let Some((daemon, echo, endpoint)) = daemon() else {
        return;
    };
    for (mode, protocol) in [
        ("auto", "2026-07-28"),
        ("legacy", "2025-11-25"),
        ("2026-07-28", "2026-07-28"),
    ] {
        for stdio in [false, true] {
            let mut command = program(&python, daemon.home());
            command.arg(installed::script("python_client.py"));
            command.args(["--mode", mode, "--call", &echo, MESSAGE]);
            if stdio {
                command
                    .args(["--stdio", "--", &endpoint.command])
                    .args(&endpoint.arguments);
            } else {
                command.args(["--url", &endpoint.url, "--token", &endpoint.token]);
            }
            let answer = run(&mut command).json();
            assert_eq!(answer["protocol"], protocol, "{mode}, stdio: {stdio}");
            assert!(
                answer["tools"].as_array().unwrap().contains(&json!(echo)),
                "{answer}"
            );
            assert_eq!(answer["result"]["content"][0]["text"], "Echo: hi");
        }
    }
    daemon.stop();
}

#[test]
fn fastmcp() {
    let Some(fastmcp) = installed::pypi("fastmcp", "fastmcp") else {
        return;
    };
    let Some((daemon, echo, endpoint)) = daemon() else {
        return;
    };
    // It has no words for a command to call a tool of, but reads everybody's settings.
    let [_, stdio] = entries(&endpoint);
    let settings = daemon.home().join("fastmcp.json");
    std::fs::write(
        &settings,
        json!({"mcpServers": {"wharf": stdio}}).to_string(),
    )
    .unwrap();
    let over_http = [endpoint.url.as_str(), "--auth", &endpoint.token];
    let settings = settings.to_string_lossy();
    for target in [over_http.as_slice(), &[&settings]] {
        let mut command = program(&fastmcp, daemon.home());
        let list = run(command.arg("list").args(target).arg("--json")).json();
        assert!(list["tools"].to_string().contains(&echo), "{list}");
        let mut command = program(&fastmcp, daemon.home());
        command
            .args(["call", target[0], &echo, "message=hi", "--json"])
            .args(&target[1..]);
        let called = run(&mut command).json();
        assert_eq!(called["content"][0]["text"], "Echo: hi", "{called}");
    }
    daemon.stop();
}

/// `claude -p` with one MCP server, of which it may use one tool.
pub(crate) fn ask_claude(
    claude: &Path,
    home: &Path,
    model: &StandIn,
    entry: &Value,
    tool: &str,
) -> Command {
    let settings = home.join("mcp.json");
    let block = json!({"mcpServers": {"wharf": entry}});
    std::fs::write(&settings, block.to_string()).unwrap();
    let mut command = program(claude, home);
    command
        .env(
            "ANTHROPIC_BASE_URL",
            format!("http://127.0.0.1:{}", model.port),
        )
        .env("ANTHROPIC_API_KEY", "none")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("ENABLE_TOOL_SEARCH", "false")
        .args([
            "-p",
            "hi",
            "--strict-mcp-config",
            "--allowedTools",
            tool,
            "--mcp-config",
        ])
        .arg(&settings);
    command
}

#[test]
fn claude_code() {
    let Some(claude) = installed::npm("claude", "claude") else {
        return;
    };
    let Some((daemon, echo, endpoint)) = daemon() else {
        return;
    };
    let tool = format!("mcp__wharf__{echo}");
    let home = tempfile::tempdir().unwrap();
    let model = StandIn::start("fake_anthropic.py", &tool, MESSAGE, home.path());
    for entry in entries(&endpoint) {
        let mut command = ask_claude(&claude, home.path(), &model, &entry, &tool);
        let said = run(&mut command);
        assert!(
            said.stdout.contains("RESULT: ") && said.stdout.contains("Echo: hi"),
            "{said:#?}"
        );
    }
    daemon.stop();
}

#[test]
fn codex() {
    let Some(codex) = installed::npm("codex", "codex") else {
        return;
    };
    let Some((daemon, echo, endpoint)) = daemon() else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let codex_home = home.path().join("codex");
    std::fs::create_dir(&codex_home).unwrap();
    // Codex writes `-` in the names of tools as `_`.
    let tool = echo.replace('-', "_");
    let model = StandIn::start("fake_openai.py", &tool, MESSAGE, home.path());
    let provider = format!(
        r#"model_providers.fake={{name="fake",base_url="http://127.0.0.1:{}/v1",wire_api="responses"}}"#,
        model.port
    );
    // JSON arrays of strings are TOML too. Codex begins without the tools of a server that is not required, where they
    // are not there at once; a server starts anew to find out what it offers to a client like Codex.
    let arguments = json!(endpoint.arguments);
    let servers = [
        format!(
            r#"mcp_servers.wharf={{url="{}",bearer_token_env_var="TOKEN",required=true}}"#,
            endpoint.url
        ),
        format!(
            r#"mcp_servers.wharf={{command="{}",args={arguments},required=true}}"#,
            endpoint.command
        ),
    ];
    for server in &servers {
        let mut command = program(&codex, home.path());
        command
            .env("CODEX_HOME", &codex_home)
            .env("TOKEN", &endpoint.token);
        command.args(["exec", "--skip-git-repo-check"]);
        command.arg("--dangerously-bypass-approvals-and-sandbox");
        command.args(["-c", "model_provider=fake", "-c", "model=fake"]);
        command.args(["-c", &provider, "-c", server, "hi"]);
        let said = run(&mut command);
        assert!(
            said.stdout.contains("RESULT: ") && said.stdout.contains("Echo: hi"),
            "{said:#?}"
        );
    }
    daemon.stop();
}
