//! Secrets that go in by every way are found in no file, command line, environment, answer or log afterwards.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use serde_json::{Value, json};
use wharfinger_testkit::{fake_server, wait_until};

use crate::support::Wharf;

/// No part of one is in another, and none is in anything else.
const APP: &str = "planted-app-7/f3+a9 c1\"q";
const OWN: &str = "planted-own-2/b8+d4 e6\"w";
const FILE: &str = "planted-file-5/c0+e7 a2\"z";
const INSTALLED: &str = "planted-inst-9/a1+c3 b5\"k";
const ALL: [&str; 4] = [APP, OWN, FILE, INSTALLED];

/// How a value may be spelt: as it is, in JSON, in base64 wherever that begins, with percent signs.
fn spellings(value: &str) -> Vec<String> {
    let in_json = Value::from(value).to_string();
    let percent = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || byte == b'-' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let mut all = vec![
        value.to_owned(),
        in_json[1..in_json.len() - 1].to_owned(),
        value.bytes().map(percent).collect(),
    ];
    for before in 0..3 {
        let whole = BASE64.encode([&vec![b'x'; before], value.as_bytes()].concat());
        let inner = whole[4..whole.len() - 4].to_owned();
        all.push(inner.replace('+', "-").replace('/', "_"));
        all.push(inner);
    }
    all
}

/// The values that are in there, each with the way it is spelt.
fn found_in(bytes: &[u8]) -> Vec<String> {
    let holds = |spelling: &String| {
        bytes
            .windows(spelling.len())
            .any(|window| window == spelling.as_bytes())
    };
    ALL.iter()
        .flat_map(|value| spellings(value))
        .filter(holds)
        .collect()
}

/// Every file below a folder with a value in it.
fn search(folder: &Path) -> (usize, Vec<String>) {
    let (mut files, mut found) = (0, vec![]);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files += 1;
                // A file may be gone again.
                let bytes = fs::read(entry.path()).unwrap_or_default();
                let spelt = found_in(&bytes);
                found.extend(
                    spelt
                        .into_iter()
                        .map(|spelling| format!("{}: {spelling}", entry.path().display())),
                );
            }
        }
    }
    (files, found)
}

/// Processes with a value in their command line; and, but for servers, in their environment. And how many servers run.
fn search_processes() -> (usize, Vec<String>) {
    let mut servers = 0;
    let mut found = vec![];
    for entry in fs::read_dir("/proc").unwrap() {
        let name = entry.unwrap().file_name();
        let Ok(pid) = name.to_string_lossy().parse::<u32>() else {
            continue;
        };
        let read = |what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let mut places = vec![("command line", read("cmdline"))];
        let program = fs::read_link(format!("/proc/{pid}/exe"));
        if program.is_ok_and(|program| program == fake_server()) {
            servers += 1;
        } else {
            places.push(("environment", read("environ")));
        }
        for (place, bytes) in places {
            let spelt = found_in(&bytes);
            found.extend(
                spelt
                    .into_iter()
                    .map(|spelling| format!("{place} of {pid}: {spelling}")),
            );
        }
    }
    (servers, found)
}

/// Posts to the admin API as no command line could, and does something before the answer is read.
fn post(wharf: &Wharf, path: &str, body: &Value, meanwhile: impl FnOnce()) -> String {
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = UnixStream::connect(wharf.home.file("wharf.sock")).unwrap();
    stream.write_all((head + &body).as_bytes()).unwrap();
    meanwhile();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a83_a99_a103_secrets_that_go_in_by_every_way_are_found_nowhere() {
    let wharf = Wharf::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(
        wharf.home.file("config.json"),
        json!({ "daemon": { "hostAccess": true } }).to_string(),
    )
    .unwrap();
    wharf.run(&[
        "up",
        "--background",
        "--listen",
        "127.0.0.1:0",
        "--log",
        "trace",
    ]);

    // By standard input and by a file, for all and for one.
    let block = json!({ "s": { "command": fake_server(), "args": ["tool=env", "tool=echo"], "env": {
        "APP_VALUE": "${secret:APP}", "OWN_VALUE": "${secret:OWN?}", "BOTH": "x ${secret:APP}",
    }}});
    let mut said = wharf.run_with_input(&["secret", "set", "s", "APP"], APP);
    said += &wharf.run(&["add", &block.to_string()]);
    wharf.json(&["agent", "new", "bot", "--profile", "agent"]);
    let file = outside.path().join("value");
    fs::write(&file, OWN).unwrap();
    let path = file.display().to_string();
    said += &wharf.run(&[
        "secret", "set", "s", "OWN", "--agent", "bot", "--file", &path,
    ]);
    fs::write(&file, FILE).unwrap();
    said += &wharf.run(&["secret", "set", "later", "FILE", "--file", &path]);

    // By an agent that installs a server, with and without an approval.
    for (option, value) in [("--host-access", "on"), ("--new-tools-restricted", "off")] {
        said += &wharf.run(&["agent", "set", "bot", option, value]);
    }
    said += &wharf.run(&["tools", "enable", "mcp_install", "--agent", "bot"]);
    // By another path, since it is not the server that the owner has registered.
    let program = outside.path().join("mine-server");
    std::os::unix::fs::symlink(fake_server(), &program).unwrap();
    let install = json!({ "type": "custom", "name": "mine", "package": program, "host": true,
        "args": ["tool=env"], "env": { "MINE_VALUE": INSTALLED } });
    let body = json!({ "name": "mcp_install", "arguments": install });
    let asked = post(&wharf, "/api/agents/bot/call", &body, || {
        wait_until("an approval", || wharf.json(&["approvals"]) != json!([]));
        let shown = wharf.json(&["approvals"]);
        let (_, found) = search(wharf.home.path());
        let in_answer = found_in(shown.to_string().as_bytes());
        assert_eq!((in_answer, found), (vec![], vec![]), "while it waits");
        wharf.run(&["approve", shown[0]["id"].as_str().unwrap()]);
    });
    assert!(asked.contains("\"success\":true"), "{asked}");
    said += &asked;

    // The servers say what they have, in results and in errors.
    for (agent, tool) in [("default", "s/env"), ("bot", "s/env"), ("bot", "mine/env")] {
        let words = ["call", tool, "--agent", agent, "--as-owner"];
        let answer = wharf.run(&words);
        assert!(answer.contains("[REDACTED]"), "{answer}");
        said += &answer;
    }
    // A caller that has got hold of one leaves no trace of it.
    for value in [APP, OWN, INSTALLED] {
        let arguments = json!({ "message": value, "in": { value: [value] } });
        let body = json!({ "server": "s", "tool": "echo", "arguments": arguments });
        said += &post(&wharf, "/api/agents/default/call", &body, || ());
    }
    let export = outside.path().join("bot.adf").display().to_string();
    for words in [
        &["list"][..],
        &["list", "--json"],
        &["show", "s"],
        &["show", "s", "--json"],
        &["tools", "--agent", "bot"],
        &["logs", "s"],
        &["journal", "--limit", "0"],
        &["journal", "--limit", "0", "--json"],
        &["secret", "list", "--json"],
        &["config", "show"],
        &["agent", "show", "bot", "--json"],
        &["agent", "export", "bot", &export],
        &["status", "--json"],
        &["mcp", "s"],
    ] {
        said += &wharf.run(words);
    }
    assert!(said.contains("config.secret-set"), "{said}");
    assert_eq!(
        found_in(said.as_bytes()),
        Vec::<String>::new(),
        "in answers: {said}"
    );

    fs::remove_file(&file).unwrap();
    let (servers, found) = search_processes();
    assert_eq!(found, Vec::<String>::new());
    assert!(servers >= 2, "{servers} servers run");
    let (files, found) = search(outside.path());
    assert_eq!((files, found), (1, vec![]), "in the exported file");
    let (files, found) = search(wharf.home.path());
    assert_eq!(found, Vec::<String>::new(), "of {files} files");
    assert!(files >= 6, "{files} files");
    let logged = wharf.home.read("daemon.log");
    assert!(!logged.is_empty(), "nothing is logged at the finest level");

    wharf.stop_background();
    let (_, found) = search(wharf.home.path());
    assert_eq!(found, Vec::<String>::new(), "after the end");
}

#[test]
fn what_is_looked_for_would_be_found() {
    let folder = tempfile::tempdir().unwrap();
    for (name, planted) in ALL.iter().enumerate() {
        for (way, spelling) in spellings(planted).into_iter().enumerate() {
            let path = folder.path().join(format!("planted-{name}-{way}"));
            fs::write(&path, format!("before {spelling} after")).unwrap();
            assert!(!search(folder.path()).1.is_empty(), "{spelling}");
            fs::remove_file(path).unwrap();
        }
    }
    for value in ALL {
        for before in ["", "u", "us", "usr"] {
            let whole = BASE64.encode(format!("{before}{value}!"));
            assert!(!found_in(whole.as_bytes()).is_empty(), "{whole}");
        }
    }
}
