//! Inherited descriptors, and the peer of a socket.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

use super::users;

/// Takes over a descriptor that was inherited under a known number, and sets close-on-exec. To be
/// called once for each number, at the very start.
///
/// # Errors
/// If there is no such descriptor.
pub fn descriptor(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: only borrowed to ask whether it is open; nothing here closes it.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    let flags = fcntl_getfd(borrowed)?;
    fcntl_setfd(borrowed, flags | FdFlags::CLOEXEC)?;
    // SAFETY: it is open, and by contract nothing else in this process owns it: it was
    // inherited, and this is called once for it before anything else is opened.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The pid of the process at the other end of a unix socket, if it is trusted: our own user, or
/// root.
///
/// # Errors
/// If it is no unix socket.
pub fn trusted_peer(socket: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    let peer = rustix::net::sockopt::socket_peercred(socket)?;
    let trusted = peer.uid.is_root() || peer.uid.as_raw() == users::effective_uid();
    let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).ok();
    Ok(pid.filter(|_| trusted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_descriptor_that_is_not_there_is_an_error() {
        assert!(descriptor(1_000_000).is_err());
    }

    #[test]
    fn our_own_user_is_trusted() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let peer = trusted_peer(one.as_fd()).expect("a unix socket");
        assert_eq!(peer, Some(std::process::id()));
    }
}
