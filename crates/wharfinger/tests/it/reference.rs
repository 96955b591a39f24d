//! The reference page of the configuration is made from the tables that read it.

use std::fmt::Write as _;
use std::path::Path;

use wharfinger::config::{Config, FIELDS, SETTINGS};
use wharfinger::launch::{INHERITED, REGISTRY};
use wharfinger::model::BLOCKED;

const HEAD: &str = "\
# Configuration

Made from the tables in `crates/wharfinger/src/config`; a test says when it is stale.

## Sources

For one server name the first source wins, whole:

1. the host: `mcp.servers` in `config.json`, sorted by name, then the Playwright preset (`mcp.playwright`);
2. the owner: `mcpServers` in `settings.json`, in file order. `wharf add` and its kin write here and keep comments.

Both lie in the home, `~/.wharfinger` unless `WHARFINGER_HOME` or `--home` says otherwise. Comments and trailing commas
are fine in both. A settings file in an agent's workspace is never read: the agent can write there.

The host's part can be set from the environment as well, which beats the file key by key:
`Mcp__Servers__NAME__Command`, `Mcp__Servers__NAME__Args__0`, `Mcp__Servers__NAME__Env__KEY`,
`Mcp__Playwright__Enabled`, `Daemon__Listen`, and so on. Keys match in any case, in `config.json` too; the names below
`Env` keep theirs.

`config.json` and the environment are read at start, and anything wrong in any source refuses the start, all problems at
once. Edits of `settings.json`, by hand or by `wharf`, apply while the daemon runs; a bad entry then leaves the last good
one in force and shows its error. A running server keeps its configuration until it stops. Unknown members are errors
in `config.json` and warnings in `settings.json`, where they are kept.

## A server

```json
{
  \"mcpServers\": {
    \"github\": {
      \"command\": \"npx\",
      \"args\": [\"-y\", \"@modelcontextprotocol/server-github\"],
      \"env\": { \"GITHUB_TOKEN\": \"${env:GITHUB_TOKEN}\" },
      \"toolPrefix\": \"gh_\"
    }
  }
}
```

";

fn page() -> String {
    let mut page = HEAD.to_owned();
    let row = |page: &mut String, cells: &[&str]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        writeln!(page, "| {} |", cells.join(" | ")).unwrap();
    };
    row(&mut page, &["member", "holds", "default", "what it does"]);
    row(&mut page, &["---", "---", "---", "---"]);
    for field in FIELDS {
        row(
            &mut page,
            &[
                &format!("`{}`", field.name),
                field.kind,
                &format!("`{}`", field.default),
                field.about,
            ],
        );
    }
    page.push_str(
        "\n`${workspace}` is the agent's workspace folder, put in when the process starts. `${env:NAME}` copies a host \
         variable, in values of `env` only;\nunset ones become empty, with a warning. What was put in is not read again. \
         `\"disabled\": true`, which other programs write,\ncounts as `\"enabled\": false`.\n\n## What a server inherits\n\n",
    );
    let list = |names: &[&str]| {
        names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    writeln!(page, "Of the daemon's environment, a server gets {}, and for certificates, proxies and package registries {}.\n", list(INHERITED), list(REGISTRY)).unwrap();
    writeln!(page, "A variable whose name says that it is secret (`*_TOKEN`, `*_KEY`, `*PASSWORD*` and the like) is never inherited; it reaches the one server that copies it with `${{env:NAME}}`, or names it in `inheritEnv`. Its value leaves as `[REDACTED]`.\n").unwrap();
    writeln!(
        page,
        "No server may have {}, in any case: they make programs run other code.\n",
        list(BLOCKED)
    )
    .unwrap();
    page.push_str("## The daemon\n\nUnder `daemon` in `config.json`.\n\n");
    row(&mut page, &["member", "holds", "default", "what it does"]);
    row(&mut page, &["---", "---", "---", "---"]);
    let default = Config::default().daemon;
    for setting in SETTINGS {
        row(
            &mut page,
            &[
                &format!("`{}`", setting.name),
                setting.kind,
                &format!("`{}`", setting.show(&default)),
                setting.about,
            ],
        );
    }
    page.push_str(
        "\n## The Playwright preset\n\n`PLAYWRIGHT_ENABLED=true`, or `mcp.playwright.enabled`, adds a server `playwright` \
         with a browser of its own for each agent,\nor for each session when `extraArgs` has `--isolated`. Configured values \
         beat variables; an empty variable counts as unset.\nWhat it needs, and what to do when it does not work: \
         [playwright.md](playwright.md).\n\n",
    );
    row(&mut page, &["member", "variable", "default"]);
    row(&mut page, &["---", "---", "---"]);
    for (member, variable, value) in [
        ("enabled", "`PLAYWRIGHT_ENABLED`", "false"),
        ("headless", "`PLAYWRIGHT_HEADLESS`", "true"),
        ("browser", "`PLAYWRIGHT_BROWSER`", "chromium"),
        (
            "extraArgs",
            "`PLAYWRIGHT_EXTRA_ARGS`, split like a shell's words",
            "none",
        ),
        (
            "command",
            "`PLAYWRIGHT_COMMAND`, one program in place of `npx -y PACKAGE`",
            "npx",
        ),
        ("package", "none", wharfinger::config::DEFAULT_PACKAGE),
    ] {
        row(
            &mut page,
            &[&format!("`{member}`"), variable, &format!("`{value}`")],
        );
    }
    page
}

#[test]
fn the_reference_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        wharfinger::config::files::replace(&path, &page, wharfinger::config::files::Readers::Usual)
            .unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page,
        "docs/configuration.md is stale; `UPDATE=1 cargo test -p wharfinger reference` writes it"
    );
}

/// Settings, their variables and the pinned package change in one place, and are told in several.
#[test]
fn v42_the_notes_on_the_browser_name_every_setting_and_the_pinned_package() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let read = |name: &str| std::fs::read_to_string(docs.join(name)).unwrap();
    let (notes, container) = (read("playwright.md"), read("playwright/Containerfile"));
    let package = wharfinger::config::DEFAULT_PACKAGE;
    let install = format!("npx -y {package} install-browser chromium");
    assert!(container.contains(&format!("npm install --global {package} ")));
    for words in [
        "| `enabled` | `PLAYWRIGHT_ENABLED` | `false` |",
        "| `headless` | `PLAYWRIGHT_HEADLESS` | `true` |",
        "| `browser` | `PLAYWRIGHT_BROWSER` | `chromium` |",
        "| `extraArgs` | `PLAYWRIGHT_EXTRA_ARGS` | none |",
        "| `command` | `PLAYWRIGHT_COMMAND` | `npx` |",
        &format!("| `package` | none | `{package}` |"),
        "PLAYWRIGHT_BROWSERS_PATH",
        "PLAYWRIGHT_COMMAND=playwright-mcp",
        "--no-sandbox",
        "isolation boundary",
        "120 s",
        &install,
    ] {
        assert!(notes.contains(words), "not in docs/playwright.md: {words}");
    }
    let stale = notes.split("@playwright/mcp@").skip(1);
    let pinned = package.rsplit('@').next().unwrap();
    for rest in stale {
        assert!(rest.starts_with(pinned), "another version: {rest:.20}");
    }
}
