//! Regular files to read.
//!
//! Opening a pipe waits for a writer, and reading some devices never ends. So a file is opened without
//! waiting, and refused before its first byte is read.

use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file to read it. A link to one is followed.
///
/// # Errors
/// If the path names no regular file, or the file cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let file = match opened {
        Ok(file) => file,
        // A socket, or a device that no driver serves.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            return Err(io::Error::other("not a regular file"));
        }
        Err(error) => return Err(error),
    };
    check(file.metadata()?.file_type())?;
    Ok(file)
}

/// Refuses everything but regular files.
pub(crate) fn check(found: FileType) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let kind = if found.is_dir() {
        "a directory"
    } else if found.is_fifo() {
        "a named pipe"
    } else if found.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    let text = format!("not a regular file but {kind}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_no_pipe_is_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "text").expect("written");
        std::os::unix::fs::symlink("file", at("link")).expect("made");
        mkfifoat(CWD, at("pipe"), Mode::RUSR | Mode::WUSR).expect("made");
        let _socket = UnixListener::bind(at("socket")).expect("bound");
        for name in ["file", "link"] {
            let mut text = String::new();
            let mut file = open(&at(name)).expect("a file");
            file.read_to_string(&mut text).expect("readable");
            assert_eq!(text, "text");
        }
        for (path, kind) in [
            (at("pipe"), "a named pipe"),
            (at("socket"), "not a regular file"),
            (dir.path().to_owned(), "a directory"),
            ("/dev/zero".into(), "a device"),
        ] {
            let error = open(&path).expect_err("no file").to_string();
            assert!(error.contains(kind), "{error}");
            assert!(error.starts_with("not a regular file"), "{error}");
        }
        let missing = open(&at("missing")).expect_err("nothing there");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
