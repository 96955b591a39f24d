//! One agent: its file, what it may do, and what it has of servers.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use arc_swap::ArcSwap;
use serde_json::json;

use crate::agentfile::{self, AgentFile, Keys, PinRow};
use crate::config::Config;
use crate::launch::Scratch;
use crate::model::{AgentName, Pin, Profile, ServerName, ToolName};
use crate::rights::Rights;
use crate::wharf::{Wharf, lock};

/// An agent.
pub(crate) struct Agent {
    pub(crate) name: AgentName,
    pub(crate) profile: Profile,
    /// Or why it can't be used.
    pub(crate) file: Result<Arc<AgentFile>, String>,
    pub(crate) rights: ArcSwap<Rights>,
    /// Its file was made here, or what would run of it was confirmed.
    pub(crate) is_trusted: AtomicBool,
    /// One change after the other.
    pub(crate) editing: tokio::sync::Mutex<()>,
    /// Where its servers stand, as long as one of them is there (A192).
    scratch: Mutex<Weak<Scratch>>,
    /// Its servers, by what they were made of.
    view: Mutex<Option<View>>,
}

struct View {
    config: Arc<Config>,
    rights: Arc<Rights>,
    made: Arc<Config>,
}

impl Agent {
    /// An agent without a file, that has every server.
    pub(crate) fn chat(name: AgentName) -> Self {
        Self {
            name,
            profile: Profile::Chat,
            file: Err("it has no file".into()),
            rights: ArcSwap::default(),
            is_trusted: AtomicBool::new(true),
            editing: tokio::sync::Mutex::default(),
            scratch: Mutex::default(),
            view: Mutex::default(),
        }
    }

    pub(crate) fn of_file(name: AgentName, file: AgentFile) -> Result<Self, agentfile::Error> {
        let profile = file.meta(agentfile::PROFILE)?;
        let profile = profile.as_deref().and_then(Profile::parse);
        Ok(Self {
            profile: profile.unwrap_or(Profile::Agent),
            rights: ArcSwap::from_pointee(rights(&file)?),
            is_trusted: AtomicBool::new(file.is_trusted()?),
            file: Ok(Arc::new(file)),
            ..Self::chat(name)
        })
    }

    pub(crate) fn unusable(name: AgentName, reason: String) -> Self {
        Self {
            // What it would be allowed is not known, so it is allowed nothing.
            profile: Profile::Agent,
            file: Err(reason),
            is_trusted: AtomicBool::new(false),
            ..Self::chat(name)
        }
    }

    pub(crate) fn rights(&self) -> Arc<Rights> {
        self.rights.load_full()
    }

    /// Whether what is in its file alone may run.
    pub(crate) fn is_trusted(&self) -> bool {
        self.is_trusted.load(Ordering::Acquire)
    }

    /// Why nothing may be done for it at all.
    pub(crate) fn problem(&self) -> Option<&str> {
        match self.profile {
            Profile::Agent => self.file.as_ref().err().map(String::as_str),
            Profile::Chat => None,
        }
    }

    pub(crate) fn file(&self) -> Result<Arc<AgentFile>, String> {
        self.file.clone()
    }

    /// The folder that its servers on this machine stand in; none for agents of the chat profile, whose servers stand in
    /// their workspace.
    pub(crate) fn scratch(&self, wharf: &Wharf) -> Option<Arc<Scratch>> {
        let path = match (self.profile, &self.file) {
            (Profile::Agent, Ok(file)) => file.path().to_owned(),
            (Profile::Chat, _) | (_, Err(_)) => return None,
        };
        let mut kept = lock(&self.scratch);
        if let Some(scratch) = kept.upgrade() {
            return Some(scratch);
        }
        match Scratch::new(&wharf.0.scratch, &path) {
            Ok(scratch) => {
                let scratch = Arc::new(scratch);
                *kept = Arc::downgrade(&scratch);
                Some(scratch)
            }
            Err(error) => {
                tracing::warn!(agent = %self.name, "{error}; its servers stand in its workspace");
                None
            }
        }
    }

    /// The servers that it has.
    pub(crate) fn view(&self, config: Arc<Config>, wharf: &Wharf) -> Arc<Config> {
        if self.profile == Profile::Chat {
            return config;
        }
        let rights = self.rights();
        let mut view = lock(&self.view);
        if let Some(view) = &*view
            && Arc::ptr_eq(&view.config, &config)
            && Arc::ptr_eq(&view.rights, &rights)
        {
            return view.made.clone();
        }
        let made = Arc::new(crate::installed::view(self, &config, &rights, wharf));
        *view = Some(View {
            config,
            rights,
            made: made.clone(),
        });
        made
    }
}

/// What a file gives its agent.
pub(crate) fn rights(file: &AgentFile) -> Result<Rights, agentfile::Error> {
    let pins = file.pins()?;
    Ok(Rights::read(
        &file.config(),
        pins.into_iter().filter_map(pin).collect(),
    ))
}

/// A row as a pin; one that names nothing is none.
pub(crate) fn pin(row: PinRow) -> Option<Pin> {
    Some(Pin {
        server: ServerName::new(&row.server).ok()?,
        tool: ToolName::new(&row.tool).ok()?,
        exposed: row.exposed,
        listed_for: row.listed_for,
        reviewed: row.reviewed,
        current: row.current,
        change: row
            .change
            .and_then(|change| serde_json::from_str(&change).ok()),
        changed_at: row.changed_at,
        on_before: row.on_before,
    })
}

/// A pin as a row.
pub(crate) fn row(pin: Pin) -> PinRow {
    PinRow {
        server: pin.server.to_string(),
        tool: pin.tool.as_str().to_owned(),
        exposed: pin.exposed,
        listed_for: pin.listed_for,
        reviewed: pin.reviewed,
        current: pin.current,
        change: pin.change.map(|change| json!(change).to_string()),
        changed_at: pin.changed_at,
        on_before: pin.on_before,
    }
}

/// The owner's keys, made when first needed.
#[derive(Clone, Debug)]
pub(crate) struct LazyKeys(Arc<(PathBuf, Mutex<Option<Keys>>)>);

impl LazyKeys {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self(Arc::new((folder, Mutex::default())))
    }

    pub(crate) fn get(&self) -> Result<Keys, agentfile::Error> {
        let mut keys = lock(&self.0.1);
        if let Some(keys) = &*keys {
            return Ok(keys.clone());
        }
        let loaded = Keys::load_or_create(&self.0.0)?;
        if let Some(warning) = loaded.warning() {
            tracing::warn!("{warning}");
        }
        Ok(keys.insert(loaded).clone())
    }
}
