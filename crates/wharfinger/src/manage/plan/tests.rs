use super::*;

fn app(host: bool) -> AppCompute {
    AppCompute {
        host_access_enabled: host,
        host_approved: vec![],
    }
}

/// An agent that may run on the host, with a container at hand, and two registrations of the owner's.
struct Agent {
    config: Value,
    app: AppCompute,
    container: Option<Location>,
    credentials: Envelope,
    registrations: Vec<Registration>,
}

impl Default for Agent {
    fn default() -> Self {
        let registration = |name: &str, source: &str, agent_visible| Registration {
            name: name.into(),
            source: source.into(),
            agent_visible,
            variables: vec!["SET".into()],
        };
        Self {
            config: json!({"mcp": {"servers": []}}),
            app: app(false),
            container: Some(Location::SharedContainer),
            credentials: Envelope::Open,
            registrations: vec![
                registration("owned", "npm:@own/ed@1.0", true),
                registration("secret", "uvx:mcp-server-secret", false),
            ],
        }
    }
}

impl Agent {
    fn plan(&self, arguments: &Value) -> Result<Plan, String> {
        let at = Situation {
            config: &self.config,
            app: &self.app,
            container: self.container,
            credentials: self.credentials,
            registrations: &self.registrations,
        };
        Install::read(arguments)
            .and_then(|install| plan(install, &at))
            .map_err(|error| error.to_string())
    }

    fn new_server(&self, arguments: &Value) -> NewServer {
        match self.plan(arguments) {
            Ok(Plan::New(new)) => *new,
            other => panic!("{other:?}"),
        }
    }

    fn rerun(&self, arguments: &Value) -> Rerun {
        match self.plan(arguments) {
            Ok(Plan::Rerun(rerun)) => *rerun,
            other => panic!("{other:?}"),
        }
    }

    /// With a server installed.
    fn with(arguments: &Value) -> Self {
        let mut agent = Self::default();
        let new = agent.new_server(arguments);
        new.apply(&mut agent.config).unwrap();
        agent
    }
}

fn sealed(purpose: &str, value: &str) -> SealedValue {
    SealedValue {
        purpose: purpose.into(),
        value: Secret::new(value.into()),
    }
}

#[test]
fn a83_a84_a_new_server_and_what_is_sealed_for_it() {
    let agent = Agent::default();
    let new = agent.new_server(&json!({
        "package": "@gongrzhe/server-gmail-autoauth-mcp",
        "env": {"KEY": "hunter2"},
        "auth": true,
        "credential_files": [{"path": "~/.gmail-mcp/keys.json", "content": "{}"}, {"path": "~/.gmail-mcp/t.json"}],
    }));
    assert_eq!(new.name, "gmail_autoauth");
    assert_eq!(new.source(), "npm:@gongrzhe/server-gmail-autoauth-mcp");
    assert_eq!(new.location, Location::SharedContainer);
    assert_eq!(new.secrets, [sealed("mcp:gmail_autoauth:KEY", "hunter2")]);
    let file = SealedFile {
        purpose: "mcp:@gongrzhe/server-gmail-autoauth-mcp:file:~/.gmail-mcp/keys.json".into(),
        content: Secret::new(b"{}".to_vec()),
    };
    assert_eq!(new.files, [file]);
    assert!(new.auth);
    assert_eq!(new.env_keys(), ["KEY"]);
    let mut config = json!({"name": "agent"});
    new.apply(&mut config).unwrap();
    assert!(!config.to_string().contains("hunter2"));
    assert_eq!(
        config["mcp"]["servers"][0]["credential_files"],
        json!([
            {"path": "~/.gmail-mcp/keys.json", "required": false, "write_back": true},
            {"path": "~/.gmail-mcp/t.json", "required": false, "write_back": true},
        ])
    );
    // What came meanwhile is not overwritten (A98).
    assert!(new.apply(&mut config).is_err());
}

#[test]
fn a80_refusals_name_the_way_out() {
    let mut agent = Agent::default();
    let check = |agent: &Agent, arguments: &Value, expect: &str| {
        assert_eq!(agent.plan(arguments).unwrap_err(), expect);
    };
    check(
        &agent,
        &json!({"type": "custom", "package": "node"}),
        "type `custom` needs `name`: what to call the server",
    );
    check(
        &agent,
        &json!({}),
        "type `npm` needs `package`: the package to run",
    );
    check(
        &agent,
        &json!({"type": "custom", "name": "x"}),
        "type `custom` needs `package`: the command to run",
    );
    check(
        &agent,
        &json!({"type": "http"}),
        "type `http` needs `url`, the address of the server's endpoint",
    );
    check(
        &agent,
        &json!({"type": "http", "url": "https://x/", "headers": {"Authorization": "Bearer x", "X-Api-Key": "k", "X-Region": "eu"}}),
        "`headers` are kept readable, and `Authorization`, `X-Api-Key` would hold a secret. Give its value in `env` and name it with `header_env`, or with `bearer_token_env_var` for `Authorization: Bearer`",
    );
    check(
        &agent,
        &json!({"package": "mcp-x", "host": true}),
        "`x` may not run on the host: host access is off. Ask the owner to switch it on, or install without `host`",
    );
    agent.app = app(true);
    check(
        &agent,
        &json!({"package": "mcp-x", "host": true}),
        "`x` may not run on the host: this agent has no `compute.host_access` and `x` is not approved for the host. Ask the owner for one of them, or install without `host`",
    );
    check(
        &agent,
        &json!({"type": "pypi", "package": "mcp-server-secret"}),
        "`secret` is set up by the owner but not available to agents. Ask the owner to turn on its \"Available to agents\" toggle, then run `mcp_install` again",
    );
    let locked = "the agent's credentials are locked, so nothing can be sealed and nothing was stored. Ask the owner to unlock them, then run `mcp_install` again with the same arguments";
    agent.credentials = Envelope::Locked;
    check(&agent, &json!({"package": "x", "env": {"K": "v"}}), locked);
    check(
        &agent,
        &json!({"package": "x", "credential_files": [{"path": "~/x", "content": "v"}]}),
        locked,
    );
    // Names alone need no sealing.
    assert!(
        agent
            .plan(
                &json!({"package": "x", "env_keys": ["K"], "credential_files": [{"path": "~/x"}]})
            )
            .is_ok()
    );
    agent.credentials = Envelope::Foreign;
    let error = agent
        .plan(&json!({"package": "x", "env": {"K": "v"}}))
        .unwrap_err();
    assert!(error.contains("sealed on another machine"), "{error}");
}

#[test]
fn a28_a29_host_is_granted_by_the_gate_alone() {
    let mut agent = Agent {
        app: app(true),
        ..Agent::default()
    };
    let host = json!({"package": "mcp-x", "host": true});
    agent.app.host_approved.push(crate::manage::Approved {
        name: "x".into(),
        source: Some("npm:mcp-x".into()),
    });
    assert_eq!(agent.new_server(&host).entry["run_location"], "host");
    let other = json!({"package": "mcp-y", "name": "x", "host": true});
    let error = agent.plan(&other).unwrap_err();
    assert!(
        error.contains("approved for `npm:mcp-x`, and this is `npm:mcp-y`"),
        "{error}"
    );
    agent.config["compute"] = json!({"host_access": true});
    assert_eq!(agent.new_server(&other).location, Location::Host);
    // A file outside the home folder is none of a server's on the host (A119).
    let error = agent
        .plan(&json!({"package": "mcp-x", "host": true, "credential_files": [{"path": "/etc/x"}]}))
        .unwrap_err();
    assert!(error.contains("must be below the home folder"), "{error}");
}

#[test]
fn a35_without_a_container_nothing_is_run_on_the_host_instead() {
    let mut agent = Agent {
        container: None,
        app: app(true),
        ..Agent::default()
    };
    agent.config["compute"] = json!({"host_access": true});
    let error = agent.plan(&json!({"package": "mcp-x"})).unwrap_err();
    assert!(
        error.contains("it is not run on the host instead"),
        "{error}"
    );
    let http =
        agent.new_server(&json!({"type": "http", "url": "https://mcp.example.com/", "auth": true}));
    assert_eq!(http.location, Location::RemoteHttp);
    assert_eq!(http.name, "mcp_example_com");
    assert!(!http.auth);
    assert_eq!(
        http.notes,
        ["`auth` has no meaning for a server reached by http; it was left out"]
    );
    assert_eq!(
        agent
            .new_server(&json!({"package": "mcp-x", "host": true}))
            .location,
        Location::Host
    );
}

#[test]
fn a81_a_browser_gets_its_container() {
    let mut agent = Agent::default();
    let mut check = |arguments: &Value, expect: Option<Value>| {
        let mut config = json!({"compute": {"packages": ["x"]}});
        agent.new_server(arguments).apply(&mut config).unwrap();
        let expect = expect.unwrap_or(json!({"packages": ["x"]}));
        assert_eq!(config["compute"], expect, "{arguments}");
        agent.app = app(true);
        agent.config["compute"] = json!({"host_access": true});
    };
    let on = json!({"packages": ["x"], "enabled": true, "browser": true});
    check(
        &json!({"package": "@playwright/mcp@latest"}),
        Some(on.clone()),
    );
    check(
        &json!({"package": "@modelcontextprotocol/server-puppeteer"}),
        Some(on),
    );
    check(&json!({"package": "@playwright/mcp", "host": true}), None);
    check(&json!({"package": "mcp-other"}), None);
}

#[test]
fn a73_a_registration_is_attached_by_name_or_by_package() {
    let agent = Agent::default();
    let attach = |auth, secrets: Vec<SealedValue>| Plan::Attach {
        name: "owned".into(),
        secrets,
        files: vec![],
        auth,
    };
    assert_eq!(
        agent.plan(&json!({"name": "owned"})),
        Ok(attach(None, vec![]))
    );
    assert_eq!(
        agent.plan(&json!({"package": "@own/ed@2.0"})),
        Ok(attach(None, vec![]))
    );
    assert_eq!(
        agent.plan(&json!({"package": "@own/ed", "name": "mine", "auth": false})),
        Ok(attach(Some(false), vec![]))
    );
    // A name that only happens to come out the same is not asked for.
    assert_eq!(
        agent.plan(&json!({"package": "@evil/owned"})).unwrap_err(),
        "`owned` is a server of the owner's, from another package; give another `name`"
    );
}

#[test]
fn a101_in_a_server_of_the_owner_an_agent_sets_what_its_entry_leaves_to_it() {
    let mut agent = Agent::default();
    let with = |key: &str| json!({"name": "owned", "env": {key: "v"}});
    let refused = |agent: &Agent, arguments: &Value| {
        let error = agent.plan(arguments).unwrap_err();
        assert!(error.contains("is set up by the owner"), "{error}");
    };
    refused(&agent, &with("K"));
    refused(&agent, &json!({"name": "owned", "env_keys": ["K"]}));
    let left = ["K", "SET", "PATH"].map(|key| json!({"key": key, "scope": "agent"}));
    agent.config = json!({"mcp": {"servers": [{"name": "owned", "env_schema": left}]}});
    assert_eq!(
        agent.rerun(&with("K")).secrets,
        [sealed("mcp:owned:K", "v")]
    );
    for key in ["SET", "PATH", "OTHER"] {
        refused(&agent, &with(key));
    }
}

#[test]
fn a87_a_bare_rerun_is_no_change() {
    let agent = Agent::with(&json!({"package": "mcp-x@1", "args": ["--a"], "env_keys": ["K"]}));
    let same = Ok(Plan::AlreadyInstalled { name: "x".into() });
    for arguments in [
        json!({"package": "mcp-x"}),
        json!({"package": "mcp-x@2"}),
        json!({"name": "x"}),
        json!({"name": "x", "package": "mcp-x", "args": ["--a"], "env_keys": ["K"]}),
    ] {
        assert_eq!(agent.plan(&arguments), same, "{arguments}");
    }
}

#[test]
fn a87_a_rerun_applies_what_it_is_given() {
    let mut agent = Agent::with(&json!({
        "package": "@a/mcp-x", "credential_files": [{"path": "~/a"}],
    }));
    let rerun = agent.rerun(&json!({
        "name": "x", "env": {"K": "v"}, "auth": true, "auth_args": ["auth"], "auth_port": 3000,
        "credential_files": [{"path": "~/a", "required": true}, {"path": "~/b", "content": "c"}],
    }));
    assert_eq!(rerun.secrets, [sealed("mcp:x:K", "v")]);
    assert_eq!(rerun.files[0].purpose, "mcp:@a/mcp-x:file:~/b");
    assert_eq!(rerun.files.len(), 1);
    assert!(rerun.auth);
    rerun.apply(&mut agent.config).unwrap();
    let entry = &agent.config["mcp"]["servers"][0];
    assert_eq!(entry["env_keys"], json!(["K"]));
    assert_eq!(entry["auth_args"], json!(["auth"]));
    assert_eq!(
        entry["credential_files"],
        json!([
            {"path": "~/a", "required": true, "write_back": true},
            {"path": "~/b", "required": false, "write_back": true},
        ])
    );
    // It went away meanwhile.
    assert!(rerun.apply(&mut json!({})).is_err());
}

#[test]
fn a88_another_path_is_another_file_and_what_is_sealed_does_not_move() {
    let agent = Agent::with(&json!({
        "package": "@a/mcp-x", "credential_files": [{"path": "~/a", "content": "sealed before"}],
    }));
    let moved = agent.rerun(&json!({"name": "x", "credential_files": [{"path": "~/c"}]}));
    assert_eq!(moved.files, []);
    let given = json!({"name": "x", "credential_files": [{"path": "~/c", "content": "anew"}]});
    let file = SealedFile {
        purpose: "mcp:@a/mcp-x:file:~/c".into(),
        content: Secret::new(b"anew".to_vec()),
    };
    assert_eq!(agent.rerun(&given).files, [file]);
}

#[test]
fn a87_what_cannot_be_changed_is_said_and_not_dropped() {
    let agent = Agent::with(&json!({"package": "mcp-x", "args": ["--a"]}));
    let error = agent
        .plan(&json!({"name": "x", "args": ["--b"], "host": true}))
        .unwrap_err();
    assert_eq!(
        error,
        "`x` is installed, and `args`, `host` cannot be changed on it. `mcp_uninstall` it (sealed credentials stay), then install it anew"
    );
    let error = agent
        .plan(&json!({"name": "x", "package": "mcp-y"}))
        .unwrap_err();
    assert_eq!(
        error,
        "another server is called `x`: `npm:mcp-x`. Give another `name`, or `mcp_uninstall` that one first"
    );
    let error = agent
        .plan(&json!({"type": "pypi", "package": "mcp-x"}))
        .unwrap_err();
    assert_eq!(
        error,
        "`x` is installed from another package; give another `name`"
    );
    // The same package under another name is another server.
    assert_eq!(
        agent
            .new_server(&json!({"package": "mcp-x", "name": "x2"}))
            .name,
        "x2"
    );
    let custom = Agent::with(
        &json!({"type": "custom", "package": "node", "name": "My X", "args": ["a.js"]}),
    );
    assert_eq!(
        custom.plan(&json!({"type": "custom", "package": "node", "name": "My X"})),
        Ok(Plan::AlreadyInstalled {
            name: "my_x".into()
        })
    );
    let error = custom
        .plan(&json!({"type": "custom", "package": "sh", "name": "my_x"}))
        .unwrap_err();
    assert!(
        error.starts_with("another server is called `my_x`: `node`"),
        "{error}"
    );
}
