//! `wharf doctor` on set-ups that are broken for real: code, cause and fix of each.

use std::fs::{self, File, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use insta::assert_snapshot;
use serde_json::{Value, json};
use wharfinger_testkit::{fake_server, processes, wait_until};

use crate::support::{Daemon, Wharf};

/// A finding, as far as tests look at it.
#[derive(Debug)]
struct Found {
    code: String,
    cause: String,
    fix: String,
    command: String,
}

fn found(finding: &Value) -> Found {
    let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    Found {
        code: text("code"),
        cause: text("cause"),
        fix: text("fix"),
        command: text("command"),
    }
}

impl Wharf {
    /// What a doctor's command answers, and its exit code.
    #[track_caller]
    fn doctor_of(&self, mut command: Command) -> (Value, i32) {
        let output = command.arg("--json").output().unwrap();
        let value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", self.said(&["doctor"], &output)));
        (value, output.status.code().unwrap())
    }

    /// What it finds on the machine; nothing else may be wrong.
    #[track_caller]
    fn ailment(&self) -> Found {
        let (value, exit) = self.doctor_of(self.command(&["doctor"]));
        let findings = value["findings"].as_array().unwrap();
        assert_eq!((findings.len(), exit), (1, 1), "{value:#}");
        found(&findings[0])
    }

    /// What it finds about one server that it starts.
    #[track_caller]
    fn ailment_of(&self, name: &str) -> Found {
        let (value, exit) = self.doctor_of(self.command(&["doctor", name]));
        let findings = value["findings"].as_array().unwrap();
        assert_eq!((findings.len(), exit), (1, 1), "{value:#}");
        assert_eq!(findings[0]["server"], name);
        found(&findings[0])
    }

    /// A program in a folder that [`up_with_tools`](Self::up_with_tools) puts first on the `PATH`.
    fn tool(&self, name: &str, script: &str) -> PathBuf {
        let path = self
            .home
            .write(&format!("tools/{name}"), &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn tools(&self) -> String {
        format!("{}:/usr/bin:/bin", self.home.file("tools").display())
    }

    fn up_with_tools(&self) -> Daemon {
        let mut command = self.command(&["up", "--listen", "127.0.0.1:0"]);
        command.env("PATH", self.tools());
        Daemon::start(command)
    }
}

/// A home whose daemon takes any free port, so that none is taken.
fn fresh() -> Wharf {
    let wharf = Wharf::new();
    wharf
        .home
        .write_config(&json!({"daemon": {"listen": "127.0.0.1:0"}}));
    fs::set_permissions(wharf.home.path(), Permissions::from_mode(0o700)).unwrap();
    wharf
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn nothing_is_wrong_with_a_fresh_home() {
    let wharf = fresh();
    let (value, exit) = wharf.doctor_of(wharf.command(&["doctor"]));
    assert_eq!(value["findings"], json!([]), "{value:#}");
    assert_eq!((exit, &value["facts"]["daemon"]), (0, &Value::Null));
    let _daemon = wharf.up();
    wharf.add_fake("s", &[]);
    let (value, exit) = wharf.doctor_of(wharf.command(&["doctor"]));
    assert_eq!(value["findings"], json!([]), "{value:#}");
    assert_eq!(exit, 0);
    assert!(value["facts"]["daemon"]["pid"].is_u64());
    assert_eq!(value["facts"]["programs"][0]["found"], true);
}

#[test]
fn what_is_wrong_is_told_first_and_the_rest_in_brief() {
    let wharf = fresh();
    wharf
        .home
        .write_settings(&json!({"mcpServers": {"lost": {"command": "/nowhere/server"}}}));
    let mut command = wharf.command(&["doctor"]);
    // No program that could be there or not.
    command.env("PATH", "/nowhere");
    let said = wharf.said(&["doctor"], &command.output().unwrap());
    assert_snapshot!(said, @"
    $ wharf doctor
    1 thing is wrong

    WF-105 lost: The program is missing (certain)
      cause  there is no program `/nowhere/server` where the daemon looks
      fix    install it, or give its whole path in the entry ([HOME]/settings.json:3)
      run    command -v /nowhere/server

    fine       home, disk, configuration, address
    not there  node, npm, npx, python3, uv, uvx, docker, podman, git, chromium
    `wharf doctor --all` shows each
    ! no daemon runs, so no server was looked at beyond its entry
    ! hint: start one with `wharf up`
    [exit 1]
    ");
    let _daemon = wharf.up();
    assert_snapshot!(wharf.run(&["doctor", "lost"]), @"
    $ wharf doctor lost
    lost does not work

    prepare     [DURATION]
    start       [DURATION]  failed

    WF-105 lost: The program is missing (certain)
      cause  there is no program `/nowhere/server` where the daemon looks
      fix    install it, or give its whole path in the entry ([HOME]/settings.json:3)
      run    command -v /nowhere/server
    [exit 1]
    ");
}

#[test]
fn a_home_that_is_no_folder() {
    let wharf = fresh();
    let file = wharf.home.write("file", "");
    let home = file.join("home");
    let words = ["--home", home.to_str().unwrap(), "doctor"];
    let (value, exit) = wharf.doctor_of(wharf.command(&words));
    assert_eq!(
        (value["findings"].as_array().unwrap().len(), exit),
        (1, 1),
        "{value:#}"
    );
    let found = found(&value["findings"][0]);
    assert_eq!(found.code, "WF-001");
    assert!(found.cause.contains("is no folder"), "{found:?}");
    assert!(found.fix.contains("--home DIR"), "{found:?}");
}

#[test]
fn a_home_that_is_open_is_closed() {
    let wharf = fresh();
    fs::set_permissions(wharf.home.path(), Permissions::from_mode(0o755)).unwrap();
    let found = wharf.ailment();
    assert_eq!(found.code, "WF-002");
    assert!(found.cause.contains("has mode 755"), "{found:?}");
    assert!(found.command.starts_with("chmod 700 "), "{found:?}");
    let (value, exit) = wharf.doctor_of(wharf.command(&["doctor", "--fix"]));
    assert_eq!(
        (value["fixed"].as_array().unwrap().len(), exit),
        (1, 0),
        "{value:#}"
    );
    assert_eq!(mode_of(wharf.home.path()), 0o700);
}

#[test]
fn a_token_that_others_can_read_is_closed() {
    let wharf = fresh();
    let _daemon = wharf.up();
    let token = wharf.home.file("tokens/owner");
    fs::set_permissions(&token, Permissions::from_mode(0o644)).unwrap();
    let found = wharf.ailment();
    assert_eq!(found.code, "WF-003");
    assert!(
        found.cause.contains("tokens/owner has mode 644"),
        "{found:?}"
    );
    assert_eq!(found.command, format!("chmod 600 {}", token.display()));
    wharf.json(&["doctor", "--fix"]);
    assert_eq!(mode_of(&token), 0o600);
}

#[test]
fn the_socket_of_a_dead_daemon_is_removed() {
    let wharf = fresh();
    let socket = wharf.home.file("wharf.sock");
    drop(UnixListener::bind(&socket).unwrap());
    fs::set_permissions(&socket, Permissions::from_mode(0o600)).unwrap();
    let found = wharf.ailment();
    assert_eq!(found.code, "WF-004");
    assert!(
        found.cause.contains("left of a daemon that was killed"),
        "{found:?}"
    );
    assert_eq!(found.command, format!("rm {}", socket.display()));
    wharf.json(&["doctor", "--fix"]);
    assert!(!socket.exists());
}

#[test]
fn a_port_that_is_taken() {
    let wharf = fresh();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    wharf
        .home
        .write_config(&json!({"daemon": {"listen": address}}));
    let found = wharf.ailment();
    assert_eq!(found.code, "WF-005");
    assert_eq!(
        found.cause,
        format!("another program uses {address}, where the daemon is to listen")
    );
    assert_eq!(found.command, "wharf up --listen 127.0.0.1:0");
}

#[test]
fn a_daemon_that_hangs() {
    let wharf = fresh();
    let daemon = wharf.up();
    let pid = daemon.pid();
    processes::pause(pid);
    let found = wharf.ailment();
    processes::resume(pid);
    assert_eq!(found.code, "WF-006");
    assert!(found.cause.contains("does not answer"), "{found:?}");
    assert_eq!(found.command, format!("kill {pid}"));
}

#[test]
fn a_clock_that_is_wrong() {
    let wharf = fresh();
    let file = wharf.home.write("daemon.log", "");
    let future = SystemTime::now() + Duration::from_secs(7200);
    File::options()
        .write(true)
        .open(file)
        .unwrap()
        .set_modified(future)
        .unwrap();
    let found = wharf.ailment();
    assert_eq!(found.code, "WF-008");
    assert!(found.cause.contains("from the future"), "{found:?}");
    assert_eq!(found.command, "timedatectl set-ntp true");
}

#[test]
fn settings_that_are_wrong() {
    let wharf = fresh();
    wharf.home.write_settings(
        &json!({"mcpServers": {"a": {"command": fake_server(), "enabled": "yes"}}}),
    );
    let found = wharf.ailment();
    assert_eq!(found.code, "WF-009");
    assert!(
        found
            .cause
            .starts_with("in the configuration, mcpServers.a.enabled: must be"),
        "{found:?}"
    );
    assert_eq!(found.command, "wharf config check");
    let set = json!({"command": fake_server(), "env": {"K": "${env:NOT_SET}"}});
    wharf
        .home
        .write_settings(&json!({"mcpServers": {"a": set}}));
    let found = wharf.ailment();
    assert_eq!(found.code, "WF-010");
    assert!(found.fix.contains("set `NOT_SET`"), "{found:?}");
    wharf.home.write("settings.json", "{\"mcpServers\": {");
    assert_eq!(wharf.ailment().code, "WF-009");
}

#[test]
fn a_home_whose_path_is_too_long_for_a_socket() {
    let wharf = fresh();
    let home = wharf.home.file(&"long".repeat(30));
    let words = ["--home", home.to_str().unwrap(), "doctor"];
    let (value, _) = wharf.doctor_of(wharf.command(&words));
    assert_eq!(value["findings"][0]["code"], "WF-011", "{value:#}");
}

#[test]
fn everything_was_stopped() {
    let wharf = fresh();
    let _daemon = wharf.up();
    wharf.json(&["stop", "--all", "--reason", "bot ran wild"]);
    let found = wharf.ailment();
    assert_eq!(found.code, "WF-012");
    assert!(found.cause.contains("bot ran wild"), "{found:?}");
    assert_eq!(found.command, "wharf release");
    wharf.json(&["release"]);
    assert_eq!(wharf.doctor_of(wharf.command(&["doctor"])).1, 0);
}

#[test]
fn a_key_that_is_not_set() {
    let wharf = fresh();
    wharf.home.write_settings(&json!({"mcpServers": {"s": {
        "command": fake_server(), "env": {"TOKEN": "${secret:TOKEN}"}}}}));
    let _daemon = wharf.up();
    let found = wharf.ailment_of("s");
    assert_eq!(found.code, "WF-502", "{found:?}");
    assert!(found.cause.contains("TOKEN"), "{found:?}");
    assert_eq!(found.command, "wharf secret set s TOKEN");
    wharf.run_with_input(&["secret", "set", "s", "TOKEN"], "a-value-of-it");
    assert_eq!(wharf.doctor_of(wharf.command(&["doctor", "s"])).1, 0);
}

#[test]
fn a_vault_that_can_not_be_opened() {
    let wharf = fresh();
    let daemon = wharf.up();
    wharf.run_with_input(&["secret", "set", "s", "TOKEN"], "a-value-of-it");
    drop(daemon);
    wharf.home.write("credential.key", &"x".repeat(32));
    let daemon = wharf.up();
    let found = wharf.ailment();
    assert_eq!(found.code, "WF-504", "{found:?}");
    assert!(found.fix.contains("old key"), "{found:?}");
    drop(daemon);

    let wharf = fresh();
    let passphrase = wharf.home.write("passphrase", "correct horse");
    let mut command = wharf.command(&["up", "--listen", "127.0.0.1:0"]);
    command.env("WHARFINGER_PASSPHRASE_FILE", &passphrase);
    let daemon = Daemon::start(command);
    wharf.run_with_input(&["secret", "set", "s", "TOKEN"], "a-value-of-it");
    assert_eq!(wharf.doctor_of(wharf.command(&["doctor"])).1, 0);
    drop(daemon);
    let _daemon = wharf.up();
    let found = wharf.ailment();
    assert_eq!(found.code, "WF-501", "{found:?}");
    assert_eq!(found.command, "wharf secret unlock");
    wharf.run_with_input(&["secret", "unlock"], "correct horse");
    assert_eq!(wharf.doctor_of(wharf.command(&["doctor"])).1, 0);
}

#[test]
fn a_database_that_is_none() {
    let wharf = fresh();
    wharf
        .home
        .write("wharfinger.db", "certainly not a database");
    let found = wharf.ailment();
    assert_eq!(found.code, "WF-013");
    assert!(found.command.starts_with("mv "), "{found:?}");
}

#[test]
fn programs_that_are_missing_are_told_without_a_daemon() {
    let wharf = fresh();
    for (program, code, cause) in [
        ("npx", "WF-101", "comes with Node.js"),
        ("uvx", "WF-102", "comes with uv"),
        ("python3", "WF-103", "`python3` is not installed"),
        ("docker", "WF-104", "`docker` is not installed"),
        (
            "no-such-program",
            "WF-105",
            "there is no program `no-such-program`",
        ),
    ] {
        wharf
            .home
            .write_settings(&json!({"mcpServers": {"s": {"command": program}}}));
        let mut command = wharf.command(&["doctor"]);
        command.env("PATH", "/nowhere");
        let (value, exit) = wharf.doctor_of(command);
        let found = found(&value["findings"][0]);
        assert_eq!((found.code.as_str(), exit), (code, 1), "{value:#}");
        assert!(found.cause.contains(cause), "{found:?}");
        assert!(found.fix.contains("install"), "{found:?}");
    }
}

#[test]
fn a_server_that_can_not_be_run() {
    let wharf = fresh();
    let _daemon = wharf.up();
    let script = wharf.home.write("server", "#!/bin/sh\n");
    let add = |name: &str, more: Value| {
        let mut entry = json!({"command": script});
        entry
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        wharf.run(&["add", "--replace", name, &entry.to_string()]);
    };
    add("s", json!({}));
    let found = wharf.ailment_of("s");
    assert_eq!(found.code, "WF-106");
    assert_eq!(found.command, format!("chmod +x {}", script.display()));
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    add("s", json!({"cwd": script.join("inside")}));
    let found = wharf.ailment_of("s");
    assert_eq!(found.code, "WF-107");
    assert!(found.fix.contains("settings.json:3"), "{found:?}");
    wharf
        .home
        .write("server", "\u{7f}ELF no program of this machine");
    add("s", json!({}));
    assert_eq!(wharf.ailment_of("s").code, "WF-110");
    // An interpreter that is not there.
    wharf.home.write("server", "#!/usr/bin/env node\n");
    wharf.run(&[
        "add",
        "--replace",
        "s",
        "--env",
        "PATH=/nowhere",
        "--",
        &script.display().to_string(),
    ]);
    assert_eq!(wharf.ailment_of("s").code, "WF-101");
}

const DOCKER: &str = "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?";

/// The code, the program, what it prints before it ends with 1, a part of the fix, and the command of it.
#[rustfmt::skip]
const SAID: &[(&str, &str, &str, &str, &str)] = &[
    ("WF-114", "uvx", "AttributeError: 'Server' object has no attribute 'list_resources'", "`mcp` before 2", "wharf add --replace s -- uvx --with 'mcp<2' some-server"),
    ("WF-114", "uvx", "ModuleNotFoundError: No module named 'mcp.server.fastmcp'", "`mcp` before 2", "wharf add --replace s -- uvx --with 'mcp<2' some-server"),
    ("WF-301", "npx", "Error: BRAVE_API_KEY environment variable is required", "give it BRAVE_API_KEY", "wharf add --replace s --env BRAVE_API_KEY -- npx some-server"),
    ("WF-108", "npx", "TypeError: fs.globSync is not a function", "newer Node.js", "node --version"),
    ("WF-109", "node", "SyntaxError: Unexpected token '??='", "newer Node.js", "node --version"),
    ("WF-201", "npx", "npm error code E404\nnpm error 404 Not Found", "correct the name", ""),
    ("WF-202", "npx", "npm error code ETARGET", "correct the version", ""),
    ("WF-203", "npx", "npm error code EACCES", "take the cache back", "sudo chown -R \"$(id -u)\" ~/.npm"),
    ("WF-204", "npx", "npm error code ENOSPC", "make room", "npm cache clean --force"),
    ("WF-205", "npx", "npm error code SELF_SIGNED_CERT_IN_CHAIN", "NODE_EXTRA_CA_CERTS", "NODE_EXTRA_CA_CERTS=/path/to/ca.pem SSL_CERT_FILE=/path/to/ca.pem wharf up"),
    ("WF-206", "npx", "npm error code ENOTFOUND", "HTTPS_PROXY", "HTTPS_PROXY=http://proxy.example:3128 wharf up"),
    ("WF-207", "npx", "npm error code ETIMEDOUT", "check the network", "npm ping"),
    ("WF-209", "uvx", "Because no-such was not found in the package registry", "correct the name", ""),
    ("WF-211", "npx", "npm error code ENOTEMPTY", "throw away", "rm -r ~/.npm/_npx"),
    ("WF-214", "npx", "ERROR: Failed to set up chrome v131! Set PUPPETEER_SKIP_DOWNLOAD to skip", "skip the download", "wharf add --replace s --env PUPPETEER_SKIP_DOWNLOAD=true -- npx some-server"),
    ("WF-215", "npx", "Chromium distribution 'chrome' is not found at /opt/google/chrome/chrome", "install its browser", "npx playwright install chromium"),
    ("WF-216", "npx", "Running as root without --no-sandbox is not supported.", "--no-sandbox", "wharf add --replace s -- npx some-server --no-sandbox"),
    ("WF-302", "npx", "Please provide a database URL as a command-line argument", "address", "wharf add --replace s -- npx some-server postgresql://USER@HOST/DATABASE"),
    ("WF-303", "npx", "Error: OAuth keys file not found. Please place gcp-oauth.keys.json in current directory", "put the file", ""),
    ("WF-304", "node", "Error: EACCES: permission denied, open '/srv/a.db'", "the right to it", "ls -l /srv/a.db"),
    ("WF-305", "node", "Error: listen EADDRINUSE: address already in use :::3000", "end the other one", "ss -ltnp 'sport = :3000'"),
    ("WF-307", "uvx", "error: the following arguments are required: --db", "compare the arguments", "wharf logs s"),
    ("WF-311", "docker", DOCKER, "start Docker", "docker info"),
    ("WF-111", "node", "node: /lib/libc.so.6: version `GLIBC_2.38' not found (required by node)", "older version", "ldd --version"),
    ("WF-118", "node", "Error: Cannot find module '/srv/dist/index.js'", "build it", ""),
    ("WF-000", "node", "nobody knows this", "what it wrote", "wharf logs s"),
];

#[test]
fn what_installers_and_servers_print_is_explained() {
    let wharf = fresh();
    fs::create_dir(wharf.home.file("tools")).unwrap();
    let _daemon = wharf.up_with_tools();
    for (code, tool, said, fix, command) in SAID {
        wharf.tool(tool, &format!("cat >&2 <<'END'\n{said}\nEND\nexit 1"));
        wharf.run(&["add", "--replace", "s", "--", tool, "some-server"]);
        let found = wharf.ailment_of("s");
        assert_eq!(found.code, *code, "{found:?}");
        assert!(found.fix.contains(fix), "{found:?}");
        assert_eq!(found.command, *command, "{found:?}");
        assert!(
            !found.cause.is_empty() && !found.cause.contains("{s"),
            "{found:?}"
        );
    }
}

#[test]
fn how_a_server_ends_or_does_not_answer_is_explained() {
    let wharf = fresh();
    let _daemon = wharf.up();
    let fake = fake_server().display().to_string();
    for (code, words, seconds) in [
        ("WF-301", vec![fake.as_str(), "die-before-init=3"], 60),
        ("WF-406", vec!["true"], 60),
        ("WF-308", vec!["sh", "-c", "kill -9 $$"], 60),
        ("WF-309", vec!["sh", "-c", "kill -11 $$"], 60),
        ("WF-120", vec!["sh", "-c", "no-such-program-anywhere"], 60),
        ("WF-402", vec![fake.as_str(), "init-bad-version"], 60),
        ("WF-403", vec![fake.as_str(), "init-error"], 60),
        ("WF-408", vec![fake.as_str(), "no-reply-to-list"], 1),
        ("WF-408", vec!["sleep", "1000"], 1),
        (
            "WF-401",
            vec!["sh", "-c", "echo Welcome; exec sleep 1000"],
            1,
        ),
        (
            "WF-407",
            vec![
                "sh",
                "-c",
                "echo 'Uvicorn running on http://127.0.0.1:8000' >&2; exec sleep 1000",
            ],
            1,
        ),
    ] {
        let entry =
            json!({"command": words[0], "args": words[1..], "startupTimeoutSeconds": seconds});
        wharf.run(&["add", "--replace", "s", &entry.to_string()]);
        let found = wharf.ailment_of("s");
        assert_eq!(found.code, code, "{words:?}: {found:?}");
        assert!(
            !found.cause.is_empty() && !found.fix.is_empty(),
            "{found:?}"
        );
    }
}

#[test]
fn a_server_that_works_is_timed() {
    let wharf = fresh();
    let _daemon = wharf.up();
    wharf.add_fake("s", &["banner"]);
    let (value, exit) = wharf.doctor_of(wharf.command(&["doctor", "s"]));
    assert_eq!((exit, &value["findings"]), (0, &json!([])), "{value:#}");
    let steps = value["trial"]["steps"].as_array().unwrap();
    let names: Vec<_> = steps
        .iter()
        .map(|step| step["step"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["prepare", "start", "initialize", "list"]);
    assert_eq!(value["trial"]["tools"], 5);
    // One that runs is left alone.
    let done = wharf.command(&["call", "s/pid"]).output().unwrap();
    let pid: u32 = String::from_utf8(done.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let (value, exit) = wharf.doctor_of(wharf.command(&["doctor", "s"]));
    assert_eq!(
        (exit, &value["trial"]["running"]),
        (0, &json!(pid)),
        "{value:#}"
    );
}

#[test]
fn a_server_that_was_mended_is_not_complained_about() {
    let wharf = fresh();
    let _daemon = wharf.up();
    let server = wharf.home.file("server");
    wharf.run(&["add", "s", "--", server.to_str().unwrap()]);
    assert_eq!(wharf.ailment().code, "WF-105");
    symlink(fake_server(), &server).unwrap();
    assert_eq!(wharf.doctor_of(wharf.command(&["doctor", "s"])).1, 0);
    let (value, exit) = wharf.doctor_of(wharf.command(&["doctor"]));
    assert_eq!((exit, &value["findings"]), (0, &json!([])), "{value:#}");
}

#[test]
fn a_name_that_is_none() {
    let wharf = fresh();
    wharf.home.add_fake("s", &[]);
    let code = |words: &[&str]| wharf.command(words).output().unwrap().status.code();
    assert_eq!(code(&["doctor", "t"]), Some(4));
    assert_eq!(code(&["doctor", "s"]), Some(3));
    let _daemon = wharf.up();
    assert_eq!(code(&["doctor", "t"]), Some(4));
}

#[test]
fn no_secret_is_in_what_it_says() {
    const PLANTED: &str = "hunter2-planted-secret";
    let wharf = fresh();
    fs::create_dir(wharf.home.file("tools")).unwrap();
    wharf.tool(
        "npx",
        "echo \"Error: invalid api key $API_KEY\" >&2; exit 1",
    );
    let mut command = wharf.command(&["up", "--listen", "127.0.0.1:0"]);
    // In its own environment and in the PATH, which is shown.
    command
        .env("PATH", format!("{}:/{PLANTED}", wharf.tools()))
        .env("SHELL_TOKEN", PLANTED);
    let _daemon = Daemon::start(command);
    let value = format!("API_KEY={PLANTED}");
    wharf.run(&["add", "s", "--env", &value, "--", "npx", "x", PLANTED]);
    for words in [
        &["doctor"] as &[&str],
        &["doctor", "--json"],
        &["doctor", "s"],
        &["doctor", "s", "--json"],
        &["show", "s"],
    ] {
        let output = wharf.command(words).output().unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("[REDACTED]"), "{words:?}: {said}");
        assert!(said.contains("WF-313"), "{words:?}: {said}");
        assert!(!said.contains(PLANTED), "{words:?}: {said}");
    }
}

#[test]
fn one_that_hangs_when_asked_for_its_version_holds_nobody_up() {
    let wharf = fresh();
    fs::create_dir(wharf.home.file("tools")).unwrap();
    wharf.tool("node", "echo $$ >> \"$HOME/pid\"; exec sleep 1000");
    let mut command = wharf.command(&["doctor"]);
    command.env("PATH", wharf.tools());
    let (value, _) = wharf.doctor_of(command);
    let node = &value["facts"]["runtimes"][0];
    assert_eq!(node["error"], "no answer within 10 s", "{value:#}");
    // Those that it runs, too.
    let pids = wharf.home.lines("pid");
    assert!(!pids.is_empty());
    let alive = |pid: &String| processes::alive(pid.parse().unwrap());
    wait_until("them to be gone", || !pids.iter().any(alive));
}
