//! The real servers and clients that the tests run against, pinned, and how they get into the
//! cache. Packages in one group share a folder; what might disagree about versions doesn't.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::cache::{self, Cache};
use crate::shell::{self, Shell};

/// Half of the others need Node 22, and npm quietly picks older versions for an older Node. So it
/// comes first and leads `PATH` from then on.
const NODE: &[&str] = &["node@22.23.3"];

const NPM: &[(&str, &[&str])] = &[
    (
        "reference",
        &[
            "@modelcontextprotocol/server-everything@2026.8.31",
            "@modelcontextprotocol/server-filesystem@2026.8.31",
            "@modelcontextprotocol/server-memory@2026.8.31",
        ],
    ),
    ("context7", &["@upstash/context7-mcp@4.1.1"]),
    ("code-runner", &["mcp-server-code-runner@0.1.8"]),
    ("ms-365", &["@softeria/ms-365-mcp-server@0.155.0"]),
    ("playwright", &["@playwright/mcp@0.0.82"]),
    ("inspector", &["@modelcontextprotocol/inspector@2.12.0"]),
    (
        "conformance",
        &["@modelcontextprotocol/conformance@0.2.0-alpha.12"],
    ),
    ("claude", &["@anthropic-ai/claude-code@2.1.328"]),
    ("codex", &["@openai/codex@0.171.0"]),
    ("gemini", &["@google/gemini-cli@0.61.0"]),
    ("mcporter", &["mcporter@0.12.3"]),
];

const UV: &[&str] = &["uv==0.13.9"];

const PYPI: &[(&str, &[&str])] = &[
    (
        "servers",
        &["mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19"],
    ),
    // Broken with the second generation of its library.
    ("sqlite", &["mcp-server-sqlite==2025.4.25", "mcp<2"]),
    ("mcp", &["mcp==2.3.0"]),
    ("fastmcp", &["fastmcp==4.2.3"]),
    ("cryptography", &["cryptography==50.0.2"]),
];

/// Commands whose own download caches must be warm, so that a test's time is its own.
const NPX: &str = "@modelcontextprotocol/server-everything@2026.8.31";
const UVX: &str = "mcp-server-time@2026.10.19";

/// Installs what isn't there yet. Returns what could not be, and why.
pub(crate) fn install(cache: &Cache) -> Vec<String> {
    let mut missing = Vec::new();
    if !["node", "npm", "npx"]
        .iter()
        .all(|program| shell::finds(program))
    {
        missing.push("node and npm: tests with npm packages".to_owned());
    } else if let Err(error) = npm(cache) {
        missing.push(format!("tests with npm packages: {error:#}"));
    }
    if !shell::finds("python3") {
        missing.push("python3: tests with PyPI packages".to_owned());
    } else if let Err(error) = pypi(cache) {
        missing.push(format!("tests with PyPI packages: {error:#}"));
    }
    missing
}

fn npm(cache: &Cache) -> Result<()> {
    let path = cache.programs();
    npm_group(&Shell::new(), &cache.npm("node"), NODE)?;
    for (group, specs) in NPM {
        npm_group(&Shell::new().with_path(&path), &cache.npm(group), specs)?;
    }
    let warm = cache.npm("npx");
    if !cache::is_complete(&warm, &[NPX]) {
        cache::start_over(&warm)?;
        // In a folder of its own: npx prefers what the current project has.
        let shell = Shell::new().with_path(&path).in_folder(&warm);
        shell.run(
            "npx".as_ref(),
            &["--yes", "--package", NPX, "--call", "true"],
        )?;
        cache::complete(&warm, &[NPX])?;
    }
    Ok(())
}

fn npm_group(shell: &Shell, folder: &Path, specs: &[&str]) -> Result<()> {
    if cache::is_complete(folder, specs) {
        return Ok(());
    }
    cache::start_over(folder)?;
    let manifest = folder.join("package.json");
    fs::write(&manifest, "{\"private\":true}\n")
        .with_context(|| format!("cannot write {}", manifest.display()))?;
    let folder_text = folder.to_string_lossy();
    let mut words = vec![
        "install",
        "--prefix",
        &folder_text,
        "--no-audit",
        "--no-fund",
    ];
    words.extend(["--loglevel", "error", "--save-exact"]);
    words.extend(specs);
    shell.run("npm".as_ref(), &words)?;
    cache::complete(folder, specs)
}

fn pypi(cache: &Cache) -> Result<()> {
    let uv_folder = cache.venv("uv");
    let uv = uv_folder.join("bin/uv");
    if !cache::is_complete(&uv_folder, UV) {
        cache::start_over(&uv_folder)?;
        let shell = Shell::new();
        shell.run(
            "python3".as_ref(),
            &["-m", "venv", &uv_folder.to_string_lossy()],
        )?;
        let mut words = vec!["install", "--quiet", "--disable-pip-version-check"];
        words.extend(UV);
        shell.run(uv_folder.join("bin/pip").as_os_str(), &words)?;
        cache::complete(&uv_folder, UV)?;
    }
    for (group, specs) in PYPI {
        pypi_group(uv.as_os_str(), &cache.venv(group), specs)?;
    }
    let warm = cache.venv("uvx");
    if !cache::is_complete(&warm, &[UVX]) {
        cache::start_over(&warm)?;
        Shell::new().run(
            uv_folder.join("bin/uvx").as_os_str(),
            &["--quiet", UVX, "--help"],
        )?;
        cache::complete(&warm, &[UVX])?;
    }
    Ok(())
}

fn pypi_group(uv: &OsStr, folder: &Path, specs: &[&str]) -> Result<()> {
    if cache::is_complete(folder, specs) {
        return Ok(());
    }
    cache::start_over(folder)?;
    let shell = Shell::new();
    let folder_text = folder.to_string_lossy();
    shell.run(
        uv,
        &[
            "venv",
            "--quiet",
            "--allow-existing",
            "--python",
            "python3",
            &folder_text,
        ],
    )?;
    let python = folder.join("bin/python");
    let python = python.to_string_lossy();
    let mut words = vec!["pip", "install", "--quiet", "--python", &python];
    words.extend(specs);
    shell.run(uv, &words)?;
    cache::complete(folder, specs)
}
