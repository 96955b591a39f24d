//! Cuts a byte stream into server-sent events.

use bytes::Bytes;

/// A stream as far as it has come.
#[derive(Default)]
pub struct Events {
    buffer: Vec<u8>,
    /// Up to where there is no line end.
    scanned: usize,
    name: String,
    data: Vec<u8>,
}

/// One event.
pub struct Event {
    /// Empty where the stream named none.
    pub name: String,
    /// Its lines, joined.
    pub data: Bytes,
}

impl Events {
    /// Takes what has come.
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole event that carries data.
    pub fn next_event(&mut self) -> Option<Event> {
        let mut start = 0;
        let mut found = None;
        while let Some(length) = self.line_end(start) {
            let end = self.scanned.max(start) + length;
            let line = &self.buffer[start..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let value = |field: &[u8]| {
                let value = line.strip_prefix(field)?;
                Some(value.strip_prefix(b" ").unwrap_or(value))
            };
            if line.is_empty() {
                let name = std::mem::take(&mut self.name);
                if !self.data.is_empty() {
                    let data = std::mem::take(&mut self.data).into();
                    found = Some(Event { name, data });
                }
            } else if let Some(data) = value(b"data:") {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(data);
            } else if let Some(name) = value(b"event:") {
                self.name = String::from_utf8_lossy(name).into_owned();
            }
            start = end + 1;
            if found.is_some() {
                break;
            }
        }
        self.buffer.drain(..start);
        // After a find, what is left has not been looked at yet.
        self.scanned = if found.is_some() {
            0
        } else {
            self.buffer.len()
        };
        found
    }

    fn line_end(&self, start: usize) -> Option<usize> {
        let rest = &self.buffer[self.scanned.max(start)..];
        rest.iter().position(|byte| *byte == b'\n')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_wherever_the_chunks_break() {
        let stream = b": hi\r\n\r\nevent: message\r\ndata: {\"a\":1}\r\n\r\ndata:x\ndata: y\n\nevent: end\n\ndata: z\n\n";
        for size in 1..=stream.len() {
            let (mut events, mut seen) = (Events::default(), Vec::new());
            for chunk in stream.chunks(size) {
                events.push(chunk);
                while let Some(event) = events.next_event() {
                    let data = String::from_utf8(event.data.to_vec()).unwrap();
                    seen.push((event.name, data));
                }
            }
            let expect = [("message", "{\"a\":1}"), ("", "x\ny"), ("", "z")];
            let expect = expect.map(|(name, data)| (name.to_owned(), data.to_owned()));
            assert_eq!(seen, expect, "chunks of {size}");
        }
    }
}
