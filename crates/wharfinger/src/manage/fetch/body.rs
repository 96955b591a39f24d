//! What a server sent, up to a limit: before it is unpacked and after.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE};

use super::Error;

/// Bytes up to a limit; more is an error.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

impl Write for Bounded {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + more.len() > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Sink {
    Plain(Bounded),
    Gzip(Box<MultiGzDecoder<Bounded>>),
}

/// Reads the body of an answer to the end.
pub(super) async fn read(response: Response<Incoming>, limit: usize) -> Result<Vec<u8>, Error> {
    let too_big = || Error::TooBig { limit };
    let encoding = text(&response, &CONTENT_ENCODING).unwrap_or_default();
    let bounded = Bounded {
        bytes: vec![],
        limit,
    };
    let mut sink = match encoding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Sink::Plain(bounded),
        "gzip" | "x-gzip" => Sink::Gzip(Box::new(MultiGzDecoder::new(bounded))),
        other => return Err(Error::Encoding(other.to_owned())),
    };
    let mut body = response.into_body();
    let announced = body.size_hint().lower();
    if announced > limit as u64 {
        return Err(too_big());
    }
    let mut received = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Error::protocol(&error))?;
        let Ok(piece): Result<Bytes, _> = frame.into_data() else {
            continue;
        };
        received += piece.len();
        if received > limit {
            return Err(too_big());
        }
        let written = match &mut sink {
            Sink::Plain(bounded) => bounded.write_all(&piece),
            Sink::Gzip(decoder) => decoder.write_all(&piece),
        };
        written.map_err(|error| unpacking(&error, limit))?;
    }
    match sink {
        Sink::Plain(bounded) => Ok(bounded.bytes),
        // Nothing sent is nothing packed: an answer to HEAD, for one.
        Sink::Gzip(_) if received == 0 => Ok(vec![]),
        Sink::Gzip(decoder) => match decoder.finish() {
            Ok(bounded) => Ok(bounded.bytes),
            Err(error) => Err(unpacking(&error, limit)),
        },
    }
}

fn unpacking(error: &io::Error, limit: usize) -> Error {
    if error.kind() == io::ErrorKind::FileTooLarge {
        Error::TooBig { limit }
    } else {
        Error::Protocol(format!("what it sent could not be unpacked: {error}"))
    }
}

/// A header, if it is there and is text.
pub(super) fn text(
    response: &Response<Incoming>,
    name: &hyper::header::HeaderName,
) -> Option<String> {
    let value = response.headers().get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// The content type of an answer.
pub(super) fn content_type(response: &Response<Incoming>) -> Option<String> {
    text(response, &CONTENT_TYPE).filter(|value| !value.is_empty())
}

/// Whether bytes of this type are text that can be told as text.
pub(super) fn is_text(content_type: Option<&str>, bytes: &[u8]) -> bool {
    let utf8 = std::str::from_utf8(bytes).is_ok() && !bytes.contains(&0);
    let Some(content_type) = content_type else {
        return utf8;
    };
    let kind = content_type.split(';').next().unwrap_or_default();
    let kind = kind.trim().to_ascii_lowercase();
    let textual = kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || matches!(
            kind.as_str(),
            "application/json"
                | "application/xml"
                | "application/javascript"
                | "application/x-javascript"
                | "application/yaml"
                | "application/x-yaml"
                | "application/toml"
                | "application/x-ndjson"
                | "application/graphql"
                | "application/x-www-form-urlencoded"
        );
    utf8 && textual
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_what_is_text_by_type_and_by_bytes() {
        let check = |kind: Option<&str>, bytes: &[u8], expect: bool| {
            assert_eq!(is_text(kind, bytes), expect, "{kind:?}");
        };
        check(Some("text/html; charset=utf-8"), "ü".as_bytes(), true);
        check(Some("Application/JSON"), b"{}", true);
        check(Some("application/ld+json"), b"{}", true);
        check(Some("image/png"), b"abc", false);
        check(Some("text/plain"), &[0xff], false);
        check(Some("text/plain"), b"a\0b", false);
        check(None, b"abc", true);
        check(None, &[0xff], false);
    }
}
