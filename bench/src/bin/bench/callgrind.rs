//! Reads what callgrind has counted: instructions by where the code came from, and allocations.

use std::collections::{BTreeMap, HashMap};

/// What one process executed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// By part of the program.
    pub(crate) parts: BTreeMap<String, u64>,
    /// How often memory was asked for.
    pub(crate) allocations: u64,
}

impl Counts {
    pub(crate) fn total(&self) -> u64 {
        self.parts.values().sum()
    }

    /// From the text of a dump. Costs stand on lines of their own, after the lines that say which file and function they
    /// are of; the cost of a call stands on the line after `calls=`, and is counted where the callee is.
    pub(crate) fn read(text: &str) -> Self {
        let (mut files, mut functions, mut objects) = (Names::new(), Names::new(), Names::new());
        let (mut object, mut file, mut called) = (String::new(), String::new(), String::new());
        let mut after_call = false;
        let mut counts = Self::default();
        for line in text.lines() {
            if let Some((key, value)) = line.split_once('=') {
                match key {
                    "ob" => object = name(&mut objects, value),
                    "fl" | "fi" | "fe" => file = name(&mut files, value),
                    "cfi" | "cfl" => drop(name(&mut files, value)),
                    "cob" => drop(name(&mut objects, value)),
                    "fn" => drop(name(&mut functions, value)),
                    "cfn" => called = name(&mut functions, value),
                    "calls" => {
                        after_call = true;
                        let times = value.split(' ').next().and_then(|n| n.parse().ok());
                        if matches!(called.as_str(), "malloc" | "calloc" | "realloc") {
                            counts.allocations += times.unwrap_or(0);
                        }
                    }
                    _ => {}
                }
            } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
                let cost = line.split(' ').nth(1).and_then(|cost| cost.parse().ok());
                if !std::mem::take(&mut after_call) {
                    *counts.parts.entry(part(&file, &object)).or_default() += cost.unwrap_or(0_u64);
                }
            }
        }
        counts
    }
}

type Names = HashMap<String, String>;

/// `(7) name` gives a number to a name, `(7)` means it from then on.
fn name(known: &mut Names, value: &str) -> String {
    match value.split_once(' ') {
        Some((number, name)) if number.starts_with('(') => {
            known.insert(number.to_owned(), name.to_owned());
            name.to_owned()
        }
        _ => known
            .get(value)
            .cloned()
            .unwrap_or_else(|| value.to_owned()),
    }
}

/// Which part of a program a source file is.
fn part(file: &str, object: &str) -> String {
    let segment = |after: &str| {
        let (_, rest) = file.split_once(after)?;
        rest.split('/').next()
    };
    let krate = file
        .split_once("/registry/src/")
        .and_then(|(_, rest)| rest.split('/').nth(1));
    if let Some(krate) = krate {
        // `hyper-util-0.1.21` is of hyper-util.
        let end = krate
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(krate.len());
        return group(krate[..end].trim_end_matches('-')).to_owned();
    }
    if file.contains("/malloc/") {
        return "malloc and free".into();
    }
    if file.contains("/rustc/") || file.starts_with("library/") {
        return "standard library".into();
    }
    if let Some(own) = segment("/crates/") {
        return own.to_owned();
    }
    match object.rsplit('/').next() {
        Some(object) if object.starts_with("libc") => "copies and comparisons of memory".into(),
        _ => "other".into(),
    }
}

fn group(krate: &str) -> &str {
    match krate {
        "hyper" | "hyper-util" | "http" | "http-body" | "http-body-util" | "httparse" | "bytes"
        | "httpdate" => "HTTP (hyper and below)",
        "axum" | "axum-core" | "tower" | "tower-service" | "tower-layer" | "matchit" => {
            "HTTP (axum and tower)"
        }
        "serde" | "serde_core" | "serde_json" | "memchr" | "itoa" | "ryu" | "zmij" => "JSON",
        "tokio" | "tokio-util" | "mio" | "futures-util" | "futures-core" | "futures-channel"
        | "slab" | "atomic-waker" => "tasks, timers and channels",
        "aho-corasick" => "redaction",
        _ => "other crates",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_counted_where_they_arise() {
        let text = "events: Ir\n\nob=(1) /bin/x\nfl=(1) /h/registry/src/index/hyper-util-0.1.2/src/a.rs\n\
                    fn=(1) f\n10 5\n+2 7\nfi=(2) /w/crates/wharfinger-wire/src/b.rs\n3 1\nfe=(1)\n\
                    cob=(2) /lib/libc.so.6\ncfi=(3) ./malloc/malloc.c\ncfn=(2) malloc\ncalls=4 0\n11 400\n* 2\n\n\
                    ob=(2)\nfl=(3)\nfn=(2)\n0 50\n";
        let counts = Counts::read(text);
        let parts = [
            ("HTTP (hyper and below)", 14),
            ("malloc and free", 50),
            ("wharfinger-wire", 1),
        ];
        let parts = parts.map(|(part, cost)| (part.to_owned(), cost));
        let expect = Counts {
            parts: BTreeMap::from(parts),
            allocations: 4,
        };
        assert_eq!(counts, expect);
        assert_eq!(counts.total(), 65);
    }
}
