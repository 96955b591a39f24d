//! Which file of a package starts it, and whether that is where it may be (A65, A200).

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::InstallError;

/// The file that starts a package of npm, in the folder it was installed into (A65).
pub(super) fn of_npm(folder: &Path, name: &str) -> Result<PathBuf, InstallError> {
    let own = Path::new("node_modules").join(name);
    let manifest = npm_manifest(folder, name)?;
    let named = npm_named(&manifest, name).ok_or_else(|| {
        InstallError::Refused(format!("`{name}` has neither a `bin` nor a `main` to run"))
    })?;
    // As npm reads it: from the package's folder, whatever it begins with.
    let named = Path::new(named.trim_start_matches('/'));
    let endings = ["", ".js", ".cjs", ".mjs", "/index.js"];
    let candidates = endings.map(|ending| {
        let mut path = own.join(named).into_os_string();
        path.push(ending);
        PathBuf::from(path)
    });
    let there = candidates
        .into_iter()
        .find(|candidate| folder.join(candidate).is_file());
    let there = there.ok_or_else(|| {
        InstallError::Refused(format!(
            "`{name}` has no file {} that could be run",
            named.display()
        ))
    })?;
    inside(&folder.join(&own), &folder.join(&there))?;
    inside(folder, &folder.join(&own))?;
    Ok(there)
}

pub(super) fn npm_manifest(folder: &Path, name: &str) -> Result<Value, InstallError> {
    let path = folder.join("node_modules").join(name).join("package.json");
    let text = read(&path)?;
    serde_json::from_str(&text).map_err(|error| {
        InstallError::Refused(format!("the package.json of `{name}` is not JSON: {error}"))
    })
}

/// What a manifest says to run: `bin`, the one with the package's own short name before others, or `main`.
fn npm_named<'a>(manifest: &'a Value, name: &str) -> Option<&'a str> {
    let short = name.rsplit('/').next().unwrap_or(name);
    let bin = match &manifest["bin"] {
        Value::String(path) => Some(path.as_str()),
        Value::Object(all) => {
            let all: Vec<(&String, &str)> = all
                .iter()
                .filter_map(|(key, path)| Some((key, path.as_str()?)))
                .collect();
            let own = all.iter().find(|(key, _)| *key == short);
            own.or(all.first()).map(|(_, path)| *path)
        }
        _ => None,
    };
    let main = manifest["main"].as_str();
    bin.or(main).filter(|path| !path.trim().is_empty())
}

/// The script that starts a package of Python, in the folder it was installed into.
pub(super) fn of_python(folder: &Path, name: &str) -> Result<PathBuf, InstallError> {
    let scripts = console_scripts(&folder.join("venv/lib"), name)?;
    let spelt = |script: &String| script.replace(['_', '.'], "-").to_ascii_lowercase() == name;
    let script = scripts.iter().find(|script| spelt(script));
    let script = script.or(scripts.first()).ok_or_else(|| {
        InstallError::Refused(format!("`{name}` installs no command that could be run"))
    })?;
    let bin = Path::new("venv/bin");
    let there = bin.join(script);
    if Path::new(script).components().count() != 1 || !folder.join(&there).is_file() {
        return Err(InstallError::Refused(format!(
            "`{name}` has no script {script:?} that could be run"
        )));
    }
    inside(&folder.join(bin), &folder.join(&there))?;
    inside(folder, &folder.join(bin))?;
    Ok(there)
}

/// The commands that a distribution declares, in its order.
fn console_scripts(lib: &Path, name: &str) -> Result<Vec<String>, InstallError> {
    let pythons = fs::read_dir(lib).map_err(|source| InstallError::Io {
        path: lib.to_owned(),
        source,
    })?;
    let packages = pythons
        .flatten()
        .filter_map(|python| fs::read_dir(python.path().join("site-packages")).ok());
    for found in packages.flatten().flatten() {
        let file = found.file_name();
        let Some(stem) = file
            .to_str()
            .and_then(|file| file.strip_suffix(".dist-info"))
        else {
            continue;
        };
        let Some((of, _)) = stem.rsplit_once('-') else {
            continue;
        };
        if of.replace(['_', '.'], "-").to_ascii_lowercase() != name {
            continue;
        }
        let path = found.path().join("entry_points.txt");
        return Ok(if path.is_file() {
            listed(&read(&path)?)
        } else {
            vec![]
        });
    }
    Err(InstallError::Refused(format!(
        "nothing of the name `{name}` was installed"
    )))
}

/// The names in the section `console_scripts` of an `entry_points.txt`.
fn listed(text: &str) -> Vec<String> {
    let mut is_ours = false;
    let mut names = vec![];
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            is_ours = section.trim_end_matches(']').trim() == "console_scripts";
        } else if let Some((name, _)) = line.split_once('=').filter(|_| is_ours) {
            names.push(name.trim().to_owned());
        }
    }
    names
}

/// Whether a path is in a folder, by its components, after every link was followed.
pub(super) fn inside(folder: &Path, path: &Path) -> Result<PathBuf, InstallError> {
    let real = |path: &Path| {
        fs::canonicalize(path).map_err(|source| InstallError::Io {
            path: path.to_owned(),
            source,
        })
    };
    let (folder, found) = (real(folder)?, real(path)?);
    if found.starts_with(&folder) && found != folder {
        return Ok(found);
    }
    Err(InstallError::Refused(format!(
        "{} leads out of {}",
        path.display(),
        folder.display()
    )))
}

/// Whether a file is for Node: its first line says so, or says nothing.
pub(super) fn is_for_node(path: &Path) -> bool {
    let mut start = [0; 128];
    let read = fs::File::open(path).and_then(|mut file| file.read(&mut start));
    let start = String::from_utf8_lossy(&start[..read.unwrap_or(0)]).into_owned();
    match start.strip_prefix("#!") {
        Some(line) => line
            .lines()
            .next()
            .is_some_and(|line| line.contains("node")),
        None => !start.starts_with("\u{7f}ELF"),
    }
}

fn read(path: &Path) -> Result<String, InstallError> {
    fs::read_to_string(path).map_err(|source| InstallError::Io {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(manifest: &Value, files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("node_modules/@a/srv");
        fs::create_dir_all(&own).unwrap();
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            crate::launch::packages::lock::replace(&path, text).unwrap();
        };
        write(own.join("package.json"), &manifest.to_string());
        for file in files {
            write(own.join(file), "");
        }
        folder
    }

    fn check(manifest: &Value, files: &[&str], expect: Result<&str, &str>) {
        let folder = package(manifest, files);
        let found = of_npm(folder.path(), "@a/srv");
        match (found, expect) {
            (Ok(found), Ok(expect)) => {
                assert_eq!(found, Path::new("node_modules/@a/srv").join(expect));
            }
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{error}");
            }
            (found, expect) => panic!("{manifest}: {found:?}, not {expect:?}"),
        }
    }

    #[test]
    fn a65_the_entry_point_of_a_package() {
        check(&json!({"bin": "cli.js"}), &["cli.js"], Ok("cli.js"));
        check(
            &json!({"bin": {"other": "o.js", "srv": "./dist/s.js"}, "main": "m.js"}),
            &["o.js", "dist/s.js", "m.js"],
            Ok("./dist/s.js"),
        );
        check(
            &json!({"bin": {"b": "b.js", "c": "c.js"}}),
            &["b.js", "c.js"],
            Ok("b.js"),
        );
        check(
            &json!({"main": "lib/main"}),
            &["lib/main.js"],
            Ok("lib/main.js"),
        );
        check(
            &json!({"main": "lib"}),
            &["lib/index.js"],
            Ok("lib/index.js"),
        );
        check(
            &json!({}),
            &["index.js"],
            Err("neither a `bin` nor a `main`"),
        );
        check(&json!({"bin": "gone.js"}), &[], Err("no file gone.js"));
    }

    #[test]
    fn a65_a200_what_leads_out_of_the_package_is_not_run() {
        // Beside the package, in another one, and by a name that begins like its folder.
        let out = ["../../../evil.js", "../other/x.js", "../srv-evil/x.js"];
        for path in out {
            let folder = package(&json!({"bin": path}), &[path]);
            let error = of_npm(folder.path(), "@a/srv").unwrap_err().to_string();
            assert!(error.contains("leads out of"), "{path}: {error}");
        }
        let folder = package(&json!({"bin": "run.js"}), &[]);
        let outside = tempfile::NamedTempFile::new().unwrap();
        let link = folder.path().join("node_modules/@a/srv/run.js");
        std::os::unix::fs::symlink(outside.path(), link).unwrap();
        let error = of_npm(folder.path(), "@a/srv").unwrap_err().to_string();
        assert!(error.contains("leads out of"), "{error}");
    }

    #[test]
    fn scripts_of_python_are_listed_in_their_own_section() {
        let text = "[other]\nx = y\n[console_scripts]\nmcp-server-a = a:main\nb=b:main [extra]\n\n[gui_scripts]\nc = c:d\n";
        assert_eq!(listed(text), ["mcp-server-a", "b"]);
        assert_eq!(listed(""), Vec::<String>::new());
    }

    #[test]
    fn the_first_line_says_what_runs_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let check = |text: &str, expect: bool| {
            let path = folder.path().join("x");
            crate::launch::packages::lock::replace(&path, text).unwrap();
            assert_eq!(is_for_node(&path), expect, "{text}");
        };
        check("#!/usr/bin/env node\n", true);
        check("#!/usr/bin/env -S node --no-warnings\n", true);
        check("import x from 'y'", true);
        check("#!/bin/sh\nexec x", false);
        check("\u{7f}ELF\u{2}", false);
    }
}
