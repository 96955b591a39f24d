//! Finding and ending every process that belongs to an owner or an instance.
//!
//! Children of children leave their process group (browsers do), and lose their parent when it ends (everything behind
//! `npx` does), so neither the group nor the tree finds them all. What they keep is their environment: each process we
//! start carries two marks in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

/// Variable that names the owner of a process.
pub const OWNER: &str = "WHARFINGER_OWNER";
/// Variable that names the instance a process belongs to.
pub const INSTANCE: &str = "WHARFINGER_INSTANCE";

/// Who owns processes: one daemon, or one program that embeds the library.
#[derive(Clone, Debug)]
pub struct Owner {
    name: Arc<str>,
    instances: Arc<AtomicU64>,
}

impl Owner {
    /// An owner of that home, in this process: `<home>-<pid>`.
    pub fn new(home: &str) -> Self {
        let name = format!("{home}-{}", std::process::id());
        Self {
            name: name.into(),
            instances: Arc::default(),
        }
    }

    /// The value of its mark.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    pub(super) fn next_instance(&self) -> String {
        format!(
            "{}.{}",
            self.name,
            self.instances.fetch_add(1, Ordering::Relaxed)
        )
    }
}

/// A process as it was seen; its start time tells it from a later one with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seen {
    pub(super) pid: i32,
    started: u64,
}

/// Sends a signal to a process, if it is still the same one.
pub(super) fn signal(seen: Seen, signal: Signal) {
    if is_alive(seen)
        && let Some(pid) = Pid::from_raw(seen.pid)
    {
        kill_process(pid, signal).ok();
    }
}

/// Sends a signal to a process group.
pub(super) fn signal_group(leader: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(leader) {
        kill_process_group(pid, signal).ok();
    }
}

/// Whether any process, a dead one that nobody has waited for included, is in the group.
pub(super) fn has_group(leader: i32) -> bool {
    Pid::from_raw(leader).is_some_and(|pid| test_kill_process_group(pid).is_ok())
}

/// Whether the same process still runs; one that is dead but not waited for does not.
pub(super) fn is_alive(seen: Seen) -> bool {
    stat(seen.pid).is_some_and(|stat| stat.started == seen.started && !stat.dead)
}

/// Every living process marked with this variable and value, or below a process that is.
pub(super) fn marked(variable: &str, value: &str) -> BTreeSet<Seen> {
    find(|pid| has_mark(pid, variable, |found| found == value))
}

/// Every living process of any owner of that home.
pub(super) fn of_home(home: &str) -> BTreeSet<Seen> {
    let of = |found: &str| found.rsplit_once('-').is_some_and(|(of, _)| of == home);
    find(|pid| has_mark(pid, OWNER, of))
}

/// Processes that match, and all their descendants.
fn find(matches: impl Fn(i32) -> bool) -> BTreeSet<Seen> {
    let mut children: BTreeMap<i32, Vec<Seen>> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for pid in all() {
        let Some(stat) = stat(pid).filter(|stat| !stat.dead) else {
            continue;
        };
        let seen = Seen {
            pid,
            started: stat.started,
        };
        children.entry(stat.parent).or_default().push(seen);
        if matches(pid) {
            found.insert(seen);
        }
    }
    let mut open: Vec<Seen> = found.iter().copied().collect();
    while let Some(parent) = open.pop() {
        for child in children.get(&parent.pid).into_iter().flatten() {
            if found.insert(*child) {
                open.push(*child);
            }
        }
    }
    let own = std::process::id();
    found.retain(|seen| u32::try_from(seen.pid) != Ok(own));
    found
}

struct Stat {
    parent: i32,
    started: u64,
    dead: bool,
}

#[cfg(target_os = "linux")]
fn all() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return vec![];
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(target_os = "linux")]
fn stat(pid: i32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so the fields are counted from its end.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
        dead: matches!(*fields.first()?, "Z" | "X"),
    })
}

#[cfg(target_os = "linux")]
fn has_mark(pid: i32, variable: &str, matches: impl Fn(&str) -> bool) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    environment.split(|byte| *byte == 0).any(|entry| {
        let value = entry
            .strip_prefix(variable.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="));
        value
            .and_then(|value| std::str::from_utf8(value).ok())
            .is_some_and(&matches)
    })
}

// Elsewhere the process group is all there is to go by.
#[cfg(not(target_os = "linux"))]
fn all() -> Vec<i32> {
    vec![]
}

#[cfg(not(target_os = "linux"))]
fn stat(_: i32) -> Option<Stat> {
    None
}

#[cfg(not(target_os = "linux"))]
fn has_mark(_: i32, _: &str, _: impl Fn(&str) -> bool) -> bool {
    false
}
