//! What there is to measure with, and who takes part.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use wharfinger_bench::load::Peer;
use wharfinger_bench::session::Target;

use crate::gateway::{Gateway, Home, Server};
use crate::peers::Peers;

/// The name under which the daemon of this workspace is measured.
pub(crate) const WHARF: &str = "wharf";
/// What its targets are ratios to.
pub(crate) const BRIDGE: &str = "bridge";

pub(crate) struct Lab {
    pub(crate) echo: PathBuf,
    pub(crate) floor: PathBuf,
    /// Builds of the daemon, by name; this workspace's first.
    pub(crate) wharfs: Vec<(String, PathBuf)>,
    pub(crate) peers: Option<Peers>,
    pub(crate) quick: bool,
}

/// Everybody in front of the same server.
pub(crate) struct LineUp {
    /// The direct connection, the bare endpoint, then the gateways in their order.
    pub(crate) measured: Vec<Peer>,
    pub(crate) gateways: Vec<Gateway>,
    _floor: Gateway,
}

impl Lab {
    /// The fake server, with variables that say what it is to be.
    pub(crate) fn server(&self, name: &str, variables: &[(&str, &str)]) -> Server {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let mut env: BTreeMap<String, String> = variables.iter().map(own).collect();
        // Something to look for in whatever leaves.
        env.insert("BENCH_TOKEN".into(), "b7f3c1d09a5e4468b0c2".into());
        Server {
            name: name.to_owned(),
            command: vec![self.echo.to_string_lossy().into_owned()],
            env,
        }
    }

    /// A server of the handshake era, as most are.
    pub(crate) fn usual_server(&self, variables: &[(&str, &str)]) -> Server {
        self.server("echo", &[&[("LEGACY", "1")], variables].concat())
    }

    /// So many of them, each with tools of its own names.
    pub(crate) fn servers(&self, count: usize, variables: &[(&str, &str)]) -> Vec<Server> {
        let names = (1..=count).map(|number| format!("s{number:02}"));
        let server = |name: String| {
            let prefix = format!("{name}_");
            let own = [("LEGACY", "1"), ("PREFIX", prefix.as_str())];
            self.server(&name, &[&own, variables].concat())
        };
        names.map(server).collect()
    }

    /// Who has gateways, in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        let wharfs = self.wharfs.iter().map(|(name, _)| name.clone());
        let peers = self.peers.iter().flat_map(|peers| &peers.entries);
        let bridge = [BRIDGE.to_owned()].into_iter();
        let all = bridge.chain(wharfs);
        all.chain(peers.map(|entry| entry.name.clone())).collect()
    }

    /// One of them, in front of one server.
    pub(crate) async fn gateway(&self, name: &str, server: &Server) -> Result<Gateway> {
        if name == BRIDGE {
            let words = [vec!["bridge".to_owned()], server.words()].concat();
            return Gateway::floor(BRIDGE, &self.floor, &words);
        }
        if let Some((_, program)) = self.wharfs.iter().find(|(known, _)| known == name) {
            let home = Home::new(std::slice::from_ref(server))?;
            return Gateway::wharf(name, program, &home, None);
        }
        let peers = self.peers.as_ref().context("there are no peers")?;
        let entry = peers.entries.iter().find(|entry| entry.name == name);
        let entry = entry.with_context(|| format!("there is no {name}"))?;
        Gateway::peer(&peers.folder, entry, server).await
    }

    /// All of them, in front of the same kind of server.
    pub(crate) async fn gateways(&self, server: &Server) -> Result<Vec<Gateway>> {
        let mut gateways = Vec::new();
        for name in self.names() {
            match self.gateway(&name, server).await {
                Ok(gateway) => gateways.push(gateway),
                // What others can't do is not what is measured here.
                Err(error) if self.is_peer(&name) => eprintln!("bench: {name}: {error:#}"),
                Err(error) => return Err(error),
            }
        }
        Ok(gateways)
    }

    fn is_peer(&self, name: &str) -> bool {
        let mut peers = self.peers.iter().flat_map(|peers| &peers.entries);
        peers.any(|entry| entry.name == name)
    }

    /// Everybody, the direct connection first.
    pub(crate) async fn line_up(&self, server: &Server) -> Result<LineUp> {
        let floor = Gateway::floor("http", &self.floor, &["http".to_owned()])?;
        let gateways = self.gateways(server).await?;
        let direct = Peer {
            name: "direct".into(),
            target: Target::Stdio(server.words()),
            pid: None,
            token: None,
        };
        let mut measured = vec![direct, floor.measured()];
        measured.extend(gateways.iter().map(Gateway::measured));
        Ok(LineUp {
            measured,
            gateways,
            _floor: floor,
        })
    }

    /// One number for a run to quote, another for a look.
    pub(crate) fn of<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}
