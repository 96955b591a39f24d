//! The daemon's beginning and end.

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use wharfinger_testkit::processes;

use crate::support::{Daemon, Wharf};

fn interrupt(daemon: &Daemon) {
    let pid = i32::try_from(daemon.pid())
        .ok()
        .and_then(Pid::from_raw)
        .unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

#[test]
fn an_empty_installation_is_told_what_to_do_next() {
    let wharf = Wharf::new();
    let daemon = wharf.up();
    assert_snapshot!(wharf.filter(&daemon.said), @"
    listening on http://127.0.0.1:[PORT], with no servers yet
    add a server   wharf add time -- uvx mcp-server-time
    see its tools  wharf tools
    wire a client  wharf agent endpoint
    learn more     wharf --help
    ");
    assert_snapshot!(wharf.run(&["up"]), @"
    $ wharf up
    ! error: a daemon runs for [HOME] already
    ! hint: `wharf status` tells about it, `wharf stop` stops it
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["status"]), @"
    $ wharf status
    running   version 0.1.0, pid [PID]
    listening http://127.0.0.1:[PORT]
    home      [HOME]
    has       0 servers, 1 agent, 0 open sessions
    ");
    assert_eq!(wharf.json(&["status"])["pid"], daemon.pid());
    assert_snapshot!(wharf.run(&["list"]), @"
    $ wharf list
    ! no servers yet
    ! hint: add one: `wharf add time`, or `wharf search WORD` to find others
    ");
    assert_snapshot!(wharf.run(&["tools"]), @"
    $ wharf tools
    ! no tools
    ! hint: `wharf list` shows the servers, `wharf add` adds one
    ");
    processes::terminate(daemon.pid());
    let (code, stderr) = daemon.ended();
    assert_eq!(code, Some(0));
    assert_snapshot!(wharf.filter(&stderr), @"
    [TIME]  INFO MCP: playwright disabled (set PLAYWRIGHT_ENABLED=true)
    [TIME]  INFO stopping
    ");
}

#[test]
fn warnings_are_told_and_do_not_stop_it() {
    let wharf = Wharf::new();
    wharf.home.write(
        "settings.json",
        "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"odd\": 1}}}",
    );
    let daemon = wharf.up();
    assert_snapshot!(wharf.filter(&daemon.said), @"listening on http://127.0.0.1:[PORT], with 1 server and 1 warning, see above");
    interrupt(&daemon);
    let (code, stderr) = daemon.ended();
    assert_eq!(code, Some(0));
    assert_snapshot!(wharf.filter(&stderr), @"
    [TIME]  INFO MCP: playwright disabled (set PLAYWRIGHT_ENABLED=true)
    warning: [HOME]/settings.json:1: mcpServers.a.odd: unknown member, kept but not used
    [TIME]  INFO stopping
    ");
}

#[test]
fn a_second_interrupt_ends_it_at_once() {
    let wharf = Wharf::new();
    let daemon = wharf.up();
    wharf.add_fake("stubborn", &["ignore-term", "ignore-eof"]);
    wharf.run(&["call", "stubborn/work"]);
    interrupt(&daemon);
    // It stops accepting before it stops its servers.
    wharfinger_testkit::wait_until("the first one to be seen", || {
        !wharf.home.file("wharf.sock").exists()
    });
    interrupt(&daemon);
    let (code, _) = daemon.ended();
    assert_eq!(code, Some(130));
}

#[test]
fn a_port_that_is_taken_is_named() {
    let wharf = Wharf::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert_snapshot!(wharf.run(&["up", "--log", "off", "--listen", &address]), @"
    $ wharf up --log off --listen 127.0.0.1:[PORT]
    ! error: can't listen on 127.0.0.1:[PORT]: Address already in use (os error 98)
    ! hint: another program, or the daemon of another home, may use that port (WF-005): choose one for [HOME] with `--listen`, or `daemon.listen` in config.json
    [exit 1]
    ");
}
