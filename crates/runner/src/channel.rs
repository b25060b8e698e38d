//! One end of the socket between runner and coordinator: frames in, frames out, never blocking, so
//! that neither can block the other.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::wire;

/// The size of one read.
const READ_BYTES: usize = 16 << 10;
/// The memory that an empty buffer keeps: room for the requests of one turn of a busy worker.
const SPARE_BYTES_MAX: usize = 64 << 10;

/// A framed, non-blocking connection.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: UnixStream,
    inbox: Vec<u8>,
    /// The number of bytes of the inbox that were decoded.
    taken: usize,
    outbox: Vec<u8>,
}

impl Channel {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            inbox: Vec::new(),
            taken: 0,
            outbox: Vec::new(),
        })
    }

    /// Sends a message: as much as the socket takes now, the rest with [`Self::flush`].
    pub(crate) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        wire::encode(message, &mut self.outbox)?;
        self.flush()
    }

    /// Queues a message for the next [`Self::flush`].
    pub(crate) fn put(&mut self, message: &impl Serialize) -> io::Result<()> {
        wire::encode(message, &mut self.outbox)
    }

    /// Sends as much as the socket takes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let result = loop {
            if sent == self.outbox.len() {
                break Ok(());
            }
            match self.stream.write(&self.outbox[sent..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => sent += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.outbox.drain(..sent);
        shrink(&mut self.outbox);
        result
    }

    /// True if there is something left to send.
    pub(crate) fn wants_write(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Reads what has arrived. False once the peer is gone and everything that it sent was read;
    /// messages can still be taken.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        self.inbox.drain(..self.taken);
        self.taken = 0;
        loop {
            let start = self.inbox.len();
            self.inbox.resize(start + READ_BYTES, 0);
            let read = self.stream.read(&mut self.inbox[start..]);
            self.inbox.truncate(start + read.as_ref().map_or(0, |n| *n));
            match read {
                Ok(0) => return Ok(false),
                // A short read is the last one. If the peer is gone, the next call reports it.
                Ok(read) if read < READ_BYTES => return Ok(true),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the next complete message.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some((message, length)) = wire::decode(&self.inbox[self.taken..])? else {
            self.inbox.drain(..self.taken);
            self.taken = 0;
            shrink(&mut self.inbox);
            return Ok(None);
        };
        self.taken += length;
        Ok(Some(message))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Frees the memory of one large message, so that a small process stays small.
fn shrink(buffer: &mut Vec<u8>) {
    if buffer.is_empty() && buffer.capacity() > SPARE_BYTES_MAX {
        buffer.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_larger_than_the_socket_buffer_arrive() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let (mut one, mut other) = (
            Channel::new(one).expect("nonblocking"),
            Channel::new(other).expect("nonblocking"),
        );
        let long = "x".repeat(1 << 20);
        for _ in 0..3 {
            one.send(&long).expect("sent or kept");
        }
        assert!(one.wants_write(), "more than a socket holds");
        let mut arrived = 0;
        while arrived < 3 {
            assert!(other.fill().expect("readable"));
            while let Some(text) = other.next::<String>().expect("well formed") {
                assert_eq!(text, long);
                arrived += 1;
            }
            one.flush().expect("writable");
        }
        assert!(!one.wants_write());
        drop(one);
        assert!(!other.fill().expect("readable"), "the other end is gone");
    }
}
