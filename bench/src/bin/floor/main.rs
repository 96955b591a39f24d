//! `floor`: what this machine allows at best. Servers say where they listen; each measurement prints one JSON line.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measuring tool: it runs the servers it measures, and prints figures"
)]

mod blocking;
mod http;
mod upstream;

use std::io::Write;

use anyhow::Result;
use clap::Parser;

/// Floors to compare a gateway with
#[derive(Parser)]
#[command(version)]
enum Cli {
    /// Serves the least an MCP endpoint can be over Streamable HTTP, with no server behind it
    Http {
        #[command(flatten)]
        listen: Listen,
    },
    /// The least a gateway can be: the same endpoint, each request passed on to one stdio server
    Bridge {
        #[command(flatten)]
        listen: Listen,
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<String>,
    },
    /// One blocking request after the other over a stdio server's pipes
    Pipe {
        #[arg(short, default_value_t = 20_000)]
        n: usize,
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<String>,
    },
    /// One blocking request after the other over a kept-alive loopback connection
    Tcp {
        /// Port of an MCP endpoint at /mcp on 127.0.0.1
        #[arg(long)]
        port: u16,
        #[arg(short, default_value_t = 20_000)]
        n: usize,
    },
    /// Starts a stdio server again and again: time to its `initialize` reply, and to its exit
    Spawn {
        #[arg(short, default_value_t = 100)]
        n: usize,
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<String>,
    },
}

#[derive(clap::Args)]
struct Listen {
    /// Port on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 0)]
    port: u16,
}

fn main() -> Result<()> {
    let line = match Cli::parse() {
        Cli::Http { listen } => return http::run(listen.port, &[]),
        Cli::Bridge { listen, command } => return http::run(listen.port, &command),
        Cli::Pipe { n, command } => blocking::pipe(n, &command)?,
        Cli::Tcp { port, n } => blocking::tcp(port, n)?,
        Cli::Spawn { n, command } => blocking::spawn(n, &command)?,
    };
    println!("{line}");
    Ok(())
}

/// Says at once where it listens, to whoever has started it.
fn announce(address: std::net::SocketAddr) -> Result<()> {
    println!("listening on http://{address}/mcp");
    Ok(std::io::stdout().flush()?)
}
