//! `sys_update_config`: a request becomes a list of changes, each judged by the table of [`super::rules`].

use serde_json::Value;

use super::rules::{self, Rule};
use super::target::{Keys, get, resolve, set, text, unknown};
use super::{MARKER, redacted, violations};
use crate::manage::package::{check_name, check_url, is_sensitive_header};
use crate::manage::{Action, Error, Server, UpdateConfig};

/// One field that changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Where, rows by their names.
    pub path: String,
    /// What was there.
    pub before: Option<Value>,
    /// What will be there.
    pub after: Option<Value>,
    keys: Keys,
}

/// What a request comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// What changes; nothing where all is as it was.
    pub changes: Vec<Change>,
    /// What a person has to agree to; completes "the agent …". Empty: nothing.
    pub approvals: Vec<String>,
    /// Servers that come (A93).
    pub servers_added: Vec<String>,
    /// Servers that go.
    pub servers_removed: Vec<String>,
}

impl Changes {
    /// Whether a person has to agree.
    pub fn needs_approval(&self) -> bool {
        !self.approvals.is_empty()
    }

    /// Makes them, and nothing else (P36).
    fn apply(&self, config: &mut Value) {
        for change in &self.changes {
            set(config, &change.keys, change.after.clone());
        }
    }

    /// As the tool answers it. Values are not repeated: one may be a secret.
    pub fn to_value(&self) -> Value {
        let paths: Vec<&str> = self.changes.iter().map(|c| c.path.as_str()).collect();
        let message = match paths[..] {
            [] => "all is as it was; nothing was changed".to_owned(),
            [path] => format!("changed `{path}`"),
            _ => format!("changed `{}`", paths.join("`, `")),
        };
        serde_json::json!({"success": true, "changed": paths, "message": message})
    }
}

/// What a request would do, and whether a person has to agree. Nothing is changed. `registered` are names of servers the
/// owner registered.
pub fn review(
    config: &Value,
    request: &UpdateConfig,
    registered: &[&str],
) -> Result<Changes, Error> {
    let mut keys = resolve(config, &request.path)?;
    rules::outside(&keys)?;
    let value = match &request.action {
        Action::Set(value) => Some(value.clone()),
        Action::Remove => None,
        Action::Append(entry) => {
            if keys != ["mcp", "servers"] {
                return Err(Error::refused(format!(
                    "nothing can be appended to `{}`; only to `mcp.servers`",
                    text(&keys)
                )));
            }
            let name = entry["name"].as_str().unwrap_or_default();
            if crate::manage::find(config, name).is_ok() {
                return Err(Error::refused(format!("a server `{name}` is installed")));
            }
            keys.push(name.to_owned());
            Some(entry.clone())
        }
    };
    let hidden = redacted(config);
    let mut review = Review {
        config,
        hidden: &hidden,
        registered,
        found: Changes::default(),
    };
    review.walk(&keys, value)?;
    let found = review.found;
    let mut after = config.clone();
    found.apply(&mut after);
    let kept = violations(config);
    let new: Vec<_> = violations(&after)
        .into_iter()
        .filter(|violation| !kept.contains(violation))
        .collect();
    if !new.is_empty() {
        return Err(Error::Arguments(new));
    }
    Ok(found)
}

/// Reviews a request and carries it out on what the configuration is now. A change that needs a person's word is made
/// too: whoever calls this has it.
pub fn update(
    config: &mut Value,
    request: &UpdateConfig,
    registered: &[&str],
) -> Result<Changes, Error> {
    let changes = review(config, request, registered)?;
    changes.apply(config);
    Ok(changes)
}

struct Review<'a> {
    config: &'a Value,
    hidden: &'a Value,
    registered: &'a [&'a str],
    found: Changes,
}

impl Review<'_> {
    /// Follows an object into its members, down to what is judged as one.
    fn walk(&mut self, keys: &[String], value: Option<Value>) -> Result<(), Error> {
        let before = get(self.config, keys);
        // What is as it was, or as it was shown, is no change (A111, P33).
        if value.is_some() && (value.as_ref() == before || value.as_ref() == get(self.hidden, keys))
        {
            return Ok(());
        }
        rules::outside(keys)?;
        let parts: Vec<&str> = keys.iter().map(String::as_str).collect();
        match (&parts[..], value) {
            (["limits" | "mcp"], Some(Value::Object(members))) => self.members(keys, members),
            (["tools", _] | ["mcp", "servers", _], Some(Value::Object(members)))
                if before.is_some() =>
            {
                self.members(keys, members)
            }
            (_, None) if before.is_none() && self.has_row(keys) => Ok(()),
            (["mcp", "servers", name], Some(entry)) if before.is_none() => {
                self.added(keys, name, &entry)
            }
            // A member of `null` is taken away.
            (
                ["limits", _] | ["mcp", "new_tools_restricted"] | ["mcp", "servers", _, ..],
                Some(Value::Null),
            ) => match before {
                None => Ok(()),
                Some(_) => self.change(keys, None),
            },
            (["mcp" | "limits" | "tools"], value) => Err(Error::refused(match value {
                None => format!("`{}` may not be taken away", keys[0]),
                Some(_) => format!("`{0}` is changed by its members: `{0}.…`", keys[0]),
            })),
            (["mcp", "servers", _], Some(_)) => Err(Error::refused(format!(
                "`{}` must be an object",
                text(keys)
            ))),
            (_, _) if !self.has_row(keys) => Err(unknown(self.config, keys)),
            (_, value) => self.change(keys, value),
        }
    }

    /// Whether the row that is written into, or taken away, is there. Paths that lead through none have theirs.
    fn has_row(&self, keys: &[String]) -> bool {
        let row = match keys.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["tools", _, ..] => 2,
            ["mcp", "servers", _, ..] => 3,
            _ => return true,
        };
        get(self.config, &keys[..row]).is_some()
    }

    fn members(
        &mut self,
        keys: &[String],
        members: serde_json::Map<String, Value>,
    ) -> Result<(), Error> {
        for (key, value) in members {
            let below: Keys = keys.iter().cloned().chain([key]).collect();
            self.walk(&below, Some(value))?;
        }
        Ok(())
    }

    /// A server that was not there: the same as an install may do, and no more.
    fn added(&mut self, keys: &[String], name: &str, entry: &Value) -> Result<(), Error> {
        let path = text(keys);
        let refuse = |why: String| Err(Error::refused(format!("`{path}` {why}")));
        let Value::Object(members) = entry else {
            return refuse(
                "is not installed; to add it give an object, or use `mcp_install`".into(),
            );
        };
        if let Err(why) = check_name(name) {
            return refuse(format!("cannot be added: the name {why}"));
        }
        let mut entry = members.clone();
        match entry.get("name").and_then(Value::as_str) {
            Some(given) if given != name => {
                return refuse(format!("cannot be added under another name, `{given}`"));
            }
            _ => {
                entry.shift_remove("name");
                entry.shift_insert(0, "name".into(), name.into());
            }
        }
        for field in entry.keys() {
            let known = rules::SERVER_FIXED.contains(&field.as_str())
                || ["tool_call_timeout_ms", "description"].contains(&field.as_str());
            let mine = !matches!(
                field.as_str(),
                "restricted" | "available_tools" | "mcp_tool_hash" | "mcp_tool_status" | "oauth"
            );
            if !known || !mine {
                return refuse(format!("cannot be added with `{field}`"));
            }
        }
        let entry = Value::Object(entry);
        let server = Server(&entry);
        if server.wants_host() {
            return refuse(
                "cannot be added on the host; use `mcp_install` with `host: true`".into(),
            );
        }
        if entry["env"].as_object().is_some_and(|env| !env.is_empty()) {
            return refuse(
                "cannot be added with `env`: use `mcp_install`, which stores the values sealed"
                    .into(),
            );
        }
        let headers = entry["headers"].as_object().into_iter().flatten();
        if let Some((header, _)) = headers
            .into_iter()
            .find(|(key, _)| is_sensitive_header(key))
        {
            return refuse(format!(
                "cannot be added with a secret in header `{header}`; name its variable in `header_env`"
            ));
        }
        let files = entry["credential_files"].as_array().into_iter().flatten();
        if files.into_iter().any(|file| file.get("content").is_some()) {
            return refuse(
                "cannot be added with content of `credential_files`: use `mcp_install`, which seals it"
                    .into(),
            );
        }
        if let Some(url) = server.text("url")
            && let Err(why) = check_url(url)
        {
            return refuse(format!("cannot be added: its `url` {why}"));
        }
        if server.text("command").is_none() && server.text("url").is_none() {
            return refuse("cannot be added without `command` or `url`; `mcp_install` makes an entry of a package".into());
        }
        if self.registered.contains(&name) {
            return refuse(
                "is a server of the owner's; `mcp_install` with its name attaches it".into(),
            );
        }
        self.change(keys, Some(entry))
    }

    /// One change, judged.
    fn change(&mut self, keys: &[String], after: Option<Value>) -> Result<(), Error> {
        let path = text(keys);
        let before = get(self.config, keys).cloned();
        let server = match &keys.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["mcp", "servers", name, ..] => Some((*name).to_owned()),
            _ => None,
        };
        let registered = server
            .as_deref()
            .is_some_and(|name| self.registered.contains(&name));
        let rule = rules::rule(keys, before.as_ref(), after.as_ref(), registered);
        if let Rule::Never(why) = &rule {
            return Err(Error::refused(format!("`{path}` was not changed: {why}")));
        }
        rules::locked(
            self.config,
            keys,
            before.as_ref().is_some_and(Value::is_object),
        )?;
        if after
            .as_ref()
            .is_some_and(|after| after.to_string().contains(MARKER))
        {
            return Err(Error::refused(format!(
                "`{path}` was not changed: the value holds `{MARKER}`, which stands for what is kept"
            )));
        }
        if let Rule::Approval(what) = rule {
            self.found.approvals.push(what);
        }
        if let (Some(name), 3) = (server, keys.len()) {
            match after {
                Some(_) => self.found.servers_added.push(name),
                None => self.found.servers_removed.push(name),
            }
        }
        self.found.changes.push(Change {
            path,
            before,
            after,
            keys: keys.to_vec(),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
