//! What runs, read from `/proc`. A zombie counts as dead: nobody can stop it any more.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// Whether the process runs.
pub fn alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// The children of a process that run, and theirs, parents before children.
pub fn children_of(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = all()
        .into_iter()
        .filter_map(|child| match stat(child)? {
            ('Z' | 'X', _) => None,
            (_, parent) => Some((child, parent)),
        })
        .collect();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(
            parents
                .iter()
                .filter(|(_, p)| *p == parent)
                .map(|(child, _)| *child),
        );
        next += 1;
    }
    found.split_off(1)
}

/// The processes that were started with the environment variable `key` set to `value`, whoever
/// their parent is by now.
pub fn with_environment_mark(key: &str, value: &str) -> Vec<u32> {
    let marks = environment_marks(key).into_iter();
    marks
        .filter(|(_, found)| found == value)
        .map(|(pid, _)| pid)
        .collect()
}

/// The processes that were started with the environment variable `key`, and its value.
pub fn environment_marks(key: &str) -> Vec<(u32, String)> {
    all()
        .into_iter()
        .filter_map(|pid| Some((pid, variable(pid, key)?)))
        .collect()
}

/// A variable of the environment that a process was started with.
pub fn variable(pid: u32, key: &str) -> Option<String> {
    if !alive(pid) {
        return None;
    }
    let environment = fs::read(Path::new("/proc").join(pid.to_string()).join("environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|entry| {
        let entry = String::from_utf8_lossy(entry);
        let (name, value) = entry.split_once('=')?;
        (name == key).then(|| value.to_owned())
    })
}

/// The command line, for messages.
pub fn command_line(pid: u32) -> String {
    let raw = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline"));
    String::from_utf8_lossy(&raw.unwrap_or_default())
        .replace('\0', " ")
        .trim_end()
        .to_owned()
}

/// Asks a process to end (SIGTERM). One that is gone is no problem.
pub fn terminate(pid: u32) {
    signal(pid, Signal::TERM);
}

/// Makes a process do nothing (SIGSTOP), until [`resume`].
pub fn pause(pid: u32) {
    signal(pid, Signal::STOP);
}

/// Lets a process go on that was paused.
pub fn resume(pid: u32) {
    signal(pid, Signal::CONT);
}

/// Ends a process at once (SIGKILL). One that is gone is no problem.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process id");
    // It may have ended a moment ago, which is what was wanted.
    let _ = kill_process(pid, signal);
}

fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc is there").flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// State and parent, from `pid (name) state parent …`; the name may hold anything.
fn stat(pid: u32) -> Option<(char, u32)> {
    let text = fs::read(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (_, after_name) = text.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
