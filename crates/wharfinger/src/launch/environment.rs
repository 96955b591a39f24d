//! The environment a server gets: an allow-list of the host's, then its own variables, and never the blocked ones.

use std::collections::BTreeMap;

use crate::model::is_blocked;

/// Host variables every server inherits (V18); a `*` at the end stands for any text.
pub const INHERITED: &[&str] = &[
    "HOME",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "PLAYWRIGHT_BROWSERS_PATH",
];

/// Certificates, proxies and package registries; inherited as well, and remembered by `wharf up` for a daemon that a
/// client starts from its own poor environment.
pub const REGISTRY: &[&str] = &[
    "ALL_PROXY",
    "AWS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "NPM_CONFIG_*",
    "PIP_CERT",
    "PIP_CONFIG_FILE",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_DISABLE_PIP_VERSION_CHECK",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "UV_CACHE_DIR",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_NATIVE_TLS",
    "UV_PYTHON",
    "UV_PYTHON_DOWNLOADS",
    "UV_SYSTEM_CERTS",
];

/// What of the host's environment servers inherit.
#[derive(Clone, Debug, Default)]
pub struct Inherit {
    /// The whole environment of the host.
    pub host: BTreeMap<String, String>,
    /// Names that are passed on beyond the built-in ones.
    pub more: Vec<String>,
    /// Names whose values are secrets; they are never inherited, only copied by `${env:NAME}` (V19).
    pub secret: crate::vault::SecretNames,
}

impl Inherit {
    /// The inherited part of a server's environment; `extra` are the names its own entry asks for.
    pub fn base(&self, extra: &[String]) -> BTreeMap<String, String> {
        let asked = |name: &str| self.more.iter().chain(extra).any(|wanted| wanted == name);
        let passes = |name: &str| {
            // An entry that names a variable means it, secret or not; lists for all servers do not go that far.
            let secret = self.secret.matches(name) && !extra.iter().any(|wanted| wanted == name);
            !is_blocked(name) && !secret && (is_usual(name) || asked(name))
        };
        let passed = self.host.iter().filter(|(name, _)| passes(name));
        passed
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// Values of the host's secret variables, to be kept out of everything that leaves (V20).
    pub fn secrets(&self) -> impl Iterator<Item = &String> {
        self.host
            .iter()
            .filter(|(name, _)| self.secret.matches(name))
            .map(|(_, value)| value)
    }

    /// `PATH`, and the certificate, proxy and registry variables that hold no password, for a later start (V18).
    pub fn registry(&self) -> BTreeMap<String, String> {
        let kept = self.host.iter().filter(|(name, value)| {
            (listed(REGISTRY, name) || *name == "PATH")
                && !self.secret.matches(name)
                && !has_password(value)
        });
        kept.map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

fn is_usual(name: &str) -> bool {
    listed(INHERITED, name) || listed(REGISTRY, name)
}

fn listed(list: &[&str], name: &str) -> bool {
    list.iter().any(|known| match known.strip_suffix('*') {
        Some(start) => name
            .get(..start.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(start)),
        None => known.eq_ignore_ascii_case(name),
    })
}

/// A URL with a user in it, as registries behind a login have.
fn has_password(value: &str) -> bool {
    value.split("://").skip(1).any(|rest| {
        rest.split(['/', ' '])
            .next()
            .is_some_and(|authority| authority.contains('@'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::SecretNames;

    fn inherit(host: &[(&str, &str)]) -> Inherit {
        Inherit {
            host: host
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            more: vec!["CORP_PROXY_MODE".into(), "NPM_TOKEN".into()],
            secret: SecretNames {
                more: vec!["*_HIDDEN".into()],
            },
        }
    }

    #[test]
    fn v18_only_listed_variables_are_inherited_and_secrets_never() {
        let all = inherit(&[
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("https_proxy", "http://p"),
            ("npm_config_registry", "r"),
            ("TELEGRAM_BOT_TOKEN", "t"),
            ("OPENAI_API_KEY", "k"),
            ("NPM_TOKEN", "listed, but secret"),
            ("CORP_PROXY_MODE", "on"),
            ("RANDOM", "1"),
            ("LC_HIDDEN", "x"),
            ("DOCKER_HOST", "unix://d"),
            ("NODE_OPTIONS", "--require x"),
            ("ld_preload", "x"),
            ("PLAYWRIGHT_BROWSERS_PATH", "/b"),
        ]);
        let names = |extra: &[&str]| -> Vec<String> {
            let extra: Vec<String> = extra.iter().map(|s| (*s).to_owned()).collect();
            all.base(&extra).into_keys().collect()
        };
        let usual = [
            "CORP_PROXY_MODE",
            "LC_ALL",
            "PATH",
            "PLAYWRIGHT_BROWSERS_PATH",
            "https_proxy",
            "npm_config_registry",
        ];
        let mut expect: Vec<String> = usual.iter().map(|s| (*s).to_owned()).collect();
        expect.sort();
        assert_eq!(names(&[]), expect);
        expect.push("DOCKER_HOST".into());
        expect.sort();
        assert_eq!(
            names(&["DOCKER_HOST", "NODE_OPTIONS"]),
            expect,
            "A198: blocked even when asked for"
        );
    }

    #[test]
    fn a197_blocked_names_count_in_any_case() {
        for name in [
            "LD_PRELOAD",
            "ld_preload",
            "Node_Options",
            "DYLD_LIBRARY_PATH",
            "PYTHONPATH",
        ] {
            assert!(is_blocked(name), "{name}");
        }
        assert!(!is_blocked("NODE_EXTRA_CA_CERTS"));
    }

    #[test]
    fn only_variables_without_a_password_are_remembered() {
        let all = inherit(&[
            ("NODE_EXTRA_CA_CERTS", "/ca.pem"),
            ("HTTPS_PROXY", "http://u:p@proxy:1"),
            ("PATH", "/bin"),
            ("HTTP_PROXY", "http://proxy:1"),
            ("PIP_INDEX_URL", "https://host/a@b"),
            ("npm_config__authtoken_TOKEN", "x"),
        ]);
        let kept: Vec<String> = all.registry().into_keys().collect();
        assert_eq!(
            kept,
            ["HTTP_PROXY", "NODE_EXTRA_CA_CERTS", "PATH", "PIP_INDEX_URL"]
        );
    }
}
