//! Clients that die while their call waits for a person.

use std::process::Stdio;

use serde_json::{Value, json};
use wharfinger_testkit::{processes, wait_for, wait_until};

use crate::crash::{ECHO, approvals, bot, calling, calls, id, until};
use crate::stdio::Client;
use crate::support::Wharf;

fn begin(wharf: &Wharf) -> Client {
    let mut client = Client::start(wharf, &["stdio", "--agent", "bot"]);
    client.begin();
    client.tell(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": ECHO, "arguments": {"message": "hi"}}}));
    client
}

/// Whoever called is gone: a yes runs nothing, until the same call comes again.
fn assert_nothing_runs(wharf: &Wharf, asked: &Value) {
    wait_until("its caller to be missed", || {
        approvals(wharf)[0]["caller"] == "gone"
    });
    wharf.json(&["approve", id(asked)]);
    let approved = until(wharf, "approved");
    assert_eq!(id(&approved), id(asked));
    assert_eq!(calls(wharf), 0);
    let mut next = begin(wharf);
    let reply = next.hear();
    assert_eq!(reply["result"]["content"][0]["text"], "hi", "{reply}");
    assert_eq!(calls(wharf), 1);
    assert_eq!(approvals(wharf), Vec::<Value>::new());
    drop(next.to.take());
    wait_for("it to end", || next.process.try_wait().unwrap());
}

#[test]
fn a_killed_connection_leaves_an_approval_that_runs_nothing() {
    let (wharf, _daemon) = bot(&[]);
    let mut client = begin(&wharf);
    let asked = until(&wharf, "pending_approval");
    assert_eq!(asked["caller"], "waiting");
    processes::kill(client.process.id());
    client.process.wait().unwrap();
    assert_nothing_runs(&wharf, &asked);
}

#[test]
fn a_killed_client_leaves_an_approval_that_runs_nothing() {
    let (wharf, _daemon) = bot(&[]);
    let client = begin(&wharf);
    let asked = until(&wharf, "pending_approval");
    // Its end closes both of its pipes.
    let mut process = client.die();
    assert_nothing_runs(&wharf, &asked);
    wait_for("the connection to end", || process.try_wait().unwrap());
}

#[test]
fn a_killed_command_leaves_an_approval_that_runs_nothing() {
    let (wharf, _daemon) = bot(&[]);
    let mut command = wharf.command(&["call", ECHO, "message=hi", "--agent", "bot"]);
    let mut call = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let asked = until(&wharf, "pending_approval");
    call.kill().unwrap();
    call.wait().unwrap();
    wait_until("its caller to be missed", || {
        approvals(&wharf)[0]["caller"] == "gone"
    });
    wharf.json(&["approve", id(&asked)]);
    until(&wharf, "approved");
    assert_eq!(calls(&wharf), 0);
    let again = calling(&wharf, ECHO, &json!({"message": "hi"}));
    assert_eq!(
        String::from_utf8_lossy(&again.join().unwrap().stdout),
        "hi\n"
    );
    assert_eq!(calls(&wharf), 1);
}
