//! Tools with which an agent manages itself, used as a model uses them.

use serde_json::{Value, json};
use wharfinger::approvals::{Decision, Reason, Scope};
use wharfinger::model::{AgentName, Profile};
use wharfinger::policy::Flag;
use wharfinger::{AgentSettings, Decider, Session, Which};
use wharfinger_testkit::{Home, fake_server, poll_until};

use crate::gate::session;
use crate::yard::{Yard, call, fake, host, names, text};

/// An agent whose own tools are on and ask nobody; `hosts` lets what it installs run on this machine.
async fn trusted(servers: Value, hosts: bool) -> Yard {
    let config = json!({ "daemon": { "hostAccess": hosts } });
    let yard = Yard::at(Home::new(), servers, config, host()).await;
    trust(&yard).await;
    yard
}

/// Adds that agent.
pub(crate) async fn trust(yard: &Yard) {
    let name = AgentName::new("bot").unwrap();
    yard.wharf.add_agent(name, Profile::Agent).await.unwrap();
    let settings = AgentSettings {
        host_access: Some(true),
        new_tools_restricted: Some(false),
        ..AgentSettings::default()
    };
    yard.wharf.set_agent("bot", settings).await.unwrap();
    for tool in [
        "mcp_install",
        "mcp_available",
        "mcp_restart",
        "mcp_uninstall",
        "sys_get_config",
        "sys_update_config",
        "fs_read",
        "fs_write",
        "sys_fetch",
    ] {
        let which = || Which::Tool(tool.into());
        yard.wharf
            .switch_tools("bot", which(), Flag::Enabled, true)
            .await
            .unwrap();
        yard.wharf
            .switch_tools("bot", which(), Flag::Restricted, false)
            .await
            .unwrap();
    }
}

/// What a tool answers, as JSON.
pub(crate) async fn ask(session: &Session, tool: &str, arguments: Value) -> Value {
    let result = call(session, tool, arguments).await.unwrap();
    let said: Value = serde_json::from_str(text(&result)).unwrap();
    assert_eq!(result["structuredContent"], said);
    assert_eq!(
        result["isError"] == true,
        said["success"] == false,
        "{result}"
    );
    said
}

fn mine(more: &Value) -> Value {
    let mut arguments = json!({
        "type": "custom", "name": "mine", "package": fake_server(), "args": ["say=hello"], "host": true,
    });
    let more = more.as_object().unwrap().clone();
    arguments.as_object_mut().unwrap().extend(more);
    arguments
}

#[tokio::test(flavor = "multi_thread")]
async fn a84_a85_a95_what_an_agent_installs_can_be_called_in_the_same_turn() {
    let yard = trusted(json!({}), true).await;
    let session = session(&yard, "one");
    names(&session).await;
    let said = ask(&session, "mcp_install", mine(&json!({}))).await;
    assert_eq!(said["success"], true, "{said}");
    assert_eq!(said["location"], "host");
    assert_eq!(said["tools_discovered"], 5, "{said}");
    let result = call(&session, "mcp_mine_work", json!({})).await.unwrap();
    assert_eq!(text(&result), "hello");
    // A87
    let again = ask(&session, "mcp_install", mine(&json!({}))).await;
    assert_eq!(again["already_installed"], true, "{again}");
    // A90
    let before = call(&session, "mcp_mine_pid", json!({})).await.unwrap();
    let restarted = ask(&session, "mcp_restart", json!({ "name": "mine" })).await;
    assert_eq!(
        (&restarted["success"], &restarted["tools_discovered"]),
        (&json!(true), &json!(5))
    );
    let after = call(&session, "mcp_mine_pid", json!({})).await.unwrap();
    assert_ne!(text(&before), text(&after), "another process");
    // A95: what is changed of it counts from the next restart on.
    let slower = json!({ "path": "mcp.servers.mine.tool_call_timeout_ms", "value": 7000 });
    let said = ask(&session, "sys_update_config", slower).await;
    assert_eq!(said["success"], true, "{said}");
    let same = call(&session, "mcp_mine_pid", json!({})).await.unwrap();
    assert_eq!(text(&after), text(&same), "the same process");
    let unknown = ask(&session, "mcp_restart", json!({ "name": "other" })).await;
    assert!(
        unknown["error"].as_str().unwrap().contains("`mine`"),
        "{unknown}"
    );
    // A92
    let gone = ask(&session, "mcp_uninstall", json!({ "name": "mine" })).await;
    assert_eq!(gone["tools_removed"], 5, "{gone}");
    assert!(call(&session, "mcp_mine_work", json!({})).await.is_err());
    poll_until("its process to end", tokio::time::sleep, || {
        yard.processes().is_empty()
    })
    .await;
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a29_a80_without_the_host_gate_nothing_is_installed_and_the_reason_is_told() {
    let yard = trusted(json!({}), false).await;
    let session = session(&yard, "one");
    names(&session).await;
    let said = ask(&session, "mcp_install", mine(&json!({}))).await;
    assert_eq!(said["success"], false);
    let error = said["error"].as_str().unwrap();
    assert!(error.contains("host"), "{error}");
    let config = ask(&session, "sys_get_config", json!({ "section": "mcp" })).await;
    assert!(!config.to_string().contains("mine"), "{config}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a86_what_does_not_start_is_kept_and_says_what_its_program_said() {
    let yard = trusted(json!({}), true).await;
    let session = session(&yard, "one");
    names(&session).await;
    let broken = mine(&json!({ "args": ["die-before-init=3"] }));
    let said = ask(&session, "mcp_install", broken).await;
    assert_eq!(
        (&said["success"], &said["configured"]),
        (&json!(false), &json!(true)),
        "{said}"
    );
    assert_eq!(said["persisted"]["registration"], true);
    assert!(
        said["message"].as_str().unwrap().contains("mcp_restart"),
        "{said}"
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a83_a103_a_credential_reaches_the_process_and_no_other_place() {
    const VALUE: &str = "hunter2-hunter2-${env:HOME}";
    let yard = trusted(json!({}), true).await;
    let session = session(&yard, "one");
    names(&session).await;
    let with = mine(&json!({ "args": [], "env": { "MY_KEY": VALUE } }));
    let said = ask(&session, "mcp_install", with).await;
    assert_eq!(said["success"], true, "{said}");
    assert_eq!(said["env_keys"], json!(["MY_KEY"]));
    assert!(!said.to_string().contains("hunter2"), "{said}");
    // The process has it as it is (A121); what it says of it is redacted.
    let env = call(&session, "mcp_mine_env", json!({})).await.unwrap();
    let env: Value = serde_json::from_str(text(&env)).unwrap();
    assert_eq!(env["MY_KEY"], "[REDACTED]", "{env}");
    // The content of a file is sealed as well (A87).
    let files = json!([{ "path": "~/.mine/key", "content": VALUE }]);
    let again = json!({ "type": "custom", "name": "mine", "credential_files": files });
    let said = ask(&session, "mcp_install", again).await;
    assert_eq!(said["success"], true, "{said}");
    let purpose = "mcp:mine:file:~/.mine/key";
    assert!(said.to_string().contains(purpose), "{said}");
    let config = ask(&session, "sys_get_config", json!({})).await;
    assert!(!config.to_string().contains("hunter2"), "{config}");
    let home = yard.close().await;
    let mut files = vec![home.path().to_owned()];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(
                std::fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(15).any(|part| part == b"hunter2-hunter2");
            assert!(!found, "it is in {}", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a73_a_server_of_the_owner_is_attached_only_where_it_is_available_to_agents() {
    let servers = json!({
        "open": fake(&["tool=one"], json!({ "agentVisible": true })),
        "shut": fake(&["tool=two"], json!({})),
    });
    let yard = trusted(servers, false).await;
    let session = session(&yard, "one");
    names(&session).await;
    let said = ask(
        &session,
        "mcp_install",
        json!({ "name": "open", "package": "open" }),
    )
    .await;
    assert_eq!(said["attached_existing"], true, "{said}");
    assert!(names(&session).await.contains(&"mcp_open_one".to_owned()));
    let said = ask(
        &session,
        "mcp_install",
        json!({ "name": "shut", "package": "shut" }),
    )
    .await;
    assert_eq!(said["success"], false, "{said}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a89_a234_a_change_that_loosens_what_an_agent_may_do_needs_a_person() {
    let yard = trusted(json!({}), false).await;
    let which = || Which::Tool("mcp_install".into());
    yard.wharf
        .switch_tools("bot", which(), Flag::Enabled, false)
        .await
        .unwrap();
    let session = session(&yard, "one");
    names(&session).await;
    let change = json!({ "path": "tools.mcp_install.enabled", "value": true });
    let asking = tokio::spawn({
        let session = session.clone();
        async move { call(&session, "sys_update_config", change).await }
    });
    poll_until("an approval", tokio::time::sleep, || {
        yard.wharf.approvals().len() == 1
    })
    .await;
    let approval = yard.wharf.approvals().remove(0);
    assert_eq!(approval.reason, Reason::Protection);
    assert!(
        approval.why.contains("tools.mcp_install.enabled"),
        "{}",
        approval.why
    );
    for scope in [Scope::Session, Scope::Arguments, Scope::Always] {
        let more = Decision::Approve {
            arguments: None,
            scope,
        };
        let refused = yard.wharf.decide(&approval.id, more, Decider::Owner).await;
        assert!(
            refused.is_err(),
            "what protects the agent is asked each time"
        );
    }
    let once = Decision::Approve {
        arguments: None,
        scope: Scope::Once,
    };
    yard.wharf
        .decide(&approval.id, once, Decider::Owner)
        .await
        .unwrap();
    asking.await.unwrap().unwrap();
    assert!(names(&session).await.contains(&"mcp_install".to_owned()));
    // What is never for it is refused, whoever is asked.
    let never = json!({ "path": "tools.mcp_install.restricted", "value": false });
    let said = ask(&session, "sys_update_config", never).await;
    assert_eq!(said["success"], false, "{said}");
    let free = json!({ "path": "mcp.new_tools_restricted", "value": true });
    let said = ask(&session, "sys_update_config", free).await;
    assert_eq!(said["success"], true, "{said}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reads_and_writes_its_files_and_no_others() {
    let yard = trusted(json!({}), false).await;
    let session = session(&yard, "one");
    names(&session).await;
    let write = json!({ "path": "notes/a.txt", "content": "one" });
    let said = ask(&session, "fs_write", write).await;
    assert_eq!(
        (&said["success"], &said["size"]),
        (&json!(true), &json!(3)),
        "{said}"
    );
    let more = json!({ "path": "notes/a.txt", "content": " two", "mode": "append" });
    ask(&session, "fs_write", more).await;
    let read = ask(&session, "fs_read", json!({ "path": "notes/a.txt" })).await;
    assert_eq!(read["content"], "one two", "{read}");
    for path in ["../x", "/etc/passwd", "a/../../x"] {
        let said = ask(
            &session,
            "fs_write",
            json!({ "path": path, "content": "x" }),
        )
        .await;
        assert_eq!(said["success"], false, "{path}");
    }
    let said = ask(
        &session,
        "sys_fetch",
        json!({ "url": "http://127.0.0.1:9/" }),
    )
    .await;
    assert!(said["error"].as_str().unwrap().contains("public"), "{said}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a192_a195_servers_of_an_agent_stand_in_its_scratch_folder_which_it_is_not_told() {
    let yard = trusted(json!({ "s": fake(&[], json!({})) }), false).await;
    yard.wharf.attach("bot", "s").await.unwrap();
    let session = session(&yard, "one");
    names(&session).await;
    let cwd = call(&session, "mcp_s_cwd", json!({})).await.unwrap();
    let cwd = std::path::PathBuf::from(text(&cwd));
    let name = cwd.file_name().unwrap().to_string_lossy().into_owned();
    assert!(name.starts_with("bot-"), "{name}");
    assert!(cwd.starts_with(yard.home.file("scratch").canonicalize().unwrap()));
    let config = ask(&session, "sys_get_config", json!({})).await;
    assert!(!config.to_string().contains("scratch"), "{config}");
    session.end().await;
    poll_until("the folder to go", tokio::time::sleep, || !cwd.exists()).await;
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a77_a_tool_lists_what_is_available_and_what_is_known() {
    let servers = json!({
        "open": fake(&[], json!({ "agentVisible": true })),
        "shut": fake(&[], json!({})),
        "off": fake(&[], json!({ "agentVisible": true, "enabled": false })),
    });
    let yard = trusted(servers, false).await;
    let session = session(&yard, "one");
    names(&session).await;
    let said = ask(&session, "mcp_available", json!({})).await;
    assert_eq!(said["known"], json!([]));
    let found: Vec<&Value> = said["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| &s["name"])
        .collect();
    assert_eq!(found, ["open"]);
    assert_eq!(said["servers"][0]["attached"], false);
    ask(
        &session,
        "mcp_install",
        json!({ "name": "open", "package": "open" }),
    )
    .await;
    let said = ask(&session, "mcp_available", json!({ "query": "OPEN" })).await;
    assert_eq!(said["servers"][0]["attached"], true, "{said}");
    // With what to weigh before, and nothing that should not be installed.
    let said = ask(&session, "mcp_available", json!({ "query": "gmail" })).await;
    assert_eq!(said["servers"], json!([]));
    let gmail = &said["known"][0];
    assert_eq!(
        (&gmail["type"], &gmail["package"]),
        (&json!("npm"), &json!("@gongrzhe/server-gmail-autoauth-mcp"))
    );
    assert!(
        gmail["advisory"].as_str().unwrap().contains("archived"),
        "{gmail}"
    );
    let said = ask(&session, "mcp_available", json!({ "query": "puppeteer" })).await;
    let found: Vec<&str> = said["known"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["name"].as_str().unwrap())
        .collect();
    assert!(!found.contains(&"puppeteer"), "{found:?}");
    let said = ask(&session, "mcp_available", json!({ "word": "x" })).await;
    assert!(
        said["error"]
            .as_str()
            .unwrap()
            .contains("`word` is not known"),
        "{said}"
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a5_a6_a13_what_is_known_of_a_package_is_weighed_before_an_agent_installs_it() {
    let yard = trusted(json!({}), true).await;
    let session = session(&yard, "one");
    names(&session).await;
    let check = async |arguments: Value, expect: &str| {
        let mut arguments = arguments;
        arguments["host"] = json!(true);
        let said = ask(&session, "mcp_install", arguments).await;
        assert_eq!(said["success"], false, "{said}");
        assert!(said["error"].as_str().unwrap().contains(expect), "{said}");
    };
    check(
        json!({ "package": "@modelcontextprotocol/server-puppeteer@2025.5.12" }),
        "use `playwright`",
    )
    .await;
    check(
        json!({ "package": "github-mcp-server" }),
        "is named like a well-known server and is another one",
    )
    .await;
    check(
        json!({ "package": "telegram-mcp", "type": "pypi" }),
        "is named like a well-known server",
    )
    .await;
    let config = ask(&session, "sys_get_config", json!({ "section": "mcp" })).await;
    assert!(
        !config.to_string().contains("puppeteer"),
        "nothing was installed: {config}"
    );
    yard.close().await;
}
