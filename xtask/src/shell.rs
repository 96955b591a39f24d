//! Running programs, shown before they run.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// The environment that programs get beyond our own.
#[derive(Default)]
pub(crate) struct Shell {
    folder: Option<PathBuf>,
    variables: Vec<(OsString, OsString)>,
}

impl Shell {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub(crate) fn in_folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    #[must_use]
    pub(crate) fn with_variable(mut self, name: &str, value: &OsStr) -> Self {
        self.variables.push((name.into(), value.to_owned()));
        self
    }

    /// Puts folders in front of `PATH`.
    #[must_use]
    pub(crate) fn with_path(self, folders: &[PathBuf]) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = folders.iter().cloned().chain(std::env::split_paths(&path));
        let joined = std::env::join_paths(folders).unwrap_or(path);
        self.with_variable("PATH", &joined)
    }

    /// Runs a program and waits for it; its output is ours, its input is empty.
    pub(crate) fn run(&self, program: &OsStr, arguments: &[&str]) -> Result<()> {
        let shown = format!("{} {}", Path::new(program).display(), arguments.join(" "));
        eprintln!("+ {shown}");
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .envs(self.variables.iter().cloned());
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let status = command
            .status()
            .with_context(|| format!("cannot start `{shown}`"))?;
        if !status.success() {
            bail!("`{shown}` failed with {status}");
        }
        Ok(())
    }

    /// The cargo that runs us.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Result<()> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        self.run(&cargo, arguments)
    }
}

/// Whether `PATH` has the program.
pub(crate) fn finds(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
