//! Values that are secrets by how they look, whatever their variable is called.

/// How the tokens of well-known services begin.
const STARTS: &[&str] = &[
    "AIza",
    "AKIA",
    "ASIA",
    "SG.",
    "dop_v1_",
    "figd_",
    "ghp_",
    "gho_",
    "ghr_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "hf_",
    "lin_api_",
    "npm_",
    "ntn_",
    "pypi-",
    "rk_live_",
    "sbp_",
    "secret_",
    "shpat_",
    "sk-",
    "sk_live_",
    "sk_test_",
    "sntrys_",
    "tvly-",
    "xapp-",
    "xoxa-",
    "xoxb-",
    "xoxe-",
    "xoxp-",
    "xoxr-",
    "ya29.",
];

/// Shorter than this it is a word that happens to begin so.
const SHORTEST: usize = 16;

/// Whether a value is a token, a key or a login by its looks: `ghp_…`, a signed token, a private key, `Bearer …`, or a
/// URL with a password.
pub fn looks_secret(value: &str) -> bool {
    let value = value.trim();
    let is_token = value.len() >= SHORTEST
        && !value.contains(char::is_whitespace)
        && STARTS.iter().any(|start| value.starts_with(start));
    let is_private_key = value.starts_with("-----BEGIN ") && value.contains("PRIVATE KEY-----");
    is_token || is_private_key || is_signed_token(value) || !super::in_arguments([value]).is_empty()
}

/// Three parts in base64, of which the first two are JSON: `eyJ` is how `{"` looks.
fn is_signed_token(value: &str) -> bool {
    let parts: Vec<&str> = value.split('.').collect();
    let is_base64 = |part: &&str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_=".contains(&b))
    };
    parts.len() == 3
        && parts[..2].iter().all(|p| p.starts_with("eyJ"))
        && parts.iter().all(is_base64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_known_by_their_looks() {
        for value in [
            "ghp_0123456789abcdefABCDEF",
            "sk-proj-0123456789abcdef",
            "AKIAIOSFODNN7EXAMPLE",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
            "-----BEGIN PRIVATE KEY-----\nMC4CAQAw\n",
            "Bearer 0123456789",
            "postgres://u:p4ss@host/db",
        ] {
            assert!(looks_secret(value), "{value}");
        }
        for value in [
            "sk-short",
            "secret_sauce",
            "npm_config_registry is set",
            "https://example.com/a@b:c",
            "a.b.c",
            "eyJ.eyJ",
            "/usr/local/bin/thing-with-a-long-name",
            "",
            "${env:TOKEN}",
        ] {
            assert!(!looks_secret(value), "{value}");
        }
    }
}
