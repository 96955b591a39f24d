//! The task that writes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::Shared;

/// How long replies that are already on their way may take after the server stopped reading.
const LAST_WORDS: Duration = Duration::from_secs(2);

pub(super) async fn run<W: AsyncWrite + Unpin>(writer: W, shared: Arc<Shared>) {
    let written = tokio::select! {
        written = write(writer, &shared) => written,
        () = shared.abandoned.cancelled() => Ok(()),
    };
    shared.outgoing.close();
    if written.is_err() {
        // A server that answered and went away at once breaks the pipe before its last words are
        // read. The reading task says when that is done.
        tokio::select! {
            () = tokio::time::sleep(LAST_WORDS) => shared.end(),
            () = shared.closed.cancelled() => {}
        }
    }
}

/// Takes all that waits and writes it in one go, until the queue is closed and empty.
async fn write<W: AsyncWrite + Unpin>(mut writer: W, shared: &Shared) -> io::Result<()> {
    let mut batch = Vec::new();
    while shared.outgoing.take(&mut batch).await {
        writer.write_all(&batch).await?;
        writer.flush().await?;
    }
    writer.shutdown().await
}
