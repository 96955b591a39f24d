//! The fuzz targets, each for a minute. Nothing is installed for it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::shell::{self, Shell};

/// All targets, as they are called in `fuzz`.
pub(crate) const TARGETS: [&str; 2] = ["wire", "endpoint"];

const SECONDS: u32 = 60;

/// With the fuzzer, if it is there, else with the loop that runs on any toolchain.
pub(crate) fn run(targets: &[&str]) -> Result<()> {
    if let Some(other) = targets.iter().find(|target| !TARGETS.contains(target)) {
        bail!(
            "there is no target `{other}`; there are {}",
            TARGETS.join(", ")
        );
    }
    if shell::finds("cargo-fuzz") && has_nightly() {
        return targets.iter().try_for_each(|target| with_fuzzer(target));
    }
    eprintln!("xtask: no `cargo fuzz` with a nightly toolchain, so the tests' own loop is run");
    let shell =
        Shell::new().with_variable("WHARFINGER_FUZZ_SECONDS", OsStr::new(&SECONDS.to_string()));
    // The server that misbehaves, which another package builds.
    shell.cargo(&["build", "--package", "wharfinger-testkit", "--bins"])?;
    targets.iter().try_for_each(|target| {
        let tests = format!("{target}::");
        shell.cargo(&[
            "test",
            "--package",
            "wharfinger-fuzz",
            "--test",
            "it",
            &tests,
            "--",
            "--nocapture",
        ])
    })
}

fn has_nightly() -> bool {
    let listed = Command::new("rustup").args(["toolchain", "list"]).output();
    listed.is_ok_and(|listed| {
        let text = String::from_utf8_lossy(&listed.stdout);
        text.lines().any(|line| line.starts_with("nightly"))
    })
}

fn with_fuzzer(target: &str) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // What it finds interesting stays out of the committed corpus.
    let found = root.join("fuzz/target/found").join(target);
    std::fs::create_dir_all(&found)
        .with_context(|| format!("cannot create {}", found.display()))?;
    let (found, corpus) = (found.display().to_string(), format!("fuzz/corpus/{target}"));
    let time = format!("-max_total_time={SECONDS}");
    // There is no unsafe code of ours that a sanitizer could catch; without one it is faster.
    Shell::new().in_folder(&root).run(
        OsStr::new("rustup"),
        &[
            "run",
            "nightly",
            "cargo",
            "fuzz",
            "run",
            "--sanitizer",
            "none",
            target,
            &found,
            &corpus,
            "--",
            &time,
            "-max_len=4096",
            "-timeout=60",
        ],
    )
}
