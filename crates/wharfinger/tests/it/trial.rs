//! Connecting to servers for real, and knowing which ever worked (A17–A19, A21, A26, A199).

use serde_json::{Value, json};
use wharfinger::config::load;
use wharfinger::manage::Probe;
use wharfinger::{Connect, Connected};
use wharfinger_testkit::Home;

use crate::yard::{Yard, fake, host, inputs, names, say, starts};

async fn tried(yard: &Yard, name: &str) -> Connected {
    yard.wharf.test(name).await.unwrap()
}

fn verified(yard: &Yard, name: &str) -> bool {
    let config = yard.wharf.config();
    yard.wharf.verified(config.server(name).unwrap()).is_some()
}

async fn change(yard: &Yard, servers: &Value, connect: Connect) {
    let loaded = load(&inputs(servers, &json!({}), host()));
    yard.wharf.change_to(loaded, connect).await;
}

fn steps(trial: &Connected) -> Vec<&str> {
    trial.steps.iter().map(|step| step.step).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a17_a_connection_tells_what_was_found_and_how_long_each_step_took() {
    let modes = [
        "slow-init=0.2",
        "stderr=hello",
        "tools=2",
        "name=clock",
        "version=3.1",
    ];
    let yard = Yard::new(json!({ "s": fake(&modes, json!({})) })).await;
    let trial = tried(&yard, "s").await;
    assert!(trial.success && trial.error.is_none(), "{trial:?}");
    assert_eq!(trial.tools, ["tool_0", "tool_1"]);
    assert_eq!((trial.location, trial.auth_ran), ("host", false));
    assert_eq!(trial.server_version.as_deref(), Some("clock 3.1"));
    assert_eq!(trial.protocol.as_deref(), Some("2025-11-25"));
    assert_eq!(steps(&trial), ["start", "initialize", "list"]);
    assert!(trial.steps[1].millis >= 200, "{:?}", trial.steps);
    // Whoever lists next starts nothing.
    assert_eq!(names(&yard.session("a")).await.len(), 2);
    assert_eq!(yard.wharf.last_connection("s"), Some(trial));
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a17_a_failure_tells_its_step_and_the_servers_own_words() {
    let servers = json!({
        "dead": fake(&["die-before-init=3"], json!({})),
        "lost": {"command": "/nowhere/server"},
        "mute": fake(&["no-reply-to-list", "stderr=asked"], json!({"startupTimeoutSeconds": 1})),
        "key": fake(&["stderr=key is hunter2-hunter2", "init-error"], json!({"env": {"API_KEY": "hunter2-hunter2"}})),
    });
    let yard = Yard::new(servers).await;
    let check = async |name: &str, step: &str, error: &str, stderr: &[&str]| {
        let trial = tried(&yard, name).await;
        assert!(
            !trial.success && trial.tools.is_empty(),
            "{name}: {trial:?}"
        );
        assert_eq!(steps(&trial).last(), Some(&step), "{name}");
        assert!(!trial.steps.last().unwrap().ok);
        assert!(
            trial.error.as_ref().unwrap().contains(error),
            "{name}: {trial:?}"
        );
        assert_eq!(trial.stderr_tail, stderr, "{name}");
        assert!(!verified(&yard, name));
    };
    check(
        "dead",
        "initialize",
        "it exited (code 3)",
        &["fatal: missing BAD_API_KEY"],
    )
    .await;
    check("lost", "start", "`/nowhere/server` was not found", &[]).await;
    check("mute", "list", "within 1 s", &["asked"]).await;
    check(
        "key",
        "initialize",
        "could not be initialized",
        &["key is [REDACTED]"],
    )
    .await;
    let unknown = yard.wharf.test("nobody").await.unwrap_err();
    assert_eq!(
        unknown,
        "there is no MCP server `nobody`; known: dead, lost, mute, key"
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a18_a_remote_server_signs_in_nowhere_and_runs_nothing() {
    let yard = Yard::new(json!({ "r": {"type": "http", "url": "https://example.com/mcp"} })).await;
    let trial = tried(&yard, "r").await;
    assert_eq!(
        (trial.success, trial.location, trial.auth_ran),
        (false, "remote", false)
    );
    assert_eq!(trial.error.as_deref(), Some("remote servers come later"));
    assert_eq!(yard.processes(), Vec::<u32>::new());
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a19_a_server_is_verified_by_a_connection_until_what_it_runs_is_edited() {
    let one = json!({ "s": fake(&["tools=1"], json!({})) });
    let yard = Yard::new(json!({})).await;
    change(&yard, &one, Connect::Later).await;
    assert!(!verified(&yard, "s"));
    let report = &yard.wharf.reports(&yard.wharf.agent("default").unwrap())[0];
    assert_eq!((report.verified, report.tools), (None, None));
    names(&yard.session("a")).await;
    assert!(verified(&yard, "s"), "whoever lists connects");
    // What it runs stays the same.
    let same =
        json!({ "s": fake(&["tools=1"], json!({"callTimeoutSeconds": 7, "toolPrefix": "p_"})) });
    change(&yard, &same, Connect::Later).await;
    assert!(verified(&yard, "s"));
    for other in [
        json!({ "s": fake(&["tools=2"], json!({})) }),
        json!({ "s": fake(&["tools=1"], json!({"env": {"A": "b"}})) }),
    ] {
        change(&yard, &other, Connect::Later).await;
        assert!(!verified(&yard, "s"), "{other}");
    }
    tried(&yard, "s").await;
    assert!(verified(&yard, "s"));
    // It is kept over a restart, and goes with its server.
    let servers = json!({ "s": fake(&["tools=1"], json!({"env": {"A": "b"}})) });
    let home = yard.close().await;
    let yard = Yard::at(home, servers.clone(), json!({}), host()).await;
    assert!(verified(&yard, "s"));
    change(&yard, &json!({}), Connect::Later).await;
    change(&yard, &servers, Connect::Later).await;
    assert!(!verified(&yard, "s"));
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a21_a_test_leaves_alone_what_runs_and_what_is_known() {
    let home = Home::new();
    let count = Yard::mode(&home, "count-starts", "starts");
    let broken = home.file("broken");
    // Works until there is such a file.
    let command = format!(
        "test ! -e {} || exit 4; exec {} {count}",
        broken.display(),
        wharfinger_testkit::fake_server().display()
    );
    let servers = json!({ "s": {"command": "sh", "args": ["-c", command]} });
    let yard = Yard::at(home, servers, json!({}), host()).await;
    let session = yard.session("a");
    let pid = say(&session, "pid", json!({})).await;
    assert_eq!(starts(&yard.home, "starts"), 2, "the list, and the call");
    assert!(tried(&yard, "s").await.success);
    assert_eq!(starts(&yard.home, "starts"), 3);
    assert_eq!(say(&session, "pid", json!({})).await, pid);
    yard.home.write("broken", "");
    let trial = tried(&yard, "s").await;
    assert!(!trial.success && trial.error.unwrap().contains("code 4"));
    assert_eq!(say(&session, "pid", json!({})).await, pid);
    assert_eq!(names(&session).await.len(), 5, "its tools are known still");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a22_arguments_begin_at_home_and_empty_ones_are_dropped() {
    let home = Home::new();
    let servers = json!({ "s": fake(&["", "record=/dev/null", "~/x", ""], json!({})) });
    let yard = Yard::at(home, servers, json!({}), host()).await;
    // The fake server refuses what it does not know, and names it.
    let trial = tried(&yard, "s").await;
    let told = trial.stderr_tail.join("\n");
    assert!(
        told.contains("/nowhere/x") && !told.contains("``"),
        "{trial:?}"
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a26_a_server_that_does_not_say_where_it_runs_runs_here() {
    let yard = Yard::new(json!({
        "old": fake(&[], json!({})),
        "new": fake(&[], json!({"location": "host"})),
    }))
    .await;
    for name in ["old", "new"] {
        let trial = tried(&yard, name).await;
        assert_eq!((trial.success, trial.location), (true, "host"));
    }
    yard.close().await;
    let contained = json!({ "s": fake(&[], json!({"location": "container"})) });
    let loaded = load(&inputs(&contained, &json!({}), host()));
    assert_eq!(loaded.problems.len(), 1);
    let problem = loaded.problems[0].text();
    assert!(
        problem.contains("containers come later; until then `host`"),
        "{problem}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a199_a_server_is_tried_without_being_kept() {
    let yard = Yard::new(json!({})).await;
    let request = json!({
        "name": "p", "command": wharfinger_testkit::fake_server(), "args": ["tools=3", "stderr=key hunter2-hunter2"],
        "env": {"API_KEY": "hunter2-hunter2"},
    });
    let probe = Probe::read(&request).unwrap();
    let trial = yard.wharf.probe(probe).await.unwrap();
    assert_eq!((trial.success, trial.tools.len()), (true, 3));
    assert!(yard.wharf.config().server("p").is_none());
    let failing = json!({"name": "p", "command": wharfinger_testkit::fake_server(),
        "args": ["die-before-init=1", "stderr=key hunter2-hunter2"], "env": {"API_KEY": "hunter2-hunter2"}});
    let trial = yard
        .wharf
        .probe(Probe::read(&failing).unwrap())
        .await
        .unwrap();
    assert!(
        !trial.success && !format!("{trial:?}").contains("hunter2"),
        "{trial:?}"
    );
    let remote = json!({"name": "p", "url": "https://example.com/mcp"});
    let trial = yard
        .wharf
        .probe(Probe::read(&remote).unwrap())
        .await
        .unwrap();
    assert_eq!(trial.location, "remote");
    yard.until_no_process().await;
    yard.close().await;
}
