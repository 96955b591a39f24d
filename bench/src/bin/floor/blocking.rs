//! Measurements by one thread that waits for each answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use wharfinger_bench::stats::{Summary, nanos};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"floor","version":"0"}}}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}"#;

type Pipes = (Child, ChildStdin, BufReader<ChildStdout>);

fn start(command: &[String]) -> Result<Pipes> {
    let (program, arguments) = command.split_first().context("an empty command")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let input = child.stdin.take().context("no standard input")?;
    let output = child.stdout.take().context("no standard output")?;
    Ok((child, input, BufReader::new(output)))
}

/// So many more, before any counts.
fn warm_up(n: usize) -> usize {
    n / 10
}

pub(crate) fn pipe(n: usize, command: &[String]) -> Result<Value> {
    let (mut child, mut input, mut output) = start(command)?;
    let (mut line, request) = (String::new(), format!("{CALL}\n"));
    let mut times = Vec::with_capacity(n);
    for turn in 0..n + warm_up(n) {
        let at = Instant::now();
        input.write_all(request.as_bytes())?;
        line.clear();
        let read = output.read_line(&mut line)?;
        ensure!(read > 0, "the server closed its output");
        if turn >= warm_up(n) {
            times.push(nanos(at.elapsed()));
        }
    }
    ensure!(line.contains("hello"), "not an echo: {line}");
    drop(input);
    child.wait()?;
    Ok(json!({"floor": "pipe", "latency": Summary::of(&mut times)}))
}

pub(crate) fn tcp(port: u16, n: usize) -> Result<Value> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{CALL}",
        CALL.len()
    );
    let (mut buffer, mut times) = (vec![0; 16 << 10], Vec::with_capacity(n));
    for turn in 0..n + warm_up(n) {
        let at = Instant::now();
        stream.write_all(request.as_bytes())?;
        let mut have = 0;
        // The reply ends with the closing braces of the message.
        while !buffer[..have].ends_with(b"}]}}") {
            let got = stream.read(&mut buffer[have..])?;
            let so_far = String::from_utf8_lossy(&buffer[..have]);
            ensure!(got > 0, "no reply to a call: {so_far}");
            have += got;
        }
        if turn >= warm_up(n) {
            times.push(nanos(at.elapsed()));
        }
    }
    Ok(json!({"floor": "tcp", "latency": Summary::of(&mut times)}))
}

pub(crate) fn spawn(n: usize, command: &[String]) -> Result<Value> {
    let (mut ready, mut whole) = (Vec::with_capacity(n), Vec::with_capacity(n));
    for _ in 0..n {
        let at = Instant::now();
        let (mut child, mut input, mut output) = start(command)?;
        writeln!(input, "{INITIALIZE}")?;
        let read = output.read_line(&mut String::new())?;
        ensure!(read > 0, "no reply to initialize");
        ready.push(nanos(at.elapsed()));
        drop(input);
        child.wait()?;
        whole.push(nanos(at.elapsed()));
    }
    Ok(json!({
        "floor": "spawn",
        "to_initialize": Summary::of(&mut ready),
        "to_exit": Summary::of(&mut whole),
    }))
}
