//! Which names and texts look like secrets. Guesses on the safe side: what is hidden for nothing costs an agent a little,
//! what is shown for nothing costs its owner a key.

use url::Url;

use super::MARKER;

/// Whether a field, variable, option or parameter of this name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    const PARTS: [&str; 14] = [
        "accesskey",
        "apikey",
        "authorization",
        "connectionstring",
        "credential",
        "encryptionkey",
        "passphrase",
        "passwd",
        "password",
        "privatekey",
        "secret",
        "sessionkey",
        "signingkey",
        "token",
    ];
    const WORDS: [&str; 11] = [
        "auth",
        "bearer",
        "cookie",
        "dsn",
        "jwt",
        "pass",
        "pat",
        "pwd",
        "sid",
        "sig",
        "signature",
    ];
    // What tells where a secret is, or how much of something there may be, is none.
    const ABOUT: [&str; 24] = [
        "args", "budget", "bytes", "chars", "count", "dir", "endpoint", "env", "file", "files",
        "keys", "limit", "mode", "ms", "name", "path", "port", "ref", "scope", "storage", "type",
        "uri", "url", "var",
    ];
    let words = words(name);
    let joined = words.concat();
    let about = words
        .last()
        .is_some_and(|last| ABOUT.contains(&last.as_str()));
    let secret = PARTS.iter().any(|part| joined.contains(part))
        || words.iter().any(|word| WORDS.contains(&word.as_str()));
    secret && !about && !joined.contains("tokeniz")
}

/// The words of `camelCase`, `snake_case`, `--an-option`, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        let starts = c.is_uppercase() && before.is_lowercase();
        if !c.is_alphanumeric() || starts {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Options and parameters are shorter than fields: there `key` alone is one too.
fn is_secret_option(name: &str) -> bool {
    let words = words(name);
    let key = words
        .last()
        .is_some_and(|last| last == "key" || last == "code");
    is_secret_name(name) || key
}

/// What a text is, which decides what may stand in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Prose, or anything.
    Free,
    /// An argument or a command.
    Argument,
    /// An address of a server: every value in its query is hidden, and what looks random in its path.
    Address,
}

/// Hides secrets in a text; the rest stays as it is.
pub(super) fn scrub(text: &str, kind: Kind) -> String {
    let mut out = String::with_capacity(text.len());
    // What the next word is, by the one before it.
    let mut expects = false;
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end_matches(char::is_whitespace);
        let space = &piece[word.len()..];
        if expects && !word.is_empty() && !word.starts_with('-') {
            out.push_str(MARKER);
            expects = false;
        } else {
            out.push_str(&scrub_word(word, kind));
            if !word.is_empty() {
                expects = announces(word, kind);
            }
        }
        out.push_str(space);
    }
    out
}

/// Whether the word after this one is a secret.
fn announces(word: &str, kind: Kind) -> bool {
    let bare = word.trim_matches(['"', '\'', ':', ',']);
    if bare.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic") {
        return kind != Kind::Free || bare == "Bearer";
    }
    kind == Kind::Argument
        && !word.contains("://")
        && ((word.starts_with('-') && !word.contains('=') && is_secret_option(word))
            || (word.ends_with(':') && is_secret_name(bare)))
}

/// Arguments in a row: an option may be followed by its value.
pub(super) fn scrub_args<'a>(args: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut option: Option<&str> = None;
    let mut out = vec![];
    for arg in args {
        let value = match option {
            Some(_) if arg.starts_with("--") => scrub(arg, Kind::Argument),
            Some("-e" | "--env") => match arg.split_once('=') {
                Some((name, _)) => format!("{name}={MARKER}"),
                None => arg.to_owned(),
            },
            Some("-H" | "--header") => header(arg),
            Some(name) if is_secret_option(name) && !arg.is_empty() => MARKER.to_owned(),
            Some(_) | None => match arg.split_once('=') {
                Some(("--header", line)) => format!("--header={}", header(line)),
                Some(("--env", _)) => format!("--env={MARKER}"),
                _ => scrub(arg, Kind::Argument),
            },
        };
        option = (arg.starts_with('-') && !arg.contains('=')).then_some(arg);
        out.push(value);
    }
    out
}

/// `Name: value`.
fn header(line: &str) -> String {
    match line.split_once([':', '=']) {
        Some((name, _)) if crate::manage::package::is_sensitive_header(name.trim()) => {
            format!("{}{MARKER}", &line[..=name.len()])
        }
        _ => scrub(line, Kind::Argument),
    }
}

fn scrub_word(word: &str, kind: Kind) -> String {
    if word.contains("://") {
        return address(word, kind);
    }
    if let Some((name, value)) = word.split_once('=')
        && !value.is_empty()
        && !name.contains('?')
        && (if kind == Kind::Argument {
            is_secret_option(name)
        } else {
            is_secret_name(name)
        })
    {
        return format!("{name}={MARKER}");
    }
    if kind == Kind::Argument
        && let Some((name, value)) = word.split_once(':')
        && !value.is_empty()
        && is_secret_name(name)
    {
        return format!("{name}:{MARKER}");
    }
    if word.contains('?') {
        return query(word, kind);
    }
    if shape(word) {
        return MARKER.to_owned();
    }
    word.to_owned()
}

/// The forms of keys that are known by how they begin.
fn shape(word: &str) -> bool {
    const BEGINNINGS: [&str; 27] = [
        "sk-",
        "sk_live_",
        "sk_test_",
        "rk_live_",
        "pk_live_",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xoxp-",
        "xoxa-",
        "xapp-",
        "AKIA",
        "ASIA",
        "AIza",
        "ya29.",
        "npm_",
        "pypi-",
        "hf_",
        "eyJ",
        "SG.",
        "tvly-",
        "lin_api_",
    ];
    let word = word.trim_matches(['"', '\'', '(', ')', '[', ']', ',', ';', '`']);
    word.starts_with("-----BEGIN")
        || (word.len() >= 16
            && BEGINNINGS.iter().any(|b| word.starts_with(b))
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.=+/".contains(c)))
}

/// A word with an address in it.
fn address(word: &str, kind: Kind) -> String {
    let Some(at) = word.find("://") else {
        return word.to_owned();
    };
    let (before, rest) = word.split_at(at + 3);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let authority = match authority.rsplit_once('@') {
        None => authority.to_owned(),
        Some((user, host)) => match user.split_once(':') {
            Some((user, _)) => format!("{user}:{MARKER}@{host}"),
            None => format!("{MARKER}@{host}"),
        },
    };
    let before = match before.split_once('=') {
        // `--token=https://…` is hidden whole.
        Some((name, _)) if is_secret_option(name) => return format!("{name}={MARKER}"),
        _ => before,
    };
    let (path, tail) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let path = if kind == Kind::Address && Url::parse(word).is_ok() {
        let parts: Vec<&str> = path
            .split('/')
            .map(|part| if random(part) { MARKER } else { part })
            .collect();
        parts.join("/")
    } else {
        path.to_owned()
    };
    format!("{before}{authority}{path}{}", query(tail, kind))
}

/// A part of a path that nobody would choose as a name.
fn random(part: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.~=%".contains(c);
    part.len() >= 24
        && part.chars().all(fine)
        && part.chars().any(|c| c.is_ascii_digit())
        && part.chars().any(|c| c.is_ascii_alphabetic())
}

/// Parameters behind `?` and `#`.
fn query(text: &str, kind: Kind) -> String {
    let mut out = String::new();
    let mut rest = text;
    let Some(start) = text.find(['?', '#']) else {
        return text.to_owned();
    };
    out.push_str(&rest[..start]);
    rest = &rest[start..];
    while let Some(separator) = rest.chars().next() {
        out.push(separator);
        rest = &rest[separator.len_utf8()..];
        let end = rest.find(['&', '#', ';', '?']).unwrap_or(rest.len());
        let (pair, after) = rest.split_at(end);
        match pair.split_once('=') {
            Some((name, value))
                if !value.is_empty() && (kind == Kind::Address || is_secret_option(name)) =>
            {
                out.push_str(name);
                out.push('=');
                out.push_str(MARKER);
            }
            None if kind == Kind::Address && (random(pair) || shape(pair)) => out.push_str(MARKER),
            _ => out.push_str(pair),
        }
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a110_names_of_secrets() {
        for name in [
            "token",
            "apiKey",
            "api_key",
            "API-KEY",
            "apikey",
            "client_secret",
            "password",
            "PASSWD",
            "dbPassword",
            "credential",
            "credentials",
            "Authorization",
            "privateKey",
            "private_key",
            "accessKey",
            "GITHUB_TOKEN",
            "auth",
            "x-auth",
            "cookie",
            "jwt",
            "refreshToken",
            "pwd",
            "SSH_PASS",
            "SLACK_PAT",
            "access-key",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "author",
            "keyboard",
            "path",
            "key",
            "env_keys",
            "bearer_token_env_var",
            "bearerTokenEnvVar",
            "credential_files",
            "credentialStorage",
            "credential_ref",
            "auth_args",
            "auth_port",
            "tokenizer",
            "token_limit",
            "name",
            "model",
            "url",
            "description",
            "max_tool_result_bytes",
            "compass",
            "authorization_url",
            "token_endpoint",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn a111_secrets_in_arguments() {
        let check = |args: &[&str], expect: &[&str]| {
            assert_eq!(scrub_args(args.iter().copied()), expect, "{args:?}");
        };
        let m = MARKER;
        check(&["--token", "abc", "x"], &["--token", m, "x"]);
        check(&["--api-key=abc", "-v"], &[&format!("--api-key={m}"), "-v"]);
        check(&["--key", "abc"], &["--key", m]);
        check(&["--no-auth", "--verbose"], &["--no-auth", "--verbose"]);
        check(&["--token-file", "/a/b"], &["--token-file", "/a/b"]);
        check(
            &["-y", "@scope/server-token"],
            &["-y", "@scope/server-token"],
        );
        check(
            &["-e", "HOST=x", "-e", "NAME"],
            &["-e", &format!("HOST={m}"), "-e", "NAME"],
        );
        check(&["API_KEY=abc"], &[&format!("API_KEY={m}")]);
        check(&["DEBUG=1"], &["DEBUG=1"]);
        check(
            &[
                "--header",
                "Authorization: Bearer abc",
                "--header",
                "X-Region: eu",
            ],
            &[
                "--header",
                &format!("Authorization:{m}"),
                "--header",
                "X-Region: eu",
            ],
        );
        check(
            &["--header=X-Api-Key:abc"],
            &[&format!("--header=X-Api-Key:{m}")],
        );
        check(
            &["postgres://me:pw@db:5432/x?sslmode=on&password=p"],
            &[&format!(
                "postgres://me:{m}@db:5432/x?sslmode=on&password={m}"
            )],
        );
        check(
            &["https://ghp_x@github.com/a"],
            &[&format!("https://{m}@github.com/a")],
        );
        check(&["ghp_0123456789abcdef0123"], &[m]);
        check(
            &["--db-url=mysql://u:p@h/d"],
            &[&format!("--db-url=mysql://u:{m}@h/d")],
        );
        check(
            &["sh", "-c", "run --token abc && x"],
            &["sh", "-c", &format!("run --token {m} && x")],
        );
        check(&["--password", ""], &["--password", ""]);
    }

    #[test]
    fn a111_secrets_in_addresses() {
        let check = |text: &str, expect: &str| {
            assert_eq!(scrub(text, Kind::Address), expect.replace("***", MARKER));
        };
        check("https://x.example/mcp", "https://x.example/mcp");
        check(
            "https://x.example/mcp?apiKey=a&profile=b",
            "https://x.example/mcp?apiKey=***&profile=***",
        );
        check("https://u:p@x.example/mcp", "https://u:***@x.example/mcp");
        check("https://x.example/#t=abc", "https://x.example/#t=***");
        check(
            "http:https://x.example/?k=v",
            "http:https://x.example/?k=***",
        );
        check(
            "https://x.example/s/Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5/mcp",
            "https://x.example/s/***/mcp",
        );
        check("npm:@a/b", "npm:@a/b");
        check(
            "https://x.example/?sk-0123456789abcdefghij",
            "https://x.example/?***",
        );
    }

    #[test]
    fn prose_stays_prose() {
        for text in [
            "Use --token to give a token: string, see https://x.example/a?b=c",
            "The password is asked for. author=me",
            "Wie geht's? Gut.",
            "",
            "  two  spaces ",
        ] {
            assert_eq!(scrub(text, Kind::Free), text);
        }
        assert_eq!(
            scrub("key sk-0123456789abcdefghij, and Bearer abc", Kind::Free),
            format!("key {MARKER} and Bearer {MARKER}")
        );
    }
}
