//! What works without a daemon, and what is said about that.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::Wharf;

#[test]
fn a_good_configuration_is_checked_and_shown() {
    let wharf = Wharf::new();
    assert_snapshot!(wharf.run(&["config", "path"]), @"
    $ wharf config path
    home      [HOME]
    config    [HOME]/config.json  (not there yet)
    settings  [HOME]/settings.json  (not there yet)
    ");
    assert_snapshot!(wharf.run(&["config", "check"]), @"
    $ wharf config check
    no problems; 0 usable servers
    ");
    wharf.home.write(
        "config.json",
        "{\n  \"daemon\": {\n    \"listen\": \"127.0.0.1:9000\"\n  },\n  \"mcp\": {\"servers\": {\"git\": {\n    \"command\": \"uvx\",\n    \"args\": [\"mcp-server-git\"]\n  }}}\n}\n",
    );
    wharf.home.write_settings(&json!({"mcpServers": {"time": {
        "command": "uvx",
        "args": ["mcp-server-time", "--key=hunter2-hunter2"],
        "env": {"API_KEY": "hunter2-hunter2"},
        "idleTimeoutSeconds": 2.5,
    }}}));
    assert_snapshot!(wharf.run(&["config", "check"]), @"
    $ wharf config check
    no problems; 2 usable servers
    ");
    let words = ["config", "show", "--changed"];
    let mut command = wharf.command(&words);
    command
        .env("Mcp__Servers__git__Args__1", "--verbose")
        .env("PLAYWRIGHT_ENABLED", "true");
    let output = command.output().unwrap();
    assert_snapshot!(wharf.filter(&String::from_utf8(output.stdout).unwrap()), @r#"
    KEY                                 VALUE                                   FROM
    daemon.listen                       "127.0.0.1:[PORT]"                        [HOME]/config.json:3
    mcp.playwright.enabled              true                                    environment variable PLAYWRIGHT_ENABLED
    mcp.servers.git.command             "uvx"                                   [HOME]/config.json:6
    mcp.servers.git.args                ["mcp-server-git","--verbose"]          [HOME]/config.json:7, environment variable Mcp__Servers__git__Args__1
    mcpServers.time.command             "uvx"                                   [HOME]/settings.json:4
    mcpServers.time.args                ["mcp-server-time","--key=[REDACTED]"]  [HOME]/settings.json:5
    mcpServers.time.env                 ["API_KEY"]                             [HOME]/settings.json:9
    mcpServers.time.idleTimeoutSeconds  2.5                                     [HOME]/settings.json:12
    "#);
    let all = wharf.run(&["config", "show"]);
    let limit = all
        .lines()
        .find(|line| line.starts_with("mcpServers.time.callTimeoutSeconds"));
    let words: Vec<&str> = limit.unwrap().split_whitespace().collect();
    assert_eq!(words[1..], ["120", "default"]);
    assert!(!all.contains("hunter2"), "{all}");
    let json = wharf.json(&["config", "show"]);
    assert_eq!(json["values"][0]["key"], "daemon.listen");
    assert!(!json.to_string().contains("hunter2"));
}

#[test]
fn every_problem_is_told_at_once() {
    let wharf = Wharf::new();
    wharf.home.write_config(&json!({
        "daemon": {"lisen": "127.0.0.1:9000"},
        "mcp": {"servers": {"a": {"comand": "x"}}},
    }));
    wharf.home.write(
        "settings.json",
        "{\n  // mine\n  \"mcpServers\": {\n    \"b\": {\"command\": \"x\", \"enabled\": \"yes\"},\n    \"c\": {\"command\": \"x\", \"env\": {\"K\": \"${env:NOT_SET}\"}}\n  }\n}\n",
    );
    assert_snapshot!(wharf.run(&["config", "check"]), @r#"
    $ wharf config check
    error: [HOME]/config.json:3: daemon.lisen: unknown member
      hint: did you mean `listen`?
    error: [HOME]/config.json:7: mcp.servers.a: `command` is required
    error: [HOME]/config.json:8: mcp.servers.a.comand: unknown member
      hint: did you mean `command`?
    error: [HOME]/settings.json:4: mcpServers.b.enabled: must be `true` or `false`, not "yes"
    warning: [HOME]/settings.json:5: mcpServers.c.env.K: `${env:NOT_SET}` is not set, so the value is empty
      hint: set `NOT_SET` where the daemon is started, then start it again
    4 errors, 1 warning; 1 usable server
    [exit 1]
    "#);
    assert_snapshot!(wharf.run(&["up"]), @r#"
    $ wharf up
    ! error: [HOME]/config.json:3: daemon.lisen: unknown member
    !   hint: did you mean `listen`?
    ! error: [HOME]/config.json:7: mcp.servers.a: `command` is required
    ! error: [HOME]/config.json:8: mcp.servers.a.comand: unknown member
    !   hint: did you mean `command`?
    ! error: [HOME]/settings.json:4: mcpServers.b.enabled: must be `true` or `false`, not "yes"
    ! warning: [HOME]/settings.json:5: mcpServers.c.env.K: `${env:NOT_SET}` is not set, so the value is empty
    !   hint: set `NOT_SET` where the daemon is started, then start it again
    ! error: not started, since the configuration has errors
    [exit 2]
    "#);
    wharf.home.write("settings.json", "{\"mcpServers\": {");
    assert_snapshot!(wharf.run(&["up", "--background"]), @"
    $ wharf up --background
    ! error: [HOME]/config.json:3: daemon.lisen: unknown member
    !   hint: did you mean `listen`?
    ! error: [HOME]/config.json:7: mcp.servers.a: `command` is required
    ! error: [HOME]/config.json:8: mcp.servers.a.comand: unknown member
    !   hint: did you mean `command`?
    ! error: [HOME]/settings.json:1: (syntax): Unterminated object
    ! error: not started, since the configuration has errors
    [exit 2]
    ");
}

#[test]
fn problems_are_told_to_programs_too() {
    let wharf = Wharf::new();
    wharf
        .home
        .write_config(&json!({"daemon": {"lisen": "127.0.0.1:9000"}}));
    assert_snapshot!(wharf.run(&["config", "check", "--json"]), @r#"
    $ wharf config check --json
    {
      "errors": 1,
      "warnings": 0,
      "problems": [
        {
          "severity": "error",
          "place": {
            "in": "file",
            "file": "[HOME]/config.json",
            "line": 3
          },
          "key": "daemon.lisen",
          "message": "unknown member",
          "hint": "did you mean `listen`?"
        }
      ]
    }
    [exit 1]
    "#);
    assert_snapshot!(wharf.run(&["up", "--json"]), @r#"
    $ wharf up --json
    ! {"title":"not started, since the configuration has errors","problems":[{"severity":"error","place":{"in":"file","file":"[HOME]/config.json","line":3},"key":"daemon.lisen","message":"unknown member","hint":"did you mean `listen`?"}],"exitCode":2}
    [exit 2]
    "#);
}

#[test]
fn without_a_daemon_it_says_how_to_start_one() {
    let wharf = Wharf::new();
    assert_snapshot!(wharf.run(&["list"]), @"
    $ wharf list
    ! error: no daemon runs for this home ([HOME]/wharf.sock)
    ! hint: start one with `wharf up`
    [exit 3]
    ");
    for words in [
        &["status"] as &[&str],
        &["stop"],
        &["tools"],
        &["call", "a/b"],
        &["agent", "list"],
        &["logs", "-f"],
    ] {
        let said = wharf.run(words);
        assert!(
            said.contains("hint: start one with `wharf up`\n[exit 3]"),
            "{said}"
        );
    }
    assert_snapshot!(wharf.run(&["list", "--json"]), @r#"
    $ wharf list --json
    ! {"title":"no daemon runs for this home ([HOME]/wharf.sock)","hint":"start one with `wharf up`","causes":[],"exitCode":3}
    [exit 3]
    "#);
}

#[test]
fn wrong_usage_is_explained() {
    let wharf = Wharf::new();
    assert_snapshot!(wharf.run(&["add", "time"]), @"
    $ wharf add time
    ! error: no daemon runs for this home ([HOME]/wharf.sock)
    ! hint: start one with `wharf up`
    [exit 3]
    ");
    assert_snapshot!(wharf.run(&["add", "time", "uvx", "mcp server"]), @"
    $ wharf add time uvx mcp server
    ! error: the command of `time` must stand after `--`
    ! hint: `wharf add time -- uvx 'mcp server'`
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["add", "--json", "{\"mcpServers\": "]), @r#"
    $ wharf add --json {"mcpServers": 
    ! error: the block is not JSON: line 1: Expected value after colon in object property
    [exit 2]
    "#);
    assert_snapshot!(wharf.run(&["add", "{\"mcpServers\": {}}"]), @r#"
    $ wharf add {"mcpServers": {}}
    ! error: there is no server in the block
    ! hint: it should look like `{"mcpServers": {"name": {"command": "npx", "args": []}}}`
    [exit 2]
    "#);
    assert_snapshot!(wharf.run(&["add", "{\"a\": {\"args\": []}, \"b\": {\"command\": 5}}"]), @r#"
    $ wharf add {"a": {"args": []}, "b": {"command": 5}}
    ! error: a: `command` is required
    !   b.command: must be a string, not 5
    !   b: `command` is required
    [exit 2]
    "#);
    assert_snapshot!(wharf.run(&["call", "a/b", "--args", "[1]"]), @"
    $ wharf call a/b --args [1]
    ! error: `--args` must be a JSON object
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["call", "a/b", "message"]), @"
    $ wharf call a/b message
    ! error: invalid value 'message' for '[KEY=VALUE]...': expected KEY=VALUE, for example `message=hello`
    ! 
    ! For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["mcp", "start", "a"]), @"
    $ wharf mcp start a
    ! error: `start` is no command of `wharf mcp`
    ! hint: it is `wharf mcp`, `wharf mcp NAME` or `wharf mcp restart NAME`
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["up", "--log", "info,loud"]), @"
    $ wharf up --log info,loud
    ! error: `info,loud` is no level to log
    ! hint: use `error`, `warn`, `info`, `debug`, `trace` or `off`, and `MODULE=LEVEL` after a comma
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["lst"]), @"
    $ wharf lst
    ! error: unrecognized subcommand 'lst'
    ! 
    !   tip: some similar subcommands exist: 'stop', 'test', 'list'
    ! 
    ! Usage: wharf [OPTIONS] <COMMAND>
    ! 
    ! For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn v7_the_home_is_moved_by_its_variable() {
    let wharf = Wharf::new();
    let path = |variable: Option<&str>, words: &[&str]| {
        let mut command = wharf.command(words);
        command
            .env_remove("WHARFINGER_HOME")
            .env("HOME", "/users/me");
        if let Some(variable) = variable {
            command.env("WHARFINGER_HOME", variable);
        }
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let check = |text: &str, home: &str| {
        assert!(text.contains(&format!("{home}/settings.json")), "{text}");
    };
    check(&path(None, &["config", "path"]), "/users/me/.wharfinger");
    check(&path(Some("/moved"), &["config", "path"]), "/moved");
    check(
        &path(Some(""), &["config", "path"]),
        "/users/me/.wharfinger",
    );
    check(
        &path(Some("/moved"), &["--home", "/given", "config", "path"]),
        "/given",
    );
}

#[test]
fn a_command_that_does_not_stand_after_dashes_is_told_where_it_belongs() {
    let wharf = Wharf::new();
    assert_snapshot!(wharf.run(&["add", "foo", "npx", "-y", "bar"]), @"
    $ wharf add foo npx -y bar
    ! error: the command of `foo` must stand after `--`
    ! hint: `wharf add foo -- npx -y bar`
    [exit 2]
    ");
}
