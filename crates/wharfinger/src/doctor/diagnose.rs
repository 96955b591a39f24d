//! From a symptom to what is probably wrong.

use super::known::TABLE;
use super::{Certainty, Command, Failure, Finding, Symptom, What};
use crate::model::{Package, PackageKind};

/// The first row of the table that a symptom looks like; where there is none, that nothing is known about it.
///
/// What stands for the case at hand in the words of a row: `{server}`, `{program}`, `{path}` (the file that is named
/// where it was seen), `{key}` (the variable), `{module}` (what is between quotes), `{port}`, `{place}` (file and line
/// of the entry).
pub fn diagnose(symptom: &Symptom) -> Finding {
    for group in TABLE {
        for failure in *group {
            let mut seen = failure.looks.iter();
            if let Some(line) = seen.find_map(|look| look.matches(symptom)) {
                return finding(failure, symptom, &line);
            }
        }
    }
    unknown(symptom)
}

fn finding(failure: &Failure, symptom: &Symptom, line: &str) -> Finding {
    let fill = |text: &str| fill(text, symptom, line);
    let command = command(failure.command, symptom, line);
    Finding {
        code: failure.code,
        title: failure.title,
        server: Some(symptom.server.clone()),
        cause: fill(failure.cause),
        fix: fill(failure.fix),
        command,
        certainty: failure.certainty,
        evidence: (!line.is_empty()).then(|| line.to_owned()),
        path: None,
        fixable: failure.fixable,
    }
}

fn unknown(symptom: &Symptom) -> Finding {
    let said = symptom.stderr.last().or(symptom.noise.last());
    let words = symptom.what.words();
    let words = words.and_then(|words| words.lines().next());
    let cause = match &symptom.what {
        What::Exited(exit) => format!("it exited ({exit}), for a reason that is not known here"),
        What::TimedOut
        | What::NotFound
        | What::NotExecutable(_)
        | What::Directory(_)
        | What::NotStarted(_)
        | What::Protocol(_)
        | What::List(_)
        | What::Prepare(_)
        | What::Other(_) => words.unwrap_or("its reason is not known here").to_owned(),
    };
    let evidence = said.map(String::as_str).or(words);
    Finding {
        code: "WF-000",
        title: "Something that is not in the table",
        server: Some(symptom.server.clone()),
        cause,
        fix: "what it wrote itself often says it".into(),
        command: Some(format!("wharf logs {}", quote(&symptom.server))),
        certainty: Certainty::Likely,
        evidence: evidence.map(|line| line.trim().to_owned()),
        path: None,
        fixable: false,
    }
}

/// The words of a row, for this case.
fn fill(text: &str, symptom: &Symptom, line: &str) -> String {
    let or = |found: Option<String>, other: &str| found.unwrap_or_else(|| other.to_owned());
    let mut text = text
        .replace("{server}", &quote(&symptom.server))
        .replace("{program}", &symptom.command)
        .replace("{place}", &symptom.place);
    if text.contains("{path}") {
        let all = symptom.stderr.iter().map(String::as_str);
        let named = std::iter::once(line).chain(all).find_map(path);
        text = text.replace("{path}", &or(named, "a file or folder"));
    }
    if text.contains("{key}") {
        let keys = Some(keys(symptom, line).join(" and ")).filter(|keys| !keys.is_empty());
        text = text.replace("{key}", &or(keys, "the key it asks for"));
    }
    if text.contains("{module}") {
        text = text.replace("{module}", &or(module(line), "a module"));
    }
    if text.contains("{port}") {
        text = text.replace("{port}", &or(port(line), "it wants"));
    }
    text
}

fn command(command: Command, symptom: &Symptom, line: &str) -> Option<String> {
    let Symptom { args, env, .. } = symptom;
    match command {
        Command::None => None,
        Command::Quoted => line.split('`').nth(1).map(str::to_owned),
        Command::Words(words) => Some(fill(words, symptom, line)),
        Command::Uvx(more) => {
            if let (Some(package), ["--with", more]) = (&symptom.package, more) {
                let mut package = package.clone();
                package.with.push((*more).to_owned());
                let symptom = Symptom {
                    package: Some(package),
                    ..symptom.clone()
                };
                return again(&symptom, env, args);
            }
            let uvx =
                symptom.command.rsplit('/').next() == Some("uvx") && symptom.package.is_none();
            let args = more
                .iter()
                .map(|word| (*word).to_owned())
                .chain(args.clone());
            uvx.then(|| again(symptom, env, &args.collect::<Vec<_>>()))?
        }
        Command::Args(more) => {
            let more = more.iter().map(|word| (*word).to_owned());
            let args: Vec<String> = args.iter().cloned().chain(more).collect();
            again(symptom, env, &args)
        }
        Command::Env(name, value) => {
            let mut env: Vec<_> = env
                .iter()
                .filter(|(known, _)| known != name)
                .cloned()
                .collect();
            env.push((name.to_owned(), Some(value.to_owned())));
            again(symptom, &env, args)
        }
        Command::Key => {
            let keys = keys(symptom, line);
            let is_set = |key: &&String| env.iter().any(|(known, _)| known == *key);
            let first = keys.first()?;
            if let Some(key) = keys.iter().all(|key| is_set(&key)).then_some(first) {
                return Some(format!("wharf secret set {} {key}", quote(&symptom.server)));
            }
            // Without a value it is asked for, and kept in the vault.
            let new = keys
                .iter()
                .filter(|key| !is_set(key))
                .map(|key| (key.clone(), None));
            let env: Vec<_> = env.iter().cloned().chain(new).collect();
            again(symptom, &env, args)
        }
    }
}

/// The entry again as a command, where a command can say all of it.
fn again(symptom: &Symptom, env: &[(String, Option<String>)], args: &[String]) -> Option<String> {
    if !symptom.is_simple {
        return None;
    }
    let mut words = vec!["wharf add --replace".to_owned(), quote(&symptom.server)];
    for (name, value) in env {
        let set = match value {
            Some(value) => format!("{name}={}", quote(value)),
            None => quote(name),
        };
        words.push(format!("--env {set}"));
    }
    match &symptom.package {
        Some(package) => {
            words.extend(of_package(package));
            words.extend((!args.is_empty()).then(|| "--".to_owned()));
        }
        None => words.extend(["--".to_owned(), quote(&symptom.command)]),
    }
    words.extend(args.iter().map(|arg| quote(arg)));
    Some(words.join(" "))
}

fn of_package(package: &Package) -> Vec<String> {
    let option = match package.kind {
        PackageKind::Npm => "--npm",
        PackageKind::Pypi => "--pypi",
    };
    let spec = package.spec();
    let mut words = vec![format!("{option} {}", quote(&spec))];
    words.extend(
        package
            .with
            .iter()
            .map(|with| format!("--with {}", quote(with))),
    );
    words.extend(package.allow_scripts.then(|| "--allow-scripts".to_owned()));
    words
}

fn quote(word: &str) -> String {
    shell_words::quote(word).into_owned()
}

/// The first file or folder in a line.
fn path(line: &str) -> Option<String> {
    let words = line.split([' ', '\t', '\'', '"', '`', '(', ')', ',', ';']);
    let cut = |word: &str| word.trim_end_matches(['.', ':']).to_owned();
    words
        .filter(|word| word.starts_with('/') || word.starts_with("./") || word.starts_with("~/"))
        .map(cut)
        .find(|word| word.len() > 1)
}

/// The variables that a line asks for: all of them where it joins them, else the first; where it names none, the first
/// that is named before or after it.
fn keys(symptom: &Symptom, line: &str) -> Vec<String> {
    let ours = set_by(line);
    if !ours.is_empty() {
        return ours;
    }
    let mut named = variables(line);
    if named.is_empty() {
        let all = symptom.stderr.iter().map(String::as_str);
        named = all.flat_map(variables).take(1).collect();
    }
    let lower = line.to_lowercase();
    if !lower.contains(" and ") || lower.contains("either ") || lower.contains(" or ") {
        named.truncate(1);
    }
    named
}

/// The keys that a line of our own names, with the commands that set them.
fn set_by(line: &str) -> Vec<String> {
    let commands = line.split("`wharf secret set ").skip(1);
    let keys = commands.filter_map(|rest| rest.split('`').next()?.split(' ').nth(1));
    keys.map(str::to_owned).collect()
}

/// Names in capitals that are those of keys and the like.
fn variables(line: &str) -> Vec<String> {
    const ENDS: [&str; 12] = [
        "_KEY",
        "_TOKEN",
        "_SECRET",
        "_PASSWORD",
        "_URL",
        "_URI",
        "_ID",
        "_PAT",
        "_EMAIL",
        "_DSN",
        "_STRING",
        "_CREDENTIALS",
    ];
    let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words
        .filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
        .filter(|word| !word.contains(|c: char| c.is_ascii_lowercase()))
        .filter(|word| ENDS.iter().any(|end| word.ends_with(end)) && word.len() > 4)
        .map(str::to_owned)
        .collect()
}

/// What a line has between quotes.
fn module(line: &str) -> Option<String> {
    let at = line.find(['\'', '"', '`'])?;
    let quote = line[at..].chars().next()?;
    let rest = &line[at + 1..];
    let end = rest.find(quote)?;
    (end > 0).then(|| rest[..end].to_owned())
}

/// The port of an address in a line.
fn port(line: &str) -> Option<String> {
    let numbers = line.split(|c: char| !c.is_ascii_digit() && c != ':');
    let after = numbers.filter_map(|word| word.rsplit_once(':').map(|(_, port)| port));
    let mut ports = after.filter(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    let by_word = || {
        let at = line.to_lowercase().find("port ")? + "port ".len();
        let digits: String = line[at..]
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        (!digits.is_empty()).then_some(digits)
    };
    ports.next().map(str::to_owned).or_else(by_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_line_names_is_found() {
        assert_eq!(
            path("ENOENT: no such file or directory, open '/srv/keys.json'").as_deref(),
            Some("/srv/keys.json")
        );
        assert_eq!(path("nothing / here"), None);
        assert_eq!(
            module("ModuleNotFoundError: No module named 'mcp.server.fastmcp'.").as_deref(),
            Some("mcp.server.fastmcp")
        );
        assert_eq!(
            port("Error: listen EADDRINUSE: address already in use :::3000").as_deref(),
            Some("3000")
        );
        assert_eq!(port("port 9009 is taken").as_deref(), Some("9009"));
        assert_eq!(
            variables("Please set SLACK_BOT_TOKEN and SLACK_TEAM_ID environment variables"),
            ["SLACK_BOT_TOKEN", "SLACK_TEAM_ID"]
        );
        assert!(variables("ERR_MODULE_NOT_FOUND in JSON").is_empty());
    }
}
