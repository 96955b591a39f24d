//! Names of servers and packages, and what may stand in a request for one.

use super::Kind;
use super::tree::is_secret_name;
use crate::model::package::{self, PackageKind};

/// Longest name we give a server (A15).
const LONGEST: usize = 32;

/// The charset of names we create (A15). Those in files made elsewhere are taken as they are.
pub fn check_name(name: &str) -> Result<(), String> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    if name.starts_with(['_', '-']) || !name.chars().all(fine) || name.is_empty() {
        return Err(
            "must be lower-case letters, digits, `_` and `-`, and begin with a letter or digit"
                .into(),
        );
    }
    if name.len() > LONGEST {
        return Err(format!("is longer than {LONGEST} characters"));
    }
    Ok(())
}

/// The name of a server that was not given one (A79), or `None` where nothing is left of it. `given` is the package, the
/// url, or the name a custom server was given.
pub fn name_for(kind: Kind, given: &str) -> Option<String> {
    let base = match kind {
        Kind::Custom => return fit(given),
        Kind::Npm if package_name(kind, given) == "@playwright/mcp" => "playwright".into(),
        Kind::Npm | Kind::Pypi => package_name(kind, given),
        Kind::Http => url::Url::parse(given).ok()?.host_str()?.to_owned(),
    };
    let base = base.rsplit('/').next().unwrap_or_default().to_lowercase();
    let start = ["mcp-server-", "server-", "mcp-"]
        .iter()
        .find_map(|prefix| base.strip_prefix(prefix))
        .unwrap_or(&base);
    let middle = ["-mcp", "-server"]
        .iter()
        .find_map(|suffix| start.strip_suffix(suffix))
        .unwrap_or(start);
    // `mcp-server` is all prefix; its own name is better than none.
    fit(middle).or_else(|| fit(&base))
}

/// Lower case, `_` for what may not stand there, neither empty nor too long.
fn fit(text: &str) -> Option<String> {
    let mapped: String = text
        .to_lowercase()
        .chars()
        .map(|c| {
            if c.is_ascii_lowercase() || c.is_ascii_digit() {
                c
            } else {
                '_'
            }
        })
        .collect();
    let cut: String = mapped
        .trim_start_matches('_')
        .chars()
        .take(LONGEST)
        .collect();
    let name = cut.trim_end_matches('_');
    (!name.is_empty()).then(|| name.to_owned())
}

/// A package without version and extras: `@a/b@1.2` is `@a/b`, `x[all]==2` is `x`. It is what approvals and credentials
/// hang on.
pub fn package_name(kind: Kind, spec: &str) -> String {
    match registry(kind) {
        Some(registry) => package::bare_name(registry, spec).to_owned(),
        None => spec.to_owned(),
    }
}

/// Where packages of a kind come from.
fn registry(kind: Kind) -> Option<PackageKind> {
    match kind {
        Kind::Npm => Some(PackageKind::Npm),
        Kind::Pypi => Some(PackageKind::Pypi),
        Kind::Custom | Kind::Http => None,
    }
}

/// What may stand where a package is expected.
pub(super) fn check_package(kind: Kind, spec: &str) -> Result<(), String> {
    match (registry(kind), kind) {
        (Some(registry), _) => package::check_spec(registry, spec),
        (None, Kind::Custom) if spec.len() > 256 => Err("is longer than 256 bytes".into()),
        (None, Kind::Custom) if spec.starts_with('-') => {
            Err("must be a command, not an option".into())
        }
        (None, _) => Ok(()),
    }
}

/// An endpoint of an http server.
pub(super) fn check_url(text: &str) -> Result<(), String> {
    let url = url::Url::parse(text).map_err(|error| format!("is no URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("must be http or https, not {}", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "may not hold a user or password; use `header_env` or `bearer_token_env_var`".into(),
        );
    }
    if url.fragment().is_some() {
        return Err("may not have a fragment".into());
    }
    Ok(())
}

/// Headers whose values are never kept in configuration (A24).
pub fn is_sensitive_header(name: &str) -> bool {
    const EXACT: [&str; 7] = [
        "authorization",
        "proxy-authorization",
        "x-api-key",
        "api-key",
        "apikey",
        "x-auth-token",
        "x-access-token",
    ];
    let name = name.to_ascii_lowercase();
    EXACT.contains(&name.as_str())
        || ["token", "secret", "credential"].iter().any(|part| name.contains(part))
        // Beyond the guide: what its list means, by other names (`X-Goog-Api-Key`, `Cookie`).
        || is_secret_name(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a79_a_name_is_derived_from_the_package() {
        let check = |kind: Kind, given: &str, expect: &str| {
            assert_eq!(name_for(kind, given).as_deref(), Some(expect), "{given}");
        };
        check(Kind::Npm, "@modelcontextprotocol/server-github", "github");
        check(
            Kind::Npm,
            "@modelcontextprotocol/server-github@2025.4.8",
            "github",
        );
        check(Kind::Npm, "@playwright/mcp", "playwright");
        check(Kind::Npm, "@playwright/mcp@latest", "playwright");
        check(Kind::Npm, "tavily-mcp", "tavily");
        check(Kind::Npm, "@upstash/context7-mcp@1.0.0", "context7");
        check(
            Kind::Npm,
            "@modelcontextprotocol/server-sequential-thinking",
            "sequential_thinking",
        );
        check(Kind::Npm, "@acme/mcp", "mcp");
        check(Kind::Npm, "mcp-server", "server");
        check(Kind::Npm, "@Acme/Big.Server-Thing", "big_server_thing");
        check(Kind::Pypi, "mcp-server-git", "git");
        check(Kind::Pypi, "mcp-server-git==1.2", "git");
        check(Kind::Pypi, "mcp-server-git@1.2", "git");
        check(Kind::Pypi, "markitdown-mcp[all]>=0.1", "markitdown");
        check(
            Kind::Http,
            "https://mcp.example.com:8443/a?b=c",
            "mcp_example_com",
        );
        check(
            Kind::Http,
            "https://mcp-docs.example.com/",
            "docs_example_com",
        );
        check(Kind::Custom, "My Server!", "my_server");
        check(
            Kind::Npm,
            &format!("a{}", "b".repeat(80)),
            &format!("a{}", "b".repeat(31)),
        );
        assert_eq!(name_for(Kind::Custom, "___"), None);
        assert_eq!(name_for(Kind::Http, "not a url"), None);
    }

    #[test]
    fn a15_names_we_create_have_a_charset() {
        for good in ["a", "0a", "git-hub_2", &"a".repeat(32)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", "A", "-a", "_a", "a.b", "a b", "ü", &"a".repeat(33)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_package_is_a_name_and_a_version() {
        let good = |kind, specs: &[&str]| {
            for spec in specs {
                assert_eq!(check_package(kind, spec), Ok(()), "{spec}");
            }
        };
        let bad = |kind, specs: &[&str]| {
            for spec in specs {
                assert!(check_package(kind, spec).is_err(), "{spec}");
            }
        };
        good(
            Kind::Npm,
            &[
                "a",
                "@a/b",
                "a@1",
                "@a/b@1.2.3-beta.1",
                "a@latest",
                "a@^1.2",
            ],
        );
        bad(
            Kind::Npm,
            &[
                "--yes",
                "-p",
                "",
                "a b",
                "@a",
                "@/b",
                "@a/",
                "./a",
                "../a",
                "/a",
                "a/b",
                "~/a",
                "file:a",
                "git+https://x/y",
                "github:a/b",
                "https://x/y.tgz",
                "a@npm:b",
                "a@",
                "a@file:x",
                "@a/b/c",
                "a;rm",
                "a@-x",
            ],
        );
        good(
            Kind::Pypi,
            &[
                "a",
                "a-b_c.d",
                "a==1.2",
                "a@1.2",
                "a[x]",
                "a[x, y]>=1,<2",
                "a~=1.0",
            ],
        );
        bad(
            Kind::Pypi,
            &[
                "--from",
                "",
                "a b",
                "./a",
                "git+https://x",
                "a@git+https://x/y",
                "a[x",
                "a==",
                "a @ b/c",
            ],
        );
        good(Kind::Custom, &["/opt/My App/bin", "node"]);
        bad(Kind::Custom, &["-c"]);
    }

    #[test]
    fn a30_a_package_is_the_same_in_another_version() {
        let check = |kind, spec: &str, expect: &str| assert_eq!(package_name(kind, spec), expect);
        check(Kind::Npm, "@a/b@1", "@a/b");
        check(Kind::Npm, "@a/b", "@a/b");
        check(Kind::Npm, "a@1", "a");
        check(Kind::Pypi, "a[x]==1", "a");
        check(Kind::Pypi, "a@1", "a");
        check(Kind::Custom, "a@1", "a@1");
        check(Kind::Npm, "", "");
    }

    #[test]
    fn an_endpoint_is_a_web_address_without_secrets_in_front() {
        assert_eq!(check_url("https://mcp.example.com/mcp?x=1"), Ok(()));
        for bad in [
            "mcp.example.com",
            "ftp://x/",
            "https://u:p@x/",
            "https://t@x/",
            "https://x/#a",
        ] {
            assert!(check_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a24_sensitive_headers() {
        for name in [
            "Authorization",
            "proxy-authorization",
            "X-API-Key",
            "api-key",
            "ApiKey",
            "X-Auth-Token",
            "x-access-token",
            "X-My-Token-2",
            "Client-Secret",
            "x-credential-id",
            "X-Goog-Api-Key",
            "Cookie",
            "X-Password",
        ] {
            assert!(is_sensitive_header(name), "{name}");
        }
        for name in [
            "X-Region",
            "Accept",
            "User-Agent",
            "X-Keyboard",
            "MCP-Protocol-Version",
        ] {
            assert!(!is_sensitive_header(name), "{name}");
        }
    }
}
