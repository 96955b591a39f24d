//! Building what is measured, with the profile of whoever runs this.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

pub(crate) struct Programs {
    pub(crate) wharf: PathBuf,
    pub(crate) echo: PathBuf,
    pub(crate) floor: PathBuf,
}

/// Builds them beside this program.
pub(crate) fn programs() -> Result<Programs> {
    let own = std::env::current_exe().context("can't find out which program this is")?;
    let folder = own.parent().context("this program is in no folder")?;
    let target = folder.parent().context("this program is in no target")?;
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    build(target, profile, &[])?;
    Ok(found(folder))
}

/// The same with line numbers, in a folder of their own.
pub(crate) fn with_lines() -> Result<Programs> {
    let own = std::env::current_exe().context("can't find out which program this is")?;
    let target = own
        .ancestors()
        .nth(2)
        .context("this program is in no target")?;
    let target = target.join("lines");
    let lines = [
        "--config=profile.release.debug='line-tables-only'",
        "--config=profile.release.strip='none'",
    ];
    build(&target, "release", &lines)?;
    Ok(found(&target.join("release")))
}

fn found(folder: &Path) -> Programs {
    Programs {
        wharf: folder.join("wharf"),
        echo: folder.join("fast-echo"),
        floor: folder.join("floor"),
    }
}

/// In two goes: packages that are built together share the features of their dependencies, and `wharf` is to be what it
/// is when it is built alone.
fn build(target: &Path, profile: &str, more: &[&str]) -> Result<()> {
    let tools = [
        "--package=wharfinger-bench",
        "--bin=fast-echo",
        "--bin=floor",
    ];
    for packages in [&["--package=wharf"][..], &tools] {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(cargo);
        command
            .args(["build", "--locked", "--profile", profile])
            .arg("--target-dir")
            .arg(target)
            .args(packages)
            .args(more)
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        let status = command.status().context("can't run cargo")?;
        ensure!(
            status.success(),
            "cargo build {} failed",
            packages.join(" ")
        );
    }
    Ok(())
}
