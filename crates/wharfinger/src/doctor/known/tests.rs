use std::collections::BTreeSet;

use super::*;
use crate::doctor::{Symptom, What, diagnose};
use crate::model::{Exit, Package, PackageKind};

/// What a server of this command line looks like.
fn symptom(command: &str, what: What, said: &[&str]) -> Symptom {
    let mut words = command.split(' ').map(str::to_owned);
    Symptom {
        server: "s".into(),
        command: words.next().unwrap_or_default(),
        args: words.collect(),
        package: None,
        env: vec![],
        is_simple: true,
        place: "settings.json:3".into(),
        what,
        stderr: said.iter().map(|line| (*line).to_owned()).collect(),
        noise: vec![],
    }
}

#[track_caller]
fn check(code: &str, command: &str, what: What, said: &[&str]) {
    let finding = diagnose(&symptom(command, what, said));
    assert_eq!(finding.code, code, "{said:?}: {finding:#?}");
    let words = [Some(finding.cause), Some(finding.fix), finding.command];
    for words in words.into_iter().flatten() {
        assert!(!words.contains("{s"), "{words}");
    }
}

/// It exited with 1 and said this.
#[track_caller]
fn died(code: &str, command: &str, said: &[&str]) {
    check(code, command, What::Exited(Exit::Code(1)), said);
}

#[test]
fn what_real_servers_print_is_known() {
    let sqlite = "uvx mcp-server-sqlite --db-path x.db";
    died(
        "WF-114",
        sqlite,
        &[
            "Traceback (most recent call last):",
            "  File \"/v/bin/mcp-server-sqlite\", line 8, in <module>",
            "AttributeError: 'Server' object has no attribute 'list_resources'",
        ],
    );
    died(
        "WF-114",
        "uvx office-powerpoint-mcp-server",
        &[
            "ModuleNotFoundError: No module named 'mcp.server.fastmcp'. This is mcp 2.x, where FastMCP was renamed",
        ],
    );
    died(
        "WF-115",
        "uvx chroma-mcp",
        &[
            "ImportError: cannot import name 'eval_type_backport' from 'pydantic._internal._typing_extra'",
        ],
    );
    died(
        "WF-301",
        "npx -y @modelcontextprotocol/server-slack",
        &["Please set SLACK_BOT_TOKEN and SLACK_TEAM_ID environment variables"],
    );
    died(
        "WF-301",
        "npx -y @modelcontextprotocol/server-brave-search",
        &["Error: BRAVE_API_KEY environment variable is required"],
    );
    died(
        "WF-301",
        "npx -y @zereight/mcp-gitlab",
        &[
            "INFO [12:21:14.794] (1468): Either set GITLAB_PERSONAL_ACCESS_TOKEN or enable OAuth with GITLAB_USE_OAUTH",
        ],
    );
    died(
        "WF-301",
        "npx -y @supabase/mcp-server-supabase",
        &[
            "Please provide a personal access token (PAT) with the --access-token flag or set the SUPABASE_ACCESS_TOKEN environment variable",
        ],
    );
    died(
        "WF-301",
        "npx -y figma-developer-mcp",
        &["Either FIGMA_API_KEY or FIGMA_OAUTH_TOKEN is required (via CLI argument or .env file)"],
    );
    died(
        "WF-301",
        "npx -y @sentry/mcp-server",
        &["  @sentry/mcp-server --access-token=TOKEN --agent-provider=anthropic"],
    );
}

#[test]
fn what_more_real_servers_print_is_known() {
    died(
        "WF-302",
        "npx -y @modelcontextprotocol/server-postgres",
        &["Please provide a database URL as a command-line argument"],
    );
    died(
        "WF-303",
        "npx -y @gongrzhe/server-gmail-autoauth-mcp",
        &[
            "Error: OAuth keys file not found. Please place gcp-oauth.keys.json in current directory or /home/me",
        ],
    );
    died(
        "WF-314",
        "npx -y @brave/brave-search-mcp-server",
        &["Invalid configuration"],
    );
    died(
        "WF-108",
        "npx -y @modelcontextprotocol/conformance",
        &["TypeError: fs.globSync is not a function"],
    );
    died(
        "WF-214",
        "npx -y @modelcontextprotocol/server-puppeteer",
        &[
            "npm error code 1",
            "npm error ERROR: Failed to set up chrome v131.0.6778.204! Set \"PUPPETEER_SKIP_DOWNLOAD\" env variable to skip download.",
        ],
    );
    died(
        "WF-217",
        "npx -y @bytebase/dbhub",
        &["npm error gyp ERR! stack Error: not found: make"],
    );
    died(
        "WF-215",
        "npx -y @playwright/mcp",
        &[
            "Error: Chromium distribution 'chrome' is not found at /opt/google/chrome/chrome",
            "Run \"npx playwright install chrome\"",
        ],
    );
    died(
        "WF-216",
        "npx -y chrome-devtools-mcp",
        &[
            "[1:1:ERROR:zygote_host_impl_linux.cc(101)] Running as root without --no-sandbox is not supported.",
        ],
    );
}

#[test]
fn what_programs_and_the_system_say_is_known() {
    let nothing: &[&str] = &[];
    check("WF-101", "npx -y some-server", What::NotFound, nothing);
    check("WF-102", "uvx some-server", What::NotFound, nothing);
    check("WF-103", "python server.py", What::NotFound, nothing);
    check(
        "WF-104",
        "docker run -i some/image",
        What::NotFound,
        nothing,
    );
    check("WF-105", "/nowhere/server", What::NotFound, nothing);
    check(
        "WF-106",
        "/srv/server",
        What::NotExecutable("Permission denied (os error 13)".into()),
        nothing,
    );
    check(
        "WF-107",
        "server",
        What::Directory("can't use the working directory /x".into()),
        nothing,
    );
    check(
        "WF-110",
        "server",
        What::NotStarted("can't start `server`: Exec format error (os error 8)".into()),
        nothing,
    );
    died(
        "WF-101",
        "/srv/server",
        &["/usr/bin/env: 'node': No such file or directory"],
    );
    died(
        "WF-103",
        "/srv/server",
        &["/usr/bin/env: 'python': No such file or directory"],
    );
    died(
        "WF-109",
        "node server.js",
        &["SyntaxError: Unexpected token '??='"],
    );
    died(
        "WF-108",
        "node server.js",
        &[
            "SyntaxError: The requested module 'node:fs' does not provide an export named 'globSync'",
        ],
    );
}

#[test]
fn what_programs_are_made_of_is_known() {
    died(
        "WF-111",
        "server",
        &[
            "server: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by server)",
        ],
    );
    died(
        "WF-112",
        "server",
        &[
            "server: error while loading shared libraries: libssl.so.1.1: cannot open shared object file: No such file or directory",
        ],
    );
    died(
        "WF-113",
        "uvx some-server",
        &[
            "  ╰─▶ Because the current Python version (3.11.2) does not satisfy Python>=3.12 and some-server depends on it, …",
        ],
    );
    died(
        "WF-116",
        "python3 -m some_server",
        &["/usr/bin/python3: No module named some_server"],
    );
    died(
        "WF-116",
        "python3 server.py",
        &["ModuleNotFoundError: No module named 'requests'"],
    );
    died(
        "WF-117",
        "node src/index.ts",
        &[
            "TypeError [ERR_UNKNOWN_FILE_EXTENSION]: Unknown file extension \".ts\" for /srv/index.ts",
        ],
    );
    died(
        "WF-118",
        "node dist/index.js",
        &["Error: Cannot find module '/srv/dist/index.js'"],
    );
    died(
        "WF-119",
        "python3 server.py",
        &["python3: can't open file '/srv/server.py': [Errno 2] No such file or directory"],
    );
    check(
        "WF-120",
        "sh -c serve",
        What::Exited(Exit::Code(127)),
        &["sh: 1: serve: not found"],
    );
}

#[test]
fn what_installers_say_is_known() {
    let npx = "npx -y no-such-server";
    died(
        "WF-201",
        npx,
        &[
            "npm error code E404",
            "npm error 404 Not Found - GET no-such-server",
        ],
    );
    died(
        "WF-202",
        npx,
        &[
            "npm error code ETARGET",
            "npm error notarget No matching version found for no-such-server@9.",
        ],
    );
    died(
        "WF-203",
        npx,
        &["npm error code EACCES", "npm error syscall mkdir"],
    );
    died(
        "WF-204",
        npx,
        &[
            "npm error code ENOSPC",
            "npm error nospc ENOSPC: no space left on device, write",
        ],
    );
    died("WF-205", npx, &["npm error code SELF_SIGNED_CERT_IN_CHAIN"]);
    died(
        "WF-205",
        "uvx server",
        &["  Caused by: invalid peer certificate: UnknownIssuer"],
    );
    died(
        "WF-206",
        npx,
        &[
            "npm error code ENOTFOUND",
            "npm error network request failed, reason: getaddrinfo ENOTFOUND registry",
        ],
    );
    died("WF-206", npx, &["npm error code EAI_AGAIN"]);
    died("WF-207", npx, &["npm error code ECONNREFUSED"]);
    died(
        "WF-208",
        npx,
        &["npm error could not determine executable to run"],
    );
    died(
        "WF-209",
        "uvx no-such",
        &["  ╰─▶ Because no-such was not found in the package registry and you require no-such, …"],
    );
    died(
        "WF-210",
        "uvx mcp",
        &["An executable named `mcp-x` is not provided by package `mcp`."],
    );
    died("WF-211", npx, &["npm error code ENOTEMPTY"]);
    died("WF-212", npx, &["npm error code 1"]);
    died("WF-213", npx, &["npm error code E401"]);
    died("WF-218", npx, &["npm error code CERT_HAS_EXPIRED"]);
    died(
        "WF-219",
        "node x.js",
        &[
            "was compiled against a different Node.js version using",
            "NODE_MODULE_VERSION 115.",
        ],
    );
}

#[test]
fn how_servers_end_is_known() {
    died(
        "WF-303",
        "node x.js",
        &["Error: ENOENT: no such file or directory, open '/srv/credentials.json'"],
    );
    died(
        "WF-304",
        "node x.js",
        &["Error: EACCES: permission denied, open '/srv/notes.db'"],
    );
    died(
        "WF-305",
        "node x.js",
        &["Error: listen EADDRINUSE: address already in use :::3000"],
    );
    died(
        "WF-307",
        "server",
        &[
            "usage: server [-h] --db PATH",
            "server: error: the following arguments are required: --db",
        ],
    );
    died("WF-313", "server", &["Error: 401 Unauthorized"]);
    died(
        "WF-315",
        "npx -y @modelcontextprotocol/server-filesystem /x",
        &["Error accessing directory /x: Error: ENOENT: no such file or directory, stat '/x'"],
    );
    died(
        "WF-316",
        "server",
        &["Error: connect ECONNREFUSED 127.0.0.1:5432"],
    );
    died(
        "WF-311",
        "docker run x",
        &[
            "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
        ],
    );
    died(
        "WF-312",
        "docker run x",
        &[
            "docker: Error response from daemon: pull access denied for x, repository does not exist",
        ],
    );
    died(
        "WF-310",
        "node x.js",
        &["FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory"],
    );
    check("WF-308", "server", What::Exited(Exit::Signal(9)), &[]);
    check("WF-309", "server", What::Exited(Exit::Signal(11)), &[]);
    check("WF-406", "server", What::Exited(Exit::Code(0)), &[]);
    check(
        "WF-407",
        "server",
        What::TimedOut,
        &["INFO: Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)"],
    );
    check("WF-408", "server", What::TimedOut, &["starting"]);
    check(
        "WF-402",
        "server",
        What::Protocol("the server wants protocol version \"1999-01-01\"".into()),
        &[],
    );
    check(
        "WF-403",
        "server",
        What::Protocol("no (-32603)".into()),
        &[],
    );
    check(
        "WF-404",
        "server",
        What::List("the reply of 70000000 bytes is larger than is allowed".into()),
        &[],
    );
    check(
        "WF-405",
        "server",
        What::List("the answer has no `tools`".into()),
        &[],
    );
    let noisy = Symptom {
        noise: vec!["Server running on stdio".into()],
        ..symptom("server", What::TimedOut, &[])
    };
    assert_eq!(diagnose(&noisy).code, "WF-401");
    died("WF-000", "server", &["something nobody knows"]);
}

#[test]
fn the_command_of_a_fix_is_the_entry_with_what_it_lacks() {
    let slack = "Please set SLACK_BOT_TOKEN and SLACK_TEAM_ID environment variables";
    let slack = symptom("npx slack", What::Exited(Exit::Code(1)), &[slack]);
    assert_eq!(
        diagnose(&slack).command.as_deref(),
        Some("wharf add --replace s --env SLACK_BOT_TOKEN --env SLACK_TEAM_ID -- npx slack")
    );
    let package = Package {
        kind: PackageKind::Pypi,
        name: "mcp-server-sqlite".into(),
        extras: String::new(),
        version: Some("2025.4.25".into()),
        with: vec![],
        allow_scripts: false,
    };
    let attribute = "AttributeError: 'Server' object has no attribute 'list_resources'";
    let sqlite = Symptom {
        package: Some(package),
        ..symptom(
            "uvx --db-path x.db",
            What::Exited(Exit::Code(1)),
            &[attribute],
        )
    };
    assert_eq!(
        diagnose(&sqlite).command.as_deref(),
        Some(
            "wharf add --replace s --pypi 'mcp-server-sqlite==2025.4.25' --with 'mcp<2' -- --db-path x.db"
        )
    );
    let failed = "npm install failed (code 1):\nnpm error code E404";
    check("WF-201", "npx x", What::Prepare(failed.into()), &[]);
    let failed = "npm install failed (code 1)";
    check("WF-224", "npx x", What::Prepare(failed.into()), &[]);
    let slow = "npm install took longer than 120 s";
    check("WF-223", "npx x", What::Prepare(slow.into()), &[]);
    let needs = "it needs TOKEN_KEY, which is not set: `wharf secret set s TOKEN_KEY` sets it";
    let needs = diagnose(&symptom("npx s", What::Prepare(needs.into()), &[]));
    assert_eq!(needs.code, "WF-502");
    assert_eq!(
        needs.cause,
        "the entry of s refers to TOKEN_KEY, which is not set"
    );
    assert_eq!(
        needs.command.as_deref(),
        Some("wharf secret set s TOKEN_KEY")
    );
    let git = "ERROR:mcp_server_git.server:/not/there does not exist";
    died(
        "WF-315",
        "uvx mcp-server-git --repository /not/there",
        &[git],
    );
    let skipped = "Warning: Cannot access directory /not/there, skipping";
    let none = "Error: None of the specified directories are accessible";
    let files = symptom("npx files", What::Exited(Exit::Code(1)), &[skipped, none]);
    assert_eq!(
        diagnose(&files).cause,
        "the server was given /not/there, which is not there"
    );
    let command = |symptom: &Symptom| diagnose(symptom).command;
    let exited = || What::Exited(Exit::Code(1));
    let sqlite = "uvx mcp-server-sqlite --db-path x.db";
    let said = &["AttributeError: 'Server' object has no attribute 'list_resources'"];
    let mcp = symptom(sqlite, exited(), said);
    assert_eq!(
        command(&mcp).as_deref(),
        Some("wharf add --replace s -- uvx --with 'mcp<2' mcp-server-sqlite --db-path x.db")
    );
    let hidden = Symptom {
        is_simple: false,
        ..mcp
    };
    assert_eq!(command(&hidden), None);
    let said = &["Error: BRAVE_API_KEY environment variable is required"];
    let mut brave = symptom("npx -y server-brave", exited(), said);
    assert_eq!(
        command(&brave).as_deref(),
        Some("wharf add --replace s --env BRAVE_API_KEY -- npx -y server-brave")
    );
    brave.env = vec![(
        "BRAVE_API_KEY".into(),
        Some("${secret:BRAVE_API_KEY}".into()),
    )];
    assert_eq!(
        command(&brave).as_deref(),
        Some("wharf secret set s BRAVE_API_KEY")
    );
}

#[test]
fn every_row_is_sound() {
    let mut codes = BTreeSet::new();
    let rows: Vec<_> = TABLE.iter().flat_map(|group| group.iter()).collect();
    assert!(rows.len() >= 60, "{}", rows.len());
    for row in rows {
        assert!(codes.insert(row.code), "{} is there twice", row.code);
        assert!(GROUPS.iter().any(|(start, _)| row.code.starts_with(start)));
        assert!(
            !row.looks.is_empty() || !row.seen.is_empty(),
            "{}",
            row.code
        );
        for words in [row.cause, row.fix] {
            assert!(
                !words.is_empty() && !words.ends_with('.'),
                "{}: {words}",
                row.code
            );
        }
        for look in row.looks {
            for word in look.said {
                assert_eq!(*word, word.to_lowercase(), "{}: never found", row.code);
            }
        }
    }
}
