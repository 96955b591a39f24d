//! The sources and their rules (V3–V25), as tables.

use super::*;

fn file(name: &str, text: &str) -> File {
    File {
        name: name.into(),
        text: text.to_owned(),
    }
}

fn inputs(host: &str, settings: &str, variables: &[(&str, &str)]) -> Inputs {
    Inputs {
        host: Some(file("config.json", host)),
        settings: Some(file("settings.json", settings)),
        environment: variables
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        run: vec![],
    }
}

fn names(loaded: &Loaded) -> Vec<String> {
    loaded
        .config
        .servers
        .iter()
        .map(|entry| entry.name.to_string())
        .collect()
}

fn problems(loaded: &Loaded) -> Vec<String> {
    loaded.problems.iter().map(ToString::to_string).collect()
}

/// One entry of the user file; its problems.
fn entry(members: &str) -> (Option<ServerEntry>, Vec<String>) {
    let text = format!("{{\"mcpServers\":{{\"s\":{{{members}}}}}}}");
    let loaded = load(&inputs("", &text, &[("SET", "1")]));
    let problems = problems(&loaded);
    (loaded.config.servers.into_iter().next(), problems)
}

#[test]
fn v3_v5_v6_sources_come_in_order_and_host_servers_by_name() {
    let loaded = load(&inputs(
        r#"{"mcp": {"servers": {"zeta": {"command": "x"}, "Beta": {"command": "x"}, "alpha": {"command": "x"}, "beta": {"command": "x"}}}}"#,
        r#"{"mcpServers": {"z": {"command": "x"}, "a": {"command": "x"}}}"#,
        &[
            ("PLAYWRIGHT_ENABLED", "true"),
            ("Mcp__Servers__middle__Command", "x"),
        ],
    ));
    assert_eq!(
        names(&loaded),
        [
            "alpha",
            "Beta",
            "beta",
            "middle",
            "zeta",
            "playwright",
            "z",
            "a"
        ]
    );
    assert!(!loaded.has_errors());
    assert_eq!(problems(&loaded), Vec::<String>::new());
}

#[test]
fn v6_v10_the_first_of_a_name_wins_whole() {
    let loaded = load(&inputs(
        r#"{"mcp": {"servers": {"playwright": {"command": "mine"}, "both": {"command": "host"}}}}"#,
        r#"{"mcpServers": {"both": {"command": "user", "toolPrefix": "u_"}, "playwright": {"command": "user"}}}"#,
        &[("PLAYWRIGHT_ENABLED", "true")],
    ));
    assert_eq!(names(&loaded), ["both", "playwright"]);
    let both = &loaded.config.servers[0];
    assert_eq!(
        both.transport,
        crate::model::Transport::Stdio {
            command: "host".into(),
            args: vec![],
            cwd: None
        }
    );
    assert_eq!(both.tool_prefix, "", "no field of the loser is merged in");
    assert!(
        !loaded.config.servers[1].browser,
        "a host server wins over the preset"
    );
    assert_eq!(
        problems(&loaded),
        [
            "warning: the Playwright preset: mcp.playwright: ignored, since `playwright` is defined by config.json:1, which comes first",
            "warning: settings.json:1: mcpServers.both: ignored, since `both` is defined by config.json:1, which comes first",
            "warning: settings.json:1: mcpServers.playwright: ignored, since `playwright` is defined by config.json:1, which comes first",
        ]
    );
}

#[test]
fn v4_the_environment_binds_every_field_of_a_server() {
    let loaded = load(&inputs(
        "",
        "",
        &[
            ("Mcp__Servers__git__Command", "uvx"),
            ("Mcp__Servers__git__Args__0", "mcp-server-git"),
            ("Mcp__Servers__git__Env__Token_X", "1"),
            ("Mcp__Servers__git__Cwd", "/x"),
            ("Mcp__Servers__git__ToolPrefix", "g_"),
            ("Mcp__Servers__git__Enabled", "False"),
            ("Mcp__Servers__git__Parallel", "true"),
            ("Mcp__Servers__git__StartupTimeoutSeconds", "5"),
            ("Mcp__Servers__git__CallTimeoutSeconds", "6"),
            ("Mcp__Servers__git__IdleTimeoutSeconds", "0"),
            ("Mcp__Servers__git__StderrLevel", "error"),
            ("Mcp__Servers__git__PromptSection", "hello"),
            ("Mcp__Playwright__Enabled", "true"),
        ],
    ));
    assert_eq!(problems(&loaded), Vec::<String>::new());
    let git = &loaded.config.servers[0];
    let expect = ServerEntry {
        installed_by: None,
        package: None,
        agent_visible: false,
        name: ServerName::new("git").unwrap(),
        source: Source::Host,
        place: git.place.clone(),
        transport: crate::model::Transport::Stdio {
            command: "uvx".into(),
            args: vec!["mcp-server-git".into()],
            cwd: Some("/x".into()),
        },
        env: vec![("Token_X".into(), Some("1".into()))],
        inherit_env: vec![],
        tool_prefix: "g_".into(),
        enabled: false,
        parallel: true,
        startup_timeout: std::time::Duration::from_secs(5),
        call_timeout: std::time::Duration::from_secs(6),
        idle_timeout: None,
        stderr_level: crate::model::StderrLevel::Error,
        prompt_section: Some("hello".into()),
        scope: crate::model::Scope::Agent,
        roots: crate::model::Roots::Workspace,
        browser: false,
    };
    assert_eq!(*git, expect);
    assert_eq!(names(&loaded), ["git", "playwright"]);
}

#[test]
fn members_that_are_null_are_no_members() {
    for (host, settings) in [
        ("", r#"{"mcpServers": null}"#),
        (r#"{"mcp": null, "daemon": null}"#, ""),
    ] {
        assert_eq!(load(&inputs(host, settings, &[])), Loaded::default());
    }
}

#[test]
fn v8_a_missing_user_file_is_no_entries() {
    assert_eq!(load(&Inputs::default()), Loaded::default());
}

#[test]
fn v11_fields_and_their_defaults() {
    let (entry, problems) = entry(r#""command": "x""#);
    let entry = entry.unwrap();
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(
        (entry.enabled, entry.parallel, entry.tool_prefix.as_str()),
        (true, false, "")
    );
    let seconds = |d: std::time::Duration| d.as_secs();
    assert_eq!(
        (seconds(entry.startup_timeout), seconds(entry.call_timeout)),
        (60, 120)
    );
    assert_eq!(entry.idle_timeout.map(seconds), Some(1800));
    assert_eq!(
        entry.stderr_level,
        crate::model::StderrLevel::Warning,
        "V24"
    );
    assert_eq!(
        (entry.prompt_section, entry.env, entry.scope),
        (None, vec![], crate::model::Scope::Agent)
    );
}

#[test]
fn v17_null_removes_a_variable_and_bare_values_count_as_text() {
    let (entry, problems) =
        entry(r#""command": "x", "env": {"A": null, "B": 3, "C": true, "D": "d"}"#);
    let some = |text: &str| Some(text.to_owned());
    let expect = [
        ("A", None),
        ("B", some("3")),
        ("C", some("true")),
        ("D", some("d")),
    ];
    assert_eq!(
        entry.unwrap().env,
        expect.map(|(name, value)| (name.to_owned(), value))
    );
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn v15_an_unset_variable_is_a_warning() {
    let (entry, problems) =
        entry(r#""command": "x", "env": {"A": "${env:SET}", "B": "${env:UNSET}"}"#);
    assert!(entry.is_some());
    assert_eq!(
        problems,
        [
            "warning: settings.json:1: mcpServers.s.env.B: `${env:UNSET}` is not set, so the value is empty\n  hint: set `UNSET` where the daemon is started, then start it again"
        ]
    );
}

#[test]
fn v21_v22_v23_what_a_field_may_not_be() {
    let check = |members: &str, expect: &str| {
        let (entry, problems) = entry(members);
        assert!(entry.is_none(), "{members}");
        assert_eq!(problems.len(), 1, "{problems:?}");
        let problem = problems[0].strip_prefix("error: settings.json:1: mcpServers.s");
        assert_eq!(problem, Some(expect), "{}", problems[0]);
    };
    check(r#""args": []"#, ": `command` is required");
    check(r#""type": "http""#, ": `url` is required");
    check(r#""command": " ""#, ".command: must not be empty");
    check(
        r#""command": "x", "args": "y""#,
        ".args: must be a list of strings, not \"y\"",
    );
    check(
        r#""command": "x", "args": [{}]"#,
        ".args[0]: must be a string, not an object",
    );
    check(
        r#""command": "x", "env": []"#,
        ".env: must be an object of strings, not a list",
    );
    check(
        r#""command": "x", "env": {"A": []}"#,
        ".env.A: must be a string or null, not a list",
    );
    check(
        r#""command": "x", "env": {"A=B": "c"}"#,
        ".env.A=B: is no name of a variable",
    );
    check(
        r#""command": "x", "toolPrefix": "a.b""#,
        ".toolPrefix: may hold only letters, digits, `_` and `-`, not \"a.b\"",
    );
    check(
        r#""command": "x", "toolPrefix": "mcp__x""#,
        ".toolPrefix: may not start with `mcp__`, not \"mcp__x\"",
    );
    check(
        r#""command": "x", "enabled": "true""#,
        ".enabled: must be `true` or `false`, not \"true\"",
    );
    check(
        r#""command": "x", "startupTimeoutSeconds": 0"#,
        ".startupTimeoutSeconds: must be a number of seconds above 0, not 0",
    );
    check(
        r#""command": "x", "callTimeoutSeconds": -1"#,
        ".callTimeoutSeconds: must be a number of seconds above 0, not -1",
    );
    check(
        r#""command": "x", "callTimeoutSeconds": "5""#,
        ".callTimeoutSeconds: must be a number of seconds above 0, not \"5\"",
    );
    check(
        r#""command": "x", "callTimeoutSeconds": 1e400"#,
        ".callTimeoutSeconds: must be a number of seconds above 0, not 1e400",
    );
    check(
        r#""command": "x", "idleTimeoutSeconds": -1"#,
        ".idleTimeoutSeconds: must be a number of seconds, 0 (never) or more, not -1",
    );
    check(
        r#""command": "x", "stderrLevel": "Warn""#,
        ".stderrLevel: must be one of `Trace`, `Debug`, `Information`, `Warning`, `Error`, `Critical`, `None`, not \"Warn\"",
    );
    check(
        r#""command": "x", "scope": "sesion""#,
        ".scope: must be one of `agent`, `session`, not \"sesion\"\n  hint: did you mean `session`?",
    );
}

#[test]
fn v23_a_command_that_is_no_string_is_named_and_missed() {
    let (entry, problems) = entry(r#""command": 7"#);
    assert!(entry.is_none());
    assert_eq!(
        problems,
        [
            "error: settings.json:1: mcpServers.s.command: must be a string, not 7",
            "error: settings.json:1: mcpServers.s: `command` is required",
        ]
    );
}

#[test]
fn v22_idle_may_be_zero() {
    let (entry, problems) =
        entry(r#""command": "x", "idleTimeoutSeconds": 0, "callTimeoutSeconds": 0.5"#);
    let entry = entry.unwrap();
    assert_eq!(
        (
            entry.idle_timeout,
            entry.call_timeout.as_millis(),
            problems.len()
        ),
        (None, 500, 0)
    );
}

#[test]
fn v23_all_problems_at_once_with_place_key_and_hint() {
    let loaded = load(&inputs(
        "{\n  \"mcp\": {\n    \"servers\": {\n      \"a\": { \"comand\": \"x\" }\n    },\n    \"playwrite\": {}\n  },\n  \"daemon\": { \"lissten\": \"x\", \"maxTools\": 0 }\n}",
        "{\n  \"mcpServers\": {\n    \"b\": { \"command\": \"x\", \"calltimeoutSeconds\": 5 },\n    \"_c\": { \"command\": \"x\" }\n  },\n  \"theme\": 1, \"mcpservers\": {}\n}",
        &[
            ("PLAYWRIGHT_HEADLESS", "maybe"),
            ("Mcp__Servers__a__Parallel", "si"),
            ("Daemon__Listen", "nowhere"),
        ],
    ));
    assert!(loaded.has_errors());
    let found = problems(&loaded);
    for expect in [
        "error: config.json:4: mcp.servers.a: `command` is required",
        "error: config.json:4: mcp.servers.a.comand: unknown member\n  hint: did you mean `command`?",
        "error: environment variable Mcp__Servers__a__Parallel: mcp.servers.a.parallel: must be `true` or `false`, not \"si\"",
        "error: config.json:6: mcp.playwrite: unknown member\n  hint: did you mean `playwright`?",
        "error: config.json:8: daemon.lissten: unknown member\n  hint: did you mean `listen`?",
        "error: config.json:8: daemon.maxTools: must be a whole number above 0, not 0",
        "error: environment variable Daemon__Listen: daemon.listen: must be an address and a port like 127.0.0.1:7311, not \"nowhere\"",
        "error: environment variable PLAYWRIGHT_HEADLESS: mcp.playwright.headless: must be `true` or `false`, not \"maybe\"",
        "warning: settings.json:3: mcpServers.b.calltimeoutSeconds: unknown member, kept but not used\n  hint: did you mean `callTimeoutSeconds`?",
        "error: settings.json:4: mcpServers._c: the server's name \"_c\" may not start with `_`",
        "warning: settings.json:6: theme: unknown member, kept but not used",
        "warning: settings.json:6: mcpservers: unknown member, kept but not used\n  hint: did you mean `mcpServers`?",
    ] {
        assert!(
            found.iter().any(|problem| problem == expect),
            "{expect}\nnot in {found:#?}"
        );
    }
    assert_eq!(found.len(), 12, "{found:#?}");
    assert_eq!(names(&loaded), ["b"]);
    assert_eq!(
        loaded.config.broken.len(),
        1,
        "`a` keeps its name; `_c` is none"
    );
}

#[test]
fn v23_text_that_is_not_json_is_one_problem_with_its_line() {
    let loaded = load(&inputs("{\n\"mcp\": nope }", "{\n\n,}", &[]));
    let found = problems(&loaded);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].starts_with("error: config.json:2: (syntax): "),
        "{found:?}"
    );
    assert!(
        found[1].starts_with("error: settings.json:3: (syntax): "),
        "{found:?}"
    );
    assert!(loaded.settings_unreadable);
    for odd in ["[]", "7", "null"] {
        assert!(load(&inputs("", odd, &[])).settings_unreadable, "{odd}");
        assert!(
            load(&inputs(odd, "", &[])).has_errors() || odd == "null",
            "{odd}"
        );
    }
}

#[test]
fn v4_keys_of_the_host_section_match_in_any_case_and_the_user_files_do_not() {
    let loaded = load(&inputs(
        r#"{"MCP": {"Servers": {"a": {"COMMAND": "x", "CallTimeoutSeconds": 5, "enabled": null}}}}"#,
        r#"{"mcpServers": {"b": {"Command": "x"}}}"#,
        &[],
    ));
    assert_eq!(loaded.config.servers[0].call_timeout.as_secs(), 5);
    let found = problems(&loaded);
    assert_eq!(
        found[0],
        "error: settings.json:1: mcpServers.b: `command` is required"
    );
    assert!(
        found[1].ends_with("hint: did you mean `command`?"),
        "{found:?}"
    );
}

#[test]
fn v12_a_broken_entry_takes_its_name_too() {
    let loaded = load(&inputs(
        r#"{"mcp": {"servers": {"a": {"args": []}}}}"#,
        r#"{"mcpServers": {"a": {"command": "x"}}}"#,
        &[],
    ));
    assert_eq!(names(&loaded), Vec::<String>::new());
    assert_eq!(
        problems(&loaded)[1],
        "warning: settings.json:1: mcpServers.a: ignored, since `a` is defined before, though wrongly"
    );
}

#[test]
fn what_other_programs_write_works_as_it_is() {
    let (entry, problems) = entry(
        r#""type": "stdio", "command": "npx", "args": ["-y", "x", 7, true], "disabled": false, "autoApprove": [], "timeout": 60"#,
    );
    let entry = entry.unwrap();
    assert!(entry.enabled);
    assert_eq!(
        entry.transport,
        crate::model::Transport::Stdio {
            command: "npx".into(),
            args: ["-y", "x", "7", "true"].map(str::to_owned).to_vec(),
            cwd: None
        }
    );
    assert_eq!(problems.len(), 2, "{problems:?}");
    let (entry, problems) = self::entry(r#""url": "https://example.com/mcp", "headers": {}"#);
    assert_eq!(
        entry.unwrap().transport,
        crate::model::Transport::Http {
            url: "https://example.com/mcp".into()
        }
    );
    assert_eq!(
        problems[0],
        "warning: settings.json:1: mcpServers.s.url: remote servers come later; the entry is kept"
    );
}

#[test]
fn every_setting_of_the_daemon_is_read_and_shown() {
    let host = r#"{"daemon": {"listen": "localhost:0", "allowedHosts": ["a"], "secretVariables": ["B_*"],
        "passVariables": ["C"], "hostAccess": true, "hostApproved": ["d=npm:d"], "registryUrl": "https://e.example/list", "officialRegistryUrl": "", "journalRows": 15, "maxLineBytes": 1, "maxBodyBytes": 2, "maxListPages": 3, "maxTools": 4,
        "stderrLines": 5, "stderrLineBytes": 6, "maxQueuedCalls": 7, "maxSessionRequests": 8, "maxSessions": 9,
        "listWaitSeconds": 0.5, "inputWaitSeconds": 10, "approvalSeconds": 16, "approvalPatienceSeconds": 17, "sessionIdleSeconds": 11, "exitWaitSeconds": 12, "termWaitSeconds": 13, "probeWaitSeconds": 14}}"#;
    let loaded = load(&inputs(host, "", &[]));
    assert_eq!(problems(&loaded), Vec::<String>::new());
    let shown: Vec<String> = SETTINGS
        .iter()
        .map(|setting| setting.show(&loaded.config.daemon))
        .collect();
    let expect = [
        "\"127.0.0.1:0\"",
        "[\"a\"]",
        "[\"B_*\"]",
        "[\"C\"]",
        "true",
        "[\"d=npm:d\"]",
        "\"https://e.example/list\"",
        "\"\"",
        "15",
        "1",
        "2",
        "3",
        "4",
        "5",
        "6",
        "7",
        "8",
        "9",
        "0.5",
        "10",
        "16",
        "17",
        "11",
        "12",
        "13",
        "14",
    ];
    assert_eq!(shown, expect);
}

#[test]
fn a8_an_address_of_a_list_is_one() {
    for wrong in ["example.com/list", "file:///list", "x"] {
        let host = serde_json::json!({"daemon": {"registryUrl": wrong}}).to_string();
        let found = problems(&load(&inputs(&host, "", &[])));
        assert!(
            found.len() == 1 && found[0].contains("must be an address like"),
            "{found:?}"
        );
    }
}

#[test]
fn v31_configured_values_beat_variables() {
    let loaded = load(&inputs(
        r#"{"mcp": {"playwright": {"enabled": false, "headless": false, "browser": "firefox", "extraArgs": [], "command": "mine"}}}"#,
        "",
        &[
            ("PLAYWRIGHT_ENABLED", "true"),
            ("PLAYWRIGHT_HEADLESS", "true"),
            ("PLAYWRIGHT_BROWSER", "webkit"),
            ("PLAYWRIGHT_EXTRA_ARGS", "--isolated"),
            ("PLAYWRIGHT_COMMAND", "theirs"),
            ("Mcp__Playwright__Package", "@playwright/mcp@9"),
        ],
    ));
    assert_eq!(problems(&loaded), Vec::<String>::new());
    let expect = Playwright {
        enabled: false,
        headless: false,
        browser: "firefox".into(),
        extra_args: vec![],
        package: "@playwright/mcp@9".into(),
        command: Some("mine".into()),
    };
    assert_eq!(loaded.config.playwright, expect);
    let empty = r#"{"mcp": {"playwright": {"browser": null, "command": ""}}}"#;
    let loaded = load(&inputs(
        empty,
        "",
        &[("PLAYWRIGHT_BROWSER", "webkit"), ("PLAYWRIGHT_COMMAND", "")],
    ));
    assert_eq!(
        (
            loaded.config.playwright.browser.as_str(),
            loaded.config.playwright.command
        ),
        ("webkit", None)
    );
}

#[test]
fn a197_a_variable_that_no_server_may_have_is_a_warning() {
    let (entry, problems) =
        entry(r#""command": "x", "env": {"LD_PRELOAD": "/x", "node_options": null, "FINE": "1"}"#);
    assert!(entry.is_some());
    assert_eq!(
        problems,
        [
            "warning: settings.json:1: mcpServers.s.env.LD_PRELOAD: no server may have this variable, so it is left out",
            "warning: settings.json:1: mcpServers.s.env.node_options: no server may have this variable, so it is left out",
        ]
    );
}

#[test]
fn a_prefix_leaves_room_for_the_tools_name() {
    let with = |length: usize| {
        entry(&format!(
            r#""command": "x", "toolPrefix": "{}""#,
            "p".repeat(length)
        ))
    };
    assert_eq!(with(40).1, Vec::<String>::new());
    let problem = &with(41).1[0];
    assert!(
        problem.contains("must leave room for the tool's name, 40 characters at most"),
        "{problem}"
    );
}

#[test]
fn what_is_missing_depends_on_what_kind_it_is() {
    let needs = |members: &str| entry(members).1.remove(0);
    assert!(needs(r#""type": "stdio""#).ends_with("`command` is required"));
    assert!(needs(r#""type": "sse""#).ends_with("`url` is required"));
    assert!(needs("").ends_with("`command` is required"));
}

#[test]
fn the_host_section_has_no_foreign_member() {
    let loaded = load(&inputs(
        r#"{"mcp": {"servers": {"a": {"command": "x", "disabled": true}}}}"#,
        "",
        &[],
    ));
    assert_eq!(
        problems(&loaded).len(),
        1,
        "`disabled` is other programs' word, and refused there"
    );
    let (entry, _) = entry(r#""command": "x", "enabled": true, "disabled": true"#);
    assert!(entry.unwrap().enabled, "our own word counts");
}

#[test]
fn null_and_an_empty_variable_count_as_unset() {
    let nulls = FIELDS.iter().filter(|field| field.name != "command");
    let nulls: Vec<String> = nulls
        .map(|field| format!("\"{}\": null", field.name))
        .collect();
    let (plain, problems) = entry(r#""command": "x""#);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(
        entry(&format!(r#""command": "x", {}"#, nulls.join(", "))),
        (plain, problems)
    );
    let unset = |key: &str| (format!("Mcp__Servers__a__{key}"), String::new());
    let keys = [
        "Enabled",
        "Parallel",
        "StartupTimeoutSeconds",
        "IdleTimeoutSeconds",
        "Cwd",
    ];
    let mut inputs = inputs(
        r#"{"mcp": {"servers": {"a": {"command": "x"}}}, "daemon": {"maxTools": null}}"#,
        "",
        &[],
    );
    let with_nothing = load(&inputs).config;
    inputs.environment = keys.map(unset).into_iter().collect();
    let loaded = load(&inputs);
    assert_eq!(self::problems(&loaded), Vec::<String>::new());
    assert!(difference(&with_nothing, &loaded.config).is_empty());
}

#[test]
fn v4_a_variable_that_is_no_number_is_refused() {
    let refused = |value: &str| {
        let variable = ("Mcp__Servers__a__CallTimeoutSeconds", value);
        let loaded = load(&inputs(
            r#"{"mcp": {"servers": {"a": {"command": "x"}}}}"#,
            "",
            &[variable],
        ));
        loaded.has_errors()
    };
    assert!(!refused("5") && !refused(" 5 ") && !refused("0.5"));
    assert!(refused("five") && refused("inf") && refused("1e10") && refused("0") && refused("-1"));
}
