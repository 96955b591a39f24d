//! The example programs, run as people run them. Cargo builds them for `cargo test` of this package.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use wharfinger::launch::OWNER;
use wharfinger_testkit::{Home, fake_server, processes, wait_for, wait_until};

use crate::yard::fake;

/// The program of an example, in `examples` beside the folder of the test that runs.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(
        program.is_file(),
        "`{}` isn't built; run `cargo build --package wharfinger --examples`",
        program.display()
    );
    program
}

/// What a wharf in that process has started and not ended.
fn left_by(pid: u32) -> Vec<String> {
    let own = format!("-{pid}");
    let marked = processes::environment_marks(OWNER).into_iter();
    marked
        .filter(|(_, owner)| owner.ends_with(&own))
        .map(|(pid, _)| processes::command_line(pid))
        .collect()
}

fn settings(servers: &Value) -> String {
    json!({ "mcpServers": servers }).to_string()
}

fn embed(arguments: &[&str]) -> Output {
    let mut command = Command::new(example("embed"));
    command.args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(left_by(pid), Vec::<String>::new(), "processes are left");
    output
}

#[test]
fn embed_lists_tools_calls_one_and_leaves_nothing() {
    let servers = json!({
        "a": fake(&["tool=echo"], json!({})),
        "b": fake(&["tool=work", "setsid-child"], json!({ "toolPrefix": "b_" })),
        "c": fake(&["die-before-init=1"], json!({})),
    });
    let output = embed(&[&settings(&servers), "b_work", r#"{"x": "y"}"#]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "echo  The tool echo\n\
         b_work  The tool work\n\
         {\"content\":[{\"type\":\"text\",\"text\":\"ok 1\"}]}\n"
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("c: it exited (code 1)"), "{said}");
    assert!(output.status.success());
}

#[test]
fn embed_takes_a_command_line() {
    let server = format!("'{}' tool=echo", fake_server().display());
    let output = embed(&[&server, "echo", r#"{"message": "hello there"}"#]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains(r#""text":"hello there""#), "{told}");
    assert!(output.status.success());
}

#[test]
fn embed_says_what_is_wrong_and_leaves_nothing() {
    let check = |arguments: &[&str], expect: &str| {
        let output = embed(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expect), "{said}");
        assert_eq!(output.status.code(), Some(1));
    };
    let fine = settings(&json!({ "s": fake(&["tool=echo"], json!({})) }));
    check(&[], "usage: ");
    check(
        &[&fine, "ecko"],
        "there is no tool `ecko`; did you mean `echo`?",
    );
    check(&[&fine, "echo", "{"], "EOF");
    check(
        &[r#"{"mcpServers": {"s": {"comand": "x"}}}"#],
        "hint: did you mean `command`?",
    );
    let dies = settings(&json!({ "s": fake(&["crash-after=1"], json!({})) }));
    check(&[&dies, "work"], "exited (code 42)");
}

/// A chat that runs, with what it has said so far.
struct Chat {
    child: Child,
    input: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<String>>>,
    /// Lines before this one were looked at.
    seen: usize,
    _home: Home,
}

impl Chat {
    fn with(servers: &Value) -> Self {
        let home = Home::new();
        let file = home.write("settings.json", &settings(servers));
        let mut command = Command::new(example("chat"));
        command.arg("--settings").arg(file);
        // One that is killed leaves its folder.
        command.env("TMPDIR", home.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let lines = Arc::new(Mutex::new(vec![]));
        let said = lines.clone();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                said.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(line);
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            lines,
            seen: 0,
            _home: home,
        }
    }

    fn types(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
    }

    /// Waits for a line that begins so, after those that were waited for before.
    fn says(&mut self, begin: &str) -> String {
        let (lines, seen) = (self.lines.clone(), self.seen);
        let (index, line) = wait_for(&format!("the chat to say `{begin}`"), || {
            let lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            let mut after = lines.iter().enumerate().skip(seen);
            let found = after.find(|(_, line)| line.starts_with(begin));
            found.map(|(index, line)| (index, line.clone()))
        });
        self.seen = index + 1;
        line
    }

    /// Ends the input; the chat ends by itself, and nothing of it is left.
    fn ends(mut self) -> Vec<String> {
        drop(self.input.take());
        let status = wait_for("the chat to end", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}");
        assert_eq!(left_by(self.child.id()), Vec::<String>::new());
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.clone()
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        // Its guard ends what it has started; one that has ended is no problem.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn v47_chat_keeps_its_own_tool_and_tells_the_model_of_servers() {
    let section = "Use `work` for work.";
    let mut chat = Chat::with(&json!({
        "s": fake(&["tool=send", "tool=work"], json!({ "promptSection": section })),
        "bad": fake(&["die-before-init=1"], json!({})),
    }));
    chat.says("conversation chat-1");
    chat.says("send  Delivers a file of the workspace (built in)");
    chat.says("work  The tool work");
    chat.says(
        "warning: `send` of `s` is not offered, since `send` is a built-in tool; give `s` a toolPrefix",
    );
    chat.says("bad is not available: it exited (code 1)");
    chat.says(section);
    chat.says("- bad: it exited (code 1)");
    chat.types(r#"send {"path": "nothing"}"#);
    chat.says("can't send ");
    chat.ends();
}

#[test]
fn chat_shows_progress_and_waits_for_calls_at_the_end_of_input() {
    let mut chat = Chat::with(&json!({ "s": fake(&["progress=2", "log=info"], json!({})) }));
    chat.types(r#"echo {"message": "hello"}"#);
    let lines = chat.ends();
    let told: Vec<&str> = lines
        .iter()
        .map(String::as_str)
        .filter(|line| line.starts_with("[1]"))
        .collect();
    assert_eq!(
        told,
        [
            "[1] echo",
            "[1] info: working on \"echo\"",
            "[1] progress 1 of 2, step 1",
            "[1] progress 2 of 2, step 2",
            "[1] hello",
        ]
    );
}

#[test]
fn chat_answers_what_servers_of_either_era_ask() {
    for era in ["protocol=2025-06-18", "modern"] {
        let entry = fake(&[era, "ask=elicitation/create"], json!({}));
        let mut chat = Chat::with(&json!({ "s": entry }));
        chat.types("work {}");
        chat.says("May I? (or /decline)");
        chat.says("yes (boolean)");
        chat.types("perhaps");
        chat.says("`perhaps` is no boolean");
        chat.says("yes (boolean)");
        chat.types("true");
        let result = chat.says("[1] {");
        assert!(
            result.contains(r#""content":{"yes":true}"#),
            "{era} {result}"
        );
        chat.types("work {}");
        chat.says("May I? (or /decline)");
        chat.types("/decline");
        let result = chat.says("[2] {");
        assert!(result.contains(r#""action":"decline""#), "{era} {result}");
        // A call that waits for the person is stopped like any other.
        chat.types("work {}");
        chat.says("May I? (or /decline)");
        chat.types("/stop");
        chat.says("calls stopped: 1");
        chat.says("[3] refused: the call was stopped");
        chat.types("/decline");
        chat.says("nothing is asked");
        // Nobody is there to answer after the end of input.
        chat.types("work {}");
        let lines = chat.ends();
        let last = lines.iter().find(|line| line.starts_with("[4] {"));
        assert!(
            last.is_some_and(|line| line.contains(r#""action":"decline""#)),
            "{era} {lines:?}"
        );
    }
}

#[test]
fn v65_chat_stops_what_runs_and_goes_on() {
    let home = Home::new();
    let hang = [
        "tool=hang".to_owned(),
        "hang-call".to_owned(),
        format!("record={}", home.file("lines").display()),
    ];
    let hang: Vec<&str> = hang.iter().map(String::as_str).collect();
    let mut chat = Chat::with(&json!({
        "hangs": fake(&hang, json!({})),
        "s": fake(&["tool=pid"], json!({})),
    }));
    chat.types("hang");
    let sent = |method: &str| home.lines("lines").iter().any(|line| line.contains(method));
    wait_until("the call to arrive", || sent("tools/call"));
    chat.types("/stop");
    chat.says("calls stopped: 1");
    chat.says("[1] refused: the call was stopped");
    wait_until("the server to be told", || sent("notifications/cancelled"));
    chat.types("pid");
    chat.says("[2] pid");
    chat.says("[2] ");
    chat.ends();
}

#[test]
fn v60_v69_v72_chat_tells_of_servers_and_each_conversation_has_fresh_ones() {
    let mut chat = Chat::with(&json!({ "s": fake(&["tool=pid"], json!({})) }));
    let mut pids = vec![];
    let mut pid = |chat: &mut Chat| {
        chat.types("pid");
        chat.says("[");
        let said = chat.says("[");
        let pid: u32 = said.split_once(' ').unwrap().1.parse().unwrap();
        assert!(!pids.contains(&pid), "{pids:?} {pid}");
        for before in &pids {
            assert!(!processes::alive(*before), "{before} runs on");
        }
        pids.push(pid);
    };
    chat.says("conversation chat-1");
    chat.types("/mcp");
    chat.says("s  not started (1 tool)");
    pid(&mut chat);
    chat.types("/mcp");
    chat.says("s  running (1 tool)");
    chat.types("/mcp s");
    chat.says("s: running");
    chat.says("tools: pid");
    chat.types("/mcp restart s");
    chat.says("s: stopped; the next call starts a fresh one");
    pid(&mut chat);
    chat.types("/new");
    chat.says("conversation chat-2");
    pid(&mut chat);
    chat.types("/resume chat-1");
    chat.says("conversation chat-1");
    pid(&mut chat);
    chat.types("/mcp t");
    chat.says("there is no MCP server `t`");
    chat.types("/resume not valid");
    chat.says("the id of a conversation may not contain ' '");
    chat.types("/quit");
    chat.ends();
}

#[test]
fn a_chat_that_is_interrupted_or_killed_leaves_no_server() {
    for end in [processes::terminate, processes::kill] {
        let mut chat = Chat::with(&json!({ "s": fake(&["tool=pid", "setsid-child"], json!({})) }));
        chat.types("pid");
        chat.says("[1] pid");
        chat.says("[1] ");
        let pid = chat.child.id();
        assert!(!left_by(pid).is_empty());
        end(pid);
        wait_for("the chat to end", || chat.child.try_wait().unwrap());
        wait_until("all processes to end", || left_by(pid).is_empty());
    }
}
