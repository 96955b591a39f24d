//! The Playwright preset (V26–V35): one server, `playwright`, from a few settings.

use std::collections::BTreeMap;
use std::time::Duration;

use super::reader::Members;
use crate::model::{Place, Roots, Scope, ServerEntry, ServerName, Source, StderrLevel, Transport};

/// The npm spec run with `npx` unless `package` names another (V30).
pub const DEFAULT_PACKAGE: &str = "@playwright/mcp@0.0.82";

/// Settings of the preset, under `mcp.playwright`; each but `package` also has a variable (V30).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Playwright {
    /// `PLAYWRIGHT_ENABLED`, default false.
    pub enabled: bool,
    /// `PLAYWRIGHT_HEADLESS`, default true.
    pub headless: bool,
    /// `PLAYWRIGHT_BROWSER`, default `chromium`.
    pub browser: String,
    /// `PLAYWRIGHT_EXTRA_ARGS`, split like a shell's words (V32).
    pub extra_args: Vec<String>,
    /// No variable.
    pub package: String,
    /// `PLAYWRIGHT_COMMAND`, run in place of `npx -y <package>` (V33).
    pub command: Option<String>,
}

/// Names of the settings.
pub(super) const SETTINGS: [&str; 6] = [
    "enabled",
    "headless",
    "browser",
    "extraArgs",
    "package",
    "command",
];

impl Default for Playwright {
    fn default() -> Self {
        Self {
            enabled: false,
            headless: true,
            browser: "chromium".into(),
            extra_args: vec![],
            package: DEFAULT_PACKAGE.into(),
            command: None,
        }
    }
}

impl Playwright {
    /// Configured values beat variables; an empty variable counts as unset (V31).
    pub(super) fn read(
        members: Option<&mut Members<'_>>,
        environment: &BTreeMap<String, String>,
        complain: &mut impl FnMut(&Place, &str, String),
    ) -> Self {
        let variable = |name: &str| environment.get(name).filter(|value| !value.is_empty());
        let place = |name: &str| Place::Environment {
            variable: name.into(),
        };
        let mut switch = |name: &str, member: &str| {
            let value = variable(name)?;
            let parsed = value.trim().to_ascii_lowercase().parse::<bool>().ok();
            if parsed.is_none() {
                complain(
                    &place(name),
                    member,
                    format!("must be `true` or `false`, not {value:?}"),
                );
            }
            parsed
        };
        let enabled = switch("PLAYWRIGHT_ENABLED", "mcp.playwright.enabled");
        let headless = switch("PLAYWRIGHT_HEADLESS", "mcp.playwright.headless");
        let words = variable("PLAYWRIGHT_EXTRA_ARGS").map(|text| shell_words::split(text));
        let extra_args = words.and_then(|words| {
            let place = place("PLAYWRIGHT_EXTRA_ARGS");
            let (member, message) = ("mcp.playwright.extraArgs", "has an unbalanced quote");
            words
                .map_err(|_| complain(&place, member, message.into()))
                .ok()
        });
        let (mut own_enabled, mut own_headless, mut own_browser) = (None, None, None);
        let (mut own_args, mut package, mut own_command) = (None, None, None);
        if let Some(members) = members {
            own_enabled = members.bool("enabled");
            own_headless = members.bool("headless");
            own_browser = members
                .text("browser")
                .map(|(text, _)| text)
                .filter(|t| !t.is_empty());
            own_args = members.texts("extraArgs");
            package = members
                .text("package")
                .map(|(text, _)| text)
                .filter(|t| !t.is_empty());
            own_command = members
                .text("command")
                .map(|(text, _)| text)
                .filter(|t| !t.is_empty());
        }
        let default = Self::default();
        Self {
            enabled: own_enabled.or(enabled).unwrap_or(default.enabled),
            headless: own_headless.or(headless).unwrap_or(default.headless),
            browser: own_browser
                .or_else(|| variable("PLAYWRIGHT_BROWSER").cloned())
                .unwrap_or(default.browser),
            extra_args: own_args.or(extra_args).unwrap_or_default(),
            package: package.unwrap_or(default.package),
            command: own_command.or_else(|| variable("PLAYWRIGHT_COMMAND").cloned()),
        }
    }

    /// The line logged at start (V35).
    pub fn announcement(&self) -> String {
        if self.enabled {
            let mode = if self.headless { "headless" } else { "headed" };
            format!("MCP: playwright enabled ({mode}, {})", self.browser)
        } else {
            "MCP: playwright disabled (set PLAYWRIGHT_ENABLED=true)".into()
        }
    }

    /// The server, when it is on.
    pub(super) fn entry(&self) -> Option<ServerEntry> {
        self.enabled.then(|| ServerEntry {
            installed_by: None,
            package: None,
            agent_visible: false,
            name: ServerName::new("playwright").expect("a valid name"),
            source: Source::Preset,
            place: Place::Preset,
            transport: self.transport(),
            env: vec![],
            inherit_env: self.display(),
            tool_prefix: String::new(),
            enabled: true,
            parallel: false,
            startup_timeout: Duration::from_secs(120),
            call_timeout: Duration::from_secs(120),
            idle_timeout: Some(Duration::from_secs(1800)),
            stderr_level: StderrLevel::Warning,
            prompt_section: Some(self.section()),
            // A profile on disk is for one browser at a time: a second one says that it is in use.
            scope: if self.is_isolated() {
                Scope::Session
            } else {
                Scope::Agent
            },
            roots: Roots::None,
            browser: true,
        })
    }

    /// The profile is kept in memory, so that each browser has its own (V29).
    fn is_isolated(&self) -> bool {
        self.extra_args.iter().any(|arg| arg == "--isolated")
    }

    /// Variables by which a browser with windows finds the screen; servers don't inherit them otherwise.
    fn display(&self) -> Vec<String> {
        let names: &[&str] = if self.headless {
            &[]
        } else {
            &["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"]
        };
        names.iter().map(|&name| name.to_owned()).collect()
    }

    /// What the model is told while the browser's tools are active (V40).
    fn section(&self) -> String {
        let logins = if self.is_isolated() {
            " that forgets its logins when the conversation ends"
        } else {
            " that keeps its logins"
        };
        format!(
            "## Browser\nThe `browser_*` tools drive a real browser{logins}. Take a snapshot before you click. A \
             screenshot without a file name comes back as an image; what should be kept gets a file name below \
             `browser/`, a folder of the workspace where downloads land too."
        )
    }

    fn transport(&self) -> Transport {
        let mut args = vec![];
        let command = self.command.clone().unwrap_or_else(|| "npx".into());
        // To write out the default changes nothing.
        if command == "npx" {
            args.extend(["-y".to_owned(), self.package.clone()]);
        }
        if self.headless {
            args.push("--headless".into());
        }
        let dirs = [
            "--browser",
            &self.browser,
            "--output-dir",
            "${workspace}/browser",
        ];
        args.extend(dirs.map(str::to_owned));
        if !self.is_isolated() {
            let profile = ["--user-data-dir", "${workspace}/.volcanic/browser-profile"];
            args.extend(profile.map(str::to_owned));
        }
        args.extend(self.extra_args.iter().cloned());
        Transport::Stdio {
            command,
            args,
            cwd: None,
        }
    }
}

/// Whether a command line runs the server that the preset runs, whoever wrote it.
pub(super) fn runs_playwright(command: &str, args: &[String]) -> bool {
    let mut words = std::iter::once(command).chain(args.iter().map(String::as_str));
    words.any(|word| {
        word == "@playwright/mcp"
            || word.starts_with("@playwright/mcp@")
            || word.rsplit('/').next() == Some("playwright-mcp")
    })
}

/// Added to the section where a tool delivers files; `tool` is the name under which the model sees it (V40).
pub(crate) fn delivery(tool: &str) -> String {
    format!(" `{tool}` can deliver such files.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> (Playwright, Vec<String>) {
        let environment = variables
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        let mut problems = vec![];
        let read = Playwright::read(None, &environment, &mut |place, _, message| {
            problems.push(format!("{place}: {message}"));
        });
        (read, problems)
    }

    fn line(playwright: &Playwright) -> String {
        match playwright.transport() {
            Transport::Stdio { command, args, .. } => format!("{command} {}", args.join(" ")),
            Transport::Http { url } => url,
        }
    }

    #[test]
    fn v27_to_v29_the_command_line_is_exact() {
        let check = |variables: &[(&str, &str)], expect: &str| {
            assert_eq!(line(&read(variables).0), expect);
        };
        let tail = "--browser chromium --output-dir ${workspace}/browser";
        let profile = "--user-data-dir ${workspace}/.volcanic/browser-profile";
        check(
            &[],
            &format!("npx -y @playwright/mcp@0.0.82 --headless {tail} {profile}"),
        );
        check(
            &[("PLAYWRIGHT_COMMAND", "npx")],
            &format!("npx -y @playwright/mcp@0.0.82 --headless {tail} {profile}"),
        );
        check(
            &[
                ("PLAYWRIGHT_HEADLESS", "False"),
                ("PLAYWRIGHT_BROWSER", "firefox"),
            ],
            &format!(
                "npx -y @playwright/mcp@0.0.82 {} {profile}",
                tail.replace("chromium", "firefox")
            ),
        );
        check(
            &[("PLAYWRIGHT_EXTRA_ARGS", "--isolated --device \"iPhone 15\"")],
            &format!(
                "npx -y @playwright/mcp@0.0.82 --headless {tail} --isolated --device iPhone 15"
            ),
        );
        check(
            &[
                ("PLAYWRIGHT_COMMAND", "playwright-mcp"),
                ("PLAYWRIGHT_EXTRA_ARGS", "--no-sandbox"),
            ],
            &format!("playwright-mcp --headless {tail} {profile} --no-sandbox"),
        );
    }

    #[test]
    fn v32_words_are_split_like_a_shells_and_an_open_quote_is_refused() {
        assert_eq!(
            read(&[("PLAYWRIGHT_EXTRA_ARGS", "--device \"iPhone 15\"")])
                .0
                .extra_args,
            ["--device", "iPhone 15"]
        );
        assert_eq!(
            read(&[("PLAYWRIGHT_EXTRA_ARGS", "a \"b")]).1,
            ["environment variable PLAYWRIGHT_EXTRA_ARGS: has an unbalanced quote"]
        );
    }

    #[test]
    fn v26_v31_off_unless_switched_on_and_empty_is_unset() {
        assert!(read(&[]).0.entry().is_none());
        assert!(read(&[("PLAYWRIGHT_ENABLED", "")]).0.entry().is_none());
        let on = read(&[("PLAYWRIGHT_ENABLED", "true"), ("PLAYWRIGHT_BROWSER", "")]).0;
        assert_eq!(
            on,
            Playwright {
                enabled: true,
                ..Playwright::default()
            }
        );
        assert_eq!(
            on.entry().unwrap().startup_timeout,
            Duration::from_secs(120),
            "V34"
        );
        assert_eq!(read(&[("PLAYWRIGHT_ENABLED", "yes")]).1.len(), 1);
    }

    fn entry(variables: &[(&str, &str)]) -> ServerEntry {
        let on = [("PLAYWRIGHT_ENABLED", "true")];
        read(&[&on, variables].concat()).0.entry().unwrap()
    }

    #[test]
    fn an_agent_has_one_browser_for_its_one_profile() {
        assert_eq!(entry(&[]).scope, Scope::Agent);
        let isolated = [("PLAYWRIGHT_EXTRA_ARGS", "--isolated")];
        assert_eq!(entry(&isolated).scope, Scope::Session);
    }

    #[test]
    fn the_same_server_is_known_whoever_configured_it() {
        let check = |words: &[&str], expect: bool| {
            let args: Vec<String> = words[1..].iter().map(|&word| word.to_owned()).collect();
            assert_eq!(runs_playwright(words[0], &args), expect, "{words:?}");
        };
        check(&["npx", "@playwright/mcp@latest"], true);
        check(&["npx", "-y", "@playwright/mcp", "--headless"], true);
        check(&["/opt/bin/playwright-mcp"], true);
        check(&["node", "node_modules/.bin/playwright-mcp"], true);
        check(&["npx", "@playwright/test"], false);
        check(&["uvx", "mcp-server-time", "--", "playwright"], false);
    }

    #[test]
    fn a_browser_with_windows_finds_the_screen() {
        assert_eq!(entry(&[]).inherit_env, Vec::<String>::new());
        assert_eq!(
            entry(&[("PLAYWRIGHT_HEADLESS", "false")]).inherit_env,
            ["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"]
        );
    }

    #[test]
    fn v40_the_section_says_what_becomes_of_logins_and_files() {
        let section = |variables| entry(variables).prompt_section.unwrap();
        let kept = section(&[]);
        assert!(kept.starts_with("## Browser\n"), "{kept}");
        assert!(
            kept.contains("keeps its logins") && kept.contains("below `browser/`"),
            "{kept}"
        );
        assert!(!kept.contains("send"), "only where there is such a tool");
        let isolated = section(&[("PLAYWRIGHT_EXTRA_ARGS", "--isolated")]);
        assert!(isolated.contains("forgets its logins"), "{isolated}");
    }

    #[test]
    fn v35_the_preset_announces_itself() {
        let on = Playwright {
            enabled: true,
            ..Playwright::default()
        };
        assert_eq!(
            on.announcement(),
            "MCP: playwright enabled (headless, chromium)"
        );
        let headed = Playwright {
            headless: false,
            ..on
        };
        assert_eq!(
            headed.announcement(),
            "MCP: playwright enabled (headed, chromium)"
        );
        let off = "MCP: playwright disabled (set PLAYWRIGHT_ENABLED=true)";
        assert_eq!(Playwright::default().announcement(), off);
    }
}
