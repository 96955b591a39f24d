//! Running the suite, and comparing what did not pass with what is expected.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use wharfinger_testkit::Home;

use crate::installed;

/// A requirement set of the suite.
#[derive(Clone, Copy)]
pub(crate) struct Requirements {
    revision: &'static str,
    /// The checks that a server can pass, in this version of the suite.
    pub(crate) checks: usize,
}

pub(crate) const HANDSHAKE: Requirements = Requirements {
    revision: "2025-11-25",
    checks: 83,
};
pub(crate) const STATELESS: Requirements = Requirements {
    revision: "2026-07-28",
    checks: 197,
};

/// The suite leaves it out, whatever the server does.
const LEFT_OUT: &str = "tasks-status-notifications:tasks-status-notifications";

/// The suite waits for streams for half a second only, so nothing else may use the machine.
static ALONE: Mutex<()> = Mutex::new(());

/// The suite, and the turn to run it.
pub(crate) struct Suite {
    node: PathBuf,
    program: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Suite {
    /// The installed suite, if it is. Waits for its turn.
    pub(crate) fn find() -> Option<Self> {
        Some(Self {
            node: installed::node()?,
            program: installed::suite()?,
            _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner),
        })
    }

    /// Runs a requirement set and returns how many checks passed. What does not pass must be what is
    /// expected, neither more nor less; scenarios without a score count as well.
    #[track_caller]
    pub(crate) fn check(
        &self,
        url: &str,
        requirements: Requirements,
        expected: &BTreeSet<String>,
    ) -> usize {
        let results = Home::new();
        let said = Command::new(&self.node)
            .arg(&self.program)
            .args(["server", "--url", url])
            .args(["--requirements", requirements.revision])
            .arg("--output-dir")
            .arg(results.path())
            .current_dir(results.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned()
            + &String::from_utf8_lossy(&said.stderr);
        let scenarios = scenarios(&said);
        assert!(!scenarios.is_empty(), "the suite ran nothing: {said}");

        let mut troubles = BTreeSet::new();
        let mut passed = 0;
        let mut reasons = Vec::new();
        for scenario in &scenarios {
            let Some(checks) = checks(results.path(), scenario) else {
                troubles.insert(scenario.clone());
                continue;
            };
            for check in checks {
                let status = check["status"].as_str().unwrap();
                passed += usize::from(status == "SUCCESS");
                if matches!(status, "FAILURE" | "WARNING" | "SKIPPED") {
                    let name = format!("{scenario}:{}", check["id"].as_str().unwrap());
                    if name == LEFT_OUT {
                        continue;
                    }
                    let reason = check["errorMessage"].as_str().unwrap_or_default();
                    reasons.push(format!("{name}: {status}: {reason}"));
                    if !expected.contains(&name) {
                        reasons.push(format!("    {}", check["details"]));
                    }
                    troubles.insert(name);
                }
            }
        }
        let unexpected: Vec<_> = troubles.difference(expected).collect();
        let passing: Vec<_> = expected.difference(&troubles).collect();
        assert!(
            unexpected.is_empty() && passing.is_empty(),
            "{}\n\n{}\n\n\
             {passed} passed; unexpected failures: {unexpected:#?}\n\
             expected to fail, but passing or gone: {passing:#?}",
            summary(&said),
            reasons.join("\n"),
        );
        passed
    }
}

/// The end of what the suite says, or all if it did not get that far.
fn summary(said: &str) -> &str {
    let (_, summary) = said.split_once("=== SUMMARY ===").unwrap_or(("", said));
    summary.trim()
}

/// The scenarios of the suite's summary: `✓ ping: 2 passed, 0 failed`.
fn scenarios(said: &str) -> Vec<String> {
    summary(said)
        .lines()
        .filter_map(|line| line.strip_prefix(['✓', '✗']))
        .filter_map(|line| line.split_once(':'))
        .map(|(scenario, _)| scenario.trim().to_owned())
        .collect()
}

/// What the suite wrote down about a scenario; nothing if it did not end.
fn checks(results: &Path, scenario: &str) -> Option<Vec<Value>> {
    // The folder ends with the time: `server-ping-2026-01-01T…`.
    let start = format!("server-{scenario}-20");
    let folders = fs::read_dir(results).unwrap();
    let folder = folders
        .map(|entry| entry.unwrap())
        .find(|entry| entry.file_name().to_string_lossy().starts_with(&start))?;
    let text = fs::read(folder.path().join("checks.json")).ok()?;
    Some(serde_json::from_slice(&text).unwrap())
}
