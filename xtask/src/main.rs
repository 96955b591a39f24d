//! Chores of this workspace:
//!
//! - `cargo xtask test [-- ARGS]` sets up what the tests need, builds, and runs every test;
//!   `ARGS` go to the test programs
//! - `cargo xtask check` looks at formatting, lints and documentation
//! - `cargo xtask setup` only sets up
//! - `cargo xtask fuzz [TARGET]` runs each fuzz target for a minute: with `cargo fuzz` where that and a nightly
//!   toolchain are, else with the loop of the tests
//! - `cargo xtask registry [NAME...]` compares entries of the list of known servers with the packages they name
//!
//! The packages the tests run against are installed once, outside the clone, in
//! `$WHARFINGER_TEST_CACHE` (by default `~/.cache/wharfinger-tests`). Tests whose packages or
//! programs are missing say so and pass; with `CI=true` something missing is a failure.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a chore runs programs, looks at the environment and talks on stderr"
)]

mod cache;
mod fuzz;
mod packages;
mod registry;
mod shell;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::cache::Cache;
use crate::shell::Shell;

const USAGE: &str =
    "usage: cargo xtask test [-- ARGS] | check | setup | fuzz [TARGET] | registry [NAME...]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["test"] => test(&[]),
        ["test", "--", rest @ ..] => test(rest),
        ["check"] => check(),
        ["setup"] => setup().map(drop),
        ["registry", names @ ..] => registry::check(names),
        ["fuzz"] => fuzz::run(&fuzz::TARGETS),
        ["fuzz", target] => fuzz::run(&[target]),
        _ => Err(anyhow::anyhow!(USAGE)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Formatting, lints and the documentation of what others may use, as CI wants them.
fn check() -> Result<()> {
    let shell = Shell::new();
    shell.cargo(&["fmt", "--all", "--", "--check"])?;
    shell.cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])?;
    let mut words = vec!["doc", "--no-deps"];
    for package in ["wharfinger", "wharfinger-wire", "wharfinger-daemon"] {
        words.extend(["--package", package]);
    }
    Shell::new()
        .with_variable("RUSTDOCFLAGS", "-D warnings".as_ref())
        .cargo(&words)
}

fn test(arguments: &[&str]) -> Result<()> {
    let cache = setup()?;
    let shell = Shell::new()
        .with_path(&cache.programs())
        .with_variable(cache::VARIABLE, cache.folder().as_os_str());
    // Cargo builds the programs of a package only for that package's own tests; the other
    // packages' tests start `wharf` and `fake-server` too. All in one go, so that both commands see
    // the same features and nothing is compiled twice.
    shell.cargo(&["build", "--workspace", "--bins", "--tests", "--examples"])?;
    let mut words = vec!["test", "--workspace", "--no-fail-fast", "--"];
    words.extend(arguments);
    shell.cargo(&words)?;
    eprintln!("xtask: all tests passed");
    Ok(())
}

/// Installs the packages, as far as the programs for it are there, and says what is missing.
fn setup() -> Result<Cache> {
    let cache = Cache::locate()?;
    let mut missing = packages::install(&cache);
    if !["chromium", "chromium-browser", "google-chrome"]
        .iter()
        .any(|name| shell::finds(name))
    {
        missing.push("chromium: tests in a browser".to_owned());
    }
    if !shell::finds("git") {
        missing.push("git: the tests of the git server".to_owned());
    }
    if missing.is_empty() {
        return Ok(cache);
    }
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        bail!("missing on this machine: {}", missing.join("; "));
    }
    for one in missing {
        eprintln!("xtask: missing, left out: {one}");
    }
    Ok(cache)
}
