//! Compares entries of the list of known servers with the packages they name: whether each is there, has a program to
//! run, and is not out of use. Asks the registries through npm and pip, one package after the other.

use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

const LIST: &str = include_str!("../../crates/wharfinger/src/registry/registry.json");

/// Looks at the entries of these names, or at all.
pub(crate) fn check(names: &[&str]) -> Result<()> {
    let list: Value = serde_json::from_str(LIST).context("the list is no JSON")?;
    let entries: Vec<&Value> = list["entries"].as_array().into_iter().flatten().collect();
    for name in names {
        if !entries.iter().any(|entry| entry["name"] == *name) {
            bail!("there is no entry `{name}`");
        }
    }
    let mut wrong = 0;
    let wanted =
        |entry: &&&Value| names.is_empty() || names.iter().any(|name| entry["name"] == *name);
    for entry in entries.iter().filter(wanted) {
        let name = entry["name"].as_str().unwrap_or_default();
        let found = match (entry["npmPackage"].as_str(), entry["pypiPackage"].as_str()) {
            (Some(package), _) => npm(package, entry["deprecated"].is_string()),
            (None, Some(package)) => pypi(package),
            (None, None) => Ok("is remote, and not looked at".to_owned()),
        };
        match found {
            Ok(found) => eprintln!("{name}: {found}"),
            Err(error) => {
                wrong += 1;
                eprintln!("{name}: WRONG: {error:#}");
            }
        }
    }
    if wrong > 0 {
        bail!("{wrong} entries are wrong");
    }
    Ok(())
}

/// The latest version of a package of npm; an error where nothing could be run.
fn npm(package: &str, known_deprecated: bool) -> Result<String> {
    let words = ["view", "--json", package, "version", "bin", "deprecated"];
    let said = run("npm", &words)?;
    let facts: Value = serde_json::from_str(&said).context("npm did not answer in JSON")?;
    let version = facts["version"].as_str().context("it has no version")?;
    if facts["bin"].is_null() {
        bail!("{package} {version} has no program to run");
    }
    match facts["deprecated"].as_str() {
        // Whether people are to be warned of it, or kept from it, is for whoever reads this.
        Some(text) if !known_deprecated => Ok(format!(
            "{package} {version}, which npm calls deprecated: {text}"
        )),
        Some(_) | None => Ok(format!("{package} {version}")),
    }
}

/// The latest version of a package of Python's index.
fn pypi(package: &str) -> Result<String> {
    let words = [
        "-m",
        "pip",
        "index",
        "versions",
        "--disable-pip-version-check",
        package,
    ];
    let said = run("python3", &words)?;
    let line = said.lines().next().context("pip did not answer")?;
    Ok(line.to_owned())
}

fn run(program: &str, words: &[&str]) -> Result<String> {
    let output = Command::new(program).args(words).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{program} {}: {}",
            words.join(" "),
            said.lines().next().unwrap_or_default()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
