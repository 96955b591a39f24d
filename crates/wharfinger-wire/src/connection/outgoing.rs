//! The bytes that wait to be written.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::CallError;

/// What the spare buffer may keep.
const KEPT: usize = 256 * 1024;

/// A queue of bytes between those who send and the task that writes.
pub(super) struct Outgoing {
    limit: usize,
    queue: Mutex<Queue>,
    changed: Notify,
}

#[derive(Default)]
struct Queue {
    buffer: Vec<u8>,
    /// What the writing task has taken and not finished.
    writing: usize,
    closed: bool,
}

impl Outgoing {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            queue: Mutex::default(),
            changed: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one message of about `size` bytes as a line.
    pub(super) fn push(
        &self,
        size: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), CallError> {
        let mut queue = self.lock();
        if queue.closed {
            return Err(CallError::Closed);
        }
        let waiting = queue.buffer.len() + queue.writing;
        if waiting > 0 && waiting + size > self.limit {
            return Err(CallError::QueueFull { limit: self.limit });
        }
        queue.buffer.reserve(size);
        self.add(queue, write);
        Ok(())
    }

    /// Adds one message as a line, limit or not, unless the queue is closed.
    pub(super) fn push_always(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let queue = self.lock();
        if !queue.closed {
            self.add(queue, write);
        }
    }

    fn add(&self, mut queue: MutexGuard<'_, Queue>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = queue.buffer.len();
        write(&mut queue.buffer);
        one_line(&mut queue.buffer[start..]);
        queue.buffer.push(b'\n');
        drop(queue);
        // After the lock is gone, so that the writing task does not wake only to wait for it.
        if start == 0 {
            self.changed.notify_one();
        }
    }

    /// Lets nothing more in. What is in can still be taken.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Waits for bytes and swaps them for the written ones; false when there will be none.
    pub(super) async fn take(&self, batch: &mut Vec<u8>) -> bool {
        batch.clear();
        batch.shrink_to(KEPT);
        loop {
            {
                let mut queue = self.lock();
                std::mem::swap(&mut queue.buffer, batch);
                queue.writing = batch.len();
                if !batch.is_empty() {
                    return true;
                }
                if queue.closed {
                    return false;
                }
            }
            self.changed.notified().await;
        }
    }
}

/// Raw payloads may hold line ends between their tokens, where a space means the same. Strings
/// cannot hold any.
fn one_line(message: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &message[from..]) {
        message[from + at] = b' ';
        from += at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_are_lines() {
        let outgoing = Outgoing::new(100);
        let push =
            |text: &str| outgoing.push(text.len(), |out| out.extend_from_slice(text.as_bytes()));
        push("{\r\n \"a\":1\n}").unwrap();
        push("{}").unwrap();
        outgoing.close();
        assert!(matches!(push("{}"), Err(CallError::Closed)));
        let mut batch = Vec::new();
        assert!(outgoing.take(&mut batch).await);
        assert_eq!(batch, b"{   \"a\":1 }\n{}\n");
        assert!(!outgoing.take(&mut batch).await);
    }

    #[tokio::test]
    async fn the_limit_counts_what_is_being_written() {
        let outgoing = Outgoing::new(10);
        let push = |size: usize| outgoing.push(size, |out| out.resize(out.len() + size, b'x'));
        let mut batch = Vec::new();
        push(50).expect("a single message of any size");
        assert!(matches!(push(1), Err(CallError::QueueFull { limit: 10 })));
        assert!(outgoing.take(&mut batch).await);
        assert!(matches!(push(1), Err(CallError::QueueFull { limit: 10 })));
        outgoing.push_always(|out| out.push(b'c'));
        assert!(outgoing.take(&mut batch).await);
        assert_eq!(batch, b"c\n");
        push(4).unwrap();
    }
}
