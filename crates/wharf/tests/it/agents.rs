//! Agents and how clients connect as one.

use insta::assert_snapshot;

use crate::support::Wharf;

#[test]
fn agents_come_and_go() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    assert_snapshot!(wharf.run(&["agent", "new", "bob"]), @"
    $ wharf agent new bob
    created bob
    ! hint: `wharf agent endpoint bob` tells how clients connect as it
    ");
    assert_snapshot!(wharf.run(&["agent", "new", "bob"]), @"
    $ wharf agent new bob
    ! error: there is an agent `bob` already
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["agent", "new", "b/b"]), @r#"
    $ wharf agent new b/b
    ! error: the agent can't be made
    ! caused by: name: the name "b/b" may not contain '/'
    [exit 2]
    "#);
    assert_snapshot!(wharf.run(&["agent", "list"]), @"
    $ wharf agent list
    NAME     PROFILE  STATE  SESSIONS  WORKSPACE
    bob      chat     idle   0         [HOME]/workspaces/bob
    default  chat     idle   0         [HOME]/workspaces/default
    ");
    assert_snapshot!(wharf.run(&["agent", "show", "bob"]), @"
    $ wharf agent show bob
    name      bob
    profile   chat
    state     idle
    workspace [HOME]/workspaces/bob
    file      [HOME]/agents/bob.adf
    has       0 open sessions
    servers   every one that is switched on
    ");
    assert_snapshot!(wharf.run(&["agent", "remove", "bob"]), @"
    $ wharf agent remove bob
    removed bob and its file
    ");
    assert_snapshot!(wharf.run(&["agent", "show", "bob"]), @"
    $ wharf agent show bob
    ! error: there is no agent `bob`
    [exit 4]
    ");
    assert_snapshot!(wharf.run(&["agent", "remove", "default"]), @"
    $ wharf agent remove default
    ! error: the agent `default` can't be removed, since it is the one meant where none is named
    [exit 1]
    ");
}

#[test]
fn an_endpoint_tells_how_to_connect() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    let endpoint = wharf.json(&["agent", "endpoint"]);
    let token = endpoint["token"].as_str().unwrap();
    assert_snapshot!(wharf.run(&["agent", "endpoint"]).replace(token, "[TOKEN]"), @r#"
    $ wharf agent endpoint
    agent   default
    url     http://127.0.0.1:[PORT]/agents/default/mcp
    token   [TOKEN]
    command [WHARF] --home [HOME] stdio --agent default

    Clients that are known, as `wharf clients --all` lists them:
      wharf connect claude-code --agent default

    Clients that start a command:
    {
      "mcpServers": {
        "wharf": {
          "command": "[WHARF]",
          "args": [
            "--home",
            "[HOME]",
            "stdio",
            "--agent",
            "default"
          ]
        }
      }
    }

    Clients that connect by HTTP:
    {
      "mcpServers": {
        "wharf": {
          "type": "http",
          "url": "http://127.0.0.1:[PORT]/agents/default/mcp",
          "headers": {
            "Authorization": "Bearer [TOKEN]"
          }
        }
      }
    }
    "#);
    assert_snapshot!(wharf.run(&["agent", "endpoint", "nobody"]), @"
    $ wharf agent endpoint nobody
    ! error: there is no agent `nobody`
    [exit 4]
    ");
}
