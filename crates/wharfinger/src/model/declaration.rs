//! What an agent may do with a tool: a row of `tools` in the agent's configuration (A149, A213).
//!
//! Other programs write these rows too, so they are edited in place: what we do not know stays as it was.

use serde::Serialize;
use serde_json::{Map, Value};

/// What the last listing said about a declared tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ToolStatus {
    /// Seen for the first time.
    New,
    /// It is not what was reviewed, and off until it is reviewed again.
    Changed,
    /// Its server does not list it any more.
    Removed,
}

impl ToolStatus {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::New, Self::Changed, Self::Removed];

    /// The word that files have for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }

    /// The status of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

/// One tool of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a row of a file that has these flags"
)]
pub struct Declaration {
    /// As the agent calls it.
    pub name: String,
    /// It may be called.
    pub enabled: bool,
    /// The model is told of it.
    pub visible: bool,
    /// Each call waits for a person.
    pub restricted: bool,
    /// Only the owner changes this row by hand; nothing else loosens it.
    pub locked: bool,
    /// The definition that was last seen, as a text or as its hash (A148).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_tool_hash: Option<String>,
    /// See [`ToolStatus`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_tool_status: Option<ToolStatus>,
}

impl Declaration {
    /// Whether it is what it is because of a change that nobody reviewed yet.
    pub fn is_pending(&self) -> bool {
        matches!(
            self.mcp_tool_status,
            Some(ToolStatus::Changed | ToolStatus::Removed)
        )
    }
}

/// Why declarations could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeclarationError {
    /// The configuration is another kind of value.
    #[error("the agent's configuration is not an object, so no tool can be declared in it")]
    NotAnObject,
    /// So is its `tools`.
    #[error("`tools` of the agent's configuration is not a list; make it one")]
    NotAList,
}

/// The declarations in an agent's configuration, in their order. A missing flag is false. Of rows with the same name the
/// first counts, but what one of them restricts or locks stays so. Rows that are no declarations are passed over.
pub fn declarations(config: &Value) -> Vec<Declaration> {
    let mut found: Vec<Declaration> = vec![];
    let mut places = std::collections::HashMap::new();
    for row in config
        .get("tools")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let Some(declaration) = row.as_object().and_then(read) else {
            continue;
        };
        if let Some(&first) = places.get(&declaration.name) {
            let first: &mut Declaration = &mut found[first];
            first.restricted |= declaration.restricted;
            first.locked |= declaration.locked;
        } else {
            places.insert(declaration.name.clone(), found.len());
            found.push(declaration);
        }
    }
    found
}

fn read(row: &Map<String, Value>) -> Option<Declaration> {
    let flag = |key| row.get(key).and_then(Value::as_bool).unwrap_or_default();
    let text = |key| row.get(key).and_then(Value::as_str);
    Some(Declaration {
        name: text("name")?.to_owned(),
        enabled: flag("enabled"),
        visible: flag("visible"),
        restricted: flag("restricted"),
        locked: flag("locked"),
        mcp_tool_hash: text("mcp_tool_hash").map(str::to_owned),
        mcp_tool_status: text("mcp_tool_status").and_then(ToolStatus::parse),
    })
}

/// Writes declarations into an agent's configuration and says whether that changed anything. Only members that read
/// otherwise are touched; rows that are not there yet follow at the end. Rows of other names stay.
pub fn declare(config: &mut Value, changed: &[Declaration]) -> Result<bool, DeclarationError> {
    if changed.is_empty() {
        return Ok(false);
    }
    let config = config
        .as_object_mut()
        .ok_or(DeclarationError::NotAnObject)?;
    let rows = config
        .entry("tools")
        .or_insert_with(|| Value::Array(vec![]));
    let rows = rows.as_array_mut().ok_or(DeclarationError::NotAList)?;
    let mut any = false;
    let mut places: std::collections::HashMap<String, Vec<usize>> =
        std::collections::HashMap::new();
    for (index, row) in rows.iter().enumerate() {
        if let Some(name) = row.get("name").and_then(Value::as_str) {
            places.entry(name.to_owned()).or_default().push(index);
        }
    }
    for declaration in changed {
        let places = places.entry(declaration.name.clone()).or_default();
        if places.is_empty() {
            places.push(rows.len());
            rows.push(Value::Object(Map::new()));
        }
        for (nth, index) in places.iter().enumerate() {
            if let Some(row) = rows[*index].as_object_mut() {
                any |= if nth == 0 {
                    write(row, declaration)
                } else {
                    loosen(row, declaration)
                };
            }
        }
    }
    Ok(any)
}

fn write(row: &mut Map<String, Value>, wanted: &Declaration) -> bool {
    let was = read(row);
    let fresh = was.is_none();
    let was = was.unwrap_or_default();
    let mut any = fresh;
    if fresh {
        row.insert("name".into(), wanted.name.clone().into());
    }
    let flags = [
        ("enabled", was.enabled, wanted.enabled),
        ("visible", was.visible, wanted.visible),
        ("restricted", was.restricted, wanted.restricted),
        ("locked", was.locked, wanted.locked),
    ];
    for (key, was, wanted) in flags {
        // A new row says all but that it is not locked.
        if was != wanted || (fresh && key != "locked") {
            row.insert(key.into(), wanted.into());
            any = true;
        }
    }
    if was.mcp_tool_hash != wanted.mcp_tool_hash {
        put(row, "mcp_tool_hash", wanted.mcp_tool_hash.as_deref());
        any = true;
    }
    if was.mcp_tool_status != wanted.mcp_tool_status {
        put(
            row,
            "mcp_tool_status",
            wanted.mcp_tool_status.map(ToolStatus::as_str),
        );
        any = true;
    }
    any
}

/// What a later row of the same name would add is taken from it, or the first could not be loosened.
fn loosen(row: &mut Map<String, Value>, wanted: &Declaration) -> bool {
    let mut any = false;
    for (key, wanted) in [("restricted", wanted.restricted), ("locked", wanted.locked)] {
        if !wanted && row.get(key) == Some(&Value::Bool(true)) {
            row.insert(key.into(), false.into());
            any = true;
        }
    }
    any
}

fn put(row: &mut Map<String, Value>, key: &str, value: Option<&str>) {
    match value {
        Some(value) => drop(row.insert(key.into(), value.into())),
        // What follows keeps its order.
        None => drop(row.shift_remove(key)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(name: &str) -> Declaration {
        Declaration {
            name: name.into(),
            ..Declaration::default()
        }
    }

    #[test]
    fn a149_missing_flags_are_false_and_the_first_of_a_name_counts() {
        let config = json!({"tools": [
            {"name": "a"},
            {"name": "b", "enabled": true, "visible": true, "restricted": true, "locked": true,
             "mcp_tool_hash": "h", "mcp_tool_status": "changed"},
            7, {"enabled": true}, {"name": 7},
            {"name": "c", "enabled": "yes", "visible": 1, "mcp_tool_hash": 1, "mcp_tool_status": "odd"},
            {"name": "a", "enabled": true, "visible": true, "restricted": true, "mcp_tool_hash": "x"},
            {"name": "c", "locked": true},
            {"name": "b"},
        ]});
        let full = Declaration {
            enabled: true,
            visible: true,
            restricted: true,
            locked: true,
            mcp_tool_hash: Some("h".into()),
            mcp_tool_status: Some(ToolStatus::Changed),
            ..row("b")
        };
        let expect = [
            Declaration {
                restricted: true,
                ..row("a")
            },
            full,
            Declaration {
                locked: true,
                ..row("c")
            },
        ];
        assert_eq!(declarations(&config), expect);
        for nothing in [
            json!({}),
            json!(7),
            json!({"tools": {}}),
            json!({"tools": []}),
        ] {
            assert_eq!(declarations(&nothing), []);
        }
    }

    #[test]
    fn a213_rows_are_edited_in_place_and_new_ones_follow() {
        let mut config = json!({
            "id": "x",
            "tools": [
                {"x": 1, "name": "a", "enabled": true, "mcp_tool_hash": "h", "y": [], "mcp_tool_status": "changed", "z": 1},
                7,
                {"name": "b", "mcp_tool_status": "odd", "visible": "yes"},
            ],
            "mcp": {},
        });
        let mut rows = declarations(&config);
        assert_eq!(declare(&mut config, &rows), Ok(false));
        rows[0].enabled = false;
        rows[0].mcp_tool_hash = Some("h2".into());
        rows[0].mcp_tool_status = None;
        rows[1].restricted = true;
        rows.push(Declaration {
            enabled: true,
            mcp_tool_status: Some(ToolStatus::New),
            ..row("c")
        });
        rows.push(Declaration {
            locked: true,
            ..row("d")
        });
        assert_eq!(declare(&mut config, &rows), Ok(true));
        let expect = concat!(
            r#"{"id":"x","tools":[{"x":1,"name":"a","enabled":false,"mcp_tool_hash":"h2","y":[],"z":1},7,"#,
            r#"{"name":"b","mcp_tool_status":"odd","visible":"yes","restricted":true},"#,
            r#"{"name":"c","enabled":true,"visible":false,"restricted":false,"mcp_tool_status":"new"},"#,
            r#"{"name":"d","enabled":false,"visible":false,"restricted":false,"locked":true}],"mcp":{}}"#
        );
        assert_eq!(config.to_string(), expect);
        assert_eq!(declarations(&config), rows);
        assert_eq!(declare(&mut config, &rows), Ok(false));
    }

    #[test]
    fn each_member_alone_is_a_change() {
        let changes: [fn(&mut Declaration); 6] = [
            |row| row.enabled = true,
            |row| row.visible = true,
            |row| row.restricted = true,
            |row| row.locked = true,
            |row| row.mcp_tool_hash = Some("h".into()),
            |row| row.mcp_tool_status = Some(ToolStatus::Removed),
        ];
        for change in changes {
            let mut config = json!({"tools": [{"name": "a"}]});
            let mut rows = declarations(&config);
            change(&mut rows[0]);
            assert_eq!(declare(&mut config, &rows), Ok(true));
            assert_eq!(declarations(&config), rows);
            assert_eq!(declare(&mut config, &[row("a")]), Ok(true));
            assert_eq!(declarations(&config), [row("a")]);
        }
    }

    #[test]
    fn a149_what_a_later_row_restricts_can_be_lifted() {
        let mut config = json!({"tools": [
            {"name": "a"},
            {"name": "a", "restricted": true, "locked": true, "enabled": true, "x": 1},
            {"name": "a", "locked": false},
        ]});
        let read = declarations(&config);
        assert_eq!(declare(&mut config, &read), Ok(true));
        let mut rows = declarations(&config);
        assert!(rows[0].restricted && rows[0].locked);
        rows[0].restricted = false;
        assert_eq!(declare(&mut config, &rows), Ok(true));
        assert_eq!(declarations(&config), rows);
        rows[0].locked = false;
        assert_eq!(declare(&mut config, &rows), Ok(true));
        assert_eq!(declarations(&config), rows);
        assert_eq!(
            config["tools"][1],
            json!({"name": "a", "restricted": false, "locked": false, "enabled": true, "x": 1})
        );
        assert_eq!(config["tools"][2], json!({"name": "a", "locked": false}));
        // Where the first row says it, nothing is left to lift in the others.
        let mut config = json!({"tools": [{"name": "a"}, {"name": "a", "restricted": true}]});
        assert_eq!(declare(&mut config, &[row("a")]), Ok(true));
        assert_eq!(declarations(&config), [row("a")]);
        assert_eq!(declare(&mut config, &[row("a")]), Ok(false));
    }

    #[test]
    fn a_configuration_of_another_shape_is_left_alone() {
        let mut config = json!([]);
        assert_eq!(
            declare(&mut config, &[row("a")]),
            Err(DeclarationError::NotAnObject)
        );
        assert_eq!(config, json!([]));
        let mut config = json!({"tools": {}});
        assert_eq!(
            declare(&mut config, &[row("a")]),
            Err(DeclarationError::NotAList)
        );
        assert_eq!(config, json!({"tools": {}}));
        let mut config = json!({});
        assert_eq!(declare(&mut config, &[]), Ok(false));
        assert_eq!(config, json!({}));
        assert_eq!(declare(&mut config, &[row("a"), row("a")]), Ok(true));
        assert_eq!(declarations(&config), [row("a")]);
    }

    #[test]
    fn statuses_have_words() {
        assert_eq!(
            ToolStatus::ALL.map(ToolStatus::as_str),
            ["new", "changed", "removed"]
        );
        for status in ToolStatus::ALL {
            assert_eq!(ToolStatus::parse(status.as_str()), Some(status));
            let pending = Declaration {
                mcp_tool_status: Some(status),
                ..row("a")
            }
            .is_pending();
            assert_eq!(pending, status != ToolStatus::New);
        }
        assert_eq!(ToolStatus::parse("New"), None);
        assert!(!row("a").is_pending());
    }
}
