//! Unix sockets with paths of any length.
//!
//! The path of a unix socket has at most 107 bytes. So its directory is addressed through a
//! descriptor, which is short however deep the directory is.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

/// Listens at a path, replacing an earlier socket there.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (_directory, short) = shorten(path)?;
    UnixListener::bind(short)
}

/// Connects to the listener at a path.
///
/// # Errors
/// If there is no listener, or the system refuses.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let (_directory, short) = shorten(path)?;
    UnixStream::connect(short)
}

pub(super) fn shorten(path: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(parent, flags, Mode::empty())?;
    let short = Path::new("/proc/self/fd")
        .join(directory.as_raw_fd().to_string())
        .join(name);
    Ok((directory, short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_be_longer_than_a_sockets() {
        let top = tempfile::tempdir().expect("a directory");
        let deep = top.path().join("d".repeat(100)).join("e".repeat(100));
        std::fs::create_dir_all(&deep).expect("made");
        let path = deep.join("socket");
        for _ in 0..2 {
            let listener = listen(&path).expect("listens, also over an old socket");
            connect(&path).expect("connects");
            listener.accept().expect("accepts");
        }
        assert!(connect(&path).is_err(), "the listener is gone");
    }
}
