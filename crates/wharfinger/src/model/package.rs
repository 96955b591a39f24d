//! A package of a registry, as an entry asks for it.

use serde::{Deserialize, Serialize};

/// Which kind of registry a package is of.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageKind {
    /// Run by Node.
    Npm,
    /// Run by Python.
    Pypi,
}

impl PackageKind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pypi => "pypi",
        }
    }
}

/// A package that is wanted. Two that are equal are one install.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Package {
    /// See [`PackageKind`].
    pub kind: PackageKind,
    /// Without version and extras, those of Python as their index spells them.
    pub name: String,
    /// Of Python: `[extras]` of the package, brackets included, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub extras: String,
    /// A version, a range or a tag; whatever is newest when it is installed if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Of Python: requirements beside it, `mcp<2` say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
    /// Scripts of it and of what it needs may run while it is installed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_scripts: bool,
}

/// Packages have short names.
const LONGEST: usize = 256;

impl Package {
    /// Reads `@scope/name@1.2`, `name[extra]==1.2`. The error says what is wrong with it.
    pub fn parse(kind: PackageKind, spec: &str) -> Result<Self, String> {
        check_spec(kind, spec)?;
        let bare = bare_name(kind, spec);
        let rest = &spec[bare.len()..];
        let (extras, rest) = match rest.strip_prefix('[').and_then(|inner| inner.find(']')) {
            Some(end) => rest.split_at(end + 2),
            None => ("", rest),
        };
        let version = rest.strip_prefix('@').unwrap_or(rest).trim();
        let package = Self {
            kind,
            name: match kind {
                PackageKind::Npm => bare.to_owned(),
                PackageKind::Pypi => normal(bare),
            },
            extras: extras.replace(' ', ""),
            version: None,
            with: vec![],
            allow_scripts: false,
        };
        match version {
            "" => Ok(package),
            version => package.at(version),
        }
    }

    /// The same in another version.
    pub fn at(self, version: &str) -> Result<Self, String> {
        let good = match self.kind {
            PackageKind::Npm => is_version(version),
            PackageKind::Pypi => is_version(version) || is_constraint(version),
        };
        if !good {
            return Err("must be a version, `1.2.3` say".into());
        }
        // `==1.2` and `1.2` are one wish.
        let exact = version
            .strip_prefix("==")
            .filter(|rest| is_version(rest) && !rest.contains('*'));
        let version = Some(exact.unwrap_or(version).to_owned());
        Ok(Self { version, ..self })
    }

    /// The same with requirements beside it.
    pub fn with(self, with: Vec<String>) -> Result<Self, String> {
        if self.kind == PackageKind::Npm && !with.is_empty() {
            return Err("is for packages of Python alone".into());
        }
        for requirement in &with {
            check_spec(PackageKind::Pypi, requirement)?;
        }
        let mut with = with;
        with.sort();
        with.dedup();
        Ok(Self { with, ..self })
    }

    /// The same, of any version.
    #[must_use]
    pub fn unpinned(&self) -> Self {
        Self {
            version: None,
            ..self.clone()
        }
    }

    /// As its own tools write it: `@a/b@1.2`, `name[extra]==1.2`.
    pub fn spec(&self) -> String {
        let (name, extras) = (&self.name, &self.extras);
        match (&self.version, self.kind) {
            (None, _) => format!("{name}{extras}"),
            (Some(version), PackageKind::Npm) => format!("{name}@{version}"),
            (Some(version), PackageKind::Pypi) if is_version(version) => {
                format!("{name}{extras}=={version}")
            }
            (Some(constraint), PackageKind::Pypi) => format!("{name}{extras}{constraint}"),
        }
    }

    /// The command line that fetches it anew each time; what a managed install takes the place of (A60).
    pub fn fetched(&self, args: &[String]) -> (String, Vec<String>) {
        let mut all = match self.kind {
            PackageKind::Npm => vec!["-y".to_owned()],
            PackageKind::Pypi => self
                .with
                .iter()
                .map(|requirement| format!("--with={requirement}"))
                .collect(),
        };
        all.push(self.spec());
        all.extend(args.iter().cloned());
        let program = match self.kind {
            PackageKind::Npm => "npx",
            PackageKind::Pypi => "uvx",
        };
        (program.to_owned(), all)
    }

    /// The package that a command line fetches, and what it is given; only where every flag before the package is one
    /// that changes nothing (A61).
    pub fn fetched_by(command: &str, args: &[String]) -> Option<(Self, Vec<String>)> {
        let kind = match command {
            "npx" => PackageKind::Npm,
            "uvx" => PackageKind::Pypi,
            _ => return None,
        };
        let harmless = |arg: &&String| matches!(arg.as_str(), "-y" | "--yes" | "-q" | "--quiet");
        let flags = args.iter().take_while(harmless).count();
        let (spec, rest) = args[flags..].split_first()?;
        let mut package = Self::parse(kind, spec).ok()?;
        // Whatever is newest, and that is what was installed.
        if package.version.as_deref() == Some("latest") {
            package.version = None;
        }
        Some((package, rest.to_vec()))
    }
}

/// A package without version and extras: `@a/b@1.2` is `@a/b`, `x[all]==2` is `x`.
pub fn bare_name(kind: PackageKind, spec: &str) -> &str {
    let end = match kind {
        PackageKind::Npm => spec.get(1..).and_then(|rest| rest.find('@')).map(|i| i + 1),
        PackageKind::Pypi => spec.find(['[', '@', '=', '<', '>', '~', '!', ';', ' ']),
    };
    &spec[..end.unwrap_or(spec.len())]
}

/// A package by name and version of its registry, nothing else: not a folder, an address or an option of the program that
/// fetches it.
pub fn check_spec(kind: PackageKind, spec: &str) -> Result<(), String> {
    if spec.len() > LONGEST {
        return Err(format!("is longer than {LONGEST} bytes"));
    }
    let name = bare_name(kind, spec);
    let rest = &spec[name.len()..];
    let good = match kind {
        PackageKind::Npm => {
            let parts: Vec<&str> = match name.strip_prefix('@') {
                Some(scoped) if scoped.contains('/') => scoped.splitn(2, '/').collect(),
                Some(_) => vec![""],
                None => vec![name],
            };
            parts.iter().all(|part| is_word(part)) && rest.strip_prefix('@').is_none_or(is_version)
        }
        PackageKind::Pypi => is_word(name) && is_pypi_rest(rest),
    };
    if good {
        return Ok(());
    }
    let example = match kind {
        PackageKind::Pypi => "`mcp-server-git` or `mcp-server-git==1.2.3`",
        PackageKind::Npm => "`@scope/server` or `@scope/server@1.2.3`",
    };
    Err(format!(
        "must be the name of a package of the registry, like {example}; what it is given goes into `args`"
    ))
}

/// A part of a package's name.
fn is_word(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '~');
    !text.starts_with(['.', '-', '~']) && !text.is_empty() && text.chars().all(fine)
}

/// A version or tag.
fn is_version(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || ".-_+^~*".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(fine)
}

/// `>=1,<2`.
fn is_constraint(text: &str) -> bool {
    text.split(',').all(|condition| {
        let condition = condition.trim();
        let bare = condition.trim_start_matches(['=', '<', '>', '~', '!']);
        bare.len() < condition.len() && is_version(bare.trim())
    })
}

/// `[extras]`, then nothing or a version.
fn is_pypi_rest(rest: &str) -> bool {
    let after = match rest.strip_prefix('[') {
        None => rest,
        Some(inside) => match inside.split_once(']') {
            Some((extras, after)) if extras.split(',').all(|e| is_word(e.trim())) => after,
            _ => return false,
        },
    };
    if let Some(exact) = after.strip_prefix('@') {
        return is_version(exact);
    }
    after.is_empty() || is_constraint(after)
}

/// The one spelling of a name of Python's index.
fn normal(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            c => normal.push(c.to_ascii_lowercase()),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(kind: PackageKind, spec: &str) -> Package {
        Package::parse(kind, spec).unwrap()
    }

    #[test]
    fn a64_a_version_is_no_part_of_the_name() {
        let check = |kind, spec: &str, name: &str, version: Option<&str>, again: &str| {
            let package = parsed(kind, spec);
            assert_eq!(
                (package.name.as_str(), package.version.as_deref()),
                (name, version)
            );
            assert_eq!(package.spec(), again, "{spec}");
        };
        let (npm, pypi) = (PackageKind::Npm, PackageKind::Pypi);
        check(npm, "@a/b@1.2.3", "@a/b", Some("1.2.3"), "@a/b@1.2.3");
        check(npm, "a@latest", "a", Some("latest"), "a@latest");
        check(npm, "@a/b", "@a/b", None, "@a/b");
        check(pypi, "x==1.2", "x", Some("1.2"), "x==1.2");
        check(pypi, "x@1.2", "x", Some("1.2"), "x==1.2");
        check(pypi, "X_Y.z>=1,<2", "x-y-z", Some(">=1,<2"), "x-y-z>=1,<2");
        check(pypi, "x[a, b]==1", "x", Some("1"), "x[a,b]==1");
        check(pypi, "x==1.*", "x", Some("==1.*"), "x==1.*");
    }

    #[test]
    fn a60_what_fetches_a_package_without_an_install() {
        let args = ["--x".to_owned()];
        let check = |package: Package, expect: &[&str]| {
            let (program, args) = package.fetched(&args);
            let words: Vec<&str> = std::iter::once(program.as_str())
                .chain(args.iter().map(String::as_str))
                .collect();
            assert_eq!(words, expect);
        };
        check(
            parsed(PackageKind::Npm, "@a/b@1"),
            &["npx", "-y", "@a/b@1", "--x"],
        );
        let with = vec!["mcp<2".to_owned()];
        // A68: never npx.
        check(
            parsed(PackageKind::Pypi, "b").with(with).unwrap(),
            &["uvx", "--with=mcp<2", "b", "--x"],
        );
    }

    #[test]
    fn a61_a_command_line_that_fetches_is_known_by_its_flags() {
        let check = |line: &str, expect: Option<(&str, &str)>| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let found = Package::fetched_by(&words[0], &words[1..]);
            let told = found.map(|(package, rest)| (package.spec(), rest.join(" ")));
            let expect = expect.map(|(spec, rest)| (spec.to_owned(), rest.to_owned()));
            assert_eq!(told, expect, "{line}");
        };
        check("npx -y @a/b@1.2 --x y", Some(("@a/b@1.2", "--x y")));
        check("npx --yes -q --quiet a", Some(("a", "")));
        check("npx a@latest", Some(("a", "")));
        check("npx a@next", Some(("a@next", "")));
        check("npx -p a b", None);
        check("npx --registry=http://x a", None);
        check("npx -y", None);
        check("npx ./a", None);
        check("npx -y --", None);
        check("uvx mcp-b --x", Some(("mcp-b", "--x")));
        check("uvx --with x mcp-b", None);
        check("node a", None);
        check("/usr/bin/npx a", None);
    }

    #[test]
    fn what_is_beside_a_package_is_checked_like_one() {
        let python = |with: &[&str]| {
            let with = with.iter().map(|text| (*text).to_owned()).collect();
            parsed(PackageKind::Pypi, "x").with(with)
        };
        assert!(python(&["mcp<2", "httpx[http2]>=0.27"]).is_ok());
        for bad in [
            "--index-url=http://x",
            "-e .",
            "x\n-e .",
            "./x",
            "x @ http://y",
            "x; python_version<'3'",
        ] {
            assert!(python(&[bad]).is_err(), "{bad}");
        }
        assert!(
            parsed(PackageKind::Npm, "x")
                .with(vec!["mcp<2".into()])
                .is_err()
        );
        assert_eq!(
            python(&["b", "a", "b"]).unwrap(),
            python(&["a", "b"]).unwrap()
        );
    }

    #[test]
    fn a_version_is_nothing_else() {
        let npm = || parsed(PackageKind::Npm, "x");
        assert!(npm().at("1.2.3-beta.1").is_ok());
        for bad in [
            "",
            "-g",
            "npm:y",
            "file:..",
            "https://x",
            "1 || 2",
            ">=1",
            "1\n2",
        ] {
            assert!(npm().at(bad).is_err(), "{bad}");
        }
    }
}
