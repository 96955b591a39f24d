//! `wharf stdio`: the door for MCP clients that start a command. Bytes go to the daemon and back unread.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use wharfinger_daemon::client::ClientError;

use crate::World;
use crate::failure::{Exit, Failure};

/// Lines of MCP can be long, and are passed on in as few pieces as can be.
const BUFFER: usize = 64 * 1024;

pub(super) async fn run(world: &World, agent: &str) -> Result<(), Failure> {
    let client = world.paths.client();
    let stream = match client.attach(agent).await {
        Err(ClientError::NotRunning { .. }) => {
            start_daemon(world)?;
            client.attach(agent).await
        }
        other => other,
    };
    let stream = stream.map_err(|error| match error {
        ClientError::Refused { status: 404, .. } => {
            Failure::told(Exit::Unknown, format!("there is no agent `{agent}`"))
                .hint("`wharf agent list` lists them, `wharf agent new` makes one")
        }
        other => other.into(),
    })?;
    let (from_daemon, to_daemon) = tokio::io::split(stream);
    let mut there = std::pin::pin!(there(tokio::io::stdin(), to_daemon));
    let mut back = std::pin::pin!(pump(from_daemon, tokio::io::stdout()));
    tokio::select! {
        // The client is done: what is still under way is answered, then the daemon closes.
        sent = &mut there => match sent {
            Ok(()) => tokio::select! {
                ended = &mut back => end(ended),
                () = nobody_reads() => Err(Failure::Enough),
            },
            // It can't take any more, and why is known once its last words are read.
            Err(_) => back.await.map_or_else(|error| end(Err(error)), |()| Err(lost())),
        },
        ended = &mut back => match ended {
            Ok(()) => Err(lost()),
            Err(error) => end(Err(error)),
        },
    }
}

/// How often it is looked whether anybody reads, once nothing more can come.
const LOOK: Duration = Duration::from_millis(200);

/// Waits until the client has closed its end of our standard output, as it does when it dies: what it asked is not to
/// go on for nobody.
async fn nobody_reads() {
    let stdout = io::stdout();
    loop {
        let mut ends = [PollFd::new(&stdout, PollFlags::empty())];
        let looked = poll(&mut ends, Some(&Timespec::default()));
        let gone = PollFlags::ERR | PollFlags::HUP;
        if looked.is_ok() && ends[0].revents().intersects(gone) {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// A client that reads no more is done.
fn end(outcome: io::Result<()>) -> Result<(), Failure> {
    outcome.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Enough,
        io::ErrorKind::ConnectionReset => lost(),
        _ => lost().because(&error),
    })
}

fn lost() -> Failure {
    Failure::failed("the daemon ended, and with it this connection")
        .hint("start this command again; it starts a daemon when none runs")
}

async fn there(from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    pump(from, &mut to).await?;
    to.shutdown().await
}

async fn pump(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read]).await?;
        to.flush().await?;
    }
}

/// `wharf up --background` waits until there is one, its own or another's, and says on our standard error what is wrong.
fn start_daemon(world: &World) -> Result<(), Failure> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the daemon is ours, and is not waited for"
    )]
    let mut command = Command::new(&world.program);
    command
        .arg("--home")
        .arg(world.paths.home())
        .args(["up", "--background", "--for-client"]);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status.map(|status| status.code()) {
        Ok(Some(0)) => Ok(()),
        Ok(Some(2)) => Err(Failure::Known(Exit::Usage)),
        Ok(_) => Err(Failure::Known(Exit::Failed)),
        Err(error) => Err(Failure::failed("can't start the daemon").because(&error)),
    }
}
