//! What a daemon that is killed leaves of calls that wait, that run, and of changes of an agent: nothing is lost, and
//! nothing is done twice.

use std::collections::BTreeSet;
use std::process::Output;
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use wharfinger::agentfile::{AgentFile, Keys};
use wharfinger_testkit::{fake_server, processes, wait_for, wait_until};

use crate::journal::rows;
use crate::support::{Daemon, Wharf};

pub(crate) const ECHO: &str = "mcp_a_echo";

/// A daemon with the agent `bot` of the agent profile, that has the fake server `a`; what that gets is in `record`.
pub(crate) fn bot(modes: &[&str]) -> (Wharf, Daemon) {
    let wharf = Wharf::new();
    let daemon = begin(&wharf, modes);
    (wharf, daemon)
}

/// The same in a home that is there already.
fn begin(wharf: &Wharf, modes: &[&str]) -> Daemon {
    let config = json!({"daemon": {"hostAccess": true}});
    wharf.home.write_config(&config);
    let record = mode(wharf, "record", "record");
    let modes: Vec<&str> = modes.iter().copied().chain([record.as_str()]).collect();
    wharf.home.add_fake("a", &modes);
    let daemon = wharf.up();
    wharf.json(&["agent", "new", "bot", "--profile", "agent"]);
    wharf.json(&["agent", "attach", "bot", "a"]);
    daemon
}

/// `mode=<path in the home>`.
fn mode(wharf: &Wharf, mode: &str, file: &str) -> String {
    format!("{mode}={}", wharf.home.file(file).display())
}

/// A call by `wharf call`, in the background.
pub(crate) fn calling(wharf: &Wharf, tool: &str, arguments: &Value) -> JoinHandle<Output> {
    let arguments = arguments.to_string();
    let words = ["call", tool, "--args", &arguments, "--agent", "bot"];
    let mut command = wharf.command(&words);
    thread::spawn(move || command.output().unwrap())
}

fn hi() -> Value {
    json!({"message": "hi"})
}

/// All approvals there are.
pub(crate) fn approvals(wharf: &Wharf) -> Vec<Value> {
    let all = wharf.json(&["approvals", "--all"]);
    all.as_array().unwrap().clone()
}

/// The one approval there is, as soon as it is in this stage.
pub(crate) fn until(wharf: &Wharf, stage: &str) -> Value {
    wait_for(&format!("an approval that is {stage}"), || {
        let all = approvals(wharf);
        assert!(all.len() <= 1, "{all:?}");
        all.into_iter().find(|one| one["stage"] == stage)
    })
}

pub(crate) fn id(approval: &Value) -> &str {
    approval["id"].as_str().unwrap()
}

/// How often the server was called.
pub(crate) fn calls(wharf: &Wharf) -> usize {
    let lines = wharf.home.lines("record");
    let calls = lines.iter().filter(|line| line.contains("\"tools/call\""));
    calls.count()
}

/// Ends the daemon without a word; nothing of it is left.
fn kill(daemon: Daemon) {
    processes::kill(daemon.pid());
    assert_eq!(daemon.ended().0, None);
}

/// A daemon on the same home, in which all is in order.
fn again(wharf: &Wharf) -> Daemon {
    let daemon = wharf.up();
    let bot = wharf.json(&["agent", "show", "bot"]);
    assert_eq!(bot.get("problem"), None, "{bot}");
    assert_eq!(wharf.json(&["journal", "verify"])["broken"], Value::Null);
    daemon
}

/// Rows of calls of which nobody knows what came.
fn unknown(wharf: &Wharf) -> Vec<Value> {
    let mut rows = rows(wharf, &["--kind", "call", "--limit", "0"]);
    rows.retain(|row| row["outcome"] == "unknown");
    rows
}

/// Ends the daemon in order; then the agent's file has each tool once, with what is known of it.
fn assert_consistent(wharf: &Wharf, daemon: Daemon) {
    processes::terminate(daemon.pid());
    assert_eq!(daemon.ended().0, Some(0));
    let keys = Keys::load_or_create(wharf.home.path()).unwrap();
    let file = AgentFile::open(&wharf.home.file("agents/bot.adf"), &keys).unwrap();
    let config = file.config();
    let declared: Vec<&str> = config["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    let once: BTreeSet<&str> = declared.iter().copied().collect();
    assert_eq!(once.len(), declared.len(), "declared twice: {declared:?}");
    let pins = file.pins().unwrap();
    let pinned: BTreeSet<&str> = pins.iter().map(|pin| pin.exposed.as_str()).collect();
    assert_eq!(pinned.len(), pins.len(), "pinned twice");
    let of_servers: BTreeSet<&str> = once
        .into_iter()
        .filter(|name| {
            ["mcp_a_", "mcp_mine_", "mcp_many_"]
                .iter()
                .any(|of| name.starts_with(of))
        })
        .collect();
    assert_eq!(pinned, of_servers, "a pin and a declaration for each");
    let open = file
        .tasks(&[wharfinger::agentfile::TaskStatus::Running])
        .unwrap();
    assert!(open.is_empty(), "{open:?}");
    file.close().unwrap();
}

#[test]
fn a231_a_call_that_waits_outlives_a_crash_and_is_made_once() {
    let (wharf, daemon) = bot(&[]);
    let call = calling(&wharf, ECHO, &hi());
    let asked = until(&wharf, "pending_approval");
    kill(daemon);
    assert!(!call.join().unwrap().status.success());

    let daemon = again(&wharf);
    let left = until(&wharf, "pending_approval");
    assert_eq!((id(&left), &left["caller"]), (id(&asked), &json!("gone")));
    for same in ["name", "arguments", "why", "created", "expires", "reason"] {
        assert_eq!(left[same], asked[same], "{same}");
    }
    assert_eq!(calls(&wharf), 0);
    wharf.json(&["approve", id(&left)]);
    // Nothing is made for a client that is gone, until the same call comes again.
    assert_eq!(until(&wharf, "approved")["caller"], "gone");
    assert_eq!(calls(&wharf), 0);
    let again = calling(&wharf, ECHO, &hi()).join().unwrap();
    assert_eq!(String::from_utf8_lossy(&again.stdout), "hi\n");
    assert_eq!(calls(&wharf), 1);
    assert_eq!(approvals(&wharf), Vec::<Value>::new());
    assert_eq!(unknown(&wharf), Vec::<Value>::new());
    assert_consistent(&wharf, daemon);
}

#[test]
fn a231_a_call_that_waits_outlives_an_orderly_end_too_and_one_that_runs_does_not() {
    let (wharf, daemon) = bot(&["wait-for=never"]);
    let runs = calling(&wharf, "mcp_a_work", &json!({}));
    let allowed = until(&wharf, "pending_approval");
    wharf.json(&["approve", id(&allowed)]);
    wait_until("the call to be made", || calls(&wharf) == 1);
    let waits = calling(&wharf, ECHO, &hi());
    let asked = wait_for("the other call to wait", || {
        let mut all = approvals(&wharf).into_iter();
        all.find(|one| one["stage"] == "pending_approval")
    });
    processes::terminate(daemon.pid());
    assert_eq!(daemon.ended().0, Some(0));
    for call in [runs, waits] {
        assert!(!call.join().unwrap().status.success());
    }

    let daemon = again(&wharf);
    let left = until(&wharf, "pending_approval");
    assert_eq!(id(&left), id(&asked));
    wharf.json(&["deny", id(&left)]);
    assert_eq!(calls(&wharf), 1);
    assert_consistent(&wharf, daemon);
}

#[test]
fn a231_a_call_that_runs_in_a_crash_is_not_made_again() {
    let (wharf, daemon) = bot(&["wait-for=never"]);
    let call = calling(&wharf, ECHO, &hi());
    let asked = until(&wharf, "pending_approval");
    wharf.json(&["approve", id(&asked)]);
    wait_until("the call to be made", || calls(&wharf) == 1);
    kill(daemon);
    assert!(!call.join().unwrap().status.success());

    let daemon = again(&wharf);
    assert_eq!(approvals(&wharf), Vec::<Value>::new());
    let unknown = unknown(&wharf);
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert_eq!(unknown[0]["approval"], asked["id"]);
    let late = wharf.run(&["approve", id(&asked)]);
    assert!(late.contains("it is failed"), "{late}");
    // The same again is another call.
    let call = calling(&wharf, ECHO, &hi());
    let next = until(&wharf, "pending_approval");
    assert_ne!(id(&next), id(&asked));
    wharf.json(&["deny", id(&next), "--reason", "better not"]);
    let denied = call.join().unwrap();
    assert!(String::from_utf8_lossy(&denied.stderr).contains("better not"));
    assert_eq!(calls(&wharf), 1);
    assert_consistent(&wharf, daemon);
}

#[test]
fn a_crash_right_after_the_yes_makes_the_call_once_or_asks_again() {
    for _ in 0..3 {
        let (wharf, daemon) = bot(&[]);
        let call = calling(&wharf, ECHO, &hi());
        let asked = until(&wharf, "pending_approval");
        wharf.json(&["approve", id(&asked)]);
        kill(daemon);
        // It may have been answered by then.
        let answered = call.join().unwrap().status.success();

        let daemon = again(&wharf);
        let left = approvals(&wharf);
        let made = calls(&wharf);
        match left.as_slice() {
            [] if answered => assert_eq!(made, 1),
            // Nobody knows, and it is not made again.
            [] => assert!(made <= 1, "{made}"),
            // It was not begun, so it may be answered as before.
            [one] => {
                assert_eq!((id(one), made, answered), (id(&asked), 0, false));
                wharf.json(&["approve", id(&asked)]);
                let again = calling(&wharf, ECHO, &hi()).join().unwrap();
                assert!(again.status.success(), "{again:?}");
                assert_eq!(calls(&wharf), 1);
            }
            more => panic!("{more:?}"),
        }
        assert_consistent(&wharf, daemon);
    }
}

#[test]
fn a_no_outlives_a_crash() {
    let (wharf, daemon) = bot(&[]);
    let call = calling(&wharf, ECHO, &hi());
    let asked = until(&wharf, "pending_approval");
    wharf.json(&["deny", id(&asked), "--reason", "never"]);
    kill(daemon);
    drop(call.join().unwrap());

    let daemon = again(&wharf);
    assert_eq!(approvals(&wharf), Vec::<Value>::new());
    let late = wharf.run(&["approve", id(&asked)]);
    assert!(late.contains("it is denied"), "{late}");
    assert_eq!(calls(&wharf), 0);
    let call = calling(&wharf, ECHO, &hi());
    let next = until(&wharf, "pending_approval");
    assert_ne!(id(&next), id(&asked));
    wharf.json(&["approve", id(&next)]);
    assert_eq!(
        String::from_utf8_lossy(&call.join().unwrap().stdout),
        "hi\n"
    );
    assert_eq!(calls(&wharf), 1);
    assert_consistent(&wharf, daemon);
}

#[test]
fn a84_a_server_that_was_being_installed_in_a_crash_is_there_once() {
    let (wharf, daemon) = bot(&[]);
    wharf.json(&["agent", "set", "bot", "--host-access", "on"]);
    wharf.json(&["tools", "enable", "mcp_install", "--agent", "bot"]);
    let starts = mode(&wharf, "count-starts", "starts");
    // By another path it is another program than the one its owner has registered.
    let program = wharf.home.file("program");
    std::os::unix::fs::symlink(fake_server(), &program).unwrap();
    let install = json!({
        "type": "custom", "name": "mine", "package": program, "host": true,
        "args": ["slow-init=1", starts, "tool=work"],
    });
    let call = calling(&wharf, "mcp_install", &install);
    let asked = until(&wharf, "pending_approval");
    wharf.json(&["approve", id(&asked)]);
    // It runs, and has not said anything yet.
    wait_until("it to start", || {
        call.is_finished() || !wharf.home.lines("starts").is_empty()
    });
    assert!(!call.is_finished(), "{:?}", call.join().unwrap());
    kill(daemon);
    assert!(!call.join().unwrap().status.success());

    let daemon = again(&wharf);
    assert_eq!(approvals(&wharf), Vec::<Value>::new());
    let unknown = unknown(&wharf);
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert_eq!(unknown[0]["approval"], asked["id"]);
    let bot = wharf.json(&["agent", "show", "bot"]);
    let attached = bot["attached"].as_array().unwrap();
    let names: Vec<&Value> = attached.iter().map(|one| &one["name"]).collect();
    assert_eq!(
        names,
        ["a", "mine"],
        "it was written down before it was started"
    );
    // Its tools come when they are first wanted.
    wait_until("its tools", || {
        let seen = wharf.json(&["tools", "--agent", "bot"]);
        seen.to_string().contains("mcp_mine_work")
    });
    let call = calling(&wharf, "mcp_mine_work", &json!({}));
    let asked = until(&wharf, "pending_approval");
    wharf.json(&["approve", id(&asked)]);
    assert_eq!(
        String::from_utf8_lossy(&call.join().unwrap().stdout),
        "ok 1\n"
    );
    assert_consistent(&wharf, daemon);
}

/// How far a server with many tools is attached when the daemon is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    Started,
    Asked,
    /// The agent's file has become so many bytes larger.
    Grown(u64),
    Attached,
}

#[test]
fn a148_many_tools_are_declared_once_whenever_the_daemon_is_killed() {
    for moment in [
        Moment::Started,
        Moment::Asked,
        Moment::Grown(1),
        Moment::Grown(50_000),
        Moment::Grown(200_000),
        Moment::Attached,
    ] {
        let wharf = Wharf::new();
        let (starts, asked) = (
            mode(&wharf, "count-starts", "many-starts"),
            mode(&wharf, "record", "many-record"),
        );
        wharf.home.add_fake("many", &["tools=500", &starts, &asked]);
        let daemon = begin(&wharf, &[]);
        let starts = wharf.home.lines("many-starts");
        assert!(starts.is_empty(), "nobody has looked at it so far");
        let size = || {
            let size = |name| std::fs::metadata(wharf.home.file(name)).map_or(0, |file| file.len());
            size("agents/bot.adf") + size("agents/bot.adf-wal")
        };
        let before = size();
        let mut command = wharf.command(&["agent", "attach", "bot", "many"]);
        let attaching = thread::spawn(move || command.output().unwrap());
        wait_until(&format!("{moment:?}"), || match moment {
            Moment::Started => !wharf.home.lines("many-starts").is_empty(),
            Moment::Asked => wharf.home.read("many-record").contains("tools/list"),
            Moment::Grown(by) => size() >= before + by,
            Moment::Attached => attaching.is_finished(),
        });
        kill(daemon);
        drop(attaching.join().unwrap());

        let daemon = again(&wharf);
        let bot = wharf.json(&["agent", "show", "bot"]);
        if !bot["attached"].to_string().contains("\"many\"") {
            assert_ne!(moment, Moment::Attached, "{bot}");
            wharf.json(&["agent", "attach", "bot", "many"]);
        }
        let mut seen = BTreeSet::new();
        wait_until("all of its tools", || {
            let tools = wharf.json(&["tools", "--agent", "bot"]);
            let tools = tools["tools"].as_array().unwrap().iter();
            seen = tools
                .map(|tool| tool["name"].as_str().unwrap().to_owned())
                .filter(|name| name.starts_with("mcp_many_"))
                .collect();
            seen.len() >= 500
        });
        let expect: BTreeSet<String> = (0..500).map(|n| format!("mcp_many_tool_{n}")).collect();
        assert_eq!(seen, expect, "{moment:?}");
        let all = wharf.json(&["tools", "list", "--agent", "bot"]);
        let listed = all["tools"].as_array().unwrap();
        let new = listed.iter().filter(|tool| tool["server"] == "many");
        assert!(
            new.clone().all(|tool| tool["restricted"] == true
                && tool["enabled"] == true
                && tool["status"] == "new"),
            "{moment:?}"
        );
        assert_eq!(new.count(), 500, "{moment:?}");
        assert_consistent(&wharf, daemon);
    }
}
