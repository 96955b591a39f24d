use std::path::Path;

use wharfinger_testkit::{Home, processes, wait_for, wait_until};

use crate::client::Client;

/// The pid that a grandchild wrote.
fn pid_in(file: &Path) -> u32 {
    wait_for("the pid of the grandchild", || {
        std::fs::read_to_string(file).ok()?.parse().ok()
    })
}

#[test]
fn a_grandchild_is_found_as_a_child_and_outlives_its_parent() {
    let home = Home::new();
    let file = home.file("child");
    let mode = format!("child-pid={}", file.display());
    for modes in [["fork-child", &mode], ["setsid-child", &mode]] {
        let mut client = Client::ready(&modes);
        let child = pid_in(&file);
        assert_eq!(processes::children_of(client.pid()), [child]);
        assert!(processes::children_of(std::process::id()).contains(&child));
        client.close_input();
        client.exit_code();
        assert!(processes::alive(child), "{modes:?}");
        processes::terminate(child);
        wait_until("the grandchild to end", || !processes::alive(child));
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_stubborn_grandchild_needs_a_kill() {
    let home = Home::new();
    let file = home.file("child");
    let mode = format!("child-pid={}", file.display());
    let client = Client::ready(&["fork-child", "stubborn-child", &mode]);
    let child = pid_in(&file);
    assert!(processes::command_line(child).contains(" sleeper stubborn pid="));
    processes::terminate(child);
    assert!(processes::alive(child));
    processes::kill(child);
    wait_until("the grandchild to end", || !processes::alive(child));
    drop(client);
}

#[test]
fn marks_in_the_environment_are_seen() {
    let value = format!("test-{}", std::process::id());
    let mut client = Client::start_with(&[], &[("WHARFINGER_TESTKIT_MARK", &value)]);
    client.initialize();
    let marked = || processes::with_environment_mark("WHARFINGER_TESTKIT_MARK", &value);
    assert_eq!(marked(), [client.pid()]);
    let variable = processes::variable(client.pid(), "WHARFINGER_TESTKIT_MARK");
    assert_eq!(variable, Some(value.clone()));
    client.close_input();
    wait_until("the server to end", || marked().is_empty());
}
