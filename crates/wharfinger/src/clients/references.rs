//! How clients' values name variables, and what that is in ours: `${env:NAME}`, `${workspace}`, `${secret:KEY}`.

/// The ways of writing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    /// Values are taken as they stand.
    None,
    /// `${NAME}` and `${NAME:-default}`.
    Shell,
    /// The same, and `$NAME`.
    Dollar,
    /// `${env:NAME}`, `${input:ID}`, `${workspaceFolder}`.
    Named,
    /// `{env:NAME}`, `{file:PATH}`.
    Braces,
}

/// What a reference stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Meaning {
    /// Text that takes its place.
    Text(String),
    /// A variable of the environment, with a value for when there is none.
    Variable { name: String, has_default: bool },
    /// The folder that is open.
    Workspace,
    /// Something that only its owner can give.
    Asked,
    /// Nobody knows.
    Unknown,
}

/// A value in our words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Translated {
    /// With `${env:NAME}` and `${workspace}` in it.
    pub(super) text: String,
    /// What has to be given by hand stands in it, so that the whole value has to be.
    pub(super) is_asked: bool,
    /// Variables of the environment that it reads.
    pub(super) variables: Vec<String>,
    /// What is lost or different, as sentences.
    pub(super) remarks: Vec<String>,
}

/// A value as its client means it, said in our words.
pub(super) fn translate(value: &str, syntax: Syntax, home: &str) -> Translated {
    let mut out = Translated::default();
    let mut rest = value;
    while let Some((at, length, inner)) = next(rest, syntax) {
        out.text.push_str(&rest[..at]);
        let whole = &rest[at..at + length];
        match meaning(inner, syntax, home) {
            Meaning::Text(text) => out.text.push_str(&text),
            Meaning::Variable { name, has_default } => {
                out.text.extend(["${env:", &name, "}"]);
                if has_default {
                    out.remarks
                        .push(format!("the default of `{name}` is not taken over"));
                }
                out.variables.push(name);
            }
            Meaning::Workspace => {
                out.text.push_str("${workspace}");
                out.remarks
                    .push(format!("`{whole}` becomes the agent's workspace"));
            }
            Meaning::Asked => {
                out.text.push_str(whole);
                out.is_asked = true;
            }
            Meaning::Unknown => {
                out.text.push_str(whole);
                out.remarks
                    .push(format!("`{whole}` is not translated and stays as it is"));
            }
        }
        rest = &rest[at + length..];
    }
    out.text.push_str(rest);
    out
}

/// The next reference: where, how long, and what is in it.
fn next(text: &str, syntax: Syntax) -> Option<(usize, usize, &str)> {
    let opening = match syntax {
        Syntax::None => return None,
        Syntax::Shell | Syntax::Named | Syntax::Dollar => "${",
        Syntax::Braces => "{",
    };
    let braced = text.match_indices(opening).find_map(|(at, _)| {
        let inner = &text[at + opening.len()..];
        let inner = &inner[..inner.find('}')?];
        let is_ours = syntax != Syntax::Braces
            || ["env:", "file:"]
                .iter()
                .any(|start| inner.starts_with(start));
        is_ours.then_some((at, opening.len() + inner.len() + 1, inner))
    });
    let bare = text.match_indices('$').find_map(|(at, _)| {
        let name = &text[at + 1..];
        let end = name.find(|c: char| !is_name(c)).unwrap_or(name.len());
        let is_variable = name.starts_with(|c: char| is_name(c) && !c.is_ascii_digit());
        is_variable.then_some((at, end + 1, &name[..end]))
    });
    match (braced, bare.filter(|_| syntax == Syntax::Dollar)) {
        (Some(braced), Some(bare)) => Some(if bare.0 < braced.0 { bare } else { braced }),
        (braced, bare) => braced.or(bare),
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| is_name(c) && !c.is_ascii_digit()) && name.chars().all(is_name)
}

fn meaning(inner: &str, syntax: Syntax, home: &str) -> Meaning {
    let variable = |name: &str, has_default: bool| {
        if is_variable(name) {
            Meaning::Variable {
                name: name.to_owned(),
                has_default,
            }
        } else {
            Meaning::Unknown
        }
    };
    if let Some(name) = inner.strip_prefix("env:") {
        return variable(name, false);
    }
    match (syntax, inner) {
        (Syntax::Named, "workspaceFolder" | "workspaceRoot") => Meaning::Workspace,
        (Syntax::Named, "userHome") => Meaning::Text(home.to_owned()),
        (Syntax::Named, "pathSeparator" | "/") => Meaning::Text("/".into()),
        (Syntax::Named, inner) if inner.starts_with("input:") => Meaning::Asked,
        (Syntax::Braces, inner) if inner.starts_with("file:") => Meaning::Asked,
        (Syntax::Shell | Syntax::Dollar, inner) => match inner.split_once(":-") {
            Some((name, _)) => variable(name, true),
            None => variable(inner, false),
        },
        _ => Meaning::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_every_client_are_said_in_our_words() {
        let check = |value: &str, syntax: Syntax, expect: &str, remarks: usize| {
            let out = translate(value, syntax, "/home/me");
            assert_eq!(
                (out.text.as_str(), out.remarks.len()),
                (expect, remarks),
                "{value}"
            );
            assert!(!out.is_asked, "{value}");
        };
        check("Bearer ${T}", Syntax::Shell, "Bearer ${env:T}", 0);
        check("${A_1:-x}/${B}", Syntax::Shell, "${env:A_1}/${env:B}", 1);
        check("$T", Syntax::Shell, "$T", 0);
        check("$T-${U}$", Syntax::Dollar, "${env:T}-${env:U}$", 0);
        check("${env:T}", Syntax::Named, "${env:T}", 0);
        check("${workspaceFolder}/x", Syntax::Named, "${workspace}/x", 1);
        check("${userHome}${/}x", Syntax::Named, "/home/me/x", 0);
        check("${config:x}", Syntax::Named, "${config:x}", 1);
        check("{env:T}:{a}", Syntax::Braces, "${env:T}:{a}", 0);
        check("${T} {env:T} $T", Syntax::None, "${T} {env:T} $T", 0);
        check("${", Syntax::Shell, "${", 0);
        check("${a b}", Syntax::Shell, "${a b}", 1);
    }

    #[test]
    fn what_only_its_owner_has_is_asked_for() {
        assert!(translate("Bearer ${input:token}", Syntax::Named, "").is_asked);
        assert!(translate("{file:~/.key}", Syntax::Braces, "").is_asked);
        assert!(!translate("${input:token}", Syntax::None, "").is_asked);
    }

    #[test]
    fn variables_that_are_read_are_named() {
        let out = translate("${A}${B:-c}", Syntax::Shell, "");
        assert_eq!(out.variables, ["A", "B"]);
    }
}
