//! Unix sockets that carry whole messages, with descriptors.
//!
//! A message arrives whole or not at all, so neither side needs a buffer for a part of one. Nothing
//! here blocks: a peer that does not read costs the message, not the sender.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    accept_with, bind, connect, listen, recvmsg, sendmsg, socket_with,
};

use super::socket::shorten;

/// The maximum number of descriptors of one message.
const FDS_MAX: usize = 4;
/// The number of connections that may wait to be accepted.
const BACKLOG: i32 = 8;

/// A connected socket.
#[derive(Debug)]
pub struct Packets {
    socket: OwnedFd,
}

/// A message, read into the caller's buffer.
#[derive(Debug)]
pub struct Packet {
    pub bytes: usize,
    pub fds: Vec<OwnedFd>,
}

/// Listens at a path, replacing an earlier socket there.
///
/// # Errors
/// If the path cannot be used.
pub fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (_directory, short) = shorten(path)?;
    let socket = new_socket()?;
    bind(&socket, &SocketAddrUnix::new(short)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    Ok(socket?)
}

impl Packets {
    /// Connects to the listener at a path.
    ///
    /// # Errors
    /// If there is no listener, or the system refuses.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let (_directory, short) = shorten(path)?;
        let socket = new_socket()?;
        connect(&socket, &SocketAddrUnix::new(short)?)?;
        Ok(Self { socket })
    }

    /// Accepts a connection; `None` if none waits.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match accept_with(listener, flags) {
            Ok(socket) => Ok(Some(Self { socket })),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// True if the peer is gone, even if there are messages of it.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::empty())];
        let at_once = Timespec::default();
        poll(&mut fds, Some(&at_once)).is_ok() && fds[0].revents().contains(PollFlags::HUP)
    }

    /// Sends one message.
    ///
    /// # Errors
    /// If the peer is gone, does not read, or the message is too long.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, flags)?;
        debug_assert_eq!(sent, bytes.len(), "a message is sent whole");
        Ok(())
    }

    /// Receives one message; `None` once the peer is gone.
    ///
    /// # Errors
    /// `WouldBlock` if there is none yet; `InvalidData` if it is longer than the buffer.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Packet>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received = recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(buffer)],
            &mut control,
            flags,
        );
        let received = match received {
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            other => other?,
        };
        let fds: Vec<OwnedFd> = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            })
            .flatten()
            .collect();
        if received
            .flags
            .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
        {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // No message is empty, so that this is the end.
        let bytes = received.bytes;
        Ok((bytes > 0).then_some(Packet { bytes, fds }))
    }
}

impl AsFd for Packets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read as _, Seek as _, Write as _};

    fn pair(dir: &Path) -> (Packets, Packets) {
        let path = dir.join("socket");
        let listener = listen_at(&path).expect("listens");
        let one = Packets::connect(&path).expect("connects");
        let other = Packets::accept(listener.as_fd()).expect("accepts");
        (one, other.expect("a connection"))
    }

    #[test]
    fn messages_keep_their_bounds_and_descriptors() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, other) = pair(dir.path());
        let mut buffer = [0; 16];
        let blocked = other.receive(&mut buffer).expect_err("nothing is there");
        assert_eq!(blocked.kind(), io::ErrorKind::WouldBlock);
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"content").expect("written");
        one.send(b"first", &[file.as_fd()]).expect("sent");
        one.send(b"second", &[]).expect("sent");
        let mut first = other.receive(&mut buffer).expect("read").expect("there");
        assert_eq!(&buffer[..first.bytes], b"first");
        let mut received = File::from(first.fds.pop().expect("a descriptor"));
        received.rewind().expect("a file");
        let mut text = String::new();
        received.read_to_string(&mut text).expect("text");
        assert_eq!((text.as_str(), first.fds.len()), ("content", 0));
        let second = other.receive(&mut buffer).expect("read").expect("there");
        assert_eq!(&buffer[..second.bytes], b"second");
        one.send(b"last", &[]).expect("sent");
        assert!(!other.is_closed());
        drop(one);
        assert!(other.is_closed(), "though there is one more");
        assert!(other.receive(&mut buffer).expect("read").is_some());
        assert!(other.receive(&mut buffer).expect("read").is_none(), "gone");
    }

    #[test]
    fn a_message_that_is_too_long_is_an_error_and_a_full_socket_blocks_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, other) = pair(dir.path());
        one.send(b"four", &[]).expect("sent");
        let cut = other.receive(&mut [0; 3]).expect_err("too long");
        assert_eq!(cut.kind(), io::ErrorKind::InvalidData);
        let full = (0..100_000).find_map(|_| one.send(&[7; 1024], &[]).err());
        assert_eq!(full.expect("full").kind(), io::ErrorKind::WouldBlock);
    }
}
