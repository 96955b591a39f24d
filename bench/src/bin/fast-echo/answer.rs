//! What each request is answered.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::Out;
use crate::content::{blob, image, tool_list};
use crate::message::{Arguments, CallParams, Message, error, field, progress, result, text};

const MODERN: &str = "2026-07-28";
const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const MAX_BYTES: usize = 64 << 20;
const INFO: &str = concat!(
    r#"{"name":"fast-echo","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}"#
);

pub(crate) struct Server {
    out: Out,
    prefix: String,
    modern: bool,
    tools: String,
    blobs: HashMap<usize, String>,
    images: HashMap<usize, String>,
}

impl Server {
    pub(crate) fn new(out: Out, prefix: String, tools: usize, modern: bool) -> Self {
        Self {
            out,
            tools: tool_list(&prefix, tools),
            prefix,
            modern,
            blobs: HashMap::new(),
            images: HashMap::new(),
        }
    }

    pub(crate) fn handle(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let Ok(message) = serde_json::from_slice::<Message<'_>>(line) else {
            if !line.trim_ascii().is_empty() {
                error(out, "null", -32700, "Parse error", "");
            }
            return;
        };
        let (Some(id), Some(method)) = (message.id, message.method.as_deref()) else {
            return; // a notification, or a response to nothing we asked
        };
        let id = id.get();
        let params = message.params.map_or("{}", RawValue::get);
        let modern = match field(params, VERSION_KEY) {
            Some(MODERN) if self.modern => true,
            Some(other) if self.modern => {
                let data = format!(
                    r#","data":{{"supported":["{MODERN}","{}"],"requested":"{other}"}}"#,
                    LEGACY[0]
                );
                return error(out, id, -32022, "Unsupported protocol version", &data);
            }
            _ => false,
        };
        // What every 2026-07-28 result carries besides its own fields.
        let (complete, cacheable) = if modern {
            (
                r#""resultType":"complete","#,
                r#","ttlMs":60000,"cacheScope":"public""#,
            )
        } else {
            ("", "")
        };
        match method {
            "tools/call" => self.call(id, params, complete, out),
            "tools/list" => {
                let tools = &self.tools;
                let members = format_args!(r#"{complete}"tools":[{tools}]{cacheable}"#);
                result(out, id, members);
            }
            "initialize" => {
                let asked = field(params, "protocolVersion");
                let version = asked.filter(|version| LEGACY.contains(version));
                let version = version.unwrap_or(LEGACY[0]);
                let members = format_args!(
                    r#""protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{INFO}"#
                );
                result(out, id, members);
            }
            "server/discover" if self.modern => {
                let members = format_args!(
                    r#"{complete}"supportedVersions":["{MODERN}"],"capabilities":{{"tools":{{}}}},"_meta":{{"io.modelcontextprotocol/serverInfo":{INFO}}}{cacheable}"#
                );
                result(out, id, members);
            }
            "ping" => result(out, id, format_args!("")),
            _ => error(out, id, -32601, "Method not found", ""),
        }
    }

    fn call(&mut self, id: &str, params: &str, complete: &str, out: &mut Vec<u8>) {
        let Ok(call) = serde_json::from_str::<CallParams<'_>>(params) else {
            return error(out, id, -32602, "Invalid params", "");
        };
        let arguments = call
            .arguments
            .map(|raw| serde_json::from_str::<Arguments<'_>>(raw.get()));
        let Ok(arguments) = arguments.unwrap_or_else(|| Ok(Arguments::default())) else {
            return error(out, id, -32602, "Invalid arguments", "");
        };
        let size = arguments.bytes.unwrap_or(0).min(MAX_BYTES);
        let name = call.name.strip_prefix(self.prefix.as_str());
        match name.unwrap_or_default() {
            "sleep" => self.sleep(id, complete, arguments.ms.unwrap_or(0)),
            "blob" => {
                let blob = self.blobs.entry(size).or_insert_with(|| blob(size));
                text(out, id, complete, blob);
            }
            "image" => {
                let data = self.images.entry(size).or_insert_with(|| image(size));
                let members = format_args!(
                    r#"{complete}"content":[{{"type":"image","data":"{data}","mimeType":"image/png"}}]"#
                );
                result(out, id, members);
            }
            "pid" => text(out, id, complete, &format!("\"{}\"", std::process::id())),
            "progress" => {
                let total = arguments.count.unwrap_or(0).min(100_000);
                if let Some(token) = call.meta.and_then(|meta| meta.token) {
                    for done in 1..=total {
                        progress(out, token.get(), done, total);
                    }
                }
                text(out, id, complete, &format!("\"told {total} times\""));
            }
            name if name == "echo" || name.starts_with("tool_") => {
                match arguments.text.map(RawValue::get) {
                    Some(raw) if raw.starts_with('"') => text(out, id, complete, raw),
                    Some(_) | None => {
                        let members = format_args!(
                            r#"{complete}"content":[{{"type":"text","text":"`text` must be a string"}}],"isError":true"#
                        );
                        result(out, id, members);
                    }
                }
            }
            _ => error(out, id, -32602, "Unknown tool", ""),
        }
    }

    /// Answers from a thread of its own.
    fn sleep(&self, id: &str, complete: &str, ms: u64) {
        let ms = ms.min(600_000);
        let (id, complete, out) = (id.to_owned(), complete.to_owned(), self.out.clone());
        let nap = move || {
            thread::sleep(Duration::from_millis(ms));
            let mut reply = Vec::new();
            text(&mut reply, &id, &complete, &format!("\"slept {ms} ms\""));
            out.write(&reply);
        };
        let thread = thread::Builder::new().stack_size(64 << 10);
        // Without a thread there is no answer, and the caller's own limit tells.
        thread.spawn(nap).ok();
    }
}
