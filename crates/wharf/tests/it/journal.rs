//! `wharf journal`, and what is left of it after a crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use insta::assert_snapshot;
use serde_json::Value;
use wharfinger_testkit::{processes, wait_until};

use crate::support::Wharf;

/// The answer without the moment at the front of each row.
fn without_times(text: &str) -> String {
    let line = |line: &str| {
        let dated = line.starts_with("20") && line.as_bytes().get(19) == Some(&b' ');
        if dated {
            format!("[TIME]{}\n", &line[19..])
        } else {
            format!("{line}\n")
        }
    };
    text.lines().map(line).collect()
}

#[test]
fn the_journal_tells_who_did_what() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.add_fake("a", &["tool=work", "tool=fails"]);
    wharf.run(&["call", "a/work", "x=1"]);
    wharf.run(&["call", "a/nope"]);
    wharf.run(&["agent", "new", "bot"]);
    assert_snapshot!(without_times(&wharf.run(&["journal", "--kind", "call"])), @r#"
    $ wharf journal --kind call
    [TIME]  owner       call a/work for default         ok, [DURATION]  {"x":"1"}
    [TIME]  owner       call a/nope for default         error, [DURATION]  Unknown tool: "nope" (code -32602)
    "#);
    assert_snapshot!(without_times(&wharf.run(&["journal", "--agent", "bot", "--since", "1h"])), @"
    $ wharf journal --agent bot --since 1h
    [TIME]  owner       config.agent-added for bot      ok
    ");
    assert_snapshot!(wharf.run(&["journal", "--server", "nobody"]), @"
    $ wharf journal --server nobody
    ! the journal has no such rows
    ");
    assert_snapshot!(wharf.run(&["journal", "--kind", "calls"]), @"
    $ wharf journal --kind calls
    ! error: the rows can't be looked for
    ! caused by: kind: there is no kind `calls`, did you mean `call`?
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["journal", "--since", "yesterday"]), @"
    $ wharf journal --since yesterday
    ! error: invalid value 'yesterday' for '--since <TIME>': expected a time like `[DURATION]`, `15m`, `2h`, `7d`, `2026-01-31` or `2026-01-31T12:00`
    ! 
    ! For more information, try '--help'.
    [exit 2]
    ");
    let rows = rows(&wharf, &["--limit", "2"]);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1]["kind"], "config.agent-added");
    assert!(
        wharf
            .run(&["journal", "verify"])
            .contains("the journal is as it was written: ")
    );
    assert_eq!(wharf.json(&["journal", "verify"])["broken"], Value::Null);
}

#[test]
fn a_changed_journal_is_told_by_the_exit_code() {
    let wharf = Wharf::new();
    let daemon = wharf.up();
    wharf.run(&["agent", "new", "bot"]);
    wharf.run(&["journal"]);
    let db = rusqlite::Connection::open(wharf.home.file("wharfinger.db")).unwrap();
    db.execute("UPDATE journal SET agent = 'nobody' WHERE seq = 2", [])
        .unwrap();
    assert_snapshot!(wharf.run(&["journal", "verify"]), @"
    $ wharf journal verify
    ! error: the journal was changed: row 2 is not what was written, or does not follow the one before
    ! hint: up to there it is as it was written: 1 row, 1 to 1
    [exit 1]
    ");
    let output = wharf
        .command(&["journal", "verify", "--json"])
        .output()
        .unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), &told["broken"]["seq"]),
        (Some(1), &2.into())
    );
    drop(daemon);
}

/// All rows, the oldest first.
pub(crate) fn rows(wharf: &Wharf, words: &[&str]) -> Vec<Value> {
    let output = wharf
        .command(&["journal", "--json"])
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn calls(wharf: &Wharf) -> Vec<String> {
    let rows = rows(wharf, &["--kind", "call", "--limit", "0"]);
    rows.iter()
        .map(|row| row["preview"].as_str().unwrap().to_owned())
        .collect()
}

/// Whatever was committed when the daemon was killed is there, without a hole, and verifies.
#[test]
fn a_killed_daemon_leaves_a_journal_that_holds() {
    let wharf = Wharf::new();
    let daemon = wharf.up();
    wharf.add_fake("a", &["tool=work"]);
    let answered = Arc::new(AtomicU64::new(0));
    let counted = answered.clone();
    let committed = thread::scope(|scope| {
        let calling = scope.spawn(|| {
            for n in 1.. {
                let x = format!("x={n}");
                let output = wharf.command(&["call", "a/work", &x]).output().unwrap();
                if !output.status.success() {
                    return;
                }
                counted.store(n, Ordering::SeqCst);
            }
        });
        wait_until("some calls to be answered", || {
            answered.load(Ordering::SeqCst) >= 5
        });
        // What this shows is on its way to nowhere else any more.
        let committed = calls(&wharf);
        let more = answered.load(Ordering::SeqCst) + 2;
        wait_until("more calls to be answered", || {
            answered.load(Ordering::SeqCst) >= more
        });
        processes::kill(daemon.pid());
        calling.join().unwrap();
        committed
    });
    assert_eq!(daemon.ended().0, None);
    assert!(committed.len() >= 5);

    let again = wharf.up();
    let kept = calls(&wharf);
    let numbers: Vec<String> = (1..=kept.len())
        .map(|n| format!("{{\"x\":\"{n}\"}}"))
        .collect();
    assert_eq!(kept, numbers, "a hole");
    assert!(
        kept.starts_with(&committed),
        "{} of {}",
        kept.len(),
        committed.len()
    );
    let most = answered.load(Ordering::SeqCst) + 1;
    assert!(kept.len() as u64 <= most, "{} of {most}", kept.len());
    assert_eq!(wharf.json(&["journal", "verify"])["broken"], Value::Null);
    let starts = rows(&wharf, &["--kind", "lifecycle.started"]);
    let own = starts.iter().rfind(|row| row["server"].is_null()).unwrap();
    assert_eq!(own["subject"]["afterCrash"], true);
    drop(again);
}
