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
    fn the_owner_adds_names_and_patterns() {
        let names = SecretNames {
            more: vec!["CORP_*".into(), "EXACT".into(), "A*B*C".into()],
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
    }
}
