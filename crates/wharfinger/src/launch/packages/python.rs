//! Installs a package of Python, with `uv`: a virtual environment for each, and hashes of everything in it.

use std::path::{Path, PathBuf};

use super::lock::{Everything, Resolved, replace};
use super::tool::{Run, Work};
use super::{InstallError, entry};
use crate::model::Package;
use crate::model::package::bare_name;

/// The oldest `uv` that knows all that is asked of it (A67).
const OLDEST: (u32, u32) = (0, 4);
/// Servers of MCP need at least this one; `uv` fetches one where there is none.
const PYTHON: &str = ">=3.10";

/// Installs into an empty folder: what is locked, or else what the wish comes to now.
pub(super) async fn install(
    work: &Work<'_>,
    uv: &str,
    folder: &Path,
    package: &Package,
    locked: Option<&[String]>,
) -> Result<Resolved, InstallError> {
    let run = |doing: &'static str, words: &[&str]| {
        let args = words.iter().map(|word| (*word).to_owned());
        let builds = (words[0] == "pip" && !package.allow_scripts).then(|| "--no-build".to_owned());
        work.run(Run {
            doing,
            program: uv,
            args: args.chain(builds).collect(),
            folder,
        })
    };
    run(
        "uv's look for a Python",
        &[
            "venv",
            "--quiet",
            "--relocatable",
            "--no-project",
            "--python",
            PYTHON,
            "venv",
        ],
    )
    .await?;
    let requirements = if let Some(lines) = locked {
        lines.to_vec()
    } else {
        wish(folder, package)?;
        let compiled = run(
            "uv's choice of versions",
            &[
                "pip",
                "compile",
                "--quiet",
                "--generate-hashes",
                "--no-header",
                "--no-annotate",
                "--python",
                "venv/bin/python",
                "requirements.in",
            ],
        )
        .await?;
        lines(&compiled)
    };
    let path = folder.join("requirements.txt");
    replace(&path, &(requirements.join("\n") + "\n"))
        .map_err(|source| InstallError::Io { path, source })?;
    run(
        "uv's download",
        &[
            "pip",
            "sync",
            "--quiet",
            "--require-hashes",
            "--python",
            "venv/bin/python",
            "requirements.txt",
        ],
    )
    .await?;
    (work.say)("checking");
    let version = version_of(&requirements, &package.name)?;
    let entry = entry::of_python(folder, &package.name)?;
    let all = Everything::Requirements(requirements);
    Ok(Resolved {
        version,
        integrity: None,
        entry: entry.to_string_lossy().into_owned(),
        hash: all.hash(),
        all,
    })
}

/// The newest version there is that this machine can run.
pub(super) async fn newest(
    work: &Work<'_>,
    uv: &str,
    folder: &Path,
    package: &Package,
) -> Result<String, InstallError> {
    let bare = Package {
        with: vec![],
        ..package.unpinned()
    };
    wish(folder, &bare)?;
    let words = [
        "pip",
        "compile",
        "--quiet",
        "--no-deps",
        "--no-header",
        "--no-annotate",
        "--python-version",
        "3.12",
        "requirements.in",
    ];
    let compiled = work
        .run(Run {
            doing: "uv's look-up",
            program: uv,
            args: words.map(str::to_owned).into(),
            folder,
        })
        .await?;
    version_of(&lines(&compiled), &package.name)
}

/// What is wanted stands in a file, so that no name can be an option of `uv`.
fn wish(folder: &Path, package: &Package) -> Result<(), InstallError> {
    let path = folder.join("requirements.in");
    let spec = package.spec();
    let all: Vec<&str> = std::iter::once(spec.as_str())
        .chain(package.with.iter().map(String::as_str))
        .collect();
    replace(&path, &(all.join("\n") + "\n")).map_err(|source| InstallError::Io { path, source })
}

/// Requirements with their hashes, each on one line.
fn lines(compiled: &str) -> Vec<String> {
    let joined = compiled.replace("\\\n", " ");
    let lines = joined.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.join(" ")
    });
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

fn version_of(requirements: &[String], name: &str) -> Result<String, InstallError> {
    let found = requirements.iter().find_map(|line| {
        let (named, rest) = line.split_once("==")?;
        let spelt = bare_name(crate::model::PackageKind::Pypi, named).replace(['_', '.'], "-");
        (spelt.to_ascii_lowercase() == name).then(|| rest.split([' ', ';']).next())?
    });
    found
        .map(str::to_owned)
        .ok_or_else(|| InstallError::Refused(format!("uv has not chosen a version of `{name}`")))
}

/// Finds `uv` (A67): on the `PATH`, where its own installer puts it, or in our folder, where it is installed if need be.
pub(super) async fn find(work: &Work<'_>, tools: &Path) -> Result<String, InstallError> {
    let path = work.variable("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(path).collect();
    if let Some(home) = work.variable("HOME").map(PathBuf::from) {
        folders.extend([home.join(".cargo/bin"), home.join(".local/bin")]);
    }
    let own = tools.join("uv/bin");
    folders.push(own.clone());
    for folder in folders {
        let candidate = folder.join("uv");
        if candidate.is_file() && is_new_enough(work, &candidate).await? {
            return Ok(candidate.to_string_lossy().into_owned());
        }
    }
    provide(work, tools).await?;
    Ok(own.join("uv").to_string_lossy().into_owned())
}

async fn is_new_enough(work: &Work<'_>, uv: &Path) -> Result<bool, InstallError> {
    let told = work
        .run(Run {
            doing: "uv's start",
            program: &uv.to_string_lossy(),
            args: vec!["--version".into()],
            folder: Path::new("/"),
        })
        .await;
    match told {
        Ok(told) => Ok(new_enough(&told)),
        // A link of a version manager, say, that leads nowhere.
        Err(InstallError::Failed { .. } | InstallError::Program(_)) => Ok(false),
        Err(other) => Err(other),
    }
}

/// Whether `uv 0.13.9 (…)` is at least the oldest one.
fn new_enough(told: &str) -> bool {
    let version = told.split_whitespace().nth(1).unwrap_or_default();
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= OLDEST
}

/// Installs `uv` from the index of Python into our folder.
async fn provide(work: &Work<'_>, tools: &Path) -> Result<(), InstallError> {
    let io = |source| InstallError::Io {
        path: tools.to_owned(),
        source,
    };
    std::fs::create_dir_all(tools).map_err(io)?;
    let run = |doing: &'static str, program: &'static str, words: &[&str]| {
        let args = words.iter().map(|word| (*word).to_owned()).collect();
        work.run(Run {
            doing,
            program,
            args,
            folder: tools,
        })
    };
    run(
        "python's folder for uv",
        "python3",
        &["-m", "venv", "--clear", "uv"],
    )
    .await?;
    let pip = tools.join("uv/bin/python");
    work.run(Run {
        doing: "the download of uv",
        program: &pip.to_string_lossy(),
        args: [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--only-binary=:all:",
            "uv>=0.4",
        ]
        .map(str::to_owned)
        .into(),
        folder: tools,
    })
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_one_a_line() {
        let text = "# c\na==1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\nB_c[x]==2 ; python_version < '3'\n";
        let lines = lines(text);
        assert_eq!(
            lines,
            [
                "a==1 --hash=sha256:aa --hash=sha256:bb",
                "B_c[x]==2 ; python_version < '3'"
            ]
        );
        assert_eq!(version_of(&lines, "a").unwrap(), "1");
        assert_eq!(version_of(&lines, "b-c").unwrap(), "2");
        assert!(version_of(&lines, "c").is_err());
    }

    #[test]
    fn a67_an_old_uv_is_not_used() {
        assert!(new_enough("uv 0.13.9 (abc 2026-01-01)"));
        assert!(new_enough("uv 0.4.0"));
        assert!(new_enough("uv 1.0.0"));
        assert!(!new_enough("uv 0.3.9"));
        assert!(!new_enough("what"));
    }
}
