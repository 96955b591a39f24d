//! The least client: lines in, lines out.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::{Value, json};
use wharfinger_testkit::{fake_server, wait_for};

pub(crate) struct Client {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next_id: u64,
}

impl Client {
    pub(crate) fn start(modes: &[&str]) -> Self {
        Self::start_with(modes, &[])
    }

    pub(crate) fn start_with(modes: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut process = Command::new(fake_server())
            .args(modes)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self {
            process,
            input,
            output,
            next_id: 1,
        }
    }

    /// Starts it and shakes hands.
    pub(crate) fn ready(modes: &[&str]) -> Self {
        let mut client = Self::start(modes);
        client.initialize();
        client.notify("notifications/initialized", &json!({}));
        client
    }

    pub(crate) fn initialize(&mut self) -> Value {
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"},
        });
        self.request("initialize", &hello)
    }

    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request and returns its id.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a request and returns the next line, which is its answer if all is well.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.ask(method, params);
        self.message()
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// The text of the result of a call.
    pub(crate) fn text(&mut self, tool: &str) -> String {
        let answer = self.call(tool, &json!({}));
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    pub(crate) fn tool_names(&mut self) -> Vec<String> {
        let answer = self.request("tools/list", &json!({}));
        names(&answer["result"]["tools"])
    }

    pub(crate) fn line(&mut self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// The next line with its end, empty at the end of the output.
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.output.read_until(b'\n', &mut line).unwrap();
        line
    }

    pub(crate) fn message(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Waits for the end; `None` means that a signal ended it.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.exit_status().code()
    }

    pub(crate) fn exit_status(&mut self) -> ExitStatus {
        wait_for("the fake server to end", || {
            self.process.try_wait().unwrap()
        })
    }

    pub(crate) fn stderr_pipe(&mut self) -> ChildStderr {
        self.process.stderr.take().unwrap()
    }

    /// All of it, once the server has ended.
    pub(crate) fn stderr(&mut self) -> String {
        std::io::read_to_string(self.stderr_pipe()).unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The tests of dying servers come here with one that is gone.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

pub(crate) fn names(tools: &Value) -> Vec<String> {
    let tools = tools.as_array().unwrap();
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap_or("-").to_owned())
        .collect()
}
