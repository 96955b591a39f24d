//! Where a configured value stands: the line of a file, or a variable.

use std::collections::BTreeMap;

use jsonc_parser::ast::{ObjectPropName, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use wharfinger::config::Inputs;

/// Whether keys match in any case, as they do in the host section.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Any,
    Exact,
}

/// Every source that has a say in a value of the host section; the last one wins.
pub(super) fn host(inputs: &Inputs, path: &[&str]) -> Vec<String> {
    let file = inputs.host.as_ref();
    let line = file.and_then(|file| {
        Some(format!(
            "{}:{}",
            file.name,
            line(&file.text, path, Case::Any)?
        ))
    });
    line.into_iter()
        .chain(variables(&inputs.environment, path))
        .collect()
}

/// Where a value of `settings.json` stands.
pub(super) fn settings(inputs: &Inputs, path: &[&str]) -> Vec<String> {
    let file = inputs.settings.as_ref();
    let line = file.and_then(|file| {
        Some(format!(
            "{}:{}",
            file.name,
            line(&file.text, path, Case::Exact)?
        ))
    });
    line.into_iter().collect()
}

/// Variables that set the value of a path, or a part of it: `Mcp__Servers__git__Args__0`.
fn variables(environment: &BTreeMap<String, String>, path: &[&str]) -> Vec<String> {
    let sets = |variable: &&String| {
        let parts: Vec<&str> = variable.split("__").collect();
        parts.len() >= path.len()
            && parts
                .iter()
                .zip(path)
                .all(|(part, key)| part.eq_ignore_ascii_case(key))
    };
    environment
        .keys()
        .filter(sets)
        .map(|name| format!("environment variable {name}"))
        .collect()
}

/// The line of a key, counted from 1; of the last one where there are several.
fn line(text: &str, path: &[&str], case: Case) -> Option<usize> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default()).ok()?;
    let mut value = parsed.value?;
    let mut found = None;
    for key in path {
        let Value::Object(object) = value else {
            return None;
        };
        let property = object.properties.into_iter().rev().find(|property| {
            let name = match &property.name {
                ObjectPropName::String(name) => name.value.as_ref(),
                ObjectPropName::Word(name) => name.value,
            };
            match case {
                Case::Any => name.eq_ignore_ascii_case(key),
                Case::Exact => name == *key,
            }
        })?;
        found = Some(property.start());
        value = property.value;
    }
    Some(text[..found?].matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use wharfinger::config::File;

    use super::*;

    #[test]
    fn a_value_is_found_where_it_stands() {
        let file = |name: &str, text: &str| {
            Some(File {
                name: name.into(),
                text: text.into(),
            })
        };
        let inputs = Inputs {
            host: file(
                "c",
                "{\n \"Mcp\": {\n // x\n \"servers\": {\"git\": {\n\"args\": [1]}}}}",
            ),
            settings: file("s", "{\"mcpServers\": {\n\"a\": {},\n\"a\": {\"cwd\": 1}}}"),
            environment: [("Mcp__Servers__git__Args__0".to_owned(), "x".to_owned())].into(),
            run: vec![],
        };
        let check = |found: Vec<String>, expect: &[&str]| assert_eq!(found, expect);
        let args = host(&inputs, &["mcp", "servers", "git", "args"]);
        check(
            args,
            &["c:5", "environment variable Mcp__Servers__git__Args__0"],
        );
        check(host(&inputs, &["mcp", "servers", "git", "cwd"]), &[]);
        check(host(&inputs, &["daemon"]), &[]);
        check(settings(&inputs, &["mcpServers", "a", "cwd"]), &["s:3"]);
        check(settings(&inputs, &["mcpservers"]), &[]);
    }
}
