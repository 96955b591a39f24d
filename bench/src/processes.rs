//! What a process tree costs, read from `/proc`, and whether it is still there.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

/// Processes of this name are the servers behind a gateway, not the gateway.
pub const SERVER_NAME: &str = "fast-echo";

/// What processes use.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Usage {
    /// How many there are.
    pub processes: usize,
    /// Threads of all.
    pub threads: u64,
    /// Open descriptors of all.
    pub fds: usize,
    /// Resident memory of the first process alone.
    pub main_rss_kb: u64,
    /// Resident memory of all, shared pages counted for each.
    pub rss_kb: u64,
    /// The same, each shared page counted once.
    pub pss_kb: u64,
    /// Processor time of all.
    pub cpu_us: u64,
}

/// A process, and not another one that has got its number since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name, as the system has it.
    pub name: String,
    started: u64,
}

struct Stat {
    process: Process,
    parent: u32,
    gone: bool,
    cpu_ticks: u64,
    threads: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        process: Process {
            pid,
            name: name.to_owned(),
            started: number(19)?,
        },
        parent: fields.get(1)?.parse().ok()?,
        gone: matches!(*fields.first()?, "Z" | "X"),
        cpu_ticks: number(11)? + number(12)?,
        threads: number(17)?,
    })
}

/// `root` and its descendants that run, parents before children.
fn tree(root: u32) -> Vec<Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut children: HashMap<u32, Vec<Stat>> = HashMap::new();
    for stat in entries.filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?)) {
        children.entry(stat.parent).or_default().push(stat);
    }
    let mut found: Vec<Stat> = stat(root).into_iter().collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|stat| stat.process.pid) {
        found.extend(children.remove(&parent).unwrap_or_default());
        next += 1;
    }
    found.retain(|stat| !stat.gone);
    found
}

/// `root` and all that it started and that runs.
pub fn all(root: u32) -> Vec<Process> {
    let tree = tree(root).into_iter();
    tree.map(|stat| stat.process).collect()
}

/// The servers below `root`.
pub fn servers(root: u32) -> Vec<Process> {
    let mut found = all(root);
    found.retain(|process| process.name == SERVER_NAME);
    found
}

/// What `root`'s own processes use, and what the servers below it do.
pub fn usage(root: u32) -> (Usage, Usage) {
    let (mut own, mut servers) = (Usage::default(), Usage::default());
    for stat in tree(root) {
        let pid = stat.process.pid;
        let to = if stat.process.name == SERVER_NAME {
            &mut servers
        } else {
            &mut own
        };
        let rss = memory(pid, "Rss:");
        if to.processes == 0 {
            to.main_rss_kb = rss;
        }
        to.processes += 1;
        to.threads += stat.threads;
        to.fds += fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        to.rss_kb += rss;
        to.pss_kb += memory(pid, "Pss:");
        to.cpu_us += cpu(&stat);
    }
    (own, servers)
}

/// Resident memory of one process, in KB.
pub fn resident(pid: u32) -> u64 {
    memory(pid, "Rss:")
}

fn memory(pid: u32, key: &str) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find(|line| line.starts_with(key));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    number.unwrap_or(0)
}

/// Processor time in microseconds: the scheduler's own count where there is one, since ticks are 10 ms.
fn cpu(stat: &Stat) -> u64 {
    let pid = stat.process.pid;
    let ticks = stat.cpu_ticks * 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let nanos: u64 = tasks
        .flatten()
        .flatten()
        .filter_map(|task| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        })
        .sum();
    if nanos > 0 { nanos / 1000 } else { ticks }
}

impl Process {
    /// The process of that number, if it runs.
    pub fn find(pid: u32) -> Option<Self> {
        stat(pid).filter(|stat| !stat.gone).map(|stat| stat.process)
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        Self::find(self.pid).is_some_and(|now| now.started == self.started)
    }

    /// Sends a signal. One that is gone is no problem.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| self.is_alive()) {
            kill_process(pid, signal).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen() {
        let pid = std::process::id();
        let (own, servers) = usage(pid);
        assert!(own.processes >= 1 && own.threads >= 1 && own.fds > 0);
        assert!(own.rss_kb >= own.main_rss_kb && own.main_rss_kb > 0 && own.cpu_us > 0);
        assert_eq!(servers.processes, 0);
        assert!(all(pid)[0].is_alive());
    }

    #[test]
    fn another_process_of_that_number_is_not_it() {
        let mut process = Process::find(std::process::id()).unwrap();
        process.started += 1;
        assert!(!process.is_alive());
    }
}
