//! Edits as tables.

mod reading;
mod wild;

use serde_json::Value;

use super::edit::{Edited, parse};
use super::*;

fn stdio() -> Endpoint {
    Endpoint::Stdio {
        command: "/opt/bin/wharf".into(),
        args: ["--home", "/h", "stdio", "--agent", "default"]
            .map(str::to_owned)
            .to_vec(),
    }
}

fn other() -> Endpoint {
    Endpoint::Stdio {
        command: "/opt/bin/wharf".into(),
        args: ["stdio", "--agent", "bot"].map(str::to_owned).to_vec(),
    }
}

fn http() -> Endpoint {
    Endpoint::Http {
        url: "http://127.0.0.1:9000/agents/default/mcp".into(),
        token: "t0ken".into(),
    }
}

fn named(id: &str) -> &'static Client {
    client(id).unwrap_or_else(|| panic!("no client {id}"))
}

/// Puts our entry into a text, again, in other words, and takes it out; what comes out is compared with what went in,
/// and everything outside of what was changed with what was there.
#[track_caller]
fn round(id: &str, before: &str) -> String {
    let client = named(id);
    let Edited { text, changes } =
        connect(client, before, &stdio()).unwrap_or_else(|why| panic!("{why}: {before}"));
    assert!(!changes.is_empty());
    let mut rest = before.to_owned();
    for change in changes.iter().rev() {
        rest.replace_range(change.range.clone(), &change.text);
    }
    assert_eq!(rest, text);
    assert!(
        !connect(client, &text, &stdio()).unwrap().is_changed(),
        "again is nothing new"
    );
    for endpoint in [other(), http()] {
        let updated = connect(client, &text, &endpoint).unwrap();
        assert!(updated.is_changed());
        let back = connect(client, &updated.text, &stdio()).unwrap();
        assert_eq!(back.text, text, "and back");
    }
    assert_eq!(disconnect(client, &text).unwrap().text, before);
    text
}

#[test]
fn an_entry_goes_into_json_of_every_layout_and_out_again() {
    for before in [
        "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"x\"\n    }\n  }\n}\n",
        "{\n\t\"mcpServers\": {\n\t\t\"a\": { \"command\": \"x\" }\n\t}\n}",
        "{\r\n    \"mcpServers\": {\r\n        \"a\": {}\r\n    },\r\n    \"z\": 1\r\n}\r\n",
        "\u{feff}{ // first\n  \"mcpServers\": {\n    \"a\": {}, // why\n  }, /* after */\n}\n\n",
        "{\n  \"mcpServers\": {\n    \"a\": {} // no comma\n    // at the end\n  }\n}\n",
        "{\n  \"mcpServers\": {\n    \"a\": {} /* one */ /* two */\n  }\n}\n",
        "{\"mcpServers\":{\"a\":{\"command\":\"x\"}},\"n\":1.10}",
        "{\"mcpServers\": {\"a\": {},}, \"n\": 1e3}\n",
        "{\n  \"mcpServers\": {}\n}\n",
        "{\"mcpServers\": {}}",
        "{\n  \"x\": [1, 2,\n  3], \"mcpServers\": {\n  \"a\": {}\n}\n}",
    ] {
        let after = round("cursor", before);
        let read: Value = parse(Format::Json, &after).unwrap();
        assert_eq!(read["mcpServers"][NAME]["args"][2], "stdio", "{after}");
    }
}

#[test]
fn an_entry_is_laid_out_as_the_others_are() {
    let check = |before: &str, expect: &str| assert_eq!(round("cursor", before), expect);
    check(
        "{\n\t\"mcpServers\": {\n\t\t\"a\": {}, // why\n\t\t// more\n\t}\n}\n",
        "{\n\t\"mcpServers\": {\n\t\t\"a\": {}, // why\n\t\t\"wharf\": {\n\t\t\t\"command\": \"/opt/bin/wharf\",\n\t\t\t\"args\": [\n\t\t\t\t\"--home\",\n\t\t\t\t\"/h\",\n\t\t\t\t\"stdio\",\n\t\t\t\t\"--agent\",\n\t\t\t\t\"default\"\n\t\t\t]\n\t\t},\n\t\t// more\n\t}\n}\n",
    );
    check(
        "{\"mcpServers\": {\"a\": {}}}",
        "{\"mcpServers\": {\"a\": {}, \"wharf\": {\"command\":\"/opt/bin/wharf\",\"args\":[\"--home\",\"/h\",\"stdio\",\"--agent\",\"default\"]}}}",
    );
}

#[test]
fn what_holds_the_servers_is_made_where_it_is_missing() {
    for (id, before) in [
        ("cursor", ""),
        ("cursor", "\n"),
        ("cursor", "{}"),
        ("cursor", "// nothing yet\n"),
        ("zed", "{\n  // theme\n  \"theme\": \"x\", // dark\n}\n"),
        ("vscode", "{\n  \"inputs\": []\n}"),
        ("codex", ""),
        ("codex", "model = \"x\""),
        ("codex", "[a]\nb = 1\n\n"),
        ("goose", ""),
        ("goose", "GOOSE_MODEL: x\n"),
        ("goose", "# mine"),
    ] {
        let client = named(id);
        let after = connect(client, before, &stdio()).unwrap().text;
        assert!(
            after.starts_with(before.trim_end_matches(['}', '\n', ']'])),
            "{id}: {after}"
        );
        let reading = read(client, &after, "/h").unwrap();
        assert!(reading.has_ours() && reading.others() == 0, "{after}");
        let gone = disconnect(client, &after).unwrap().text;
        assert!(!gone.contains("wharf"), "{gone}");
        assert_eq!(
            super::edit::parse(client.format, &gone)
                .unwrap()
                .as_object()
                .map(|top| top.contains_key("theme")),
            Some(id == "zed")
        );
    }
}

#[test]
fn an_entry_goes_into_toml_and_out_again() {
    for before in [
        "model = \"o\" # mine\n\n[mcp_servers.a]\ncommand = \"x\"\n",
        "[mcp_servers.a]\r\ncommand = \"x\"\r\n\r\n  [mcp_servers.a.env]\r\n  K = \"v\"\r\n",
        "\u{feff}[mcp_servers]\n[mcp_servers.a]\nargs = [\n  \"x\", # why\n]\n\n# the end\n",
        "[mcp_servers.\"a b\"]\ncommand = '''x'''\n\n\n",
        "[[list]]\na = 1\n[[list]]\na = 2\n",
    ] {
        round("codex", before);
    }
    let between = "[mcp_servers.a]\ncommand = \"x\"\n\n[mcp_servers.wharf]\ncommand = \"wharf\"\nargs = [\"stdio\"]\n\n# about b\n[mcp_servers.b]\ncommand = \"y\"\n\n[mcp_servers.wharf.env]\nK = \"v\"\n";
    let gone = disconnect(named("codex"), between).unwrap().text;
    assert_eq!(
        gone,
        "[mcp_servers.a]\ncommand = \"x\"\n\n# about b\n[mcp_servers.b]\ncommand = \"y\"\n\n"
    );
    let inline = "[mcp_servers]\na = { command = \"x\" }\nwharf = { command = \"wharf\", args = [\"stdio\"] } # us\nb = { command = \"y\" }\n";
    assert_eq!(
        disconnect(named("codex"), inline).unwrap().text,
        "[mcp_servers]\na = { command = \"x\" }\nb = { command = \"y\" }\n"
    );
    round("codex", "mcp_servers.a.command = \"x\"\n");
    for refused in [
        "mcp_servers = { a = {} }\n",
        "mcp_servers = 1\n",
        "a = 1\na = 2\n",
        "[mcp_servers\n",
    ] {
        assert!(
            connect(named("codex"), refused, &stdio()).is_err(),
            "{refused}"
        );
    }
}

#[test]
fn an_entry_goes_into_yaml_and_out_again() {
    for before in [
        "extensions:\n  a:\n    cmd: x\n    type: stdio\nGOOSE_MODEL: y\n",
        "# mine\nextensions: # all\n    # the first\n    a:\n        cmd: 'x'\n",
        "A: |\n  extensions:\n    wharf: no\nextensions:\r\n  a:\r\n    enabled: true\r\n",
        "extensions: {}\nA: b\n",
        "---\nextensions:\n  \"a b\": {cmd: x, args: [1, 2]}\n",
        "A: &x\n  b: 1\nextensions:\n  c: *x\n",
    ] {
        round("goose", before);
    }
    for refused in [
        "extensions: {a: {cmd: x}}\n",
        "{extensions: {}}\n",
        "extensions: []\n",
        "a: 1\n---\nb: 1\n",
        "a: 1\na: 2\n",
        "- a\n",
        "a: [\n",
    ] {
        assert!(
            connect(named("goose"), refused, &stdio()).is_err(),
            "{refused}"
        );
    }
}

#[test]
fn an_entry_in_the_middle_comes_out_without_its_neighbours() {
    let check = |before: &str, expect: &str| {
        assert_eq!(disconnect(named("cursor"), before).unwrap().text, expect);
    };
    let ours = "\"wharf\": {\"command\": \"/x/wharf\", \"args\": [\"stdio\"]}";
    check(
        &format!("{{\"mcpServers\": {{\n  {ours},\n  \"b\": {{}}\n}}}}"),
        "{\"mcpServers\": {\n  \"b\": {}\n}}",
    );
    check(
        &format!("{{\"mcpServers\": {{{ours}, \"b\": {{}}}}}}"),
        "{\"mcpServers\": {\"b\": {}}}",
    );
    check(
        &format!("{{\"mcpServers\": {{\"a\": {{}}, {ours}, \"b\": {{}}}}}}"),
        "{\"mcpServers\": {\"a\": {}, \"b\": {}}}",
    );
    // A comment that would swallow what follows.
    check(
        &format!("{{\"mcpServers\": {{ // all\n  {ours}, \"b\": {{}}\n}}}}"),
        "{\"mcpServers\": { // all\n   \"b\": {}\n}}",
    );
    check(
        &format!("{{\"mcpServers\": {{ // all\n  {ours} // us\n}}}}"),
        "{\"mcpServers\": { // all // us\n}}",
    );
    check(
        "{\"mcpServers\": {\"wharf\": {\"command\": \"sail\"}}}",
        "{\"mcpServers\": {\"wharf\": {\"command\": \"sail\"}}}",
    );
}

#[test]
fn what_can_not_be_edited_is_left_with_the_reason() {
    let check = |text: &str, expect: &str| {
        let refused = connect(named("cursor"), text, &stdio()).unwrap_err();
        assert_eq!(refused.to_string(), expect, "{text}");
        assert!(!refused.hint().is_empty());
    };
    check("{\n  \"mcpServers\": {\n", "line 2: Unterminated object");
    check("[]", "the file is not an object");
    check("{\"mcpServers\": []}", "`mcpServers` is not an object");
    check(
        "{\"mcpServers\": {}, \"mcpServers\": {}}",
        "`mcpServers` is there twice",
    );
    check(
        "{\"mcpServers\": {\"wharf\": {\"command\": \"sail\"}}}",
        "another server is called `wharf` there",
    );
    check(
        "{\"mcpServers\": {\"wharf\": {\"command\": \"a\"}, \"wharf\": {\"command\": \"wharf\", \"args\": [\"stdio\"]}}}",
        "`wharf` is there twice",
    );
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for id in ["cursor", "codex", "goose"] {
        let deep = match id {
            "codex" => format!("a = {deep}"),
            "goose" => format!("a: {deep}"),
            _ => format!("{{\"a\": {deep}}}"),
        };
        assert!(connect(named(id), &deep, &stdio()).is_err(), "{id}");
    }
    assert_eq!(text(&[0x7b, 0xff, 0x7d]), Err(Refused::NotUtf8));
    assert_eq!(text(&vec![b' '; LARGEST + 1]), Err(Refused::TooLarge));
}

#[test]
fn a_billion_laughs_are_not_laughed() {
    let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (this, last) in ('b'..='z').zip('a'..) {
        let line =
            format!("{this}: &{this} [*{last}, *{last}, *{last}, *{last}, *{last}, *{last}]\n");
        bomb.push_str(&line);
    }
    round("goose", &format!("{bomb}extensions:\n  a: *b\n"));
}
