//! Where a session goes.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail, ensure};
use hyper::Uri;

/// Where a session goes.
#[derive(Clone, Debug)]
pub enum Target {
    /// A command that serves MCP on its standard input and output.
    Stdio(Vec<String>),
    /// A Streamable HTTP endpoint.
    Http(Uri),
    /// An endpoint of the old HTTP+SSE transport.
    Sse(Uri),
    /// A base URL where every tool is an `OpenAPI` path.
    OpenApi(Uri),
}

impl FromStr for Target {
    type Err = anyhow::Error;

    /// `http://…`, `sse:http://…`, `openapi:http://…`, or `stdio:COMMAND ARGS…`.
    fn from_str(text: &str) -> Result<Self> {
        let (kind, rest) = text
            .split_once(':')
            .context("a target is stdio:…, http://…, sse:… or openapi:…")?;
        Ok(match kind {
            "stdio" => {
                let words: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
                ensure!(!words.is_empty(), "stdio: needs a command");
                Self::Stdio(words)
            }
            "http" => Self::Http(loopback(text)?),
            "sse" => Self::Sse(loopback(rest)?),
            "openapi" => Self::OpenApi(loopback(rest)?),
            _ => bail!("unknown kind of target `{kind}`"),
        })
    }
}

/// This is a load generator: it only ever talks to this machine.
pub(super) fn loopback(url: &str) -> Result<Uri> {
    let uri: Uri = url.parse()?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    ensure!(local, "only loopback addresses are allowed, not `{host}`");
    ensure!(uri.scheme_str() == Some("http"), "only http:// is spoken");
    Ok(uri)
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio(words) => write!(f, "stdio:{}", words.join(" ")),
            Self::Http(uri) => write!(f, "{uri}"),
            Self::Sse(uri) => write!(f, "sse:{uri}"),
            Self::OpenApi(uri) => write!(f, "openapi:{uri}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_a_target() {
        for good in [
            "stdio:cat -u",
            "http://127.0.0.1:1/mcp",
            "http://[::1]:1/",
            "sse:http://localhost:1/sse",
            "openapi:http://127.1.2.3:8",
        ] {
            let target: Target = good.parse().unwrap();
            assert!(target.to_string().starts_with(good), "{target}");
        }
        for bad in [
            "http://10.0.0.1/mcp",
            "http://example.com/",
            "https://127.0.0.1/",
            "stdio:",
            "cat",
            "ftp:x",
        ] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}
