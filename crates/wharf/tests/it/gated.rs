//! Agents of the agent profile: what they have, what changed of it, and their files (A236).

use insta::assert_snapshot;
use wharfinger::agentfile::{AgentFile, Keys, NewAgent};
use wharfinger_testkit::{fake_server, wait_until};

use crate::support::Wharf;

#[test]
fn a142_an_agent_is_given_servers_one_by_one() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.add_fake("s", &[]);
    assert_snapshot!(wharf.run(&["tools", "list"]), @"
    $ wharf tools list
    ! error: there is no agent of the agent profile
    ! hint: `wharf agent new NAME --profile agent` makes one
    [exit 4]
    ");
    assert_snapshot!(wharf.run(&["agent", "new", "bot", "--profile", "agent"]), @"
    $ wharf agent new bot --profile agent
    created bot
    ! hint: it has nothing yet: `wharf agent attach bot SERVER` gives it a server, `wharf agent endpoint bot` tells how clients connect as it
    ");
    assert_snapshot!(wharf.run(&["agent", "show", "bot"]), @"
    $ wharf agent show bot
    name      bot
    profile   agent
    state     idle
    workspace [HOME]/workspaces/bot
    file      [HOME]/agents/bot.adf
    has       0 open sessions
    servers   none; `wharf agent attach` gives it one
    settings  new-tools-restricted on
              accept-changes nothing
              ask-client off
              always-active off
              host-access off
    ");
    assert_snapshot!(wharf.run(&["agent", "attach", "bot", "t"]), @"
    $ wharf agent attach bot t
    ! error: there is no server `t`; did you mean `s`?; `wharf add` registers one
    [exit 4]
    ");
    assert_snapshot!(wharf.run(&["agent", "attach", "bot", "s"]), @"
    $ wharf agent attach bot s
    attached s to bot, 5 tools; each call of them waits for your approval
    ! hint: `wharf tools list --agent bot` shows them, `wharf tools unrestrict s/ --agent bot` lets them be called without asking
    ");
    assert_snapshot!(wharf.run(&["agent", "attach", "bot", "s"]), @"
    $ wharf agent attach bot s
    ! error: the server `s` is already attached to the agent `bot`
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["agent", "attach", "default", "s"]), @"
    $ wharf agent attach default s
    ! error: the agent `default` has the profile chat, which has every server that is switched on
    ! hint: `wharf agent new NAME --profile agent` makes one that has only what you give it
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["agent", "set", "bot", "--accept-changes", "cosmetic", "--ask-client", "on"]), @"
    $ wharf agent set bot --accept-changes cosmetic --ask-client on
    new-tools-restricted on
    accept-changes cosmetic
    ask-client on
    always-active off
    host-access off
    ");
    assert_snapshot!(wharf.run(&["agent", "set", "bot", "--server", "s", "--restricted", "on"]), @"
    $ wharf agent set bot --server s --restricted on
    s, unknown tools ask
    ");
    assert_snapshot!(wharf.run(&["agent", "set", "bot", "--host-access", "perhaps"]), @"
    $ wharf agent set bot --host-access perhaps
    ! error: invalid value 'perhaps' for '--host-access <ON|OFF>': expected `on` or `off`
    ! 
    ! For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["agent", "detach", "bot", "s"]), @"
    $ wharf agent detach bot s
    detached s from bot
    ");
    assert_snapshot!(wharf.run(&["agent", "detach", "bot", "s"]), @"
    $ wharf agent detach bot s
    ! error: the server `s` is not attached to the agent `bot`
    [exit 1]
    ");
}

#[test]
fn a160_tools_have_switches() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.make_bot(&["tool=x", "tool=y"]);
    assert_snapshot!(wharf.run(&["tools", "--agent", "bot"]), @"
    $ wharf tools --agent bot
    NAME     SERVER/TOOL  DESCRIPTION
    mcp_s_x  s/x          The tool x
    mcp_s_y  s/y          The tool y
    ");
    assert_snapshot!(wharf.run(&["tools", "unrestrict", "mcp_s_x"]), @"
    $ wharf tools unrestrict mcp_s_x
    mcp_s_x needs no approval
    ");
    assert_snapshot!(wharf.run(&["tools", "hide", "s/x"]), @"
    $ wharf tools hide s/x
    mcp_s_x is hidden from the model
    ");
    assert_snapshot!(wharf.run(&["tools", "disable", "mcp_s_y", "--agent", "bot"]), @"
    $ wharf tools disable mcp_s_y --agent bot
    mcp_s_y may not be called any more
    ");
    assert_snapshot!(wharf.run(&["tools", "lock", "s/y"]), @"
    $ wharf tools lock s/y
    locked mcp_s_y: off, asks
    ");
    assert_snapshot!(wharf.run(&["tools", "enable", "s/y"]), @"
    $ wharf tools enable s/y
    ! error: `mcp_s_y` is locked; `wharf tools unlock mcp_s_y --agent bot` comes first
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["tools", "list"]), @"
    $ wharf tools list
    NAME               SERVER/TOOL  SWITCHES           REVIEW
    mcp_s_x            s/x          hidden             new
    mcp_s_y            s/y          off, asks, locked  new
    mcp_install        its own      off, asks
    mcp_available      its own      off, asks
    mcp_restart        its own      off, asks
    mcp_uninstall      its own      off, asks
    sys_get_config     its own      off, asks
    sys_update_config  its own      off, asks
    fs_read            its own      off, asks
    fs_write           its own      off, asks
    sys_fetch          its own      off, asks
    ");
    assert_snapshot!(wharf.run(&["tools", "unhide", "s/"]), @"
    $ wharf tools unhide s/
    s: each is shown to the model, 1 tool changed
    ");
    assert_snapshot!(wharf.run(&["tools", "unlock", "mcp_s_y"]), @"
    $ wharf tools unlock mcp_s_y
    unlocked mcp_s_y: off, asks
    ");
    assert_snapshot!(wharf.run(&["tools", "enable", "--server", "s"]), @"
    $ wharf tools enable --server s
    s: each may be called, 1 tool changed
    ");
    assert_snapshot!(wharf.run(&["tools", "restrict", "s/"]), @"
    $ wharf tools restrict s/
    s: each waits for a person at each call, 1 tool changed
    ");
    assert_snapshot!(wharf.run(&["tools", "restrict", "s/"]), @"
    $ wharf tools restrict s/
    s: nothing to change
    ");
    assert_snapshot!(wharf.run(&["tools", "enable", "mcp_s_z"]), @"
    $ wharf tools enable mcp_s_z
    ! error: the agent `bot` has no tool `mcp_s_z`; did you mean `mcp_s_x`?
    ! hint: `wharf tools list` shows what it has
    [exit 4]
    ");
    assert_snapshot!(wharf.run(&["tools", "enable"]), @"
    $ wharf tools enable
    ! error: the following required arguments were not provided:
    !   <TOOL|SERVER/>
    ! 
    ! Usage: wharf tools enable <TOOL|SERVER/>
    ! 
    ! For more information, try '--help'.
    [exit 2]
    ");
    wharf.run(&["agent", "new", "other", "--profile", "agent"]);
    assert_snapshot!(wharf.run(&["tools", "list"]), @"
    $ wharf tools list
    ! error: `--agent` says which one is meant: bot, other
    [exit 2]
    ");
}

#[test]
fn a159_a_definition_is_shown() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.make_bot(&["tool=x"]);
    assert_snapshot!(wharf.run(&["tools", "show", "s/x"]), @r#"
    $ wharf tools show s/x
    name      mcp_s_x
    from      s/x
    is        on, asks
    review    new
    {
      "name": "x",
      "description": "The tool x",
      "inputSchema": {
        "type": "object"
      }
    }
    "#);
}

#[test]
fn what_changed_is_shown_and_reviewed() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    let starts = format!("schema-by-start={}", wharf.home.file("starts").display());
    wharf.make_bot(&[&starts]);
    assert_snapshot!(wharf.run(&["tools", "diff"]), @"
    $ wharf tools diff
    ! no tool waits for a review
    ");
    // It starts anew, and lists something else.
    wharf.run(&["call", "s/work", "--agent", "bot", "--as-owner"]);
    wait_until("the change to be seen", || {
        let tools = wharf.json(&["tools", "list"]);
        tools["tools"][0]["status"] != "new"
    });
    assert_snapshot!(wharf.run(&["tools", "list"]), @"
    $ wharf tools list
    NAME                      SERVER/TOOL           SWITCHES   REVIEW
    mcp_s_only_on_odd_starts  s/only_on_odd_starts  off, asks  removed
    mcp_s_work                s/work                off, asks  changed, meaning
    mcp_install               its own               off, asks
    mcp_available             its own               off, asks
    mcp_restart               its own               off, asks
    mcp_uninstall             its own               off, asks
    sys_get_config            its own               off, asks
    sys_update_config         its own               off, asks
    fs_read                   its own               off, asks
    fs_write                  its own               off, asks
    sys_fetch                 its own               off, asks
    ! hint: `wharf tools diff` shows what changed
    ");
    assert_snapshot!(wharf.run(&["tools", "diff"]), @r#"
    $ wharf tools diff
    mcp_s_only_on_odd_starts (s/only_on_odd_starts)
      removed: its server does not list it any more; it comes back as it was if the server lists it again

    mcp_s_work (s/work)
      meaning: it may do something else than before
      - description: changed: "does work v1" → "does work v2"
      - inputSchema.properties.x: added, optional: {"type":"string"}
      - inputSchema.properties.y: removed: {"type":"string"}
      accept: wharf tools review mcp_s_work --accept --seen 1747b35d50ac
      reject: wharf tools review mcp_s_work --reject
    "#);
    assert_snapshot!(wharf.run(&["tools", "enable", "mcp_s_work"]), @"
    $ wharf tools enable mcp_s_work
    ! error: `mcp_s_work` is not what was reviewed; look with `wharf tools diff mcp_s_work --agent bot`, then `wharf tools review mcp_s_work --agent bot --accept`
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["tools", "review", "mcp_s_work"]), @"
    $ wharf tools review mcp_s_work
    ! error: the following required arguments were not provided:
    !   <--accept|--reject>
    ! 
    ! Usage: wharf tools review <--accept|--reject> <TOOL>
    ! 
    ! For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["tools", "review", "s/work", "--accept", "--seen", "0000"]), @"
    $ wharf tools review s/work --accept --seen 0000
    ! error: `mcp_s_work` is not what was seen any more
    ! hint: `wharf tools diff mcp_s_work` shows what it is now
    [exit 1]
    ");
    let hash = wharf.json(&["tools", "show", "s/work"])["hash"].clone();
    let seen = &hash.as_str().unwrap()[..12];
    assert_snapshot!(wharf.run(&["tools", "review", "mcp_s_work", "--accept", "--seen", seen]), @"
    $ wharf tools review mcp_s_work --accept --seen 1747b35d50ac
    accepted mcp_s_work: on, asks
    ");
    assert_snapshot!(wharf.run(&["tools", "diff", "mcp_s_work"]), @"
    $ wharf tools diff mcp_s_work
    mcp_s_work (s/work)
      as it was reviewed
    ");
    assert_snapshot!(wharf.run(&["tools", "review", "mcp_s_only_on_odd_starts", "--accept"]), @"
    $ wharf tools review mcp_s_only_on_odd_starts --accept
    ! error: tool `mcp_s_only_on_odd_starts` is not listed by its server any more; restart the server to see whether it comes back
    [exit 1]
    ");
}

#[test]
fn a201_an_agent_leaves_and_comes_as_a_file() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.make_bot(&[]);
    assert_snapshot!(wharf.run(&["agent", "export", "bot", "copy.adf"]), @"
    $ wharf agent export bot copy.adf
    exported bot to [HOME]/copy.adf
    ");
    assert_snapshot!(wharf.run(&["agent", "export", "bot", "copy.adf"]), @"
    $ wharf agent export bot copy.adf
    ! error: [HOME]/copy.adf is there already; choose another name, or move it away
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["agent", "export", "bot", "copy.json"]), @"
    $ wharf agent export bot copy.json
    ! error: the agent can't be exported
    ! caused by: path: must end in `.adf`, as agents' files do
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["agent", "import", "copy.adf"]), @"
    $ wharf agent import copy.adf
    ! error: there is an agent `bot` already
    ! hint: give it another name: `wharf agent import FILE --name NAME`
    [exit 1]
    ");
    wharf.run(&["remove", "s"]);
    assert_snapshot!(wharf.run(&["agent", "import", "copy.adf", "--name", "twin"]), @"
    $ wharf agent import copy.adf --name twin
    imported twin
    ! warning: s: it is not registered here, so its tools are off; `wharf add` registers it
    ");
    assert_snapshot!(wharf.run(&["agent", "import", "settings.json"]), @"
    $ wharf agent import settings.json
    ! error: the agent can't be imported
    ! caused by: path: must end in `.adf`, as agents' files do
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["agent", "remove", "twin"]), @"
    $ wharf agent remove twin
    removed twin and its file
    ");
}

#[test]
fn a_file_of_another_owner_says_what_it_would_run() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    let home = wharf.home.path();
    let keys = Keys::load_or_create(&home.join("keys-of-another")).unwrap();
    let server = serde_json::json!({
        "name": "own", "transport": "stdio", "source": "custom", "command": fake_server(), "args": ["tool=x"],
    });
    let new = NewAgent {
        name: "visitor".into(),
        config: serde_json::json!({ "mcp": { "servers": [server] } }),
        ..NewAgent::default()
    };
    let file = AgentFile::create(&home.join("visitor.adf"), &new, &keys).unwrap();
    file.close().unwrap();
    assert_snapshot!(wharf.run(&["agent", "import", "visitor.adf"]), @"
    $ wharf agent import visitor.adf
    ! error: the file comes from elsewhere, so what would run of it has to be confirmed
    ! caused by: own: [FAKE] 'tool=x'
    ! hint: when you trust that, say so with `--yes`
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["agent", "import", "visitor.adf", "--json"]), @r#"
    $ wharf agent import visitor.adf --json
    ! {"type":"about:blank","title":"Conflict","status":409,"detail":"the file comes from elsewhere, so what would run of it has to be confirmed: own: [FAKE] 'tool=x'","hint":"confirm it when you trust that: `--yes` of `wharf agent import`, `confirmed` at the API","runs":["own: [FAKE] 'tool=x'"],"exitCode":1}
    [exit 1]
    "#);
    assert_snapshot!(wharf.run(&["agent", "import", "visitor.adf", "--yes"]), @"
    $ wharf agent import visitor.adf --yes
    imported visitor
    ! warning: own: `own` may not run on the host: host access is off. Ask the owner to switch it on, or install without `host`
    ");
    assert_snapshot!(wharf.run(&["agent", "show", "visitor"]), @"
    $ wharf agent show visitor
    name      visitor
    profile   agent
    state     idle
    workspace [HOME]/workspaces/visitor
    file      [HOME]/agents/visitor.adf
    has       0 open sessions
    servers   own, from custom, not registered here, does not run: `own` may not run on the host: host access is off. Ask the owner to switch it on, or install without `host`
    settings  new-tools-restricted on
              accept-changes nothing
              ask-client off
              always-active off
              host-access off
    ");
    assert_snapshot!(wharf.run(&["agent", "confirm", "visitor"]), @"
    $ wharf agent confirm visitor
    confirmed visitor; may run now:
      own: [FAKE] 'tool=x'
    ");
    assert_snapshot!(wharf.run(&["agent", "confirm", "default"]), @"
    $ wharf agent confirm default
    confirmed default, which runs nothing of its own
    ");
}
