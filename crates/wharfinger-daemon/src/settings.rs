//! `settings.json`: its one writer, and the eye on it.

use std::collections::BTreeMap;
use std::time::Duration;

use notify::{RecursiveMode, Watcher};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use wharfinger::config::files::{self, Readers};
use wharfinger::config::{EditError, Inputs, Loaded, load};
use wharfinger::model::ServerEntry;
use wharfinger::{Change, Connect, Wharf};

use crate::home::{Home, HomeError};

/// Reads all sources, and writes the one that is the owner's.
pub(crate) struct Settings {
    home: Home,
    environment: BTreeMap<String, String>,
    run: Vec<ServerEntry>,
    /// Held while the file is read, changed and put in force, so that changes come one after the other.
    text: Mutex<Option<String>>,
}

/// Why settings were not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error(transparent)]
    Edit(#[from] EditError),
    #[error(transparent)]
    Home(#[from] HomeError),
}

/// How long an empty file is given to be filled.
const HALF_WRITTEN: Duration = Duration::from_millis(500);

impl Settings {
    pub(crate) fn new(
        home: Home,
        environment: BTreeMap<String, String>,
        run: Vec<ServerEntry>,
    ) -> Self {
        Self {
            home,
            environment,
            run,
            text: Mutex::default(),
        }
    }

    /// Reads everything, at start.
    pub(crate) async fn load(&self) -> Result<Loaded, HomeError> {
        let inputs = self.inputs()?;
        *self.text.lock().await = inputs.settings.as_ref().map(|file| file.text.clone());
        Ok(load(&inputs))
    }

    fn inputs(&self) -> Result<Inputs, HomeError> {
        let read = |path: std::path::PathBuf| {
            files::read(&path).map_err(|source| HomeError::Io { path, source })
        };
        Ok(Inputs {
            host: read(self.home.config())?,
            settings: read(self.home.settings())?,
            environment: self.environment.clone(),
            run: self.run.clone(),
        })
    }

    /// Changes the file and puts it in force.
    pub(crate) async fn edit(
        &self,
        wharf: &Wharf,
        edit: impl FnOnce(&str) -> Result<String, EditError>,
    ) -> Result<Change, SettingsError> {
        self.edit_to(wharf, edit, Connect::Now).await
    }

    /// The same; what is new may also wait for whoever lists it first.
    pub(crate) async fn edit_to(
        &self,
        wharf: &Wharf,
        edit: impl FnOnce(&str) -> Result<String, EditError>,
        connect: Connect,
    ) -> Result<Change, SettingsError> {
        let mut known = self.text.lock().await;
        let mut inputs = self.inputs()?;
        let before = inputs
            .settings
            .take()
            .map(|file| file.text)
            .unwrap_or_default();
        let after = edit(&before)?;
        let path = self.home.settings();
        files::replace(&path, &after, Readers::Usual).map_err(|source| HomeError::Io {
            path: path.clone(),
            source,
        })?;
        inputs.settings = Some(wharfinger::config::File {
            name: files::name(&path),
            text: after.clone(),
        });
        *known = Some(after);
        Ok(wharf.change_to(load(&inputs), connect).await)
    }

    /// Puts the file in force if somebody else changed it.
    async fn reload(&self, wharf: &Wharf) -> Result<(), HomeError> {
        let mut known = self.text.lock().await;
        let inputs = self.inputs()?;
        let text = inputs.settings.as_ref().map(|file| file.text.clone());
        if *known == text {
            return Ok(());
        }
        *known = text;
        let change = wharf.change(load(&inputs)).await;
        for problem in &change.problems {
            tracing::warn!("{}", wharf.redactor().text(&problem.text()));
        }
        tracing::info!("settings.json was changed and is in force");
        Ok(())
    }

    /// Watches the file until stopped. Where watching is not possible, only edits through us are seen, and it says so.
    pub(crate) async fn watch(&self, wharf: &Wharf, stop: CancellationToken) {
        let (changed, mut changes) = mpsc::channel(1);
        let path = self.home.settings();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // A full channel means that a look is due already.
            if event.is_ok_and(|e| e.need_rescan() || e.paths.contains(&path)) {
                changed.try_send(()).ok();
            }
        });
        let watching = watcher.and_then(|mut watcher| {
            watcher.watch(self.home.path(), RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        let _watcher = match watching {
            Ok(watcher) => watcher,
            Err(error) => {
                tracing::warn!("edits of settings.json will not be seen: {error}");
                return;
            }
        };
        while let Some(Some(())) = stop.run_until_cancelled(changes.recv()).await {
            // Editors write in several steps.
            tokio::time::sleep(Duration::from_millis(50)).await;
            changes.try_recv().ok();
            // Some empty the file before they fill it, and in between nobody means to stop every server.
            let path = self.home.settings();
            if std::fs::metadata(&path).is_ok_and(|file| file.len() == 0) {
                tokio::time::sleep(HALF_WRITTEN).await;
            }
            if let Err(error) = self.reload(wharf).await {
                tracing::warn!("{error}");
            }
        }
    }
}
