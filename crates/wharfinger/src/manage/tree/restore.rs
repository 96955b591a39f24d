//! What was written back with markers in it is as it was (A111, P33).

use serde_json::Value;

use super::{MARKER, redacted};
use crate::manage::{Complaint, Error};

/// The values behind the markers of a configuration that was read redacted and is written back. A marker where nothing was
/// kept is refused: it would be taken for a value.
pub fn restore(before: &Value, written: Value) -> Result<Value, Error> {
    let mut complaints = vec![];
    let value = put_back(before, &redacted(before), written, "", &mut complaints);
    if complaints.is_empty() {
        Ok(value)
    } else {
        Err(Error::Arguments(complaints))
    }
}

fn put_back(
    before: &Value,
    hidden: &Value,
    written: Value,
    at: &str,
    complaints: &mut Vec<Complaint>,
) -> Value {
    if written == *hidden {
        return before.clone();
    }
    let below = |key: &str| {
        if at.is_empty() {
            key.to_owned()
        } else {
            format!("{at}.{key}")
        }
    };
    match written {
        Value::Object(members) => {
            let members = members.into_iter().map(|(key, value)| {
                let value = put_back(
                    &before[&key],
                    &hidden[&key],
                    value,
                    &below(&key),
                    complaints,
                );
                (key, value)
            });
            Value::Object(members.collect())
        }
        Value::Array(items) => {
            let mut taken = vec![];
            let items = items.into_iter().enumerate().map(|(i, item)| {
                let like = position(hidden, &item, i, &mut taken);
                let (before, hidden) = like.map_or((&Value::Null, &Value::Null), |like| {
                    (&before[like], &hidden[like])
                });
                put_back(before, hidden, item, &format!("{at}[{i}]"), complaints)
            });
            items.collect()
        }
        Value::String(text) if text.contains(MARKER) => {
            complaints.push(Complaint {
                field: at.to_owned(),
                text: format!("holds `{MARKER}`, which stands for a value that is not kept there"),
            });
            Value::String(text)
        }
        other => other,
    }
}

/// Which row of a list an item was: the one of its name, else one equal to it, else the one at its place.
fn position(hidden: &Value, item: &Value, at: usize, taken: &mut Vec<usize>) -> Option<usize> {
    let rows = hidden.as_array()?;
    let free = |i: &usize, taken: &[usize]| !taken.contains(i);
    let find = |fits: &dyn Fn(&Value) -> bool, taken: &[usize]| {
        (0..rows.len()).find(|i| free(i, taken) && fits(&rows[*i]))
    };
    let name = ["name", "key", "path", "id", "header"]
        .iter()
        .find(|key| item[**key].is_string());
    let found = match name {
        Some(key) => find(&|row| row[*key] == item[*key], taken),
        None => find(&|row| row == item, taken)
            .or_else(|| (at < rows.len() && free(&at, taken)).then_some(at)),
    };
    taken.extend(found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kept() -> Value {
        json!({"mcp": {"servers": [
            {"name": "a", "env": {"K": "one", "L": "two"}, "args": ["--token", "abc", "--v"], "url": "https://h/?k=v"},
            {"name": "b", "env": {"K": "three"}},
        ]}})
    }

    #[test]
    fn a111_a_marker_written_back_is_the_value_that_was_kept() {
        assert_eq!(restore(&kept(), redacted(&kept())).unwrap(), kept());
        // In another order, with a row less, and with news beside it.
        let mut written = redacted(&kept());
        written["mcp"]["servers"].as_array_mut().unwrap().swap(0, 1);
        written["mcp"]["servers"][1]["env"]["L"] = "new".into();
        written["mcp"]["servers"][1]["args"][2] = "--w".into();
        let restored = restore(&kept(), written).unwrap();
        assert_eq!(
            restored,
            json!({"mcp": {"servers": [
                {"name": "b", "env": {"K": "three"}},
                {"name": "a", "env": {"K": "one", "L": "new"}, "args": ["--token", "abc", "--w"], "url": "https://h/?k=v"},
            ]}})
        );
    }

    #[test]
    fn p33_a_marker_for_nothing_is_no_value() {
        let mut written = redacted(&kept());
        written["mcp"]["servers"][0]["env"]["NEW"] = MARKER.into();
        written["mcp"]["servers"][1]["name"] = "c".into();
        let error = restore(&kept(), written).unwrap_err();
        let fields: Vec<String> = error.fields().keys().cloned().collect();
        assert_eq!(fields, ["mcp.servers[0].env.NEW", "mcp.servers[1].env.K"]);
    }
}
