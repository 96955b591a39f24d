use std::os::unix::process::ExitStatusExt as _;

use wharfinger_testkit::{Home, processes};

use crate::client::Client;

#[test]
fn it_ends_with_its_input() {
    let code = |modes: &[&str]| {
        let mut client = Client::ready(modes);
        client.close_input();
        client.exit_code()
    };
    assert_eq!(code(&[]), Some(0));
    assert_eq!(code(&["exit-on-eof-code=7", "eof-delay-ms=5"]), Some(7));
}

#[test]
fn some_stay() {
    let mut client = Client::ready(&["ignore-eof", "ignore-term"]);
    client.close_input();
    processes::terminate(client.pid());
    // Nothing tells that a signal was ignored; that only SIGKILL ended it tells it afterwards.
    assert!(processes::alive(client.pid()));
    processes::kill(client.pid());
    assert_eq!(client.exit_status().signal(), Some(9));
    assert!(!processes::alive(client.pid()));
}

#[test]
fn some_die_at_once() {
    let mut client = Client::start(&["die-before-init=9", "stderr=first", "stderr=second"]);
    assert_eq!(client.exit_code(), Some(9));
    assert_eq!(
        client.stderr(),
        "first\nsecond\nfatal: missing BAD_API_KEY\n"
    );
}

#[test]
fn a_typing_error_is_refused() {
    let mut client = Client::start(&["slow-cal=1"]);
    assert_eq!(client.exit_code(), Some(64));
    assert_eq!(client.stderr(), "fake-server: unknown mode `slow-cal=1`\n");
}

#[test]
fn starts_are_counted() {
    let home = Home::new();
    let mode = format!("count-starts={}", home.file("starts").display());
    let pids: Vec<String> = (0..2)
        .map(|_| Client::ready(&[&mode]).pid().to_string())
        .collect();
    assert_eq!(home.lines("starts"), pids);
}

#[test]
fn stderr_floods_while_it_serves() {
    let mut client = Client::ready(&["stderr-flood=300000"]);
    assert_eq!(client.text("work"), "ok 1");
    let mut stderr = client.stderr_pipe();
    let mut read = 0;
    let mut buffer = [0; 4096];
    while read < 300_000 {
        read += std::io::Read::read(&mut stderr, &mut buffer).unwrap();
    }
    assert_eq!(read, 300_000);
}
