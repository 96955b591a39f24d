//! `wharf config`: without a daemon, from the files of the home folder and the variables of this shell.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use wharfinger::config::{self, FIELDS, File, Inputs, Playwright, SETTINGS, files, load};
use wharfinger::model::{
    Package, PackageKind, Scope, Secret, ServerEntry, Severity, Source, StderrLevel, Transport,
};
use wharfinger::vault::{Redactor, SecretNames};

use super::places;
use crate::World;
use crate::cli;
use crate::failure::{Exit, Failure};
use crate::ui::count;

pub(super) fn run(world: &World, command: cli::Config) -> Result<(), Failure> {
    match command {
        cli::Config::Check => check(world),
        cli::Config::Show(show) => self::show(world, show.changed),
        cli::Config::Path => path(world),
    }
}

/// Everything that a daemon of this home would read, were it started from this shell.
pub(super) fn inputs(world: &World) -> Result<Inputs, Failure> {
    let read = |path: &Path| -> Result<Option<File>, Failure> {
        files::read(path).map_err(|error| {
            Failure::usage(format!("can't read {}", path.display())).because(&error)
        })
    };
    Ok(Inputs {
        host: read(&world.paths.config())?,
        settings: read(&world.paths.settings())?,
        environment: world.environment.clone(),
        run: vec![],
    })
}

fn check(world: &World) -> Result<(), Failure> {
    let loaded = load(&inputs(world)?);
    let of = |severity| {
        loaded
            .problems
            .iter()
            .filter(|problem| problem.severity == severity)
            .count()
    };
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    if world.ui.json {
        let facts = json!({"errors": errors, "warnings": warnings, "problems": loaded.problems});
        world.ui.answer_json(&facts)?;
    } else {
        for problem in &loaded.problems {
            world.ui.answer(&problem.to_string())?;
        }
        let servers = count(loaded.config.servers.len(), "usable server");
        let found = match (errors, warnings) {
            (0, 0) => "no problems".to_owned(),
            (0, warnings) => count(warnings, "warning"),
            (errors, 0) => count(errors, "error"),
            (errors, warnings) => {
                format!("{}, {}", count(errors, "error"), count(warnings, "warning"))
            }
        };
        world.ui.answer(&format!("{found}; {servers}"))?;
    }
    if errors > 0 {
        Err(Failure::Known(Exit::Failed))
    } else {
        Ok(())
    }
}

fn path(world: &World) -> Result<(), Failure> {
    let paths = &world.paths;
    let (home, host, settings) = (paths.home(), paths.config(), paths.settings());
    if world.ui.json {
        return Ok(world
            .ui
            .answer_json(&json!({"home": home, "config": host, "settings": settings}))?);
    }
    let note = |path: &Path| {
        if path.exists() {
            ""
        } else {
            "  (not there yet)"
        }
    };
    let line = |label: &str, path: &Path| format!("{label:9} {}{}", path.display(), note(path));
    let lines = [
        line("home", home),
        line("config", &host),
        line("settings", &settings),
    ];
    Ok(world.ui.answer(&lines.join("\n"))?)
}

/// A value in force.
#[derive(Serialize)]
struct Shown {
    key: String,
    value: Value,
    from: Vec<String>,
}

fn show(world: &World, changed: bool) -> Result<(), Failure> {
    let inputs = inputs(world)?;
    let loaded = load(&inputs);
    let config = &loaded.config;
    let mut shown: Vec<Shown> = daemon(&inputs, &config.daemon);
    shown.extend(playwright(&inputs, &config.playwright));
    shown.extend(
        config
            .servers
            .iter()
            .flat_map(|entry| server(&inputs, entry)),
    );
    if changed {
        shown.retain(|shown| !shown.from.is_empty());
    }
    let redactor = redactor(&inputs, config);
    let hidden = |value: &Value| redactor.text(&value.to_string()).into_owned();
    if world.ui.json {
        for shown in &mut shown {
            shown.value = serde_json::from_str(&hidden(&shown.value)).unwrap_or_default();
        }
        world.ui.answer_json(&json!({"values": shown}))?;
    } else {
        let row = |shown: &Shown| {
            let from = if shown.from.is_empty() {
                "default".to_owned()
            } else {
                shown.from.join(", ")
            };
            vec![shown.key.clone(), hidden(&shown.value), from]
        };
        let rows: Vec<_> = shown.iter().map(row).collect();
        world.ui.table(&["KEY", "VALUE", "FROM"], &rows)?;
    }
    if !loaded.problems.is_empty() {
        let problems = count(loaded.problems.len(), "problem");
        world.ui.warn(&format!(
            "{problems} in the configuration; `wharf config check` tells them"
        ));
    }
    Ok(())
}

fn daemon(inputs: &Inputs, daemon: &config::Daemon) -> Vec<Shown> {
    let show = |setting: &config::Setting| Shown {
        key: format!("daemon.{}", setting.name),
        value: serde_json::from_str(&setting.show(daemon)).unwrap_or_default(),
        from: places::host(inputs, &["daemon", setting.name]),
    };
    SETTINGS.iter().map(show).collect()
}

fn playwright(inputs: &Inputs, playwright: &Playwright) -> Vec<Shown> {
    let Playwright {
        enabled,
        headless,
        browser,
        extra_args,
        package,
        command,
    } = playwright;
    let show = |name: &str, variable: Option<&str>, value: Value| {
        let mut from = places::host(inputs, &["mcp", "playwright", name]);
        let set = |name: &&str| {
            inputs
                .environment
                .get(*name)
                .is_some_and(|value| !value.is_empty())
        };
        if let (true, Some(variable)) = (from.is_empty(), variable.filter(set)) {
            from.push(format!("environment variable {variable}"));
        }
        Shown {
            key: format!("mcp.playwright.{name}"),
            value,
            from,
        }
    };
    vec![
        show("enabled", Some("PLAYWRIGHT_ENABLED"), json!(enabled)),
        show("headless", Some("PLAYWRIGHT_HEADLESS"), json!(headless)),
        show("browser", Some("PLAYWRIGHT_BROWSER"), json!(browser)),
        show(
            "extraArgs",
            Some("PLAYWRIGHT_EXTRA_ARGS"),
            json!(extra_args),
        ),
        show("package", None, json!(package)),
        show("command", Some("PLAYWRIGHT_COMMAND"), json!(command)),
    ]
}

fn server(inputs: &Inputs, entry: &ServerEntry) -> Vec<Shown> {
    let name = entry.name.as_str();
    let show = |field: &config::Field| {
        let (path, from) = match entry.source {
            Source::Host => {
                let path = vec!["mcp", "servers", name, field.name];
                let from = places::host(inputs, &path);
                (path, from)
            }
            Source::Settings => {
                let path = vec!["mcpServers", name, field.name];
                let from = places::settings(inputs, &path);
                (path, from)
            }
            // The preset's own settings tell where it comes from.
            Source::Preset | Source::Run | Source::Agent => {
                (vec!["mcp", "servers", name, field.name], vec![])
            }
        };
        let value = field_value(entry, field.name)?;
        Some(Shown {
            key: path.join("."),
            value,
            from,
        })
    };
    FIELDS.iter().filter_map(show).collect()
}

fn of_package(package: &Package, field: &str) -> Option<Value> {
    let name = || format!("{}{}", package.name, package.extras);
    Some(match (field, package.kind) {
        ("npmPackage", PackageKind::Npm) | ("pypiPackage", PackageKind::Pypi) => json!(name()),
        ("version", _) => json!(package.version),
        ("with", PackageKind::Pypi) => json!(package.with),
        ("allowScripts", _) => json!(package.allow_scripts),
        _ => return None,
    })
}

/// `None` where the field says nothing about this kind of server.
fn field_value(entry: &ServerEntry, field: &str) -> Option<Value> {
    Some(match (field, &entry.transport) {
        ("npmPackage" | "pypiPackage" | "version" | "with" | "allowScripts", _) => {
            of_package(entry.package.as_ref()?, field)?
        }
        ("command", _) if entry.package.is_some() => return None,
        ("args", _) if entry.package.is_some() => json!(entry.runs_package()?.1),
        ("command", Transport::Stdio { command, .. }) => json!(command),
        ("args", Transport::Stdio { args, .. }) => json!(args),
        ("cwd", Transport::Stdio { cwd, .. }) => json!(cwd),
        ("url", Transport::Http { url }) => json!(url),
        // Names only: values are often secrets.
        ("env", _) => entry.env.iter().map(|(name, _)| name.as_str()).collect(),
        ("toolPrefix", _) => json!(entry.tool_prefix),
        ("enabled", _) => json!(entry.enabled),
        ("parallel", _) => json!(entry.parallel),
        ("startupTimeoutSeconds", _) => seconds(entry.startup_timeout.as_secs_f64()),
        ("callTimeoutSeconds", _) => seconds(entry.call_timeout.as_secs_f64()),
        ("idleTimeoutSeconds", _) => {
            seconds(entry.idle_timeout.map_or(0.0, |limit| limit.as_secs_f64()))
        }
        ("stderrLevel", _) => {
            let level = StderrLevel::ALL
                .iter()
                .find(|(_, level)| *level == entry.stderr_level);
            json!(level.map(|(name, _)| name))
        }
        ("promptSection", _) => json!(entry.prompt_section),
        ("scope", _) => match entry.scope {
            Scope::Agent => json!("agent"),
            Scope::Session => json!("session"),
        },
        ("roots", _) => json!(entry.roots),
        ("agentVisible", _) => json!(entry.agent_visible),
        ("inheritEnv", _) => json!(entry.inherit_env),
        // Containers come later.
        ("location", Transport::Stdio { .. }) => json!("host"),
        _ => return None,
    })
}

/// As people write them: whole ones without a fraction.
fn seconds(value: f64) -> Value {
    serde_json::from_str(&value.to_string()).unwrap_or_default()
}

pub(super) fn redactor(inputs: &Inputs, config: &config::Config) -> Redactor {
    let names = SecretNames {
        more: config.daemon.secret_variables.clone(),
    };
    let own = config.servers.iter().flat_map(|entry| &entry.env);
    let own = own.filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let secret =
        |(name, value): (&String, &String)| names.matches(name).then(|| Secret::new(value.clone()));
    let secrets: Vec<Secret> = inputs
        .environment
        .iter()
        .chain(own)
        .filter_map(secret)
        .collect();
    Redactor::new(&secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_shown() {
        let text = r#"{"mcpServers": {"a": {"command": "x"}, "b": {"url": "http://x"},
            "c": {"npmPackage": "x"}, "d": {"pypiPackage": "x"}}}"#;
        let settings = Some(File {
            name: "s".into(),
            text: text.into(),
        });
        let loaded = load(&Inputs {
            settings,
            ..Inputs::default()
        });
        for field in FIELDS.iter().filter(|field| field.name != "type") {
            let shown = loaded
                .config
                .servers
                .iter()
                .any(|entry| field_value(entry, field.name).is_some());
            assert!(shown, "{} is missing in `field_value`", field.name);
        }
    }
}
