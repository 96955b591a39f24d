//! A page to look at.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread;

pub(crate) const HEADING: &str = "Hello from the quay";

/// Serves one page on the loopback interface until the test program ends; returns its address.
pub(crate) fn serve() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let page = format!("<!doctype html><title>Quay</title><h1>{HEADING}</h1>");
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            // The request ends with an empty line; what was asked for doesn't matter.
            let whole = lines.any(|line| line.is_empty());
            if whole {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close";
                let length = page.len();
                // A browser that has left doesn't want it any more.
                drop(write!(
                    &stream,
                    "{head}\r\ncontent-length: {length}\r\n\r\n{page}"
                ));
            }
        }
    });
    address
}
