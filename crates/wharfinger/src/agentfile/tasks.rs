//! Rows of `adf_tasks`: calls that wait for somebody, and what became of them.

use std::fmt;

use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::file::now;
use super::{AgentFile, Error, random};

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    /// Noted.
    Pending,
    /// Waiting for a person.
    PendingApproval,
    /// Being made.
    Running,
    /// Done.
    Completed,
    /// It went wrong, or nobody knows how it went.
    Failed,
    /// A person said no.
    Denied,
    /// Nobody wants it any more.
    Cancelled,
}

impl TaskStatus {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::PendingApproval,
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::Denied,
        Self::Cancelled,
    ];

    /// As the format writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::PendingApproval => "pending_approval",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing follows it.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Pending | Self::PendingApproval | Self::Running => false,
            Self::Completed | Self::Failed | Self::Denied | Self::Cancelled => true,
        }
    }

    fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A call as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// See [`task_id`].
    pub id: String,
    /// The tool's name as the agent sees it.
    pub tool: String,
    /// JSON.
    pub args: String,
    /// How far it is.
    pub status: TaskStatus,
    /// JSON or text.
    pub result: Option<String>,
    /// Text.
    pub error: Option<String>,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// Milliseconds since 1970.
    pub completed_at: Option<i64>,
    /// Who asked for it, such as `hil:<agent>:<id>`.
    pub origin: Option<String>,
    /// Whether a person must agree.
    pub requires_authorization: bool,
    /// Whether it ends with the program that runs it.
    pub executor_managed: bool,
    /// JSON: why it waits.
    pub approval_meta: Option<String>,
}

impl Task {
    /// One that was just asked for, with a new id.
    pub fn new(tool: impl Into<String>, args: impl Into<String>) -> Self {
        Self {
            id: task_id(),
            tool: tool.into(),
            args: args.into(),
            status: TaskStatus::Pending,
            result: None,
            error: None,
            created_at: now(),
            completed_at: None,
            origin: None,
            requires_authorization: false,
            executor_managed: false,
            approval_meta: None,
        }
    }
}

/// What a move to another state changes besides; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskChange {
    /// JSON.
    pub args: Option<String>,
    /// JSON or text.
    pub result: Option<String>,
    /// Text.
    pub error: Option<String>,
    /// JSON.
    pub approval_meta: Option<String>,
}

/// A new id.
pub fn task_id() -> String {
    format!("task_{}", random::id())
}

const COLUMNS: &str = "id, tool, args, status, result, error, created_at, completed_at, origin, \
     requires_authorization, executor_managed, approval_meta";

impl AgentFile {
    /// Keeps a new one. Its id must be new.
    pub fn add_task(&self, task: &Task) -> Result<(), Error> {
        self.write(|write| {
            write.run(|db| add(db, task))?;
            write.fits("adf_tasks", "id = ?1", [&task.id])
        })
    }

    /// One of them, unless it is in a state that is not the format's.
    pub fn task(&self, id: &str) -> Result<Option<Task>, Error> {
        self.read(|db, _| {
            let query = format!("SELECT {COLUMNS} FROM adf_tasks WHERE id = ?1");
            db.prepare_cached(&query)?
                .query_row([id], read)
                .optional()
                .map(Option::flatten)
        })
    }

    /// Those in any of some states, the oldest first. Of more than ten thousand, the newest.
    pub fn tasks(&self, states: &[TaskStatus]) -> Result<Vec<Task>, Error> {
        self.read(|db, _| find(db, states))
    }

    /// Moves one to another state, if it is in one of some states; whether it was. Of several who want to move it
    /// one succeeds.
    pub fn move_task(
        &self,
        id: &str,
        from: &[TaskStatus],
        to: TaskStatus,
        change: &TaskChange,
    ) -> Result<bool, Error> {
        self.write(|write| {
            let moved = write.run(|db| move_one(db, id, from, to, change))?;
            write.fits("adf_tasks", "id = ?1", [id])?;
            Ok(moved)
        })
    }

    /// Of those that are over, forgets all but the latest; only of those that have a member of that name in their
    /// `approval_meta`, which says whose they are.
    pub fn prune_tasks(&self, member: &str, keep: u32) -> Result<usize, Error> {
        self.write(|write| {
            write.run(|db| {
                let over = TaskStatus::ALL.iter().filter(|status| status.is_terminal());
                let over: Vec<String> = over.map(|status| format!("'{status}'")).collect();
                let query = format!(
                    "DELETE FROM adf_tasks WHERE id IN (SELECT id FROM adf_tasks
                     WHERE status IN ({}) AND executor_managed AND json_valid(approval_meta)
                         AND json_type(approval_meta, ?1) IS NOT NULL
                     ORDER BY created_at DESC, id DESC LIMIT -1 OFFSET ?2)",
                    over.join(", ")
                );
                db.prepare_cached(&query)?
                    .execute(params![format!("$.{member}"), keep])
            })
        })
    }

    /// What to do when nobody runs any of them yet: those that ran have failed, since nobody knows how they went, and
    /// those that waited and end with their program are cancelled unless they are still wanted. Which were changed.
    pub fn settle_tasks(&self, is_wanted: impl Fn(&Task) -> bool) -> Result<Vec<Task>, Error> {
        use TaskStatus::{Cancelled, Failed, PendingApproval, Running};
        self.write(|write| {
            write.run(|db| {
                let mut changed = vec![];
                for task in find(db, &[Running, PendingApproval])? {
                    let (to, error) = match task.status {
                        Running => (Failed, "The program ended during the call; whether the call had an effect is not known"),
                        _ if !task.executor_managed || is_wanted(&task) => continue,
                        _ => (Cancelled, "The program ended before anybody decided"),
                    };
                    let change = TaskChange { error: Some(error.to_owned()), ..TaskChange::default() };
                    move_one(db, &task.id, &[task.status], to, &change)?;
                    changed.push(Task { status: to, error: change.error, ..task });
                }
                Ok(changed)
            })
        })
    }
}

fn add(connection: &Connection, task: &Task) -> rusqlite::Result<()> {
    connection
        .prepare_cached(&format!(
            "INSERT INTO adf_tasks ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
        ))?
        .execute(params![
            task.id,
            task.tool,
            task.args,
            task.status.as_str(),
            task.result,
            task.error,
            task.created_at,
            task.completed_at,
            task.origin,
            task.requires_authorization,
            task.executor_managed,
            task.approval_meta
        ])
        .map(drop)
}

fn find(connection: &Connection, states: &[TaskStatus]) -> rusqlite::Result<Vec<Task>> {
    let marks = vec!["?"; states.len()].join(", ");
    let query = format!(
        "SELECT * FROM (SELECT {COLUMNS} FROM adf_tasks WHERE status IN ({marks})
         ORDER BY created_at DESC, id DESC LIMIT 10000) ORDER BY created_at, id"
    );
    connection
        .prepare_cached(&query)?
        .query_map(params_from_iter(states.iter().map(|s| s.as_str())), read)?
        .filter_map(Result::transpose)
        .collect()
}

fn move_one(
    connection: &Connection,
    id: &str,
    from: &[TaskStatus],
    to: TaskStatus,
    change: &TaskChange,
) -> rusqlite::Result<bool> {
    let from: Vec<String> = from.iter().map(|s| format!("'{s}'")).collect();
    let query = format!(
        "UPDATE adf_tasks SET status = ?2, args = coalesce(?3, args), result = coalesce(?4, result),
             error = coalesce(?5, error), approval_meta = coalesce(?6, approval_meta),
             completed_at = coalesce(?7, completed_at)
         WHERE id = ?1 AND status IN ({})",
        from.join(", ")
    );
    let moved = connection.prepare_cached(&query)?.execute(params![
        id,
        to.as_str(),
        change.args,
        change.result,
        change.error,
        change.approval_meta,
        to.is_terminal().then(now)
    ])?;
    Ok(moved > 0)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Option<Task>> {
    let Some(status) = TaskStatus::read(&row.get::<_, String>(3)?) else {
        return Ok(None);
    };
    Ok(Some(Task {
        id: row.get(0)?,
        tool: row.get(1)?,
        args: row.get(2)?,
        status,
        result: row.get(4)?,
        error: row.get(5)?,
        created_at: row.get(6)?,
        completed_at: row.get(7)?,
        origin: row.get(8)?,
        requires_authorization: row.get(9)?,
        executor_managed: row.get(10)?,
        approval_meta: row.get(11)?,
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::agentfile::tests::Made;

    #[test]
    fn a224_a_task_is_kept_with_all_it_has() {
        let made = Made::new();
        let file = made.open();
        let task = Task {
            status: TaskStatus::PendingApproval,
            origin: Some("hil:agent:1".into()),
            requires_authorization: true,
            executor_managed: true,
            approval_meta: Some(r#"{"reason":"restricted"}"#.into()),
            ..Task::new("mcp_git_push", r#"{"force":true}"#)
        };
        assert!(task.id.starts_with("task_") && task.id.len() == 17);
        file.add_task(&task).unwrap();
        assert!(file.add_task(&task).is_err(), "an id is used once");
        file.close().unwrap();
        let file = made.open();
        assert_eq!(file.task(&task.id).unwrap(), Some(task.clone()));
        assert_eq!(file.tasks(&[TaskStatus::PendingApproval]).unwrap(), [task]);
        assert_eq!(file.tasks(&[TaskStatus::Pending]).unwrap(), []);
        assert_eq!(file.tasks(&[]).unwrap(), []);
        assert_eq!(file.task("task_other").unwrap(), None);
    }

    #[test]
    fn a_row_for_which_the_file_could_not_be_opened_again_is_not_written() {
        let made = Made::new();
        let file = made.open();
        let large = Task::new("t", "x".repeat(33 << 20));
        let refused = file.add_task(&large).unwrap_err().to_string();
        assert!(refused.contains("adf_tasks"), "{refused}");
        let small = Task::new("t", "{}");
        file.add_task(&small).unwrap();
        let change = TaskChange {
            result: Some(large.args),
            ..TaskChange::default()
        };
        let ended = file.move_task(
            &small.id,
            &[TaskStatus::Pending],
            TaskStatus::Completed,
            &change,
        );
        assert!(ended.is_err());
        file.close().unwrap();
        let file = made.open();
        assert_eq!(file.tasks(&TaskStatus::ALL).unwrap(), [small]);
    }

    #[test]
    fn of_what_is_over_the_latest_stays() {
        let made = Made::new();
        let file = made.open();
        for (n, (status, meta)) in [
            (TaskStatus::Completed, r#"{"ours":{}}"#),
            (TaskStatus::PendingApproval, r#"{"ours":{}}"#),
            (TaskStatus::Denied, r#"{"theirs":{}}"#),
            (TaskStatus::Failed, "no JSON"),
            (TaskStatus::Failed, r#"{"ours":{}}"#),
            (TaskStatus::Denied, r#"{"ours":{}}"#),
        ]
        .into_iter()
        .enumerate()
        {
            let task = Task {
                id: n.to_string(),
                status,
                created_at: i64::try_from(n).unwrap(),
                executor_managed: true,
                approval_meta: Some(meta.into()),
                ..Task::new("t", "{}")
            };
            file.add_task(&task).unwrap();
        }
        assert_eq!(file.prune_tasks("ours", 2).unwrap(), 1);
        let left = file.tasks(&TaskStatus::ALL).unwrap();
        let left: Vec<&str> = left.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(left, ["1", "2", "3", "4", "5"]);
    }

    #[test]
    fn a229_states_are_those_of_the_format() {
        let names: Vec<&str> = TaskStatus::ALL.iter().map(|s| s.as_str()).collect();
        let all = "pending pending_approval running completed failed denied cancelled";
        assert_eq!(names.join(" "), all);
        let made = Made::new();
        made.craft(
            "INSERT INTO adf_tasks (id, tool, status, created_at) VALUES ('a', 't', 'paused', 1)",
        );
        let file = made.open();
        assert_eq!(file.task("a").unwrap(), None);
        assert_eq!(file.tasks(&TaskStatus::ALL).unwrap(), []);
    }

    #[test]
    fn p21_of_several_decisions_one_counts() {
        let made = Made::new();
        let file = Arc::new(made.open());
        let one = Task::new("t", "{}");
        let two = Task::new("t", "{}");
        file.add_task(&one).unwrap();
        file.add_task(&two).unwrap();
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let (file, id) = (Arc::clone(&file), one.id.clone());
                std::thread::spawn(move || {
                    let change = TaskChange {
                        result: Some(n.to_string()),
                        ..TaskChange::default()
                    };
                    let to = [TaskStatus::Denied, TaskStatus::Completed][n % 2];
                    file.move_task(&id, &[TaskStatus::Pending], to, &change)
                        .unwrap()
                })
            })
            .collect();
        let won: Vec<usize> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .enumerate()
            .filter_map(|(n, won)| won.then_some(n))
            .collect();
        assert_eq!(won.len(), 1);
        let done = file.task(&one.id).unwrap().unwrap();
        assert_eq!(done.result, Some(won[0].to_string()));
        assert!(done.completed_at.is_some() && done.status.is_terminal());
        assert_eq!(
            file.task(&two.id).unwrap(),
            Some(two),
            "the other is not touched"
        );
    }

    #[test]
    fn a231_nobody_knows_how_a_running_one_went() {
        use TaskStatus::{Cancelled, Completed, Failed, Pending, PendingApproval, Running};
        let made = Made::new();
        let file = made.open();
        for (id, status, executor_managed) in [
            ("ran", Running, false),
            ("wanted", PendingApproval, true),
            ("unwanted", PendingApproval, true),
            ("waits", PendingApproval, false),
            ("noted", Pending, true),
            ("done", Completed, true),
        ] {
            let task = Task {
                id: id.into(),
                status,
                executor_managed,
                ..Task::new("t", "{}")
            };
            file.add_task(&task).unwrap();
        }
        let changed = file.settle_tasks(|task| task.id == "wanted").unwrap();
        let mut changed: Vec<_> = changed.iter().map(|t| (t.id.as_str(), t.status)).collect();
        changed.sort_by_key(|(id, _)| *id);
        assert_eq!(changed, [("ran", Failed), ("unwanted", Cancelled)]);
        let status = |id: &str| file.task(id).unwrap().unwrap().status;
        assert_eq!(status("ran"), Failed);
        assert_eq!(status("unwanted"), Cancelled);
        assert_eq!(status("wanted"), PendingApproval);
        assert_eq!(status("waits"), PendingApproval);
        assert_eq!(status("noted"), Pending);
        assert_eq!(status("done"), Completed);
        let told = file.task("ran").unwrap().unwrap().error.unwrap();
        assert!(told.contains("is not known"), "{told}");
        assert_eq!(file.settle_tasks(|_| true).unwrap(), []);
    }
}
