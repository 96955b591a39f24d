//! The Playwright preset with the real server and a real Chromium, on pages of the loopback interface.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::{Value, json};
use wharfinger_testkit::{Home, wait_until};

use crate::daemon::Daemon;
use crate::http::Session;
use crate::{installed, site};

/// The preset's command line as `wharf list` shows it, up to its extra arguments.
const LINE: &str = "npx -y @playwright/mcp@0.0.82 --headless --browser chromium \
    --output-dir '${workspace}/browser' --user-data-dir '${workspace}/.volcanic/browser-profile'";

/// A home from which `npx` takes the package that is installed for the tests, as it does in any project that has it.
fn home() -> Option<Home> {
    let program = installed::npm("playwright", "playwright-mcp")?;
    let packages = program.ancestors().nth(2).unwrap();
    let home = Home::new();
    symlink(packages, home.file("node_modules")).unwrap();
    Some(home)
}

/// The preset is on, and nothing is downloaded. All that runs keeps its files in the home.
fn start_with(home: Home, more: &[(&str, &str)]) -> Daemon {
    let folder = home.path().to_string_lossy().into_owned();
    let mut environment = vec![
        ("PLAYWRIGHT_ENABLED", "true"),
        ("NPM_CONFIG_OFFLINE", "true"),
        ("NPM_CONFIG_UPDATE_NOTIFIER", "false"),
        ("HOME", folder.as_str()),
    ];
    environment.extend(more);
    Daemon::start_in(home, &environment, &[])
}

/// Options without which Debian's Chromium is not found, and does not run as root.
fn options(chromium: &Path) -> String {
    format!("--no-sandbox --executable-path '{}'", chromium.display())
}

/// A daemon with the preset as it is, and more arguments for it.
fn start(home: Home, arguments: &str) -> Option<Daemon> {
    let arguments = format!("{} {arguments}", options(&installed::chromium()?));
    let daemon = start_with(home, &[("PLAYWRIGHT_EXTRA_ARGS", &arguments)]);
    daemon.wait_for_tool("browser_navigate");
    Some(daemon)
}

#[track_caller]
fn succeed(session: &mut Session, tool: &str, arguments: &Value) -> Value {
    let reply = session.call(tool, arguments);
    assert_ne!(reply["result"]["isError"], true, "{tool}: {reply}");
    let content = &reply["result"]["content"];
    assert!(content.is_array(), "{tool}: {reply}");
    content.clone()
}

#[track_caller]
fn open(session: &mut Session, url: &str) {
    succeed(session, "browser_navigate", &json!({"url": url}));
}

#[track_caller]
fn evaluate(session: &mut Session, function: &str) -> Value {
    let content = succeed(session, "browser_evaluate", &json!({"function": function}));
    result_of(&content)
}

/// The value in `### Result`, a line of JSON.
#[track_caller]
fn result_of(content: &Value) -> Value {
    let text = content[0]["text"].as_str().unwrap_or_default();
    let value = text.lines().nth(1).unwrap_or_default();
    serde_json::from_str(value).unwrap_or_else(|error| panic!("{error} in {content}"))
}

#[track_caller]
fn heading(session: &mut Session) -> Value {
    evaluate(session, "() => document.querySelector('h1').textContent")
}

/// Who the site says is logged in. One call, so that no idle stop comes between opening and reading.
#[track_caller]
fn visitor(session: &mut Session, site: &str) -> Value {
    let code = format!(
        "async (page) => {{ await page.goto('{site}'); return page.locator('p').textContent(); }}"
    );
    let content = succeed(session, "browser_run_code_unsafe", &json!({"code": code}));
    result_of(&content)
}

/// The picture in a result, as it is sent: in base64.
#[track_caller]
fn picture(content: &Value) -> &str {
    let parts = content.as_array().unwrap();
    let image = parts.iter().find(|part| part["type"] == "image");
    let image = image.unwrap_or_else(|| panic!("no picture in {content}"));
    assert_eq!(image["mimeType"], "image/png");
    image["data"].as_str().unwrap()
}

/// What the page about the preset says must be what happens.
#[track_caller]
fn assert_documented(words: &str) {
    let page = include_str!("../../../docs/playwright.md");
    assert!(page.contains(words), "not in docs/playwright.md: {words}");
}

fn workspace(daemon: &Daemon) -> PathBuf {
    daemon.home().join("workspaces/default")
}

/// A server whose tools read the workspace, as other tools of an agent do.
fn add_reader(daemon: &Daemon) -> Option<()> {
    let reader = installed::npm("reference", "mcp-server-filesystem")?;
    let command = [&*reader.to_string_lossy(), "${workspace}"];
    daemon.add("files", &json!({}), &command);
    daemon.wait_for_tool("read_media_file");
    Some(())
}

#[track_caller]
fn state(daemon: &Daemon) -> String {
    let list = daemon.wharf(&["list", "--json"]).json();
    let mut servers = list["servers"].as_array().unwrap().iter();
    let browser = servers.find(|server| server["name"] == "playwright");
    browser.unwrap()["statusText"].as_str().unwrap().to_owned()
}

#[test]
fn v74_v76_a_page_is_opened_its_heading_read_and_the_browser_shows_as_running() {
    let Some(daemon) = home().and_then(|home| start(home, "--user-agent \"Quay Gazer\"")) else {
        return;
    };
    let report = |daemon: &Daemon| daemon.wharf(&["mcp"]).stdout;
    assert!(report(&daemon).starts_with("playwright  not started ("));
    let list = daemon.wharf(&["list", "--json"]).json();
    let line = list["servers"][0]["command"].as_str().unwrap();
    assert!(line.starts_with(LINE), "{line}");
    let mut session = daemon.session();
    // V40
    let told = &session.instructions;
    assert!(told.starts_with("## Browser\n"), "{told}");

    open(&mut session, &site::serve());
    assert_eq!(heading(&mut session), site::HEADING);
    // V32
    let name = evaluate(&mut session, "() => navigator.userAgent");
    assert_eq!(name, "Quay Gazer");

    let text = report(&daemon);
    assert!(text.starts_with("playwright  running ("), "{text}");
    assert_eq!(state(&daemon), "running");
    // The profile is there once, so whoever else acts for the agent has the same browser.
    let function = "function=() => document.title";
    let call = ["call", "playwright/browser_evaluate", function, "--json"];
    let result = daemon.wharf(&call).json();
    assert_eq!(result_of(&result["content"]), "Quay");
    daemon.stop();
}

#[test]
fn v36_v37_v75_pictures_arrive_whole_and_files_land_where_other_tools_reach_them() {
    let Some(daemon) = home().and_then(|home| start(home, "--caps pdf")) else {
        return;
    };
    let Some(()) = add_reader(&daemon) else {
        return;
    };
    let folder = workspace(&daemon).join("browser");
    let mut session = daemon.session();
    open(&mut session, &site::serve());

    // Without a file name: to the model, and into the folder under a name that the server makes up.
    let content = succeed(&mut session, "browser_take_screenshot", &json!({}));
    let files = fs::read_dir(&folder).unwrap().flatten();
    let made_up = files
        .map(|file| file.path())
        .find(|path| path.extension().is_some_and(|kind| kind == "png"))
        .unwrap();
    let made_up = made_up.file_name().unwrap().to_str().unwrap();
    let read = |session: &mut Session, name: &str| {
        let path = json!({"path": format!("browser/{name}")});
        succeed(session, "read_media_file", &path)
    };
    let whole = read(&mut session, made_up);
    assert!(picture(&content) == picture(&whole), "{made_up} is another");

    // With one: where it says, and from there to whichever tool sends it on.
    let name = json!({"filename": "browser/quay.png"});
    succeed(&mut session, "browser_take_screenshot", &name);
    let bytes = fs::read(folder.join("quay.png")).unwrap();
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.ends_with(b"IEND\xaeB`\x82"));
    let sent = read(&mut session, "quay.png");
    assert!(picture(&sent).starts_with("iVBORw0KGgo"));

    let name = json!({"filename": "browser/quay.pdf"});
    succeed(&mut session, "browser_pdf_save", &name);
    let bytes = fs::read(folder.join("quay.pdf")).unwrap();
    assert!(bytes.starts_with(b"%PDF-"));

    let link = json!({"target": "a", "element": "the bill"});
    succeed(&mut session, "browser_click", &link);
    wait_until("the download", || {
        let bill = fs::read_to_string(folder.join("bill.txt"));
        bill.is_ok_and(|bill| bill == site::BILL)
    });
    daemon.stop();
}

#[test]
fn v38_v39_a_login_survives_a_new_conversation_a_restart_and_an_idle_stop() {
    let Some(daemon) = home().and_then(|home| start(home, "")) else {
        return;
    };
    let site = site::serve();
    let login = |session: &mut Session, name: &str| {
        open(session, &format!("{site}login/{name}"));
    };
    let mut session = daemon.session();
    assert_eq!(visitor(&mut session, &site), "nobody");
    login(&mut session, "ann");
    session.end();
    assert_eq!(state(&daemon), "not started", "it ends with its session");
    let mut session = daemon.session();
    assert_eq!(visitor(&mut session, &site), "login=ann");

    login(&mut session, "bea");
    let home = daemon.stop();
    // Left by a browser that was killed in a container that is gone; a process of that number runs.
    let profile = home.file("workspaces/default/.volcanic/browser-profile");
    let holder = format!("another-host-{}", std::process::id());
    symlink(holder, profile.join("SingletonLock")).unwrap();

    // The same server with a limit of its own, which the preset has no setting for.
    let words = LINE.split(' ').map(|word| word.trim_matches('\''));
    let mut words: Vec<&str> = words.collect();
    let chromium = installed::chromium().unwrap();
    words.extend([
        "--no-sandbox",
        "--executable-path",
        chromium.to_str().unwrap(),
    ]);
    let server = json!({"command": words[0], "args": words[1..], "idleTimeoutSeconds": 1});
    home.write_config(&json!({"mcp": {"servers": {"playwright": server}}}));
    let daemon = start_with(home, &[]);
    daemon.wait_for_tool("browser_navigate");
    let mut session = daemon.session();
    assert_eq!(visitor(&mut session, &site), "login=bea");
    login(&mut session, "cid");
    wait_until("the idle stop", || state(&daemon) == "not started");
    assert_eq!(visitor(&mut session, &site), "login=cid");

    let Some(()) = add_reader(&daemon) else {
        return;
    };
    let path = json!({"path": ".volcanic/browser-profile/Local State"});
    let content = succeed(&mut session, "read_text_file", &path);
    let text = content[0]["text"].as_str().unwrap();
    assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
    daemon.stop();
}

#[test]
fn v68_v77_two_agents_browse_at_once_and_see_nothing_of_each_other() {
    let Some(daemon) = home().and_then(|home| start(home, "")) else {
        return;
    };
    daemon.wharf(&["agent", "new", "mate"]);
    let site = site::serve();
    let browse = |agent: &str, name: &str| {
        let mut session = daemon.session_of(agent);
        open(&mut session, &format!("{site}login/{name}"));
        session
    };
    let (mut one, mut two) = thread::scope(|scope| {
        let one = scope.spawn(|| browse("default", "ann"));
        let two = scope.spawn(|| browse("mate", "bea"));
        (one.join().unwrap(), two.join().unwrap())
    });
    let tabs = |session: &mut Session| {
        let content = succeed(session, "browser_tabs", &json!({"action": "list"}));
        content[0]["text"].as_str().unwrap().to_owned()
    };
    let (first, second) = (tabs(&mut one), tabs(&mut two));
    assert!(
        first.contains("/login/ann") && !first.contains("bea"),
        "{first}"
    );
    assert!(
        second.contains("/login/bea") && !second.contains("ann"),
        "{second}"
    );
    assert_eq!(visitor(&mut one, &site), "login=ann");
    assert_eq!(visitor(&mut two, &site), "login=bea");
    for agent in ["default", "mate"] {
        let text = daemon.wharf(&["mcp", "--agent", agent]).stdout;
        assert!(text.starts_with("playwright  running ("), "{agent}: {text}");
        let workspace = daemon.home().join("workspaces").join(agent);
        assert!(workspace.join(".volcanic/browser-profile").is_dir());
    }
    daemon.stop();
}

#[test]
fn v41_without_npx_the_rest_works_and_the_way_out_is_named() {
    let empty = Home::new();
    let path = empty.path().to_string_lossy();
    let daemon = start_with(Home::new(), &[("PATH", &path)]);
    daemon.wharf(&["tools"]);
    let reason = "`npx` was not found; install Node.js, or put it on the `PATH` of the daemon";
    assert_documented(reason);
    let text = daemon.wharf(&["mcp"]).stdout;
    let expect = format!("playwright  failed: {reason}");
    assert_eq!(text.lines().next(), Some(expect.as_str()));
    let told = daemon.session().instructions;
    assert!(told.ends_with(&format!("- playwright: {reason}")), "{told}");
    daemon.stop();
}

/// `PATH` with the program that the container has installed for everybody.
fn path_with_server() -> Option<String> {
    let program = installed::npm("playwright", "playwright-mcp")?;
    let folder = program.parent().unwrap().to_str().unwrap();
    let rest = installed::path().into_string().unwrap();
    Some(format!("{folder}:{rest}"))
}

/// Both settings of the container, and where the browser is expected: a link there to the one that is installed does.
#[test]
fn v41_v43_a_missing_browser_is_an_error_of_the_first_call_and_the_containers_settings_work() {
    let Some(path) = path_with_server() else {
        return;
    };
    let Some(chromium) = installed::chromium() else {
        return;
    };
    let home = Home::new();
    let browsers = home.file("browsers").to_string_lossy().into_owned();
    let daemon = start_with(
        home,
        &[
            ("PATH", path.as_str()),
            ("PLAYWRIGHT_COMMAND", "playwright-mcp"),
            ("PLAYWRIGHT_EXTRA_ARGS", "--no-sandbox"),
            ("PLAYWRIGHT_BROWSERS_PATH", &browsers),
        ],
    );
    daemon.wait_for_tool("browser_navigate");
    let mut session = daemon.session();
    let site = site::serve();
    let reply = session.call("browser_navigate", &json!({"url": site}));
    assert_eq!(reply["result"]["isError"], true, "{reply}");
    let text = reply["result"]["content"][0]["text"].as_str().unwrap();
    let (what, rest) = text
        .split_once(&format!("{browsers}/"))
        .unwrap_or_else(|| panic!("PLAYWRIGHT_BROWSERS_PATH is not in {text}"));
    assert_documented(what.lines().last().unwrap());
    let (executable, way_out) = rest.split_once(". ").unwrap();
    assert_documented(way_out.lines().next().unwrap());
    assert_eq!(state(&daemon), "running", "only the call failed");

    let expected = Path::new(&browsers).join(executable);
    fs::create_dir_all(expected.parent().unwrap()).unwrap();
    symlink(chromium, &expected).unwrap();
    open(&mut session, &site);
    assert_eq!(heading(&mut session), site::HEADING);
    daemon.stop();
}

/// The value of a variable in the container's file.
fn container_sets(name: &str) -> String {
    let file = include_str!("../../../docs/playwright/Containerfile");
    let (_, rest) = file.split_once(&format!("{name}=")).expect(name);
    let value = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split_whitespace().next(),
    };
    value.unwrap().to_owned()
}

#[test]
fn v43_a_page_opens_with_what_the_container_file_sets() {
    let Some(path) = path_with_server() else {
        return;
    };
    let Some(chromium) = installed::chromium() else {
        return;
    };
    let arguments = container_sets("PLAYWRIGHT_EXTRA_ARGS");
    // Where the image has it; here it may be elsewhere.
    let arguments = arguments.replace("/usr/bin/chromium", chromium.to_str().unwrap());
    let daemon = start_with(
        Home::new(),
        &[
            ("PATH", &path),
            ("PLAYWRIGHT_ENABLED", &container_sets("PLAYWRIGHT_ENABLED")),
            ("PLAYWRIGHT_COMMAND", &container_sets("PLAYWRIGHT_COMMAND")),
            ("PLAYWRIGHT_EXTRA_ARGS", &arguments),
        ],
    );
    daemon.wait_for_tool("browser_navigate");
    let mut session = daemon.session();
    open(&mut session, &site::serve());
    assert_eq!(heading(&mut session), site::HEADING);
    daemon.stop();
}
