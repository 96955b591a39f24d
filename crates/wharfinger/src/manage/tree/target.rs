//! Paths into a configuration: members by name, rows of `mcp.servers` and `tools` by their own name (A96).

use serde_json::Value;

use crate::manage::{Error, Server};
use crate::model::nearest;

/// Where a path leads, as members one below the other. `["mcp", "servers", "git.hub", "args"]`.
pub(super) type Keys = Vec<String>;

/// As people write it.
pub(super) fn text(keys: &[String]) -> String {
    keys.join(".")
}

/// The list whose rows are named, if these keys lead to one.
fn named_list<'a>(config: &'a Value, keys: &[&str]) -> Option<&'a [Value]> {
    let list = match keys {
        ["tools"] => &config["tools"],
        ["mcp", "servers"] => &config["mcp"]["servers"],
        _ => return None,
    };
    Some(list.as_array().map_or(&[], Vec::as_slice))
}

/// Reads a path. Names of rows may hold dots: the longest that fits is meant. A row may be given by its number.
pub(super) fn resolve(config: &Value, path: &str) -> Result<Keys, Error> {
    let path = path.trim().replace('[', ".").replace(']', "");
    let path = path.trim_matches('.');
    if path.is_empty() || path.split('.').any(|part| part.trim().is_empty()) {
        return Err(Error::refused(format!(
            "`{path}` is no path; write members with dots between, such as `tools.mcp_install.enabled`"
        )));
    }
    let (mut keys, rest) = match path.split_once('.') {
        Some(("tools", rest)) => (vec!["tools"], rest),
        Some(("mcp", rest)) => match rest.strip_prefix("servers") {
            Some("") => return Ok(vec!["mcp".into(), "servers".into()]),
            Some(row) if row.starts_with('.') => (vec!["mcp", "servers"], &row[1..]),
            _ => return Ok(path.split('.').map(str::to_owned).collect()),
        },
        _ => return Ok(path.split('.').map(str::to_owned).collect()),
    };
    let rows = named_list(config, &keys).unwrap_or_default();
    let name = rows
        .iter()
        .filter_map(|row| row["name"].as_str())
        .filter(|name| {
            rest.strip_prefix(name)
                .is_some_and(|after| after.is_empty() || after.starts_with('.'))
        })
        .max_by_key(|name| name.len());
    let (name, after) = if let Some(name) = name {
        (name, &rest[name.len()..])
    } else {
        let (first, _) = rest.split_once('.').unwrap_or((rest, ""));
        let by_number = first.parse::<usize>().ok().and_then(|i| rows.get(i));
        // A name that is not there is of a new row, if there may be one.
        let name = by_number
            .and_then(|row| row["name"].as_str())
            .unwrap_or(first);
        (name, &rest[first.len()..])
    };
    keys.push(name);
    let below = after.split('.').filter(|part| !part.is_empty());
    Ok(keys.into_iter().chain(below).map(str::to_owned).collect())
}

/// What is there.
pub(super) fn get<'a>(config: &'a Value, keys: &[String]) -> Option<&'a Value> {
    let mut at = config;
    for (i, key) in keys.iter().enumerate() {
        let before: Vec<&str> = keys[..i].iter().map(String::as_str).collect();
        at = match named_list(config, &before) {
            Some(rows) => rows.iter().find(|row| row["name"] == **key)?,
            None => at.get(key)?,
        };
    }
    Some(at)
}

/// Puts a value there, or takes away what is there. Rows are not made here.
pub(super) fn set(config: &mut Value, keys: &[String], value: Option<Value>) {
    let Some((last, above)) = keys.split_last() else {
        return;
    };
    let named = |keys: &[String]| {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        matches!(keys[..], ["tools"] | ["mcp", "servers"])
    };
    let mut at = config;
    for (i, key) in above.iter().enumerate() {
        if named(&above[..i]) {
            let row = at
                .as_array_mut()
                .into_iter()
                .flatten()
                .find(|row| row["name"] == **key);
            let Some(row) = row else { return };
            at = row;
        } else {
            if !at.is_object() {
                *at = Value::Object(serde_json::Map::new());
            }
            at = &mut at[key.as_str()];
        }
    }
    if named(above) {
        if let Some(rows) = at.as_array_mut() {
            match value {
                None => rows.retain(|row| row["name"] != **last),
                Some(value) => rows.push(value),
            }
        } else if let Some(value) = value {
            *at = Value::Array(vec![value]);
        }
        return;
    }
    match value {
        Some(value) => {
            if !at.is_object() {
                *at = Value::Object(serde_json::Map::new());
            }
            at[last.as_str()] = value;
        }
        None => {
            if let Some(members) = at.as_object_mut() {
                members.shift_remove(last);
            }
        }
    }
}

/// A row that is not there.
pub(super) fn unknown(config: &Value, keys: &[String]) -> Error {
    let (list, name) = (
        &keys[0],
        &keys[keys.len().min(if keys[0] == "tools" { 2 } else { 3 }) - 1],
    );
    if list == "mcp" {
        return match crate::manage::find(config, name) {
            Err(error) => error,
            Ok(server) => Error::refused(format!("`{}` is there", Server::name(server))),
        };
    }
    let rows = named_list(config, &["tools"]).unwrap_or_default();
    let names = rows.iter().filter_map(|row| row["name"].as_str());
    let near = nearest(name, names);
    let near = near.map_or_else(
        || "; `sys_get_config` with section `tools` lists them".to_owned(),
        |near| format!("; did you mean `{near}`?"),
    );
    Error::refused(format!("there is no tool `{name}`{near}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a96_rows_are_named_and_the_longest_name_wins() {
        let config = json!({
            "tools": [{"name": "fs_read"}, {"name": "a.b"}],
            "mcp": {"servers": [{"name": "git"}, {"name": "git.hub"}, {"name": "git.hub.args"}, {"name": "1"}]},
        });
        let check = |path: &str, expect: &[&str]| {
            assert_eq!(resolve(&config, path).unwrap(), expect, "{path}");
        };
        check("mcp.servers.git.args", &["mcp", "servers", "git", "args"]);
        check(
            "mcp.servers.git.hub.env",
            &["mcp", "servers", "git.hub", "env"],
        );
        check(
            "mcp.servers.git.hub.args",
            &["mcp", "servers", "git.hub.args"],
        );
        check("mcp.servers.gitx.args", &["mcp", "servers", "gitx", "args"]);
        check("mcp.servers", &["mcp", "servers"]);
        check("mcp", &["mcp"]);
        check("mcp.serversx.a", &["mcp", "serversx", "a"]);
        check(
            "mcp.servers[0].args[2]",
            &["mcp", "servers", "git", "args", "2"],
        );
        check("mcp.servers.1.args", &["mcp", "servers", "1", "args"]);
        check("tools.a.b.enabled", &["tools", "a.b", "enabled"]);
        check("tools.0", &["tools", "fs_read"]);
        check(" limits.x ", &["limits", "x"]);
        check("mcp.new_tools_restricted", &["mcp", "new_tools_restricted"]);
        for bad in ["", "..", "a..b", " "] {
            assert!(resolve(&config, bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn p36_a_value_is_put_where_it_belongs_and_nothing_else_changes() {
        let mut config = json!({"tools": [{"name": "a", "x": 1}], "keep": 1});
        let keys = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<_>>();
        set(&mut config, &keys("tools.a.enabled"), Some(true.into()));
        set(&mut config, &keys("limits.n"), Some(5.into()));
        set(&mut config, &keys("tools.b.enabled"), Some(true.into()));
        set(
            &mut config,
            &keys("mcp.servers.s"),
            Some(json!({"name": "s"})),
        );
        set(&mut config, &keys("mcp.servers.s.t"), Some(1.into()));
        assert_eq!(
            config,
            json!({
                "tools": [{"name": "a", "x": 1, "enabled": true}], "keep": 1, "limits": {"n": 5},
                "mcp": {"servers": [{"name": "s", "t": 1}]},
            })
        );
        set(&mut config, &keys("mcp.servers.s"), None);
        set(&mut config, &keys("limits.n"), None);
        assert_eq!(config["mcp"], json!({"servers": []}));
        assert_eq!(config["limits"], json!({}));
    }
}
