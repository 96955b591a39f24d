//! A registry of npm, and an index of Python, on this machine: serves what a test puts into it, and counts.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256, Sha512};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Answers until it is dropped.
pub(crate) struct Registry {
    pub(crate) url: String,
    shelf: Arc<Shelf>,
    serving: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Shelf {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    asked: Mutex<Vec<String>>,
    /// While true, archives are not answered.
    held: watch::Sender<bool>,
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// What is in an archive.
pub(crate) enum Part<'a> {
    File(&'a str, &'a str),
    Link(&'a str, &'a str),
}

/// One version of a package.
pub(crate) struct Release<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    /// Members of its `package.json` beside name and version.
    pub(crate) manifest: Value,
    pub(crate) parts: Vec<Part<'a>>,
}

/// A server of MCP in one file; its tools are those of its manifest, and each tells how it was started.
pub(crate) const SERVER: &str = r"#!/usr/bin/env node
const own = require('./package.json');
const tools = (own.tools || ['work']).map(name => (
  { name, description: 'of ' + own.version, inputSchema: { type: 'object' } }));
const answer = message => {
  switch (message.method) {
    case 'initialize':
      return { protocolVersion: '2025-06-18', capabilities: { tools: {} },
        serverInfo: { name: own.name, version: own.version } };
    case 'tools/list': return { tools };
    case 'tools/call':
      return { content: [{ type: 'text', text: JSON.stringify(
        { version: own.version, argv: process.argv.slice(1), cwd: process.cwd() }) }] };
    case 'ping': return {};
  }
};
require('readline').createInterface({ input: process.stdin }).on('line', line => {
  const message = JSON.parse(line);
  if (message.id === undefined) return;
  const result = answer(message);
  const rest = result ? { result } : { error: { code: -32601, message: 'no' } };
  process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...rest }) + '\n');
});
";

impl<'a> Release<'a> {
    /// One that is a server.
    pub(crate) fn server(name: &'a str, version: &'a str) -> Self {
        Self {
            name,
            version,
            manifest: json!({ "bin": "server.js" }),
            parts: vec![Part::File("server.js", SERVER)],
        }
    }

    pub(crate) fn with(mut self, member: &str, value: Value) -> Self {
        self.manifest[member] = value;
        self
    }
}

impl Registry {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shelf = Arc::new(Shelf::default());
        let own = shelf.clone();
        let serving = tokio::spawn(async move {
            let mut all = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                all.spawn(answer(stream, own.clone()));
            }
        });
        Self {
            url,
            shelf,
            serving,
        }
    }

    /// Puts a version on the shelf, as the newest one.
    pub(crate) fn publish(&self, version: &Release<'_>) {
        let archive = archive(version);
        let integrity = format!("sha512-{}", STANDARD.encode(Sha512::digest(&archive)));
        self.publish_as(version, archive, &integrity);
    }

    /// The same, with an archive and a hash that need not belong together.
    pub(crate) fn publish_as(&self, version: &Release<'_>, archive: Vec<u8>, integrity: &str) {
        let short = version.name.rsplit('/').next().unwrap();
        let path = format!("/{}/-/{short}-{}.tgz", version.name, version.version);
        let mut files = self.shelf.files.lock().unwrap();
        let key = format!("/{}", version.name);
        let known = files.get(&key).map(|text| serde_json::from_slice(text));
        let mut packument: Value = known.map_or(json!({ "versions": {} }), Result::unwrap);
        packument["name"] = json!(version.name);
        packument["dist-tags"] = json!({ "latest": version.version });
        let mut manifest = manifest(version);
        manifest["dist"] =
            json!({ "tarball": format!("{}{path}", self.url), "integrity": integrity });
        packument["versions"][version.version] = manifest;
        files.insert(key, packument.to_string().into_bytes());
        files.insert(path, archive);
    }

    /// Puts a package of Python on the shelf that is source code alone.
    pub(crate) fn publish_source(&self, name: &str, version: &str, setup: &str) {
        let folder = format!("{name}-{version}");
        let info = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
        let parts = [Part::File("setup.py", setup), Part::File("PKG-INFO", &info)];
        let archive = zipped(&folder, &parts);
        let hash = Sha256::digest(&archive);
        let hash = hash
            .iter()
            .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        let file = format!("{folder}.tar.gz");
        let page = format!("<a href=\"/files/{file}#sha256={hash}\">{file}</a>");
        let mut files = self.shelf.files.lock().unwrap();
        files.insert(format!("/simple/{name}/"), page.into_bytes());
        files.insert(format!("/files/{file}"), archive);
    }

    /// Keeps archives back, or lets them go.
    pub(crate) fn hold(&self, held: bool) {
        self.shelf.held.send_replace(held);
    }

    /// How many requests there were for archives.
    pub(crate) fn downloads(&self) -> usize {
        let asked = self.shelf.asked.lock().unwrap();
        asked.iter().filter(|path| path.ends_with("gz")).count()
    }

    /// How many requests there were at all.
    pub(crate) fn requests(&self) -> usize {
        self.shelf.asked.lock().unwrap().len()
    }
}

fn manifest(version: &Release<'_>) -> Value {
    let mut manifest = version.manifest.clone();
    for (member, value) in [("name", version.name), ("version", version.version)] {
        if manifest.get(member).is_none() {
            manifest[member] = json!(value);
        }
    }
    manifest
}

/// The archive of a version, as npm has them.
pub(crate) fn archive(version: &Release<'_>) -> Vec<u8> {
    let manifest = manifest(version).to_string();
    let own = [Part::File("package.json", &manifest)];
    zipped("package", own.iter().chain(&version.parts))
}

fn zipped<'a, 'b: 'a>(folder: &str, parts: impl IntoIterator<Item = &'a Part<'b>>) -> Vec<u8> {
    let mut tar = vec![];
    for part in parts {
        let (path, body, kind, target) = match part {
            Part::File(path, body) => (path, body.as_bytes(), b'0', ""),
            Part::Link(path, target) => (path, [].as_slice(), b'2', *target),
        };
        let mut header = [0_u8; 512];
        let mut put = |at: usize, text: &str| {
            header[at..at + text.len()].copy_from_slice(text.as_bytes());
        };
        put(0, &format!("{folder}/{path}"));
        put(100, "0000755\0");
        put(108, "0000000\0");
        put(116, "0000000\0");
        put(124, &format!("{:011o}\0", body.len()));
        put(136, "00000000000\0");
        put(148, "        ");
        put(157, target);
        put(257, "ustar\x0000");
        header[156] = kind;
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        tar.extend_from_slice(&header);
        tar.extend_from_slice(body);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    let mut zip = GzEncoder::new(vec![], Compression::fast());
    zip.write_all(&tar).unwrap();
    zip.finish().unwrap()
}

/// One request, one answer.
async fn answer(mut stream: TcpStream, shelf: Arc<Shelf>) {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::new(read).lines();
    let Ok(Some(first)) = lines.next_line().await else {
        return;
    };
    while let Ok(Some(line)) = lines.next_line().await {
        if line.is_empty() {
            break;
        }
    }
    let path = first.split(' ').nth(1).unwrap_or_default();
    let path = path.replace("%2f", "/").replace("%2F", "/");
    shelf.asked.lock().unwrap().push(path.clone());
    if path.ends_with("gz") {
        let mut held = shelf.held.subscribe();
        held.wait_for(|held| !held).await.ok();
    }
    let found = shelf.files.lock().unwrap().get(&path).cloned();
    let (status, body) = match found {
        Some(body) => ("200 OK", body),
        None => ("404 Not Found", b"{\"error\":\"not found\"}".to_vec()),
    };
    let kind = if path.starts_with("/simple") {
        "text/html"
    } else if path.ends_with("gz") {
        "application/octet-stream"
    } else {
        "application/json"
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    write.write_all(head.as_bytes()).await.ok();
    write.write_all(&body).await.ok();
    write.shutdown().await.ok();
}
