//! `wharf stdio`, as a client starts it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use insta::assert_snapshot;
use serde_json::{Value, json};
use wharfinger_testkit::{processes, wait_for};

use crate::support::Wharf;

/// A client that has started `wharf stdio`.
pub(crate) struct Client {
    pub(crate) process: Child,
    pub(crate) to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Client {
    pub(crate) fn start(wharf: &Wharf, words: &[&str]) -> Self {
        let mut process = wharf.command(words).stdin(Stdio::piped()).spawn().unwrap();
        let to = process.stdin.take();
        let from = BufReader::new(process.stdout.take().unwrap());
        Self { process, to, from }
    }

    pub(crate) fn tell(&mut self, message: &Value) {
        writeln!(self.to.as_mut().unwrap(), "{message}").unwrap();
    }

    pub(crate) fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub(crate) fn begin(&mut self) -> Value {
        self.tell(
            &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            }}),
        );
        let answer = self.hear();
        self.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer
    }

    /// Is gone from one moment to the next; what it had started is left.
    pub(crate) fn die(self) -> Child {
        self.process
    }

    /// Closes its input; what it still says, what it said on standard error, and its exit code.
    fn end(mut self) -> (String, String, Option<i32>) {
        drop(self.to.take());
        let (mut rest, mut stderr) = (String::new(), String::new());
        self.from.read_to_string(&mut rest).unwrap();
        self.process
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        let status = wait_for("it to end", || self.process.try_wait().unwrap());
        (rest, stderr, status.code())
    }
}

fn listening_anywhere(wharf: &Wharf) {
    wharf
        .home
        .write_config(&json!({"daemon": {"listen": "127.0.0.1:0"}}));
}

#[test]
fn a_client_gets_its_tools_and_a_daemon_for_them() {
    let wharf = Wharf::new();
    listening_anywhere(&wharf);
    wharf.home.add_fake("one", &["slow-call=0.1"]);
    let mut client = Client::start(&wharf, &["stdio", "--agent", "default"]);
    assert_eq!(client.begin()["result"]["protocolVersion"], "2025-06-18");
    client.tell(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}));
    let tools = client.hear()["result"]["tools"].as_array().unwrap().clone();
    let names: Vec<&str> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["work", "echo", "env", "cwd", "pid"]);
    let arguments = json!({"message": "hi"});
    client.tell(&json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
        "params": {"name": "echo", "arguments": arguments}}));
    // The call is under way when the input ends, and answered all the same.
    let (rest, stderr, code) = client.end();
    assert_snapshot!(rest, @r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"hi"}]}}"#);
    assert_eq!((stderr.as_str(), code), ("", Some(0)));
    wharf.stop_background();
}

#[test]
fn two_clients_at_once_share_one_daemon() {
    let wharf = Wharf::new();
    listening_anywhere(&wharf);
    let mut clients = [(); 2].map(|()| Client::start(&wharf, &["stdio"]));
    for client in &mut clients {
        assert_eq!(client.begin()["result"]["serverInfo"]["name"], "wharfinger");
    }
    let daemons = || {
        let all = wharf.left().into_iter();
        all.filter(|pid| processes::command_line(*pid).contains("background-child"))
            .collect::<Vec<_>>()
    };
    wharfinger_testkit::wait_until("one daemon to be left", || daemons().len() == 1);
    for client in clients {
        assert_eq!(client.end().2, Some(0));
    }
    wharf.stop_background();
}

#[test]
fn a_client_is_told_when_the_daemon_dies() {
    let wharf = Wharf::new();
    let daemon = wharf.up();
    let mut client = Client::start(&wharf, &["stdio"]);
    client.begin();
    processes::kill(daemon.pid());
    let mut rest = String::new();
    client.from.read_to_string(&mut rest).unwrap();
    let status = wait_for("it to end", || client.process.try_wait().unwrap());
    let mut stderr = String::new();
    client
        .process
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!((rest.as_str(), status.code()), ("", Some(1)));
    assert_snapshot!(stderr, @"
    error: the daemon ended, and with it this connection
    hint: start this command again; it starts a daemon when none runs
    ");
    assert_eq!(daemon.ended().0, None);
}

#[test]
fn an_unknown_agent_and_a_bad_configuration_are_told() {
    let wharf = Wharf::new();
    wharf
        .home
        .write("config.json", "{\"daemon\": {\"listen\": 5}}");
    assert_snapshot!(wharf.run(&["stdio"]), @"
    $ wharf stdio
    ! error: [HOME]/config.json:1: daemon.listen: must be a string, not 5
    ! error: not started, since the configuration has errors
    [exit 2]
    ");
    listening_anywhere(&wharf);
    assert_snapshot!(wharf.run(&["stdio", "--agent", "nobody"]), @"
    $ wharf stdio --agent nobody
    ! error: there is no agent `nobody`
    ! hint: `wharf agent list` lists them, `wharf agent new` makes one
    [exit 4]
    ");
    wharf.stop_background();
}
