//! Pages to look at, on the loopback interface.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

pub(crate) const HEADING: &str = "Hello from the quay";

/// What can be fetched from `/bill`, as `bill.txt`.
pub(crate) const BILL: &str = "one barrel of tar\n";

/// Serves pages until the test program ends; returns their address. `/login/NAME` logs NAME in for a day, `/bill` is a
/// download, and every other page says who is logged in.
pub(crate) fn serve() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A browser opens connections that it may never use.
            thread::spawn(move || answer(&stream));
        }
    });
    address
}

fn answer(stream: &TcpStream) {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    // The request ends with an empty line.
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let Some(path) = head.first().and_then(|line| line.split(' ').nth(1)) else {
        return;
    };
    let cookies = head.iter().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("cookie").then(|| value.trim())
    });
    let (kind, extra, body) = if path == "/bill" {
        let extra = "content-disposition: attachment; filename=bill.txt\r\n".to_owned();
        ("text/plain", extra, BILL.to_owned())
    } else {
        let login = path.strip_prefix("/login/");
        let extra = login.map_or_else(String::new, |name| {
            format!("set-cookie: login={name}; Path=/; Max-Age=86400\r\n")
        });
        let cookies = cookies.unwrap_or("nobody");
        let body = format!(
            "<!doctype html><title>Quay</title><h1>{HEADING}</h1><p>{cookies}</p>\
             <a href=/bill>The bill</a>"
        );
        ("text/html", extra, body)
    };
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n{extra}");
    let length = body.len();
    let mut stream = stream;
    // A browser that has left doesn't want it any more.
    drop(write!(
        stream,
        "{head}content-length: {length}\r\n\r\n{body}"
    ));
}
