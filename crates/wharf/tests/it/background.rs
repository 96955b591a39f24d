//! `wharf up --background` and `wharf stop`.

use std::process::Child;

use insta::assert_snapshot;
use wharfinger_testkit::processes;

use crate::support::Wharf;

const UP: [&str; 4] = ["up", "--background", "--listen", "127.0.0.1:0"];

#[test]
fn a_daemon_in_the_background_outlives_its_starter_and_stops_without_a_trace() {
    let wharf = Wharf::new();
    assert_snapshot!(wharf.run(&UP), @"
    $ wharf up --background --listen 127.0.0.1:[PORT]
    listening on http://127.0.0.1:[PORT]
    ");
    wharf.add_fake("one", &["setsid-child", "stderr=hello"]);
    wharf.run(&["call", "one/work"]);
    let log = wharf.home.read("daemon.log");
    assert!(log.contains("hello"), "{log}");
    wharf.stop_background();
}

#[test]
fn two_at_once_become_one_daemon() {
    let wharf = Wharf::new();
    let both: Vec<Child> = (0..2)
        .map(|_| wharf.command(&UP).spawn().unwrap())
        .collect();
    let said: Vec<String> = both
        .into_iter()
        .map(|child| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap())
        .collect();
    assert!(
        said[0].starts_with("listening on http://127.0.0.1:"),
        "{said:?}"
    );
    assert_eq!(said[0], said[1]);
    // The loser may still be on its way out.
    wharfinger_testkit::wait_until("one to be left", || {
        let daemons = wharf
            .left()
            .into_iter()
            .filter(|pid| processes::command_line(*pid).contains("background-child"));
        daemons.count() == 1
    });
    wharf.stop_background();
}
