//! The command line.

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};
use wharfinger_bench::load;

/// Load client for MCP servers and gateways (loopback only)
///
/// Several targets are measured interleaved, round by round in a rotating order, and compared with the first one.
#[derive(Parser)]
#[command(version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) mode: Mode,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args)]
pub(crate) struct Common {
    /// NAME=TARGET, where TARGET is stdio:COMMAND, http://…, sse:http://… or openapi:http://…; may be repeated, the
    /// first is the base of what is compared
    #[arg(short, long = "target", global = true, value_name = "NAME=TARGET")]
    pub(crate) targets: Vec<String>,
    /// NAME=PID of a target's gateway: adds its memory and its processor time per call
    #[arg(long = "pid", global = true, value_name = "NAME=PID")]
    pub(crate) pids: Vec<String>,
    /// Protocol version to speak
    #[arg(long, global = true, default_value = "2025-11-25")]
    pub(crate) protocol: String,
    /// Bearer token for HTTP targets
    #[arg(long, global = true)]
    pub(crate) token: Option<String>,
    /// Further HTTP header, NAME:VALUE
    #[arg(long = "header", global = true, value_name = "NAME:VALUE")]
    pub(crate) headers: Vec<String>,
    /// Seconds until a request counts as failed
    #[arg(long, global = true, default_value_t = 30.0)]
    pub(crate) timeout: f64,
    /// Interleaved rounds
    #[arg(long, global = true, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Show what stdio targets write to standard error
    #[arg(long, global = true)]
    pub(crate) stderr: bool,
}

#[derive(Args, Clone)]
pub(crate) struct Called {
    /// Tool to call; a gateway's prefix before the name is found by itself
    #[arg(long, default_value = "echo")]
    tool: String,
    /// Its arguments
    #[arg(long, default_value = r#"{"text":"hello"}"#)]
    args: String,
}

impl From<Called> for load::Call {
    fn from(call: Called) -> Self {
        Self {
            tool: call.tool,
            arguments: call.args,
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum Mode {
    /// Calls one after the other: latency percentiles
    Latency {
        #[command(flatten)]
        call: Called,
        /// Calls per round and target
        #[arg(short, default_value_t = 500)]
        n: usize,
    },
    /// C callers in a closed loop: calls per second and latency under load
    Throughput {
        #[command(flatten)]
        call: Called,
        /// Callers
        #[arg(short, default_value_t = 16)]
        c: usize,
        /// Seconds per round and target
        #[arg(long, default_value_t = 2.0)]
        secs: f64,
        /// Sessions the callers share
        #[arg(long, default_value_t = 1)]
        sessions: usize,
    },
    /// M sessions opened at once, each listing the tools and making one call, then all held open
    Sessions {
        #[command(flatten)]
        call: Called,
        /// Sessions
        #[arg(short, default_value_t = 50)]
        m: usize,
    },
    /// Latency of a full tools/list
    List {
        /// Lists per round and target
        #[arg(short, default_value_t = 50)]
        n: usize,
    },
    /// Latency of results of several sizes
    Payload {
        /// Sizes of the content
        #[arg(long, default_value = "1k,100k,5m", value_delimiter = ',')]
        sizes: Vec<String>,
        /// Calls per round and target
        #[arg(short, default_value_t = 10)]
        n: usize,
        /// `blob` for text, `image` for Base64 content
        #[arg(long, default_value = "blob")]
        kind: String,
    },
    /// Tries until tools/list answers with enough tools; prints the monotonic clock then
    Ready {
        /// How many are enough
        #[arg(long, default_value_t = 1)]
        tools: usize,
        /// Give up after this many seconds
        #[arg(long, default_value_t = 60.0)]
        within: f64,
    },
    /// One call, its outcome printed
    Call {
        #[command(flatten)]
        call: Called,
    },
    /// One call that tells of progress many times at once: how many came, and in order
    Progress {
        /// How many times
        #[arg(short, default_value_t = 200)]
        n: u64,
    },
    /// Memory, processor time, threads and descriptors of the process trees given with --pid
    Proc,
}

/// `5m`, `100k` or plain bytes.
pub(crate) fn bytes(size: &str) -> Result<u64> {
    let end = size.find(|c: char| !c.is_ascii_digit());
    let (digits, unit) = size.split_at(end.unwrap_or(size.len()));
    let scale = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        _ => bail!("a size is 1000, 100k or 5m, not `{size}`"),
    };
    Ok(digits.parse::<u64>()? * scale)
}
