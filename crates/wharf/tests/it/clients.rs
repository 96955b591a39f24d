//! Other programs' files: ours goes in and out, theirs come over, and what is odd stays as it is.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use insta::assert_snapshot;
use serde_json::json;
use wharfinger_testkit::fake_server;

use crate::support::Wharf;

const CURSOR: &str = "{\n  // mine\n  \"mcpServers\": {\n    \"time\": { \"command\": \"uvx\", \"args\": [\"mcp-server-time\"] }, // clock\n  },\n}\n";

impl Wharf {
    fn file(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let file = self.file(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file
    }

    fn names_in(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.file(path)).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn a_client_is_connected_and_disconnected() {
    let wharf = Wharf::new();
    let file = wharf.put(".cursor/mcp.json", CURSOR);
    assert_snapshot!(wharf.run(&["clients"]), @"
    $ wharf clients
    CLIENT  WHARF  SERVERS  FILE
    cursor  -      1        [HOME]/.cursor/mcp.json
    ");
    assert_snapshot!(wharf.run(&["connect", "cursor"]), @r#"
    $ wharf connect cursor
    ! [HOME]/.cursor/mcp.json
    ! @@ line 4 @@
    ! +     "wharf": {
    ! +       "command": "[WHARF]",
    ! +       "args": [
    ! +         "--home",
    ! +         "[HOME]",
    ! +         "stdio",
    ! +         "--agent",
    ! +         "default"
    ! +       ]
    ! +     },
    ! error: nobody is here to be asked, so nothing was written
    ! hint: say `--yes`, or `--dry-run` to see what would be written
    [exit 2]
    "#);
    assert_eq!(fs::read_to_string(&file).unwrap(), CURSOR);
    assert_snapshot!(wharf.run(&["connect", "cursor", "--dry-run"]), @r#"
    $ wharf connect cursor --dry-run
    cursor: would be connected
    ! [HOME]/.cursor/mcp.json
    ! @@ line 4 @@
    ! +     "wharf": {
    ! +       "command": "[WHARF]",
    ! +       "args": [
    ! +         "--home",
    ! +         "[HOME]",
    ! +         "stdio",
    ! +         "--agent",
    ! +         "default"
    ! +       ]
    ! +     },
    "#);
    assert_eq!(wharf.names_in(".cursor"), ["mcp.json"]);
    assert_snapshot!(wharf.run(&["connect", "cursor", "--yes"]), @r#"
    $ wharf connect cursor --yes
    cursor: connected
    ! [HOME]/.cursor/mcp.json
    ! @@ line 4 @@
    ! +     "wharf": {
    ! +       "command": "[WHARF]",
    ! +       "args": [
    ! +         "--home",
    ! +         "[HOME]",
    ! +         "stdio",
    ! +         "--agent",
    ! +         "default"
    ! +       ]
    ! +     },
    ! hint: Cursor: switch `wharf` on under Settings, MCP, or restart Cursor
    "#);
    let connected = fs::read_to_string(&file).unwrap();
    assert!(
        connected.contains("// mine") && connected.contains("// clock"),
        "{connected}"
    );
    assert_eq!(
        wharf.names_in(".cursor"),
        ["mcp.json", "mcp.json.wharf-backup"]
    );
    let backup = wharf.file(".cursor/mcp.json.wharf-backup");
    assert_eq!(fs::read_to_string(&backup).unwrap(), CURSOR);
    assert_eq!(
        fs::metadata(&backup).unwrap().permissions().mode() & 0o777,
        0o600
    );
    // Again is nothing new; as another agent it is, and what was kept stays.
    assert_eq!(
        wharf.run(&["connect", "cursor"]),
        "$ wharf connect cursor\ncursor: connected already\n"
    );
    wharf.json(&["connect", "cursor", "--agent", "bot", "--yes"]);
    assert!(fs::read_to_string(&file).unwrap().contains("\"bot\""));
    assert_eq!(fs::read_to_string(&backup).unwrap(), CURSOR);
    assert_snapshot!(wharf.run(&["clients"]), @"
    $ wharf clients
    CLIENT  WHARF      SERVERS  FILE
    cursor  connected  1        [HOME]/.cursor/mcp.json
    ");
    let undone = wharf.json(&["disconnect", "cursor"]);
    assert_eq!(undone["clients"][0]["restored"], true);
    assert_eq!(fs::read_to_string(&file).unwrap(), CURSOR);
    assert_eq!(wharf.names_in(".cursor"), ["mcp.json"]);
    assert_snapshot!(wharf.run(&["disconnect", "cursor"]), @"
    $ wharf disconnect cursor
    cursor: disconnected already
    ");
}

#[test]
fn what_the_client_changed_meanwhile_stays() {
    let wharf = Wharf::new();
    let file = wharf.put(".cursor/mcp.json", "{ }");
    wharf.json(&["connect", "cursor", "--yes"]);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen('{', "{\"theme\": \"dark\", ", 1)).unwrap();
    let undone = wharf.json(&["disconnect", "cursor"]);
    assert_eq!(undone["clients"][0]["restored"], false);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("dark") && !text.contains("wharf"), "{text}");
}

#[test]
fn a_file_that_was_not_there_is_not_there_afterwards() {
    let wharf = Wharf::new();
    fs::create_dir(wharf.file(".codex")).unwrap();
    fs::create_dir_all(wharf.file("code/.vscode")).unwrap();
    assert_snapshot!(wharf.run(&["connect", "--all", "--yes"]), @r#"
    $ wharf connect --all --yes
    codex: connected
    ! [HOME]/.codex/config.toml (new)
    ! @@ line 1 @@
    ! + [mcp_servers.wharf]
    ! + command = "[WHARF]"
    ! + args = ["--home", "[HOME]", "stdio", "--agent", "default"]
    ! hint: Codex: start a new session of `codex`
    "#);
    let file = wharf.file(".codex/config.toml");
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    wharf.json(&["disconnect", "--all"]);
    assert!(!file.exists());
    wharf.json(&["connect", "vscode", "--project", "code", "--yes"]);
    assert!(wharf.file("code/.vscode/mcp.json").exists());
    wharf.json(&["disconnect", "vscode", "--project", "code"]);
    assert_eq!(wharf.names_in("code/.vscode"), Vec::<String>::new());
    assert_snapshot!(wharf.run(&["connect", "goose", "--project", "code"]), @"
    $ wharf connect goose --project code
    ! error: Goose has no file of a project
    ! hint: `wharf connect goose` is for all of them
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["connect", "emacs"]), @"
    $ wharf connect emacs
    ! error: there is no client `emacs`
    ! hint: known are claude-code, claude-desktop, cursor, vscode, codex, gemini, windsurf, antigravity, zed, goose, opencode, kilo, cline, cline-cli, copilot, kiro, junie, mcporter
    [exit 4]
    ");
}

#[test]
fn a_link_stays_one_and_a_mode_stays() {
    let wharf = Wharf::new();
    let real = wharf.put("dotfiles/mcp.json", CURSOR);
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir(wharf.file(".cursor")).unwrap();
    let link = wharf.file(".cursor/mcp.json");
    symlink("../dotfiles/mcp.json", &link).unwrap();
    wharf.json(&["connect", "cursor", "--yes"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("stdio"));
    assert_eq!(
        fs::metadata(&real).unwrap().permissions().mode() & 0o777,
        0o640
    );
    assert_eq!(
        wharf.names_in("dotfiles"),
        ["mcp.json"],
        "what is kept is kept beside the link"
    );
    wharf.json(&["disconnect", "cursor"]);
    assert_eq!(fs::read_to_string(&real).unwrap(), CURSOR);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn hostile_files_are_left_as_they_are_with_the_reason() {
    let wharf = Wharf::new();
    let left = |text: &[u8]| {
        let file = wharf.put(".cursor/mcp.json", text);
        let said = wharf.run(&["connect", "cursor", "--yes"]);
        assert_eq!(fs::read(&file).unwrap(), text, "{said}");
        assert_eq!(wharf.names_in(".cursor"), ["mcp.json"], "{said}");
        let imported = wharf.run(&["import", "cursor", "--yes"]);
        assert!(!imported.contains("panicked"), "{imported}");
        assert_eq!(fs::read(&file).unwrap(), text, "{imported}");
        said
    };
    assert_snapshot!(left(b"{\"mcpServers\": {\xff}}"), @"
    $ wharf connect cursor --yes
    ! error: [HOME]/.cursor/mcp.json is left as it is
    ! caused by: it is not UTF-8
    ! hint: save it as UTF-8
    [exit 1]
    ");
    assert_snapshot!(left(b"{\"mcpServers\": {\n"), @"
    $ wharf connect cursor --yes
    ! error: [HOME]/.cursor/mcp.json is left as it is
    ! caused by: line 1: Unterminated object
    ! hint: mend the file by hand, then try again
    [exit 1]
    ");
    assert_snapshot!(left(b"{\"mcpServers\": {}, \"mcpServers\": {}}"), @"
    $ wharf connect cursor --yes
    ! error: [HOME]/.cursor/mcp.json is left as it is
    ! caused by: `mcpServers` is there twice
    ! hint: mend the file by hand, then try again
    [exit 1]
    ");
    assert_snapshot!(left(b"{\"mcpServers\": {\"wharf\": {\"command\": \"sail\"}}}"), @"
    $ wharf connect cursor --yes
    ! error: [HOME]/.cursor/mcp.json is left as it is
    ! caused by: another server is called `wharf` there
    ! hint: rename that one, or remove it, then try again
    [exit 1]
    ");
    assert_snapshot!(left("[".repeat(200_000).as_bytes()), @"
    $ wharf connect cursor --yes
    ! error: [HOME]/.cursor/mcp.json is left as it is
    ! caused by: line 1: Maximum nesting depth exceeded
    ! hint: mend the file by hand, then try again
    [exit 1]
    ");
    assert_snapshot!(left(&vec![b' '; 20_000_000]), @"
    $ wharf connect cursor --yes
    ! error: [HOME]/.cursor/mcp.json is left as it is
    ! caused by: it is larger than 16 MiB
    ! hint: add the entry by hand: `wharf agent endpoint` prints it
    [exit 1]
    ");
    let file = wharf.file(".cursor/mcp.json");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_snapshot!(wharf.run(&["connect", "cursor", "--yes"]), @"
    $ wharf connect cursor --yes
    ! error: [HOME]/.cursor/mcp.json is left as it is: it is a folder
    ! hint: move it out of the way, then try again
    [exit 1]
    ");
    fs::remove_dir(&file).unwrap();
    symlink("nowhere", &file).unwrap();
    assert_snapshot!(wharf.run(&["connect", "cursor", "--yes"]), @"
    $ wharf connect cursor --yes
    ! error: [HOME]/.cursor/mcp.json is left as it is: it is a link to nothing
    ! hint: move it out of the way, then try again
    [exit 1]
    ");
    // A project is somebody else's work: its files lead nowhere else.
    fs::create_dir_all(wharf.file("code")).unwrap();
    let outside = wharf.put("private.json", "{}");
    symlink(&outside, wharf.file("code/.mcp.json")).unwrap();
    assert_snapshot!(wharf.run(&["connect", "claude-code", "--project", "code", "--yes"]), @"
    $ wharf connect claude-code --project code --yes
    ! error: [HOME]/code/.mcp.json is left as it is: it is a link to [HOME]/private.json, outside of the project
    ! hint: put a file in its place, or edit the other one by hand
    [exit 1]
    ");
    assert_eq!(fs::read_to_string(outside).unwrap(), "{}");
    // A folder in which nothing can be made, whoever asks.
    let mut command = wharf.command(&["connect", "codex", "--yes"]);
    let output = command.env("CODEX_HOME", "/proc/self").output().unwrap();
    let said = wharf.said(&["connect", "codex", "--yes"], &output);
    assert!(
        said.contains("can't write /proc/self/config.toml\n! caused by: "),
        "{said}"
    );
    // One bad file does not keep the others from it.
    fs::create_dir(wharf.file(".kiro")).unwrap();
    let said = wharf.run(&["connect", "--all", "--yes"]);
    assert!(
        said.contains("kiro: connected") && said.contains("[exit 1]"),
        "{said}"
    );
}

#[test]
fn a_token_is_written_only_where_nobody_else_reads_it() {
    let wharf = Wharf::new();
    let daemon = wharf.up();
    let file = wharf.put(".cursor/mcp.json", CURSOR);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert_snapshot!(wharf.run(&["connect", "cursor", "--http", "--yes"]), @"
    $ wharf connect cursor --http --yes
    ! error: [HOME]/.cursor/mcp.json is left as it is: others on this machine may read it
    ! hint: `chmod 600 [HOME]/.cursor/mcp.json`, or do without `--http`
    [exit 1]
    ");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let said = wharf.run(&["connect", "cursor", "--http", "--yes"]);
    let token = wharf.json(&["agent", "endpoint", "default"])["token"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        said.contains("[REDACTED]") && said.contains("warning: the agent's token"),
        "{said}"
    );
    assert!(!said.contains(&token), "{said}");
    assert!(fs::read_to_string(&file).unwrap().contains(&token));
    assert_snapshot!(wharf.run(&["connect", "cursor", "--agent", "nobody"]), @"
    $ wharf connect cursor --agent nobody
    ! error: there is no agent `nobody`
    ! hint: `wharf agent list` lists them, `wharf agent new` makes one
    [exit 4]
    ");
    drop(daemon);
}

#[test]
fn servers_of_clients_come_over() {
    let wharf = Wharf::new();
    let daemon = wharf.up();
    wharf.add_fake("time", &[]);
    let fake = fake_server();
    let cursor = json!({"mcpServers": {
        "time": {"command": fake, "args": []},
        "clock": {"command": fake, "args": ["crash-after=1"]},
        "off": {"command": fake, "args": ["ignore-term"], "disabled": true},
        "wharf": {"command": "/usr/bin/wharf", "args": ["stdio"]},
    }});
    wharf.put(".cursor/mcp.json", cursor.to_string());
    wharf.put(
        "mcp.json",
        json!({"servers": {"time": {"command": fake, "args": ["ping-me"]}}}).to_string(),
    );
    assert_snapshot!(wharf.run(&["import", "--dry-run"]), @"
    $ wharf import --dry-run
    SERVER  FROM    WHAT                           COMMAND
    time    cursor  skip, the same as time         [FAKE]
    clock   cursor  take over                      [FAKE] crash-after=1
    off     cursor  take over                      [FAKE] ignore-term
    wharf   cursor  skip, it is Wharfinger itself
    ! off: stays switched off
    ");
    assert_snapshot!(wharf.run(&["import", "cursor"]), @"
    $ wharf import cursor
    SERVER  FROM    WHAT                           COMMAND
    time    cursor  skip, the same as time         [FAKE]
    clock   cursor  take over                      [FAKE] crash-after=1
    off     cursor  take over                      [FAKE] ignore-term
    wharf   cursor  skip, it is Wharfinger itself
    ! off: stays switched off
    ! error: nobody is here to be asked, so nothing was taken over
    ! hint: say `--yes`, or `--dry-run` to see what would be taken
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["import", "cursor", "--yes", "--only", "off"]), @"
    $ wharf import cursor --yes --only off
    SERVER  FROM    WHAT       COMMAND
    off     cursor  take over  [FAKE] ignore-term
    added off, switched off
    ! off: stays switched off
    ! hint: `wharf connect CLIENT` gives a client all of them by one entry; its own entries can go then
    ");
    assert_snapshot!(wharf.run(&["import", "mcp.json", "--skip-conflicts"]), @"
    $ wharf import mcp.json --skip-conflicts
    SERVER  FROM    WHAT                     COMMAND
    time    vscode  skip, the name is taken  [FAKE] ping-me
    ! nothing to take over
    ");
    let again = wharf.json(&["import", "cursor", "--dry-run"]);
    let what: Vec<&str> = again["plan"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["what"].as_str().unwrap())
        .collect();
    assert_eq!(
        what,
        [
            "skip, the same as time",
            "take over",
            "skip, the same as off",
            "skip, it is Wharfinger itself"
        ]
    );
    let off = wharf.json(&["show", "off"]);
    assert_eq!(off["enabled"], false);
    assert_snapshot!(wharf.run(&["import", "nothing"]), @"
    $ wharf import nothing
    ! error: `nothing` is neither a client nor a file
    ! hint: clients are claude-code, claude-desktop, cursor, vscode, codex, gemini, windsurf, antigravity, zed, goose, opencode, kilo, cline, cline-cli, copilot, kiro, junie, mcporter
    [exit 4]
    ");
    assert_snapshot!(wharf.run(&["import", "cursor", "--only", "nothing"]), @"
    $ wharf import cursor --only nothing
    ! error: no client has a server `nothing`
    [exit 4]
    ");
    drop(daemon);
}

#[test]
fn secrets_of_clients_go_into_the_vault() {
    let wharf = Wharf::new();
    let daemon = wharf.up();
    let vscode = json!({
        "inputs": [{"id": "key", "type": "promptString", "password": true}],
        "servers": {"s": {
            "command": fake_server(),
            "args": ["tool=env"],
            "env": {
                "GITHUB_TOKEN": "ghp_0123456789abcdefghij",
                "ODD": "sk-0123456789abcdefghij",
                "PLAIN": "yes",
                "ASKED": "${input:key}",
            },
        }},
    });
    let file = wharf.put(".vscode/mcp.json", vscode.to_string());
    let words = ["import", ".vscode/mcp.json"];
    assert_snapshot!(wharf.run(&[words[0], words[1], "--dry-run"]), @"
    $ wharf import .vscode/mcp.json --dry-run
    SERVER  FROM    WHAT       COMMAND
    s       vscode  take over  [FAKE] tool=env
    ! s: into the vault: GITHUB_TOKEN, ODD; needs ASKED
    ");
    let answer = wharf.json(&[words[0], words[1], "--yes"]);
    let settings = fs::read_to_string(wharf.file("settings.json")).unwrap();
    for secret in ["ghp_0123456789abcdefghij", "sk-0123456789abcdefghij"] {
        assert!(!answer.to_string().contains(secret), "{answer}");
        assert!(!settings.contains(secret), "{settings}");
    }
    assert!(settings.contains("${secret:GITHUB_TOKEN}"), "{settings}");
    assert_eq!(fs::read_to_string(&file).unwrap(), vscode.to_string());
    wharf.run_with_input(&["secret", "set", "s", "ASKED"], "given");
    let said = wharf.json(&["call", "s/env"]).to_string();
    // What comes back is kept out of sight, and is there: an empty one would not be.
    for expect in ["GITHUB_TOKEN", "[REDACTED]", "PLAIN", "given"] {
        assert!(said.contains(expect), "{said}");
    }
    // The same again is nothing new.
    let again = wharf.json(&[words[0], words[1], "--yes"]);
    assert_eq!(again["plan"][0]["what"], "skip, the same as s");
    drop(daemon);
}
