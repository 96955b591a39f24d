//! `wharf journal`

use hyper::Method;
use serde_json::Value;
use wharfinger::journal::{Row, Verified};
use wharfinger_daemon::client::{Client, Messages};

use super::{part, read, times};
use crate::World;
use crate::cli::{Journal, JournalCommand};
use crate::failure::{Exit, Failure};
use crate::ui::count;

/// Rows of one question to the daemon.
const PIECE: usize = 2000;

/// Rows, where it is not said how many.
const USUAL: usize = 100;

pub(super) async fn run(world: &World, journal: Journal) -> Result<(), Failure> {
    let client = world.paths.client();
    if let Some(JournalCommand::Verify) = journal.command {
        return verify(world, &client).await;
    }
    let filter = filter(&journal);
    // What comes between the past and the stream is in the stream.
    let newest = ask(&client, "?limit=1").await?;
    let mut after = seq(newest.last());
    let limit = match journal.limit {
        None if journal.since.is_some() => 0,
        limit => limit.unwrap_or(USUAL),
    };
    let shown = if limit == 0 {
        all(world, &client, &filter).await?
    } else {
        latest(world, &client, &filter, limit).await?
    };
    if shown == 0 && !journal.follow {
        world.ui.say("the journal has no such rows");
    }
    after = after.max(shown);
    if journal.follow {
        let path = format!("/api/journal/follow?after={after}{filter}");
        let rows = client.stream(Method::GET, &path, None).await?;
        return follow(world, rows).await;
    }
    Ok(())
}

/// As more parameters of a query.
fn filter(journal: &Journal) -> String {
    let parameters = [
        ("agent", journal.agent.clone()),
        ("server", journal.server.clone()),
        ("kind", journal.kind.clone()),
        ("since", journal.since.map(|since| since.to_string())),
    ];
    let given = parameters
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    let words = given.map(|(name, value)| format!("&{name}={}", part(&value)));
    words.collect::<Vec<_>>().concat()
}

async fn ask(client: &Client, query: &str) -> Result<Vec<Value>, Failure> {
    let value = client.get(&format!("/api/journal{query}")).await?;
    read(&value["rows"])
}

fn seq(row: Option<&Value>) -> u64 {
    row.and_then(|row| row["seq"].as_u64()).unwrap_or(0)
}

/// Prints every row; gives the number of the last one.
async fn all(world: &World, client: &Client, filter: &str) -> Result<u64, Failure> {
    let mut after = 0;
    loop {
        let rows = ask(client, &format!("?limit={PIECE}&after={after}{filter}")).await?;
        print(world, &rows)?;
        if rows.is_empty() {
            return Ok(after);
        }
        after = seq(rows.last());
    }
}

/// Prints the latest rows; gives the number of the last one.
async fn latest(
    world: &World,
    client: &Client,
    filter: &str,
    limit: usize,
) -> Result<u64, Failure> {
    let (mut pieces, mut left, mut before) = (vec![], limit, String::new());
    while left > 0 {
        let rows = ask(
            client,
            &format!("?limit={}{before}{filter}", left.min(PIECE)),
        )
        .await?;
        if rows.is_empty() {
            break;
        }
        left -= rows.len().min(left);
        before = format!("&before={}", seq(rows.first()));
        pieces.push(rows);
    }
    let last = seq(pieces.first().and_then(|rows| rows.last()));
    for rows in pieces.iter().rev() {
        print(world, rows)?;
    }
    Ok(last)
}

async fn follow(world: &World, mut rows: Messages) -> Result<(), Failure> {
    while let Some(row) = rows.next().await? {
        print(world, &[row.data])?;
    }
    world.ui.say("the daemon has stopped");
    Ok(())
}

fn print(world: &World, rows: &[Value]) -> Result<(), Failure> {
    for value in rows {
        if world.ui.json {
            world.ui.answer_json_line(value)?;
            continue;
        }
        let (start, rest) = line(&read(value)?);
        let rest = match rest {
            Some(rest) => {
                let rest = world.ui.rest_of_line(&rest, start.chars().count() + 2);
                format!("  {rest}")
            }
            None => String::new(),
        };
        world.ui.answer(&format!("{start}{rest}"))?;
    }
    Ok(())
}

/// When, who, what, and what came of it; then what may be long.
fn line(row: &Row) -> (String, Option<String>) {
    let who = row.who.strip_prefix("agent:").unwrap_or(&row.who);
    let about = match (row.server.as_deref(), row.tool.as_deref()) {
        (Some(server), Some(tool)) => format!(" {server}/{tool}"),
        (None, Some(name)) | (Some(name), None) => format!(" {name}"),
        (None, None) => String::new(),
    };
    let agent = row.agent.as_deref().filter(|agent| *agent != who);
    let agent = agent
        .map(|agent| format!(" for {agent}"))
        .unwrap_or_default();
    let took = row
        .millis
        .map(|millis| format!(", {millis} ms"))
        .unwrap_or_default();
    let approval = row
        .approval
        .as_deref()
        .map(|id| format!(", approval {id}"))
        .unwrap_or_default();
    let what = format!("{}{about}{agent}", row.kind);
    let start = format!(
        "{}  {who:10}  {what:30}  {}{took}{approval}",
        times::shown(row.at),
        row.outcome
    );
    let subject = row.subject.as_ref().map(|subject| subject.get());
    let more = [row.text.as_deref(), row.preview.as_deref(), subject];
    let more: Vec<&str> = more
        .into_iter()
        .flatten()
        .filter(|more| *more != "{}")
        .collect();
    let more = more.join("  ").replace(['\n', '\r'], " ");
    (start, Some(more).filter(|more| !more.is_empty()))
}

async fn verify(world: &World, client: &Client) -> Result<(), Failure> {
    let value = client.get("/api/journal/verify").await?;
    let verified: Verified = read(&value)?;
    if world.ui.json {
        world.ui.answer_json(&value)?;
        return match verified.broken {
            None => Ok(()),
            Some(_) => Err(Failure::Known(Exit::Failed)),
        };
    }
    let (first, last) = (verified.first.unwrap_or(0), verified.last.unwrap_or(0));
    let held = format!("{}, {first} to {last}", count_rows(verified.rows));
    match verified.broken {
        Some(broken) => {
            let failure = Failure::failed(format!("the journal was changed: {}", broken.what));
            Err(failure.hint(match verified.rows {
                0 => "no row before it is as it was written".to_owned(),
                _ => format!("up to there it is as it was written: {held}"),
            }))
        }
        None if verified.rows == 0 => Ok(world.ui.answer("the journal is empty")?),
        None => Ok(world.ui.answer(&format!(
            "the journal is as it was written: {held}; the last row has the hash {}",
            verified.hash
        ))?),
    }
}

fn count_rows(rows: u64) -> String {
    count(usize::try_from(rows).unwrap_or(usize::MAX), "row")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_row_is_a_line() {
        let check = |mut row: Value, expect: &str| {
            for (key, value) in [
                ("seq", json!(1)),
                ("at", json!(1_769_860_800_123_u64)),
                ("hash", json!("00")),
            ] {
                row[key] = value;
            }
            let (start, rest) = line(&serde_json::from_str(&row.to_string()).unwrap());
            let told = rest.map_or(start.clone(), |rest| format!("{start}  {rest}"));
            assert_eq!(told, format!("2026-01-31 12:00:00  {expect}"));
        };
        check(
            json!({"kind": "call", "who": "agent:bot", "agent": "bot", "server": "s", "tool": "t", "outcome": "error",
                "millis": 12, "approval": "a1", "preview": "{\"x\":1}", "text": "why"}),
            "bot         call s/t                        error, 12 ms, approval a1  why  {\"x\":1}",
        );
        check(
            json!({"kind": "lifecycle.started", "who": "system", "agent": "bot", "server": "s", "outcome": "ok",
                "subject": {"pid": 7}}),
            "system      lifecycle.started s for bot     ok  {\"pid\":7}",
        );
        check(
            json!({"kind": "config.agent-added", "who": "owner", "agent": "bot", "outcome": "ok"}),
            "owner       config.agent-added for bot      ok",
        );
    }
}
