//! The daemon's beginning and end.

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use wharfinger_testkit::processes;

use crate::support::{Daemon, Wharf};

fn interrupt(daemon: &Daemon) {
    let pid = i32::try_from(daemon.pid()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

#[test]
fn an_empty_installation_is_told_what_to_do_next() {
    let wharf = Wharf::new();
    let daemon = wharf.up();
    assert_snapshot!(wharf.filter(&daemon.said), @"");
    assert_snapshot!(wharf.run(&["up"]), @"");
    assert_snapshot!(wharf.run(&["status"]), @"");
    assert_eq!(wharf.json(&["status"])["pid"], daemon.pid());
    assert_snapshot!(wharf.run(&["list"]), @"");
    assert_snapshot!(wharf.run(&["tools"]), @"");
    processes::terminate(daemon.pid());
    let (code, stderr) = daemon.ended();
    assert_eq!(code, Some(0));
    assert_snapshot!(wharf.filter(&stderr), @"");
}

#[test]
fn warnings_are_told_and_do_not_stop_it() {
    let wharf = Wharf::new();
    wharf.home.write("settings.json", "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"odd\": 1}}}");
    let daemon = wharf.up();
    assert_snapshot!(wharf.filter(&daemon.said), @"");
    interrupt(&daemon);
    let (code, stderr) = daemon.ended();
    assert_eq!(code, Some(0));
    assert_snapshot!(wharf.filter(&stderr), @"");
}

#[test]
fn a_second_interrupt_ends_it_at_once() {
    let wharf = Wharf::new();
    let daemon = wharf.up();
    wharf.add_fake("stubborn", &["ignore-term", "ignore-eof"]);
    wharf.run(&["call", "stubborn/work"]);
    interrupt(&daemon);
    // It stops accepting before it stops its servers.
    wharfinger_testkit::wait_until("the first one to be seen", || !wharf.home.file("wharf.sock").exists());
    interrupt(&daemon);
    let (code, _) = daemon.ended();
    assert_eq!(code, Some(130));
}

#[test]
fn a_port_that_is_taken_is_named() {
    let wharf = Wharf::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert_snapshot!(wharf.run(&["up", "--log", "off", "--listen", &address]), @"");
}
