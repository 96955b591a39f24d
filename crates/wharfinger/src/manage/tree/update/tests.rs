use super::*;
use crate::manage::tree::restore;
use serde_json::json;

fn config() -> Value {
    json!({
        "adf_version": "0.2", "id": "abc", "name": "agent", "locked_fields": [], "metadata": {"a": 1},
        "tools": [
            {"name": "mcp_install", "enabled": false, "visible": false, "restricted": true},
            {"name": "fs_read", "enabled": true, "visible": true, "restricted": true},
            {"name": "guarded", "enabled": false, "locked": true},
        ],
        "limits": {"max_file_write_bytes": 1000},
        "mcp": {"new_tools_restricted": true, "servers": [
            {"name": "git", "transport": "stdio", "command": "npx", "args": ["-y", "g", "--token", "abc"],
             "npm_package": "g", "source": "npm:g", "env": {"K": "one"}, "run_location": "host"},
            {"name": "git.hub", "transport": "http", "url": "https://h/?k=v", "restricted": true},
            {"name": "owned", "transport": "stdio", "command": "own"},
        ]},
    })
}

fn set(path: &str, value: Value) -> UpdateConfig {
    UpdateConfig {
        path: path.into(),
        action: Action::Set(value),
    }
}

fn remove(path: &str) -> UpdateConfig {
    UpdateConfig {
        path: path.into(),
        action: Action::Remove,
    }
}

fn of(config: &Value, request: &UpdateConfig) -> Result<Changes, String> {
    review(config, request, &["owned"]).map_err(|error| error.to_string())
}

/// Paths changed and approvals needed.
fn check(request: &UpdateConfig, changed: &[&str], approvals: &[&str]) {
    let changes = of(&config(), request).unwrap();
    let paths: Vec<&str> = changes.changes.iter().map(|c| c.path.as_str()).collect();
    assert_eq!(paths, changed, "{request:?}");
    assert_eq!(changes.approvals, approvals, "{request:?}");
    assert_eq!(changes.needs_approval(), !approvals.is_empty());
}

fn refused(request: &UpdateConfig, expect: &str) {
    let error = of(&config(), request).unwrap_err();
    assert!(error.contains(expect), "{request:?}: {error}");
}

#[test]
fn a234_a89_enabling_needs_a_persons_word_and_disabling_does_not() {
    check(
        &set("tools.mcp_install.enabled", json!(true)),
        &["tools.mcp_install.enabled"],
        &["enables the tool `mcp_install`"],
    );
    check(
        &set("tools.mcp_install.visible", json!(true)),
        &["tools.mcp_install.visible"],
        &["shows the tool `mcp_install` to the model"],
    );
    check(
        &set(
            "tools.mcp_install",
            json!({"enabled": true, "visible": true}),
        ),
        &["tools.mcp_install.enabled", "tools.mcp_install.visible"],
        &[
            "enables the tool `mcp_install`",
            "shows the tool `mcp_install` to the model",
        ],
    );
    check(
        &set("tools.fs_read.enabled", json!(false)),
        &["tools.fs_read.enabled"],
        &[],
    );
    check(&set("tools.fs_read.enabled", json!(true)), &[], &[]);
}

#[test]
fn a234_some_paths_are_never_written() {
    for path in [
        "adf_version",
        "id",
        "metadata.a",
        "locked_fields",
        "providers",
        "providers.0.apiKey",
        "name",
        "model.provider",
        "compute.host_access",
        "security",
        "instructions",
        "nonsense",
    ] {
        refused(&set(path, json!(true)), "may not be changed by the agent");
    }
    refused(
        &set("name", json!("x")),
        "only what is below `mcp`, `tools` and `limits`",
    );
    for path in [
        "tools.fs_read.restricted",
        "tools.fs_read.locked",
        "tools.fs_read.LOCKED",
        "mcp.servers.git.restricted",
        "mcp.servers.git.locked",
        "mcp.locked_fields",
        "tools.x.restricted_methods",
        "tools[0].restricted",
        "limits.locked",
    ] {
        refused(&set(path, json!(false)), "is its owner's");
    }
    // Nor on the way through an object.
    refused(
        &set("tools.fs_read", json!({"restricted": false})),
        "is its owner's",
    );
    refused(
        &set("mcp.servers.git", json!({"restricted": false})),
        "is its owner's",
    );
    refused(
        &set("tools.fs_read.mcp_tool_hash", json!("x")),
        "only `enabled` and `visible`",
    );
    refused(
        &set("tools.fs_read.mcp_tool_status", json!("new")),
        "only `enabled` and `visible`",
    );
    refused(
        &set("tools.fs_read.name", json!("x")),
        "only `enabled` and `visible`",
    );
    refused(&set("tools", json!([])), "changed by its members");
    refused(&remove("tools.fs_read"), "are not removed");
    refused(
        &set("tools.new", json!({"enabled": true})),
        "there is no tool `new`",
    );
    refused(
        &set("tools.fs_raed.enabled", json!(true)),
        "did you mean `fs_read`?",
    );
    refused(&remove("mcp"), "may not be taken away");
    refused(&set("mcp.servers", json!([])), "one by one");
    refused(&set("mcp", json!({"servers": []})), "one by one");
    refused(&set("mcp.oauth", json!(true)), "there is no `mcp.oauth`");
}

#[test]
fn a27_what_a_server_runs_is_not_written() {
    for field in [
        "command",
        "args",
        "source",
        "npm_package",
        "pypi_package",
        "url",
        "transport",
        "host_requested",
        "header_env",
        "headers",
        "bearer_token_env_var",
        "name",
    ] {
        refused(
            &set(&format!("mcp.servers.git.{field}"), json!("x")),
            "`mcp_install`",
        );
        refused(
            &set(&format!("mcp.servers.owned.{field}"), json!("x")),
            "is set up by the owner",
        );
    }
    refused(
        &set("mcp.servers.git.args.1", json!("evil")),
        "`mcp_install`",
    );
    refused(
        &set("mcp.servers.git.env.K", json!("x")),
        "stores them sealed",
    );
    refused(
        &set("mcp.servers.git.run_location", json!("host2")),
        "must be one of host, shared",
    );
    refused(
        &set("mcp.servers.git.hub.run_location", json!("host")),
        "decides what `git.hub` runs",
    );
    refused(
        &set("mcp.servers.owned.run_location", json!("shared")),
        "is set up by the owner",
    );
    refused(
        &set("mcp.servers.git.available_tools", json!([])),
        "is recorded",
    );
    refused(
        &set("mcp.servers.git.mcp_tool_hash", json!("")),
        "is recorded",
    );
    refused(
        &set("mcp.servers.git.auth", json!(true)),
        "`mcp_install` of `git` with `auth`",
    );
    refused(
        &set("mcp.servers.git.tool_call_timeout", json!(1)),
        "did you mean `tool_call_timeout_ms`?",
    );
    refused(
        &set("mcp.servers.gti.description", json!("x")),
        "did you mean `git`?",
    );
}

#[test]
fn a96_a_servers_fields_are_named() {
    let free = &["mcp.servers.git.tool_call_timeout_ms"];
    check(
        &set("mcp.servers.git.tool_call_timeout_ms", json!(5)),
        free,
        &[],
    );
    check(
        &set("mcp.servers[0].tool_call_timeout_ms", json!(5)),
        free,
        &[],
    );
    check(
        &set("mcp.servers.git.hub.description", json!("x")),
        &["mcp.servers.git.hub.description"],
        &[],
    );
    check(
        &set("mcp.servers.git.run_location", json!("shared")),
        &["mcp.servers.git.run_location"],
        &["changes where the MCP server `git` runs"],
    );
    let mut there = config();
    update(
        &mut there,
        &set("mcp.servers.git.hub.description", json!("x")),
        &[],
    )
    .unwrap();
    let mut expect = config();
    expect["mcp"]["servers"][1]["description"] = "x".into();
    assert_eq!(there, expect, "nothing else changes");
}

#[test]
fn a157_that_new_tools_ask_nobody_needs_a_person() {
    let request = set("mcp.new_tools_restricted", json!(false));
    check(
        &request,
        &["mcp.new_tools_restricted"],
        &["lets new tools be called without a person"],
    );
    let mut loose = config();
    loose["mcp"]["new_tools_restricted"] = json!(false);
    let strict = of(&loose, &set("mcp.new_tools_restricted", json!(true))).unwrap();
    assert!(strict.approvals.is_empty(), "{strict:?}");
    for lock in ["mcp", "mcp.new_tools_restricted"] {
        let mut locked = config();
        locked["locked_fields"] = json!([lock]);
        let error = of(&locked, &request).unwrap_err();
        assert_eq!(
            error,
            format!("`mcp.new_tools_restricted` is locked by its owner (`{lock}`)")
        );
    }
    refused(
        &set("mcp.new_tools_restricted", json!("no")),
        "must be true or false",
    );
    // Forward only: no declaration changes with it.
    let mut there = config();
    update(&mut there, &request, &[]).unwrap();
    assert_eq!(there["tools"], config()["tools"]);
}

#[test]
fn p17_a_lock_is_over_everything_below() {
    let check = |lock: Value, request: &UpdateConfig, locked: bool| {
        let mut there = config();
        there["locked_fields"] = lock.clone();
        let got = of(&there, request);
        assert_eq!(got.is_err(), locked, "{lock} {request:?} {got:?}");
    };
    let timeout = set("mcp.servers.git.tool_call_timeout_ms", json!(5));
    let dotted = set("mcp.servers.git.hub.tool_call_timeout_ms", json!(5));
    let limit = set("limits.max_file_write_bytes", json!(5));
    let gone = remove("mcp.servers.git");
    check(json!([]), &timeout, false);
    check(json!(["mcp"]), &timeout, true);
    check(json!(["mcp.servers"]), &timeout, true);
    check(json!(["mcp.servers.git"]), &timeout, true);
    check(json!(["mcp.servers[0]"]), &timeout, true);
    check(
        json!(["mcp.servers.git.tool_call_timeout_ms"]),
        &timeout,
        true,
    );
    check(json!(["mcp.servers.git.hub"]), &timeout, false);
    check(json!(["mcp.servers.git.hub"]), &dotted, true);
    check(json!(["mcp.servers.gi"]), &timeout, false);
    check(json!(["limits"]), &timeout, false);
    check(json!(["limits"]), &limit, true);
    check(json!(["*"]), &limit, true);
    check(json!(["mcp.servers.git.args"]), &gone, true);
    check(
        json!(["mcp.servers.git.hub.url"]),
        &remove("mcp.servers.git.hub"),
        true,
    );
    check(json!(["mcp.servers.other"]), &gone, false);
    check(json!("mcp"), &limit, true);
    check(json!([5]), &limit, true);
    refused(
        &set("tools.guarded.enabled", json!(true)),
        "is locked by its owner (`tools.guarded.locked`)",
    );
    let mut there = config();
    there["mcp"]["servers"][0]["locked"] = true.into();
    assert!(of(&there, &timeout).is_err());
    assert!(of(&there, &gone).is_err());
    let mut twice = config();
    twice["tools"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "fs_read", "locked": true}));
    assert!(of(&twice, &set("tools.fs_read.enabled", json!(false))).is_err());
}

#[test]
fn limits_may_be_lowered_and_are_raised_with_a_persons_word() {
    let path = "limits.max_file_write_bytes";
    check(&set(path, json!(10)), &[path], &[]);
    check(
        &set(path, json!(2000)),
        &[path],
        &["sets its limit `limits.max_file_write_bytes` to 2000"],
    );
    check(
        &set("limits.new", json!(1)),
        &["limits.new"],
        &["sets its limit `limits.new` to 1"],
    );
    check(
        &set(path, Value::Null),
        &[path],
        &["takes away its limit `limits.max_file_write_bytes`"],
    );
    check(
        &remove(path),
        &[path],
        &["takes away its limit `limits.max_file_write_bytes`"],
    );
    check(
        &set("limits", json!({"max_file_write_bytes": 10})),
        &[path],
        &[],
    );
    refused(&set(path, json!(0)), "must be a number above 0");
    refused(&set(path, json!("10")), "must be a number above 0");
    refused(&set(path, json!({"a": 1})), "must be a number above 0");
}

#[test]
fn a93_servers_come_and_go_with_a_persons_word() {
    let entry = json!({"name": "new", "transport": "http", "url": "https://n/"});
    let append = UpdateConfig {
        path: "mcp.servers".into(),
        action: Action::Append(entry.clone()),
    };
    check(
        &append,
        &["mcp.servers.new"],
        &["adds the MCP server `new`"],
    );
    let mut there = config();
    let changes = update(&mut there, &append, &[]).unwrap();
    assert_eq!(changes.servers_added, ["new"]);
    assert_eq!(there["mcp"]["servers"][3], entry);
    let nameless = json!({"transport": "http", "url": "https://n/"});
    update(&mut there, &set("mcp.servers.n2", nameless), &[]).unwrap();
    assert_eq!(there["mcp"]["servers"][4]["name"], "n2");
    let gone = update(&mut there, &remove("mcp.servers.git"), &[]).unwrap();
    assert_eq!(gone.servers_removed, ["git"]);
    assert_eq!(gone.approvals, ["removes the MCP server `git`"]);
    assert_eq!(there["mcp"]["servers"][0]["name"], "git.hub");
    refused(&remove("mcp.servers.none"), "no server `none` is installed");
    let add = |entry: Value| UpdateConfig {
        path: "mcp.servers".into(),
        action: Action::Append(entry),
    };
    refused(&add(json!({"name": "git"})), "is installed");
    refused(
        &add(json!({"name": "Bad Name", "url": "https://u/"})),
        "cannot be added: the name must be",
    );
    refused(
        &add(json!({"name": "x", "command": "c", "run_location": "host"})),
        "`host: true`",
    );
    refused(
        &add(json!({"name": "x", "command": "c", "host_requested": true})),
        "`host: true`",
    );
    refused(
        &add(json!({"name": "x", "command": "c", "env": {"K": "v"}})),
        "stores the values sealed",
    );
    refused(
        &add(json!({"name": "x", "url": "https://u/", "headers": {"Authorization": "b"}})),
        "`header_env`",
    );
    refused(
        &add(json!({"name": "x", "command": "c", "restricted": false})),
        "cannot be added with `restricted`",
    );
    refused(
        &add(json!({"name": "x", "command": "c", "available_tools": []})),
        "cannot be added with",
    );
    refused(
        &add(json!({"name": "x", "npm_package": "p"})),
        "without `command` or `url`",
    );
    refused(
        &add(json!({"name": "x", "command": 5, "url": "https://u/"})),
        "must be a string",
    );
    refused(
        &set("mcp.servers.x", json!({"name": "y", "url": "https://u/"})),
        "under another name, `y`",
    );
    refused(
        &UpdateConfig {
            path: "tools".into(),
            action: Action::Append(json!({})),
        },
        "only to `mcp.servers`",
    );
    let empty = json!({});
    let owned = add(json!({"name": "owned", "url": "https://u/"}));
    let error = review(&empty, &owned, &["owned"]).unwrap_err().to_string();
    assert!(
        error.contains("`mcp_install` with its name attaches it"),
        "{error}"
    );
}

#[test]
fn a111_p33_what_was_read_and_written_back_is_no_change() {
    let shown = redacted(&config());
    let entry = shown["mcp"]["servers"][0].clone();
    check(&set("mcp.servers.git", entry.clone()), &[], &[]);
    check(&set("mcp", shown["mcp"].clone()), &[], &[]);
    check(&set("mcp.servers.git.env.K", json!(MARKER)), &[], &[]);
    check(
        &set(
            "mcp.servers.git.hub.url",
            shown["mcp"]["servers"][1]["url"].clone(),
        ),
        &[],
        &[],
    );
    // With one field changed, that one changes, and the secrets stay.
    let mut edited = entry;
    edited["tool_call_timeout_ms"] = 7.into();
    let mut there = config();
    update(&mut there, &set("mcp.servers.git", edited), &[]).unwrap();
    let mut expect = config();
    expect["mcp"]["servers"][0]["tool_call_timeout_ms"] = 7.into();
    assert_eq!(there, expect);
    refused(
        &set("mcp.servers.git.description", json!(MARKER)),
        "stands for what is kept",
    );
}

#[test]
fn only_new_violations_count() {
    let mut broken = config();
    broken["limits"]["old"] = "much".into();
    broken["mcp"]["servers"][2]["args"] = "x".into();
    assert!(of(&broken, &set("limits.max_file_write_bytes", json!(5))).is_ok());
    let error = of(
        &broken,
        &set("mcp.servers.git.tool_call_timeout_ms", json!(-1)),
    )
    .unwrap_err();
    assert_eq!(
        error,
        "`mcp.servers.git.tool_call_timeout_ms` must be a whole number above 0"
    );
    assert_eq!(
        of(&broken, &set("tools.fs_read.enabled", json!("yes"))).unwrap_err(),
        "`tools.fs_read.enabled` must be true or false"
    );
}

#[test]
fn a_change_is_told_without_its_value() {
    let changes = of(&config(), &set("mcp.servers.git.description", json!("x"))).unwrap();
    assert_eq!(
        changes.to_value(),
        json!({
            "success": true, "changed": ["mcp.servers.git.description"],
            "message": "changed `mcp.servers.git.description`",
        })
    );
    let none = of(&config(), &set("tools.fs_read.enabled", json!(true))).unwrap();
    assert_eq!(
        none.to_value()["message"],
        "all is as it was; nothing was changed"
    );
}

#[test]
fn whatever_a_file_holds_nothing_breaks() {
    let odd = [
        json!(null),
        json!(5),
        json!("x"),
        json!([]),
        json!({}),
        json!({"mcp": 5, "tools": 5, "limits": 5}),
        json!({"mcp": {"servers": {}}, "tools": {}, "limits": []}),
        json!({"mcp": {"servers": [5, null, {}, {"name": 5}]}, "tools": [null, "x", {"name": null}]}),
        json!({"mcp": {"servers": [{"name": "x", "env": 5, "args": {}, "headers": [5], "url": 5}]}, "locked_fields": [""]}),
    ];
    let values = [
        json!(null),
        json!(true),
        json!({}),
        json!([]),
        json!({"name": "x", "command": "c"}),
        json!("x"),
    ];
    for config in odd {
        let shown = redacted(&config);
        assert_eq!(restore(&config, shown).unwrap(), config);
        for path in [
            "mcp",
            "mcp.servers",
            "mcp.servers.x",
            "mcp.servers.0.a",
            "mcp.servers.x.args.0",
            "tools",
            "tools.x",
            "tools.x.enabled",
            "limits",
            "limits.x",
            "limits.x.y",
            "mcp.new_tools_restricted",
        ] {
            for value in &values {
                for action in [
                    Action::Set(value.clone()),
                    Action::Append(value.clone()),
                    Action::Remove,
                ] {
                    let request = UpdateConfig {
                        path: path.into(),
                        action,
                    };
                    let mut there = config.clone();
                    match update(&mut there, &request, &[]) {
                        Ok(_) => {}
                        Err(_) => assert_eq!(there, config, "refused, so nothing changed"),
                    }
                }
            }
        }
    }
}

#[test]
fn p17_what_is_not_surely_off_is_on() {
    let mut odd = config();
    odd["tools"][0]["enabled"] = "off".into();
    let changes = of(&odd, &set("tools.mcp_install.enabled", json!("true"))).unwrap();
    assert_eq!(changes.approvals, ["enables the tool `mcp_install`"]);
}
