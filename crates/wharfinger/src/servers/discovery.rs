//! Listing a server's tools.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::timeout;
use wharfinger_wire::connection::CallError;
use wharfinger_wire::json::{Object, Raw, array, raw};
use wharfinger_wire::message::METHOD_NOT_FOUND;

use super::connect::{Live, connect};
use super::{Audience, Context, Discovered, LastWords, Lines, Note, Spec, StartError, Step};
use crate::model::{Limits, Status};

/// Starts a server for a moment, in a directory of its own, to learn what it offers (V51). The process is stopped
/// behind the caller's back, on the context's tasks; `dir` goes with it.
pub async fn discover(
    context: &Context,
    spec: &Spec,
    dir: tempfile::TempDir,
    audience: Arc<dyn Audience>,
) -> Result<Discovered, StartError> {
    let stderr = Lines::new(context.limits.stderr_lines);
    audience.note(Note::Status(Status::Starting));
    let limit = spec.policy.startup_timeout;
    let mut started = connect(context, spec, limit, &stderr, &audience, &context.stop).await?;
    let listing = timeout(limit, list(&started.live, &context.limits, limit));
    let listed = tokio::select! {
        listed = listing => Some(listed),
        () = context.stop.cancelled() => None,
        () = context.gate.until_shut() => None,
    };
    let live = started.live.clone();
    let words = Box::new(LastWords {
        stderr: started.own.tail(usize::MAX),
        noise: started.noise.tail(usize::MAX),
    });
    let (grace, gate) = (context.grace(), context.gate.clone());
    context.tasks.spawn(async move {
        live.connection.close();
        gate.end(&mut started.process, grace).await;
        live.connection.abandon();
        drop(dir);
        drop(started.keeps);
    });
    match listed {
        None => Err(context.stopped()),
        Some(Ok(Ok(discovered))) => {
            audience.step(Step::Listed);
            Ok(discovered)
        }
        Some(Ok(Err(reason))) => Err(StartError::List { reason, words }),
        Some(Err(_)) => Err(StartError::TimedOut { limit, words }),
    }
}

/// All that a server lists of one kind.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// In listing order, as they came.
    pub items: Vec<Arc<RawValue>>,
    /// How long it may be kept, in milliseconds, where the server says so.
    pub ttl_ms: Option<u64>,
}

/// How long each list but that of tools may take; a fifth of the limit of all if that is less.
const OTHERS: Duration = Duration::from_secs(5);

/// A kind of list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lists {
    /// How it is asked for.
    pub(crate) method: &'static str,
    /// The member of the answer that holds it.
    pub(crate) member: &'static str,
    /// The capability that says there is one.
    pub(crate) capability: &'static str,
}

impl Lists {
    pub(crate) const TOOLS: Self = Self {
        method: "tools/list",
        member: "tools",
        capability: "tools",
    };
    pub(crate) const PROMPTS: Self = Self {
        method: "prompts/list",
        member: "prompts",
        capability: "prompts",
    };
    pub(crate) const RESOURCES: Self = Self {
        method: "resources/list",
        member: "resources",
        capability: "resources",
    };
    pub(crate) const TEMPLATES: Self = Self {
        method: "resources/templates/list",
        member: "resourceTemplates",
        capability: "resources",
    };
}

/// Everything a server lists, all pages of it (V56).
///
/// Only its tools are waited for without a limit of their own: a server that does not answer about anything else still
/// has them.
pub(super) async fn list(
    live: &Live,
    limits: &Limits,
    limit: Duration,
) -> Result<Discovered, String> {
    let patience = OTHERS.min(limit / 5);
    let mut warnings = vec![];
    let mut lists = vec![];
    for kind in [
        Lists::TOOLS,
        Lists::PROMPTS,
        Lists::RESOURCES,
        Lists::TEMPLATES,
    ] {
        let listing = one(live, kind, limits, &mut warnings);
        let listed = if kind == Lists::TOOLS {
            listing.await
        } else {
            let listed = timeout(patience, listing).await;
            listed.unwrap_or_else(|_| Err("it did not answer in time".into()))
        };
        match listed {
            Ok(list) => lists.push(list),
            Err(reason) if kind == Lists::TOOLS => return Err(reason),
            Err(reason) => {
                warnings.push(format!("its {} failed: {reason}", kind.method));
                lists.push(List::default());
            }
        }
    }
    let mut lists = lists.into_iter();
    let mut next = || lists.next().unwrap_or_default();
    Ok(Discovered {
        description: live.description.clone(),
        tools: next().items,
        prompts: next(),
        resources: next(),
        templates: next(),
        warnings,
    })
}

/// One of its lists; an empty one where it does not say that it has any.
async fn one(
    live: &Live,
    lists: Lists,
    limits: &Limits,
    warnings: &mut Vec<String>,
) -> Result<List, String> {
    let mut pages = Pages::new(lists);
    let capabilities = Object::from_raw(&live.description.capabilities).unwrap_or_default();
    while capabilities.contains(lists.capability) && pages.more() {
        let params = live
            .params(pages.params().as_deref(), None)
            .map(Cow::into_owned);
        let call = live.connection.call(lists.method, params.as_deref(), false);
        let reply = match call {
            Ok(call) => call.reply().await,
            Err(error) => Err(error),
        };
        match reply {
            Ok(page) => pages.add(&page, limits)?,
            // Many servers with resources have no templates and do not know the question.
            Err(CallError::Server(error))
                if error.code == METHOD_NOT_FOUND && lists != Lists::TOOLS =>
            {
                break;
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    let (list, told) = pages.finish();
    warnings.extend(told);
    Ok(list)
}

/// A list that is read page by page; whoever asks for the pages is another.
#[derive(Debug)]
pub(crate) struct Pages {
    lists: Lists,
    list: List,
    read: usize,
    /// Where the next page begins; none after the last.
    cursor: Option<Raw>,
    previous: Option<String>,
    over: bool,
    warnings: Vec<String>,
}

impl Pages {
    pub(crate) fn new(lists: Lists) -> Self {
        Self {
            lists,
            list: List::default(),
            read: 0,
            cursor: None,
            previous: None,
            over: false,
            warnings: vec![],
        }
    }

    /// Whether there is another page to ask for.
    pub(crate) fn more(&self) -> bool {
        !self.over
    }

    /// The params that ask for the next page.
    pub(crate) fn params(&self) -> Option<Raw> {
        let cursor = self.cursor.as_ref();
        cursor.map(|cursor| raw(&json!({ "cursor": cursor })))
    }

    /// Takes the page that was asked for.
    pub(crate) fn add(&mut self, page: &RawValue, limits: &Limits) -> Result<(), String> {
        let Lists { method, member, .. } = self.lists;
        let object = Object::from_raw(page).map_err(|_| "the answer is not an object")?;
        let items = object
            .get(member)
            .ok_or_else(|| format!("the answer has no `{member}`"))?;
        self.read += 1;
        self.over = true;
        // A server that gives the same page for ever would fill any list.
        if self.previous.as_deref() == Some(items.get()) {
            let text = format!("its {method} repeats a page; the rest was not read");
            self.warnings.push(text);
            return Ok(());
        }
        self.previous = Some(items.get().to_owned());
        let items = array(items).map_err(|_| format!("`{member}` is not a list"))?;
        let room = limits.tools - self.list.items.len();
        if items.len() > room {
            self.warnings.push(format!(
                "it lists more than {} {member}; the rest was not read",
                limits.tools
            ));
        }
        let kept = items.into_iter().take(room);
        self.list
            .items
            .extend(kept.map(|item| Arc::<RawValue>::from(item.to_owned())));
        let ttl = object.get("ttlMs").and_then(|ttl| ttl.get().parse().ok());
        self.list.ttl_ms = self.list.ttl_ms.into_iter().chain(ttl).min();
        let next = object.get("nextCursor").filter(|next| next.get() != "null");
        self.cursor = next.map(ToOwned::to_owned);
        if self.cursor.is_none() || self.list.items.len() >= limits.tools {
            return Ok(());
        }
        if self.read >= limits.list_pages {
            self.warnings.push(format!(
                "its {method} has more than {} pages; the rest was not read",
                limits.list_pages
            ));
            return Ok(());
        }
        self.over = false;
        Ok(())
    }

    /// The list, and what was odd about it.
    pub(crate) fn finish(self) -> (List, Vec<String>) {
        (self.list, self.warnings)
    }
}
