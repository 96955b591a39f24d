//! Known servers, from `search` to a server that is verified. What `npm` would install is a fake server here.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use insta::assert_snapshot;
use serde_json::{Value, json};
use wharfinger_testkit::{fake_server, wait_until};

use crate::support::{Daemon, Wharf};

/// The list of these tests.
fn list() -> Value {
    json!({"schemaVersion": 1, "updatedAt": "2026-11-30", "entries": [
        {"name": "clock", "displayName": "Clock", "npmPackage": "clock-mcp", "args": ["tools=2"], "verified": true,
         "description": "Tells the time", "category": "tools", "repo": "https://example.com/clock"},
        {"name": "files", "displayName": "Files", "npmPackage": "files-mcp", "args": ["{first-mode}", "{second-mode}"],
         "description": "Reads files", "category": "data", "runLocation": "host", "advisory": "Reads what it is shown"},
        {"name": "hub", "displayName": "Hub", "npmPackage": "hub-mcp", "description": "Works with the hub",
         "category": "dev", "requiredEnvKeys": ["HUB_TOKEN"], "optionalEnvKeys": ["HUB_URL"],
         "prerequisite": "Needs a token of the hub", "args": ["tool=env"]},
        {"name": "dead", "npmPackage": "dead-mcp", "description": "Does not start", "args": ["die-before-init=3"]},
        {"name": "old", "npmPackage": "old-mcp", "description": "Was", "deprecated": "use `clock`"},
        {"name": "drive", "displayName": "Drive", "npmPackage": "drive-mcp", "description": "Drives", "auth": true,
         "authArgs": ["auth"], "credentialFiles": [{"path": "~/.drive/key.json", "required": true}]},
    ]})
}

/// A home whose list is the one of these tests, with an `npm` whose every package is the fake server.
fn known() -> Wharf {
    let wharf = Wharf::new();
    let url = "http://127.0.0.1:9/list";
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let kept = json!({"url": url, "at": u64::try_from(now.as_millis()).unwrap(), "document": list().to_string()});
    wharf.home.write("registry.json", &kept.to_string());
    wharf
        .home
        .write_config(&json!({"daemon": {"registryUrl": url, "officialRegistryUrl": ""}}));
    // The package's only file is never read: what would run it is a fake server.
    let npm = r#"#!/bin/sh
name=$(sed -n 's/.*"\([a-z]*-mcp\)": "\*".*/\1/p' package.json)
mkdir -p "node_modules/$name"
echo "{\"name\": \"$name\", \"version\": \"1.0.0\", \"bin\": \"server.js\"}" >"node_modules/$name/package.json"
echo >"node_modules/$name/server.js"
echo "{\"packages\": {\"node_modules/$name\": {\"version\": \"1.0.0\"}}}" >package-lock.json
"#;
    let server = fake_server().display().to_string();
    let node = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo v22.0.0 && exit\nshift\nexec {server} \"$@\"\n"
    );
    for (name, script) in [("bin/npm", npm), ("bin/node", &node)] {
        let program = wharf.home.write(name, script);
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    wharf
}

fn with_path(wharf: &Wharf, mut command: Command) -> Command {
    let path = std::env::var("PATH").unwrap();
    command.env(
        "PATH",
        format!("{}:{path}", wharf.home.file("bin").display()),
    );
    command
}

fn up(wharf: &Wharf) -> Daemon {
    Daemon::start(with_path(
        wharf,
        wharf.command(&["up", "--listen", "127.0.0.1:0"]),
    ))
}

#[test]
fn a10_a12_known_servers_are_listed_and_shown_without_a_daemon() {
    let wharf = known();
    assert_snapshot!(wharf.run(&["registry", "list"]), @"
    $ wharf registry list
    NAME   BADGES    DESCRIPTION         NEEDS
    clock  Official  Tells the time
    files            Reads files
    hub              Works with the hub  Needs a token of the hub
    dead             Does not start
    drive  OAuth     Drives
    ! the list of 2026-11-30, fetched earlier
    ");
    assert_snapshot!(wharf.run(&["registry", "show", "drive"]), @"
    $ wharf registry show drive
    name          drive
    is            Drive: Drives
    runs          npm drive-mcp
    badges        OAuth
    file          ~/.drive/key.json
    signs in      npx -y drive-mcp auth
    best in       a container (which comes later)
    ");
    assert_snapshot!(wharf.run(&["registry", "show", "old-mcp"]), @"
    $ wharf registry show old-mcp
    name          old
    is            old: Was
    runs          npm old-mcp
    best in       a container (which comes later)
    deprecated    use `clock`
    ");
    assert_snapshot!(wharf.run(&["registry", "show", "nothing"]), @"
    $ wharf registry show nothing
    ! error: no server is known as `nothing`
    ! hint: `wharf registry list` lists them
    [exit 4]
    ");
    assert_snapshot!(wharf.run(&["search", "works", "hub"]), @"
    $ wharf search works hub
    NAME  BADGES  DESCRIPTION         NEEDS
    hub           Works with the hub  Needs a token of the hub
    ! the official registry was not asked, since no daemon runs
    ! hint: `wharf add NAME` adds one; `wharf registry show NAME` shows it first
    ");
    let list = wharf.json(&["registry", "list"]);
    assert_eq!(
        (&list["origin"], &list["count"]),
        (&json!("cache"), &json!(6))
    );
    // Another home has the list in the program.
    let other = Wharf::new();
    let list = other.json(&["registry", "list"]);
    assert_eq!(list["origin"], "bundled");
    assert_eq!(
        other.json(&["registry", "show", "time"])["entry"]["badges"],
        json!(["Official", "Python"])
    );
}

#[test]
fn a8_a12_a_daemon_searches_its_list_and_says_why_there_is_none_newer() {
    let wharf = known();
    let _daemon = up(&wharf);
    assert_snapshot!(wharf.run(&["search", "clock"]), @"
    $ wharf search clock
    NAME   BADGES    DESCRIPTION     NEEDS
    clock  Official  Tells the time
    ! hint: `wharf add NAME` adds one; `wharf registry show NAME` shows it first
    ");
    assert_snapshot!(wharf.run(&["search", "nothing-like-it", "--offline"]), @"
    $ wharf search nothing-like-it --offline
    ! nothing is known for `nothing-like-it`
    ! hint: `wharf registry list` lists all that are known
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["registry", "refresh"]), @"
    $ wharf registry refresh
    ! the list of 2026-11-30, fetched earlier
    ! warning: no newer list: `127.0.0.1` cannot be reached: Connection refused (os error 111)
    [exit 1]
    ");
}

#[test]
fn a16_a17_a_known_server_is_added_by_its_name_and_verified() {
    let wharf = known();
    let _daemon = up(&wharf);
    assert_snapshot!(wharf.run(&["add", "clock"]), @"
    $ wharf add clock
    added clock, 2 tools
    ! Clock: Tells the time (npm clock-mcp, Official)
    ! it runs on this machine, with your rights; a container would keep it apart, and comes later
    ! connected in [DURATION] (start [DURATION], initialize [DURATION], list [DURATION])
    ");
    assert_snapshot!(wharf.filter(&wharf.home.read("settings.json")), @r#"
    {
      "mcpServers": {
        "clock": {
          "npmPackage": "clock-mcp",
          "args": ["tools=2"],
          "location": "host"
        }
      }
    }
    "#);
    assert!(
        wharf.json(&["show", "clock"])["verified"]
            .as_u64()
            .is_some()
    );
    assert_snapshot!(wharf.run(&["test", "clock"]), @"
    $ wharf test clock
    clock works: 2 tools, fake-server 1.0.0, 2025-11-25
    ! connected in [DURATION] (start [DURATION], initialize [DURATION], list [DURATION])
    ");
    // By another name, with its parts filled in.
    assert_snapshot!(wharf.run(&["add", "files"]), @"
    $ wharf add files
    ! Files: Reads files (npm files-mcp)
    ! warning: Reads what it is shown
    ! it runs on this machine, with your rights
    ! error: `files` needs first-mode, second-mode
    ! hint: `wharf add files --arg first-mode=VALUE --arg second-mode=VALUE`; `--env KEY` takes one of this shell's variables, and a FILE of `-` is standard input
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["add", "files", "--as", "notes", "--arg", "first-mode=tools=1", "--arg", "second-mode=name=n"]), @"
    $ wharf add files --as notes --arg first-mode=tools=1 --arg second-mode=name=n
    added notes, 1 tool
    ! Files: Reads files (npm files-mcp)
    ! warning: Reads what it is shown
    ! it runs on this machine, with your rights
    ! connected in [DURATION] (start [DURATION], initialize [DURATION], list [DURATION])
    ");
    assert_snapshot!(wharf.run(&["add", "files", "--arg", "dir=/x"]), @"
    $ wharf add files --arg dir=/x
    ! Files: Reads files (npm files-mcp)
    ! warning: Reads what it is shown
    ! it runs on this machine, with your rights
    ! error: there is no `dir` to fill in; there are first-mode, second-mode
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["list"]), @"
    $ wharf list
    NAME   STATUS       TOOLS  SOURCE    COMMAND
    clock  not started  2      settings  npm:clock-mcp 'tools=2'
    notes  not started  1      settings  npm:files-mcp 'tools=1' 'name=n'
    ");
}

#[test]
fn a15_a_name_is_one_of_ours_and_taken_once() {
    let wharf = known();
    let _daemon = up(&wharf);
    wharf.run(&["add", "clock"]);
    assert_snapshot!(wharf.run(&["add", "clock"]), @"
    $ wharf add clock
    ! Clock: Tells the time (npm clock-mcp, Official)
    ! it runs on this machine, with your rights; a container would keep it apart, and comes later
    ! error: there is a server `clock` already
    ! hint: `--as NAME` gives this one another name, `--replace` takes the place of that one
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["add", "clock", "--as", "My Clock"]), @"
    $ wharf add clock --as My Clock
    ! error: the name `My Clock` must be lower-case letters, digits, `_` and `-`, and begin with a letter or digit
    ! hint: `--as NAME` gives it another one
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["add", "clock", "--replace"]), @"
    $ wharf add clock --replace
    added clock, 2 tools
    ! Clock: Tells the time (npm clock-mcp, Official)
    ! it runs on this machine, with your rights; a container would keep it apart, and comes later
    ! connected in [DURATION] (start [DURATION], initialize [DURATION], list [DURATION])
    ");
    assert_snapshot!(wharf.run(&["add", "clok"]), @"
    $ wharf add clok
    ! error: no server is known as `clok`, and there is nothing to run
    ! hint: did you mean `clock`? `wharf add clok -- npx -y some-mcp-server` adds a command
    [exit 2]
    ");
}

#[test]
fn a5_a6_a18_what_to_weigh_is_told_before() {
    let wharf = known();
    let _daemon = up(&wharf);
    assert_snapshot!(wharf.run(&["add", "old"]), @"
    $ wharf add old
    ! old: Was (npm old-mcp)
    ! it runs on this machine, with your rights; a container would keep it apart, and comes later
    ! error: `old` should not be installed any more: use `clock`
    ! hint: `--deprecated` adds it all the same
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["add", "old", "--deprecated"]), @"
    $ wharf add old --deprecated
    added old, 5 tools
    ! old: Was (npm old-mcp)
    ! it runs on this machine, with your rights; a container would keep it apart, and comes later
    ! connected in [DURATION] (start [DURATION], initialize [DURATION], list [DURATION])
    ");
    assert_snapshot!(wharf.run(&["add", "clock", "--location", "container"]), @"
    $ wharf add clock --location container
    ! error: containers come later, so it can only run on this machine
    ! hint: leave `--location` out to run it here
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["add", "drive"]), @"
    $ wharf add drive
    added drive, 5 tools
    ! Drive: Drives (npm drive-mcp, OAuth)
    ! it looks for its credentials in ~/.drive/key.json
    ! it signs in with a browser before it is of use: `npx -y drive-mcp auth`
    ! it runs on this machine, with your rights; a container would keep it apart, and comes later
    ! connected in [DURATION] (start [DURATION], initialize [DURATION], list [DURATION])
    ");
}

#[test]
fn a17_a19_what_can_not_be_connected_to_is_kept_and_not_verified() {
    let wharf = known();
    let _daemon = up(&wharf);
    assert_snapshot!(wharf.run(&["add", "dead"]), @"
    $ wharf add dead
    added dead, but its tools can't be listed
    ! dead: Does not start (npm dead-mcp)
    ! it runs on this machine, with your rights; a container would keep it apart, and comes later
    ! warning: dead: it exited (code 3) before it was ready
    !   Its standard error ends with:
    !     fatal: missing BAD_API_KEY
    ! cause: the server does not start without BAD_API_KEY (WF-301)
    ! hint: give it BAD_API_KEY; it is asked for, and kept in the vault: `wharf add --replace dead --env BAD_API_KEY --npm dead-mcp -- 'die-before-init=3'`
    ! hint: `wharf logs dead` shows what it wrote; `wharf add --replace dead …` corrects the entry, `wharf test dead` tries it again, `wharf remove dead` removes it
    [exit 1]
    ");
    assert!(wharf.json(&["show", "dead"])["verified"].is_null());
    assert_snapshot!(wharf.run(&["test", "dead"]), @"
    $ wharf test dead
    ! error: dead can't be connected to (initialize)
    ! caused by: it exited (code 3) before it was ready
    !   Its standard error ends with:
    !     fatal: missing BAD_API_KEY
    ! hint: `wharf logs dead` shows all it wrote
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["add", "clock", "--no-connect"]), @"
    $ wharf add clock --no-connect
    added clock, not verified
    ! Clock: Tells the time (npm clock-mcp, Official)
    ! it runs on this machine, with your rights; a container would keep it apart, and comes later
    ! hint: `wharf test clock` connects to it
    ");
    // It is installed in the background (A20).
    wait_until("its package", || {
        wharf.json(&["show", "clock"])["package"]["installed"] == true
    });
    assert_snapshot!(wharf.run(&["list"]), @"
    $ wharf list
    NAME   STATUS                     TOOLS  SOURCE    COMMAND
    dead   failed: it exited (code 3) before it was ready  -      settings  npm:dead-mcp 'die-before-init=3'
    clock  not started, not verified  -      settings  npm:clock-mcp 'tools=2'
    ");
    assert_snapshot!(wharf.run(&["show", "clock"]), @"
    $ wharf show clock
    name      clock
    status    not started, not verified
    package   clock-mcp 1.0.0, npm, installed
    command   npm:clock-mcp 'tools=2'
    from      [HOME]/settings.json:8
    tools     not listed yet
    ");
    assert_snapshot!(wharf.run(&["test", "nobody"]), @"
    $ wharf test nobody
    ! error: there is no MCP server `nobody`; known: dead, clock
    [exit 4]
    ");
}

/// A terminal: the test's end of it, and the program's.
fn terminal() -> (File, File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let own = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&own).unwrap();
    unlockpt(&own).unwrap();
    let name = ptsname(&own, vec![]).unwrap().into_string().unwrap();
    let other = File::options().read(true).write(true).open(name).unwrap();
    (own.into(), other)
}

/// Reads until a question is there, and answers it; everything that was shown since the last one.
fn answer(terminal: &mut File, question: &str, answer: &str) -> String {
    let mut shown = vec![];
    let mut piece = [0; 1024];
    while !String::from_utf8_lossy(&shown).contains(question) {
        let read = terminal.read(&mut piece).unwrap();
        shown.extend_from_slice(&piece[..read]);
    }
    terminal
        .write_all(format!("{answer}\n").as_bytes())
        .unwrap();
    String::from_utf8_lossy(&shown).into_owned()
}

#[test]
fn a16_in_a_terminal_what_is_missing_is_asked_for() {
    let wharf = known();
    let _daemon = up(&wharf);
    let (mut own, other) = terminal();
    let mut adding = wharf.command(&["add", "files"]);
    adding
        .stdin(other.try_clone().unwrap())
        .stderr(other)
        .env("TERM", "xterm");
    let adding = adding.spawn().unwrap();
    let shown = answer(&mut own, "first-mode:", "tools=3");
    assert!(shown.contains("Reads what it is shown"), "{shown}");
    answer(&mut own, "second-mode:", "name=asked");
    let output = adding.wait_with_output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "added files, 3 tools\n"
    );
    assert_eq!(wharf.json(&["show", "files"])["serverInfo"], "asked 1.0.0");
}
