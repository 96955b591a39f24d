//! `${workspace}`, `${env:NAME}` (V13–V16) and `${secret:KEY}`. One pass: what was put in is not read again.

/// Replaces `${workspace}`; everything else stays literal.
pub fn workspace(text: &str, workspace: &str) -> String {
    expand(text, |name| {
        (name == "workspace").then(|| workspace.to_owned())
    })
}

/// Replaces `${workspace}`, `${env:NAME}` and `${secret:KEY}` as values of variables allow. `host` gives a host variable;
/// unset ones become empty (V15). `secret` gives a secret; whoever has none for one of [`secrets`] leaves the whole value
/// out.
pub fn value(
    text: &str,
    dir: &str,
    mut host: impl FnMut(&str) -> Option<String>,
    mut secret: impl FnMut(&str) -> Option<String>,
) -> String {
    expand(text, |name| {
        if let Some(variable) = name.strip_prefix("env:") {
            return Some(host(variable).unwrap_or_default());
        }
        if let Some(reference) = reference(name) {
            return Some(secret(&reference.key).unwrap_or_default());
        }
        (name == "workspace").then(|| dir.to_owned())
    })
}

/// A secret that a value takes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretReference {
    /// Which of the server's.
    pub key: String,
    /// Without it the server does not start; else the variable is left out.
    pub required: bool,
}

/// The secrets a value takes, in order: `${secret:KEY}`, and `${secret:KEY?}` where it may be missing.
pub fn secrets(text: &str) -> Vec<SecretReference> {
    let mut found = vec![];
    expand(text, |name| {
        found.extend(reference(name));
        None
    });
    found
}

/// What stands like a secret's reference and names none.
pub fn wrong_secrets(text: &str) -> Vec<String> {
    let mut found = vec![];
    expand(text, |name| {
        if name.starts_with("secret:") && reference(name).is_none() {
            found.push(format!("${{{name}}}"));
        }
        None
    });
    found
}

/// Whether a text can be the key of a secret.
pub fn is_key(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=128).contains(&text.len()) && text.chars().all(fine)
}

/// The text that takes a secret.
pub fn take(key: &str, required: bool) -> String {
    let mark = if required { "" } else { "?" };
    format!("${{secret:{key}{mark}}}")
}

fn reference(name: &str) -> Option<SecretReference> {
    let rest = name.strip_prefix("secret:")?;
    let key = rest.strip_suffix('?').unwrap_or(rest);
    is_key(key).then(|| SecretReference {
        key: key.to_owned(),
        required: key.len() == rest.len(),
    })
}

/// The host variables a value copies, in order.
pub fn variables(text: &str) -> Vec<String> {
    let mut found = vec![];
    expand(text, |name| {
        found.extend(name.strip_prefix("env:").map(str::to_owned));
        None
    });
    found
}

fn expand(text: &str, mut replace: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let Some(end) = rest.find('}') else { break };
        if let Some(value) = replace(&rest[2..end]) {
            out.push_str(&value);
            rest = &rest[end + 1..];
        } else {
            // Only the `${` is passed over, so that `${${workspace}` still finds the inner one.
            out.push_str("${");
            rest = &rest[2..];
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v13_workspace_is_replaced_wherever_it_stands() {
        let check = |text: &str, expect: &str| assert_eq!(workspace(text, "/w"), expect, "{text}");
        check("${workspace}", "/w");
        check("--dir=${workspace}/x:${workspace}", "--dir=/w/x:/w");
        check("${workspac}", "${workspac}");
        check("${${workspace}", "${/w");
        check("${workspace", "${workspace");
        check("$workspace {workspace}", "$workspace {workspace}");
        check("é${workspace}é", "é/wé");
    }

    #[test]
    fn v15_variables_are_copied_in_values_only() {
        let host = |name: &str| (name == "TOKEN").then(|| "s3cret".to_owned());
        let check = |text: &str, expect: &str| {
            assert_eq!(value(text, "/w", host, |_| None), expect, "{text}");
        };
        check("${env:TOKEN}", "s3cret");
        check("Bearer ${env:TOKEN} ${workspace}", "Bearer s3cret /w");
        check("[${env:UNSET}]", "[]");
        check("${input:x}", "${input:x}");
        assert_eq!(workspace("${env:TOKEN}", "/w"), "${env:TOKEN}");
        assert_eq!(variables("${env:A}${x}${env:B}"), ["A", "B"]);
    }

    #[test]
    fn v16_what_was_put_in_is_not_read_again() {
        let host = |_: &str| Some("${workspace}${env:X}".to_owned());
        let both = |text: &str| value(text, "/w", host, host);
        assert_eq!(both("${env:A}"), "${workspace}${env:X}");
        assert_eq!(both("${secret:A}"), "${workspace}${env:X}");
        assert_eq!(workspace("${workspace}", "${workspace}"), "${workspace}");
    }

    #[test]
    fn a99_a_value_takes_secrets_by_their_keys() {
        let secret = |key: &str| (key == "TOKEN").then(|| "s3cret".to_owned());
        let check = |text: &str, expect: &str, keys: &[(&str, bool)]| {
            assert_eq!(value(text, "/w", |_| None, secret), expect, "{text}");
            let found: Vec<_> = secrets(text)
                .into_iter()
                .map(|found| (found.key, found.required))
                .collect();
            let keys: Vec<_> = keys
                .iter()
                .map(|(key, required)| ((*key).to_owned(), *required))
                .collect();
            assert_eq!(found, keys, "{text}");
        };
        check("${secret:TOKEN}", "s3cret", &[("TOKEN", true)]);
        check(
            "Bearer ${secret:TOKEN?}",
            "Bearer s3cret",
            &[("TOKEN", false)],
        );
        check("${secret:A}${secret:B?}", "", &[("A", true), ("B", false)]);
        check("${secrets:TOKEN}", "${secrets:TOKEN}", &[]);
        check(&take("TOKEN", true), "s3cret", &[("TOKEN", true)]);
        check(&take("TOKEN", false), "s3cret", &[("TOKEN", false)]);
        assert_eq!(workspace("${secret:TOKEN}", "/w"), "${secret:TOKEN}");
    }

    #[test]
    fn a_secret_without_a_proper_key_is_no_reference() {
        for text in [
            "${secret:}",
            "${secret:?}",
            "${secret:a b}",
            "${secret:A??}",
        ] {
            assert_eq!(secrets(text), [], "{text}");
            assert_eq!(wrong_secrets(text), [text]);
        }
        assert!(wrong_secrets("${secret:A}${secret:B?}${env:C}").is_empty());
    }
}
