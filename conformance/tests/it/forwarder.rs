//! Connections for a suite that has no token: everything is passed on byte for byte, and each
//! request gets the header `Authorization`. Over TCP, so that the daemon looks at `Host` and
//! `Origin` as it does for anybody.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{self, Runtime};
use tokio::task::JoinSet;

/// Forwards until it goes.
pub(crate) struct Forwarder {
    address: SocketAddr,
    /// Its tasks go with it.
    _runtime: Runtime,
}

impl Forwarder {
    pub(crate) fn start(daemon: &str, token: &str) -> Self {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_io()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (daemon, token) = (daemon.to_owned(), token.to_owned());
        drop(runtime.spawn(accept(listener, daemon, token)));
        Self {
            address,
            _runtime: runtime,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }
}

async fn accept(listener: TcpListener, daemon: String, token: String) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (daemon, token) = (daemon.clone(), token.clone());
        connections.spawn(async move {
            let Ok(daemon) = TcpStream::connect(daemon).await else {
                return;
            };
            daemon.set_nodelay(true).ok();
            let (from_client, mut to_client) = client.into_split();
            let (mut from_daemon, to_daemon) = daemon.into_split();
            // Whichever side closes, the other sees it at once.
            tokio::select! {
                _ = requests(from_client, to_daemon, &token) => {}
                _ = tokio::io::copy(&mut from_daemon, &mut to_client) => {}
            }
        });
    }
}

/// One request after the other, each with the token and in one piece, as the suite writes them.
async fn requests(
    client: OwnedReadHalf,
    mut daemon: OwnedWriteHalf,
    token: &str,
) -> io::Result<()> {
    let mut client = BufReader::new(client);
    let authorization = format!("Authorization: Bearer {token}\r\n\r\n");
    let mut line = Vec::new();
    loop {
        let mut request = Vec::new();
        let mut length = 0;
        loop {
            line.clear();
            if client.read_until(b'\n', &mut line).await? == 0 {
                return Ok(());
            }
            if line == b"\r\n" {
                break;
            }
            length = content_length(&line).unwrap_or(length);
            request.extend_from_slice(&line);
        }
        request.extend_from_slice(authorization.as_bytes());
        let head = request.len();
        request.resize(head + length, 0);
        client.read_exact(&mut request[head..]).await?;
        daemon.write_all(&request).await?;
    }
}

/// All bodies of the suite have a length.
fn content_length(line: &[u8]) -> Option<usize> {
    let (name, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
    let length = name.eq_ignore_ascii_case("content-length");
    length.then(|| value.trim().parse().ok())?
}
