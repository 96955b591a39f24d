//! What an agent may change of its own configuration (A234, P17). The one table:
//!
//! | path | rule |
//! |---|---|
//! | any part named `locked`, `locked_fields`, `restricted`, `restricted_methods` | never |
//! | anything outside `mcp`, `tools`, `limits` | never |
//! | `limits.<limit>`: smaller | free |
//! | `limits.<limit>`: larger, new, or taken away | approval |
//! | `mcp.new_tools_restricted`: true, or taken away, which is the same | free |
//! | `mcp.new_tools_restricted`: false | approval: what comes next would ask nobody (A157) |
//! | `mcp.servers.<name>`: added or removed | approval |
//! | `mcp.servers.<name>.tool_call_timeout_ms`, `.description` | free |
//! | `mcp.servers.<name>.run_location`: away from the host | approval, for servers the owner did not register |
//! | all else of `mcp.servers.<name>`: what is run, where, and with what | never; `mcp_install` decides it (A27) |
//! | `tools.<name>.enabled`, `.visible`: on | approval (A89) |
//! | `tools.<name>.enabled`, `.visible`: off | free |
//! | all else of `tools.<name>` | never |
//!
//! Free and approval are so unless locked: by `locked_fields`, for all that is below, or by `locked: true` on the way.

use serde_json::Value;

use crate::manage::Error;
use crate::model::nearest;

/// Parts of a path that are never written, wherever they stand.
const SEALED: [&str; 4] = [
    "locked",
    "locked_fields",
    "restricted",
    "restricted_methods",
];

/// Fields of a server that its agent may write.
const SERVER_FREE: [&str; 2] = ["tool_call_timeout_ms", "description"];

/// Fields of a server that decide what is run, where, and with what; and what is recorded about it.
pub(super) const SERVER_FIXED: [&str; 25] = [
    "name",
    "transport",
    "command",
    "args",
    "url",
    "headers",
    "header_env",
    "bearer_token_env_var",
    "env",
    "env_keys",
    "env_schema",
    "npm_package",
    "pypi_package",
    "source",
    "run_location",
    "host_requested",
    "available_tools",
    "restricted",
    "credential_files",
    "auth",
    "auth_args",
    "auth_port",
    "oauth",
    "mcp_tool_hash",
    "mcp_tool_status",
];

/// What becomes of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// It is made.
    Free,
    /// It is made when a person agrees; what it does, completing "the agent …".
    Approval(String),
    /// It is not made, and why.
    Never(String),
}

/// Paths that are refused before anything is looked at.
pub(super) fn outside(keys: &[String]) -> Result<(), Error> {
    if let Some(sealed) = keys.iter().flat_map(|key| key.split('.')).find(|part| {
        SEALED
            .iter()
            .any(|sealed| sealed.eq_ignore_ascii_case(part))
    }) {
        return Err(Error::refused(format!(
            "`{}` may not be changed by the agent: `{sealed}` is its owner's",
            keys.join(".")
        )));
    }
    match keys[0].as_str() {
        "mcp" | "tools" | "limits" => Ok(()),
        other => Err(Error::refused(format!(
            "`{other}` may not be changed by the agent; only what is below `mcp`, `tools` and `limits`"
        ))),
    }
}

/// The rule for one change. `registered` says whether a server is one of the owner's.
pub(super) fn rule(
    keys: &[String],
    before: Option<&Value>,
    after: Option<&Value>,
    registered: bool,
) -> Rule {
    let path = keys.join(".");
    let parts: Vec<&str> = keys.iter().map(String::as_str).collect();
    match parts[..] {
        ["limits", _] => {
            let number = |value: Option<&Value>| value.and_then(Value::as_f64);
            match (number(before), number(after)) {
                (Some(before), Some(after)) if after <= before => Rule::Free,
                (_, Some(after)) => Rule::Approval(format!("sets its limit `{path}` to {after}")),
                (_, None) => Rule::Approval(format!("takes away its limit `{path}`")),
            }
        }
        ["mcp", "new_tools_restricted"] => match after {
            // What is not said is true.
            None | Some(Value::Bool(true)) => Rule::Free,
            Some(_) if before == Some(&Value::Bool(false)) => Rule::Free,
            Some(_) => Rule::Approval("lets new tools be called without a person".into()),
        },
        ["mcp", "servers"] => Rule::Never(
            "servers are changed one by one: `mcp.servers.<name>`, or action `append` for a new one"
                .into(),
        ),
        ["mcp", "servers", name] => match after {
            Some(_) => Rule::Approval(format!("adds the MCP server `{name}`")),
            None => Rule::Approval(format!("removes the MCP server `{name}`")),
        },
        ["mcp", "servers", _, field] if SERVER_FREE.contains(&field) => Rule::Free,
        ["mcp", "servers", name, "run_location"]
            if !registered && after != Some(&Value::from("host")) =>
        {
            Rule::Approval(format!("changes where the MCP server `{name}` runs"))
        }
        ["mcp", "servers", name, field, ..] => server_field(name, field, registered),
        ["mcp", field, ..] => Rule::Never(format!(
            "there is no `mcp.{field}`; there are `mcp.new_tools_restricted` and `mcp.servers`"
        )),
        ["tools"] => Rule::Never("tools are changed one by one: `tools.<name>.enabled`".into()),
        ["tools", name, flag @ ("enabled" | "visible")] => {
            // Only `false` is surely off: a program may take anything else for on.
            let was = before == Some(&Value::Bool(true));
            let off = matches!(after, None | Some(Value::Null | Value::Bool(false)));
            match flag {
                _ if was || off => Rule::Free,
                "enabled" => Rule::Approval(format!("enables the tool `{name}`")),
                _ => Rule::Approval(format!("shows the tool `{name}` to the model")),
            }
        }
        ["tools", _] => Rule::Never(
            "declarations of tools are made when the tools are found, and are not removed".into(),
        ),
        ["tools", name, ..] => Rule::Never(format!(
            "of `tools.{name}` only `enabled` and `visible` may be changed by the agent"
        )),
        _ => Rule::Never(format!("`{path}` is nothing that may be changed by the agent")),
    }
}

fn server_field(name: &str, field: &str, registered: bool) -> Rule {
    if !SERVER_FIXED.contains(&field) {
        let near = nearest(field, SERVER_FREE.into_iter().chain(SERVER_FIXED));
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        return Rule::Never(format!("a server has no `{field}`{near}"));
    }
    let recorded = ["available_tools", "mcp_tool_hash", "mcp_tool_status"].contains(&field);
    Rule::Never(if recorded {
        format!("`{field}` is recorded when the server is asked for its tools")
    } else if registered {
        format!("`{name}` is set up by the owner, who decides its `{field}`; ask the owner")
    } else {
        match field {
            "env" | "env_keys" | "env_schema" => format!(
                "credentials are not written into configuration; `mcp_install` of `{name}` with `env` stores them sealed"
            ),
            "credential_files" | "auth" | "auth_args" | "auth_port" => {
                format!("`mcp_install` of `{name}` with `{field}` changes that")
            }
            _ => format!(
                "`{field}` decides what `{name}` runs; `mcp_uninstall` it and install it anew with `mcp_install`"
            ),
        }
    })
}

/// Whether a lock of the owner's is over a path. `whole`: what is below goes with it, so a lock below counts too.
pub(super) fn locked(config: &Value, keys: &[String], whole: bool) -> Result<(), Error> {
    let path = keys.join(".");
    let refuse = |lock: &str| {
        Err(Error::refused(format!(
            "`{path}` is locked by its owner (`{lock}`)"
        )))
    };
    match &config["locked_fields"] {
        Value::Null => {}
        Value::Array(locks) => {
            for lock in locks {
                let Some(text) = lock.as_str() else {
                    // What a lock means cannot be told, so it is over everything.
                    return refuse("locked_fields");
                };
                let lock = super::target::resolve(config, text).unwrap_or_default();
                let over = !lock.is_empty() && starts_with(keys, &lock);
                let below = whole && starts_with(&lock, keys);
                if over || below || lock == ["*"] {
                    return refuse(text);
                }
            }
        }
        _ => return refuse("locked_fields"),
    }
    for end in 1..=keys.len() {
        let here = &keys[..end];
        if super::target::get(config, here).is_some_and(|at| at["locked"] == true) {
            return refuse(&format!("{}.locked", here.join(".")));
        }
    }
    // A guard in any row of a name counts (A149).
    if let ["tools", name, ..] = keys.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        let rows = config["tools"].as_array().into_iter().flatten();
        if rows
            .into_iter()
            .any(|row| row["name"] == *name && row["locked"] == true)
        {
            return refuse(&format!("tools.{name}.locked"));
        }
    }
    Ok(())
}

/// Compared as text: names hold dots, so where a path is cut depends on which rows there are.
fn starts_with(keys: &[String], beginning: &[String]) -> bool {
    let (keys, beginning) = (keys.join("."), beginning.join("."));
    keys.strip_prefix(&beginning)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
