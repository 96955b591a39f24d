//! `wharf secret`, and keys that `wharf add` asks for.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use wharfinger_testkit::fake_server;

use crate::support::Wharf;

/// A home with a running daemon, and a server `s` that needs TOKEN.
fn with_needy() -> (Wharf, crate::support::Daemon) {
    let wharf = Wharf::new();
    let daemon = wharf.up();
    let block = json!({ "s": {
        "command": fake_server(), "args": ["tool=env"], "env": { "TOKEN": "${secret:TOKEN}" },
    }});
    let added = wharf.run(&["add", &block.to_string()]);
    assert!(
        added.contains("it needs TOKEN, which is not set: `wharf secret set s TOKEN` sets it"),
        "{added}"
    );
    (wharf, daemon)
}

#[test]
fn a107_a_key_is_needed_then_set_and_removed_and_never_shown() {
    let (wharf, daemon) = with_needy();
    let listed = wharf.run(&["list"]);
    assert!(listed.contains("needs TOKEN"), "{listed}");
    assert_eq!(
        wharf.json(&["list"])["servers"][0]["needsKeys"],
        json!(["TOKEN"])
    );
    assert_eq!(
        wharf.run(&["secret", "list"]),
        "$ wharf secret list\nSERVER  KEY    AGENT  STATE\ns       TOKEN  -      needed\n"
    );
    // One line end is dropped. Values this short are not kept out of what a server says.
    assert_eq!(
        wharf.run_with_input(&["secret", "set", "s", "TOKEN"], "t-123\n"),
        "$ wharf secret set s TOKEN\nset TOKEN of s\n"
    );
    let said = wharf.run(&["call", "s/env"]);
    assert!(said.contains(r#""TOKEN":"t-123""#), "{said}");
    assert_eq!(
        wharf.run_with_input(&["secret", "set", "s", "TOKEN"], "t-456"),
        "$ wharf secret set s TOKEN\nset TOKEN of s\n! s runs, and keeps what it has\n\
         ! hint: `wharf restart s` applies it\n"
    );
    wharf.run(&["restart", "s"]);
    let said = wharf.run(&["call", "s/env"]);
    assert!(said.contains(r#""TOKEN":"t-456""#), "{said}");

    let answer = wharf.json(&["secret", "list", "s"]);
    assert_eq!(
        answer,
        json!({ "vault": { "state": "unlocked", "key": "file" }, "secrets": [
            { "server": "s", "key": "TOKEN", "agent": null, "required": true, "set": true },
        ]})
    );
    for name in ["vault.json", "credential.key"] {
        let mode = fs::metadata(wharf.home.file(name)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{name}");
    }
    wharf.run(&["stop", "s"]);
    assert_eq!(
        wharf.run(&["secret", "remove", "s", "TOKEN"]),
        "$ wharf secret remove s TOKEN\nremoved TOKEN of s\n"
    );
    let again = wharf.run(&["secret", "remove", "s", "TOKEN"]);
    assert!(
        again.contains("`TOKEN` of `s` is not set") && again.contains("[exit 4]"),
        "{again}"
    );
    drop(daemon);
}

#[test]
fn a199_a201_what_cannot_be_set_is_refused_in_words() {
    let (wharf, daemon) = with_needy();
    let check = |words: &[&str], input: &str, expect: &str, exit: &str| {
        let said = wharf.run_with_input(&[&["secret"], words].concat(), input);
        assert!(said.contains(expect) && said.contains(exit), "{said}");
    };
    check(
        &["set", "s", "a b"],
        "x",
        "cannot be the name of a secret",
        "[exit 2]",
    );
    check(&["set", "s", "K"], "", "K of s is empty", "[exit 2]");
    check(
        &["set", "s", "K"],
        "a\0b",
        "holds a NUL character",
        "[exit 2]",
    );
    check(
        &["set", "s", "K", "--file", "none"],
        "",
        "can't read none",
        "[exit 2]",
    );
    check(
        &["set", "s", "TOKEN", "--agent", "nobody"],
        "x",
        "there is no agent `nobody`",
        "[exit 4]",
    );
    check(
        &["set", "s", "OTHER"],
        "x",
        "no variable of s takes OTHER",
        "hint:",
    );
    // A201: an agent is named, and never a path.
    check(
        &["set", "s", "TOKEN", "--agent", "/etc/passwd"],
        "x",
        "there is no agent `/etc/passwd`",
        "[exit 4]",
    );
    drop(daemon);
    let said = wharf.run_with_input(&["secret", "set", "s", "TOKEN"], "x");
    assert!(
        said.contains("no daemon runs") && said.contains("[exit 3]"),
        "{said}"
    );
}

#[test]
fn a_key_alone_in_an_add_is_a_secret_that_the_server_needs() {
    let wharf = Wharf::new();
    let daemon = wharf.up();
    // It may be set before there is a server.
    wharf.run_with_input(&["secret", "set", "s", "TOKEN"], "t-123");
    let fake = fake_server().display().to_string();
    let added = wharf.run(&[
        "add", "s", "--env", "TOKEN", "--env", "PLAIN=p", "--", &fake, "tool=env",
    ]);
    assert!(added.contains("added s, 1 tool"), "{added}");
    let said = wharf.run(&["call", "s/env"]);
    assert!(said.contains(r#""TOKEN":"t-123""#), "{said}");
    let settings = wharf.home.read("settings.json");
    assert!(
        settings.contains("\"${secret:TOKEN}\"") && !settings.contains("t-123"),
        "{settings}"
    );
    let wrong = wharf.run(&["add", "s", "--env", "a b", "--", "x"]);
    assert!(wrong.contains("KEY alone for a secret"), "{wrong}");
    drop(daemon);
}

#[test]
fn a_passphrase_opens_the_vault_at_start_or_later() {
    let wharf = Wharf::new();
    fs::write(wharf.home.file("pass"), "correct horse\n").unwrap();
    let file = wharf.home.file("pass").display().to_string();
    let start = |more: &[&str], variable: Option<&str>| {
        let words = [&["up", "--listen", "127.0.0.1:0"], more].concat();
        let mut command = wharf.command(&words);
        if let Some(file) = variable {
            command.env("WHARFINGER_PASSPHRASE_FILE", file);
        }
        crate::support::Daemon::start(command)
    };
    let state = || wharf.json(&["secret", "list"])["vault"].clone();
    let daemon = start(&["--passphrase-file", &file], None);
    assert_eq!(state(), json!({ "state": "absent", "key": null }));
    wharf.run_with_input(&["secret", "set", "s", "TOKEN"], "t-123");
    let unlocked = json!({ "state": "unlocked", "key": "passphrase" });
    assert_eq!(state(), unlocked);
    assert!(!wharf.home.file("credential.key").exists());
    drop(daemon);

    let daemon = start(&[], Some(&file));
    assert_eq!(state(), unlocked);
    drop(daemon);

    let daemon = start(&[], None);
    assert_eq!(state()["state"], "locked");
    let refused = wharf.run_with_input(&["secret", "set", "s", "TOKEN"], "x");
    assert!(
        refused.contains(
            "the vault is locked: it needs its passphrase; `wharf secret unlock` asks for it"
        ),
        "{refused}"
    );
    let wrong = wharf.run_with_input(&["secret", "unlock"], "wrong horse\n");
    assert!(
        wrong.contains("is not the one") && wrong.contains("[exit 2]"),
        "{wrong}"
    );
    assert_eq!(
        wharf.run_with_input(&["secret", "unlock"], "correct horse\n"),
        "$ wharf secret unlock\nthe vault is unlocked\n"
    );
    assert_eq!(state(), unlocked);
    assert_eq!(
        wharf.run(&["secret", "unlock"]),
        "$ wharf secret unlock\nthe vault is unlocked\n"
    );
    drop(daemon);

    let missing = wharf.run(&["up", "--passphrase-file", "nowhere"]);
    assert!(
        missing.contains("can't read nowhere") && missing.contains("[exit 2]"),
        "{missing}"
    );
}

#[test]
fn a99_secrets_that_stand_plain_are_moved_and_the_file_stays_as_it_is() {
    let wharf = Wharf::new();
    let before = format!(
        r#"{{
  // mine
  "mcpServers": {{
    "s": {{ "command": "{}", "args": ["tool=env"], // why
      "env": {{ "API_TOKEN": "t-123", "PORT": "80", /* two */ "OTHER_TOKEN": "${{env:X}}", "ODD": "ghp_0123456789abcdefghij0123456789abcdef" }} }},
    "web": {{ "type": "http", "url": "https://example.com/mcp", "headers": {{ "X-Api-Key": "k-123" }} }}
  }}
}}
"#,
        fake_server().display()
    );
    fs::write(wharf.home.file("settings.json"), &before).unwrap();
    let daemon = wharf.up();
    let preview = wharf.run(&["secret", "import"]);
    assert!(
        preview.contains("s: env.API_TOKEN becomes ${secret:API_TOKEN}"),
        "{preview}"
    );
    assert!(preview.contains("`wharf secret import --yes`"), "{preview}");
    assert_eq!(
        wharf.home.read("settings.json"),
        before,
        "a preview changes nothing"
    );
    let done = wharf.run(&["secret", "import", "--yes"]);
    assert!(done.contains("3 secrets moved into the vault"), "{done}");
    let expect = before
        .replace("\"t-123\"", "\"${secret:API_TOKEN}\"")
        .replace(
            "\"ghp_0123456789abcdefghij0123456789abcdef\"",
            "\"${secret:ODD}\"",
        )
        .replace("\"k-123\"", "\"${secret:X_API_KEY}\"");
    assert_eq!(wharf.home.read("settings.json"), expect);
    let said = wharf.run(&["call", "s/env"]);
    assert!(said.contains(r#""API_TOKEN":"t-123""#), "{said}");
    let again = wharf.run(&["secret", "import", "--yes"]);
    assert!(again.contains("no secret stands plain"), "{again}");
    drop(daemon);
}
