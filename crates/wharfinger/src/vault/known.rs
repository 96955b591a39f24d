//! Which variables hold secrets (V18).

/// Variables known by name.
const NAMES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "DATABASE_URL",
    "GITHUB_TOKEN",
    "OPENAI_API_KEY",
    "PGPASSWORD",
    "TELEGRAM_BOT_TOKEN",
];

/// Variables known by what their names are made of, each after a start or `_` and before an end or `_`.
const WORDS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "APIKEY",
    "CREDENTIAL",
    "CREDENTIALS",
    "PAT",
    "PASS",
    "AUTHTOKEN",
    "ACCESSTOKEN",
];

/// Endings, with the `_` before them.
const ENDINGS: &[&str] = &["_KEY", "_KEYS", "_AUTH", "_DSN", "_JWT"];

/// The built-in list and the owner's additions.
#[derive(Clone, Debug, Default)]
pub struct SecretNames {
    /// Names or patterns in which `*` stands for any text; case does not count.
    pub more: Vec<String>,
}

impl SecretNames {
    /// Whether the variable's value is a secret.
    pub fn matches(&self, name: &str) -> bool {
        is_secret_name(name) || self.more.iter().any(|pattern| like(pattern, name))
    }
}

/// Whether a variable of that name holds a secret by the built-in list.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    NAMES.contains(&name.as_str())
        || name.split('_').any(|part| WORDS.contains(&part))
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Values in a command line or a URL that are secrets by what stands before them: `--api-key X`, `--token=X`,
/// `Authorization: Bearer X`, the password of `scheme://user:password@host`.
pub fn in_arguments<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut found = vec![];
    let mut expected = false;
    for argument in arguments {
        if std::mem::take(&mut expected) && !argument.starts_with('-') {
            found.push(argument.to_owned());
        }
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, None),
        };
        let flag = name.trim_start_matches('-').replace('-', "_");
        if name.starts_with('-') && is_secret_name(&flag) {
            match value {
                Some(value) => found.push(value.to_owned()),
                None => expected = true,
            }
        }
        let lower = argument.to_ascii_lowercase();
        if let Some(at) = lower.find("bearer ") {
            found.push(argument[at + "bearer ".len()..].trim().to_owned());
        }
        found.extend(url_password(argument).map(str::to_owned));
    }
    found.retain(|value| !value.contains("${"));
    found
}

fn url_password(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?', '#', ' ']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password)
}

fn like(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_ascii_uppercase(), name.to_ascii_uppercase());
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v18_secrets_are_known_by_their_names() {
        for name in [
            "TELEGRAM_BOT_TOKEN",
            "OPENAI_API_KEY",
            "github_token",
            "MY_SECRET_VALUE",
            "DB_PASSWORD",
            "GH_PAT",
            "AWS_ACCESS_KEY_ID",
            "SENTRY_DSN",
            "NPM_TOKEN",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "TOKENIZER",
            "KEYBOARD",
            "PATTERN",
            "LC_ALL",
            "SSH_AUTH_SOCK",
            "COMPAT",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn secrets_in_command_lines_are_known_by_what_stands_before_them() {
        let check = |line: &[&str], expect: &[&str]| {
            assert_eq!(in_arguments(line.iter().copied()), expect, "{line:?}");
        };
        check(
            &["-y", "pkg", "--api-key", "sk-live-1", "--name", "x"],
            &["sk-live-1"],
        );
        check(
            &["--token=abc", "--stripe-secret=def", "--verbose"],
            &["abc", "def"],
        );
        check(&["--header", "Authorization: Bearer abc"], &["abc"]);
        check(
            &["postgresql://u:p4ss@host/db", "https://host/a@b:c"],
            &["p4ss"],
        );
        check(&["--api-key", "${workspace}/x", "--token", "--flag"], &[]);
        check(&["--keyboard", "us", "--path=/tmp"], &[]);
    }

    #[test]
    fn the_owner_adds_names_and_patterns() {
        let names = SecretNames {
            more: vec![
                "CORP_*".into(),
                "EXACT".into(),
                "A*B*C".into(),
                "P*QR*R".into(),
            ],
        };
        let check = |name: &str, expect: bool| assert_eq!(names.matches(name), expect, "{name}");
        check("corp_x", true);
        check("XCORP_x", false);
        check("EXACT", true);
        check("EXACTLY", false);
        check("AxxBxxC", true);
        check("AxxC", false);
        check("ABC", true);
        check("ABCx", false);
        check("PxQRR", true);
        check("PxQR", false);
    }
}
