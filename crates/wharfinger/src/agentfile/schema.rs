//! The tables of the format, and what a file must have of them.

use std::fmt::Write as _;

/// The schema of files that are made here.
pub(super) const MADE: i64 = 28;
/// The newest schema that is written; what came after 28 are columns with defaults.
pub(super) const NEWEST: i64 = 32;

/// All tables and indexes of schema 28.
pub(super) const TABLES: &str = include_str!("schema.sql");

/// Our own table: which definition of a tool was reviewed. Other programs leave it alone.
pub(super) const PINS: &str = "CREATE TABLE IF NOT EXISTS wharfinger_pins (
    server TEXT NOT NULL, tool TEXT NOT NULL, exposed TEXT NOT NULL, listed_for TEXT NOT NULL,
    reviewed TEXT, current TEXT, change TEXT, changed_at INTEGER, on_before INTEGER, PRIMARY KEY (server, tool))";

/// A table and the columns of it that are read or written here.
pub(super) struct Needed {
    pub table: &'static str,
    pub columns: &'static [&'static str],
    /// Whether a file without it is refused.
    pub required: bool,
}

pub(super) const NEEDED: &[Needed] = &[
    Needed {
        table: "adf_meta",
        columns: &["key", "value", "protection"],
        required: true,
    },
    Needed {
        table: "adf_config",
        columns: &["id", "config_json", "updated_at"],
        required: true,
    },
    Needed {
        table: "adf_files",
        columns: &[
            "path",
            "content",
            "mime_type",
            "size",
            "protection",
            "authorized",
            "created_at",
            "updated_at",
        ],
        required: true,
    },
    Needed {
        table: "adf_identity",
        columns: &[
            "purpose",
            "value",
            "encryption_algo",
            "salt",
            "kdf_params",
            "code_access",
        ],
        required: true,
    },
    Needed {
        table: "adf_tasks",
        columns: &[
            "id",
            "tool",
            "args",
            "status",
            "result",
            "error",
            "created_at",
            "completed_at",
            "origin",
            "requires_authorization",
            "executor_managed",
            "approval_meta",
        ],
        required: true,
    },
    Needed {
        table: "adf_logs",
        columns: &[
            "id",
            "level",
            "origin",
            "event",
            "target",
            "message",
            "data",
            "created_at",
        ],
        required: true,
    },
    Needed {
        table: "wharfinger_pins",
        columns: &[
            "server",
            "tool",
            "exposed",
            "listed_for",
            "reviewed",
            "current",
            "change",
            "changed_at",
            "on_before",
        ],
        required: false,
    },
];

/// What the columns of a table may hold, in bytes a row.
pub(super) const BOUNDS: &[(&str, &[&str], i64)] = &[
    ("adf_meta", &["key", "value"], 1 << 20),
    ("adf_config", &["config_json"], MAX_CONFIG),
    (
        "adf_identity",
        &["purpose", "value", "encryption_algo", "salt", "kdf_params"],
        MAX_SECRET + 4096,
    ),
    (
        "adf_tasks",
        &[
            "id",
            "tool",
            "args",
            "result",
            "error",
            "origin",
            "approval_meta",
        ],
        32 << 20,
    ),
    (
        "adf_logs",
        &["level", "origin", "event", "target", "message", "data"],
        8 << 20,
    ),
    (
        "wharfinger_pins",
        &[
            "server",
            "tool",
            "exposed",
            "listed_for",
            "reviewed",
            "current",
            "change",
        ],
        8 << 20,
    ),
];

/// Tables that are read whole, and the rows they may have.
pub(super) const COUNTS: &[(&str, i64)] = &[
    ("adf_meta", 10_000),
    ("adf_identity", 10_000),
    ("wharfinger_pins", 100_000),
];

/// Bytes of a configuration.
pub(super) const MAX_CONFIG: i64 = 8 << 20;
/// Bytes of a secret.
pub(super) const MAX_SECRET: i64 = 1 << 20;

/// A query for the sizes of rows that are beyond the bound, among those of which a condition is true.
pub(super) fn oversized(table: &str, columns: &[&str], bound: i64, of: &str) -> String {
    let mut sum = String::from("0");
    for column in columns {
        write!(sum, " + coalesce(octet_length({column}), 0)").expect("a string takes all");
    }
    format!("SELECT {sum} FROM {table} WHERE {sum} > {bound} AND {of} LIMIT 1")
}

/// How many rows a table may have that is read whole.
pub(super) fn most(table: &str) -> i64 {
    let mut counts = COUNTS.iter();
    let found = counts.find(|(known, _)| *known == table);
    found.map_or(i64::MAX, |(_, most)| *most)
}
