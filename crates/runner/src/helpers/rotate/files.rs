//! The files of one rotating log.

use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// The maximum length of the line that reports missing bytes.
const NOTE_BYTES_MAX: usize = 256;

/// The current file, and its backups.
#[derive(Debug)]
pub(super) struct RotatingFiles {
    directory: OwnedFd,
    name: String,
    size: u64,
    backups: u32,
    /// `None` before the first byte, and where it could not be opened.
    current: Option<OpenFile>,
    /// Known to be at the start of a line.
    at_line_start: bool,
    /// Dropped bytes that the log does not report yet.
    missing: Option<DroppedBytes>,
}

#[derive(Debug)]
struct OpenFile {
    file: OwnedFd,
    length: u64,
}

#[derive(Debug)]
struct DroppedBytes {
    bytes: u64,
    reason: io::Error,
}

impl RotatingFiles {
    /// `name` is a plain name, and `size` more than 0.
    pub(super) fn new(directory: OwnedFd, name: &str, size: u64, backups: u32) -> Self {
        Self {
            directory,
            name: name.to_owned(),
            size,
            backups,
            current: None,
            at_line_start: false,
            missing: None,
        }
    }

    /// Writes all of it, or drops and counts what cannot be written.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let mut left = bytes;
        let end = self.note_missing().and_then(|()| self.write_all(&mut left));
        if let Err(reason) = end {
            let earlier = self.missing.take().map_or(0, |missing| missing.bytes);
            let bytes = earlier + left.len() as u64;
            self.missing = Some(DroppedBytes { bytes, reason });
            // The file may have been removed, or its file system may be gone: the next write opens
            // it again.
            self.current = None;
        }
    }

    /// Reports missing bytes, if that was not possible before.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.note_missing()
    }

    /// After an error, `bytes` is what was not written.
    fn write_all(&mut self, bytes: &mut &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = self.make_room(1)?;
            let most = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
            let written = self.write(&bytes[..most])?;
            *bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Writes the line about missing bytes: completely and into one file, or not at all.
    fn note_missing(&mut self) -> io::Result<()> {
        let Some(missing) = &self.missing else {
            return Ok(());
        };
        let DroppedBytes { bytes, reason } = missing;
        let mut text = [0; NOTE_BYTES_MAX];
        let mut rest = &mut text[..];
        // A long reason is truncated.
        drop(writeln!(
            rest,
            "\n[baton: {bytes} bytes are missing here: {reason}]"
        ));
        let length = NOTE_BYTES_MAX - rest.len();
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        let note = &text[..length.min(size)];
        self.make_room(note.len() as u64)?;
        let note = &note[usize::from(self.at_line_start && note.len() > 1)..];
        let at_line_start = self.at_line_start;
        let mut left = note;
        while !left.is_empty() {
            match self.write(left) {
                Ok(written) => left = &left[written..],
                Err(error) => {
                    self.take_back(note.len() - left.len())?;
                    self.at_line_start = at_line_start;
                    return Err(error);
                }
            }
        }
        self.missing = None;
        Ok(())
    }

    /// Rotates if there is room for fewer bytes than `wanted`, which is at most the size of a file.
    /// Returns how many fit.
    fn make_room(&mut self, wanted: u64) -> io::Result<u64> {
        if self.room()? < wanted {
            self.rotate()?;
        }
        match self.room()? {
            room if room < wanted => Err(io::Error::other("another process writes to the log")),
            room => Ok(room),
        }
    }

    fn room(&mut self) -> io::Result<u64> {
        let length = match &self.current {
            Some(current) => current.length,
            None => {
                let opened = self.current.insert(self.open()?);
                self.at_line_start |= opened.length == 0;
                opened.length
            }
        };
        Ok(self.size.saturating_sub(length))
    }

    fn open(&self) -> io::Result<OpenFile> {
        // NONBLOCK: the owner of the directory may have put a pipe there.
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let file = rustix::fs::openat(&self.directory, &self.name, flags, mode)?;
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("the log is not a regular file"));
        }
        let length = u64::try_from(stat.st_size).map_err(io::Error::other)?;
        Ok(OpenFile { file, length })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(current) = &mut self.current else {
            return Err(Errno::BADF.into());
        };
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&current.file, bytes))?;
        match bytes[..written].last() {
            Some(last) => self.at_line_start = *last == b'\n',
            None => return Err(io::ErrorKind::WriteZero.into()),
        }
        current.length += written as u64;
        Ok(written)
    }

    /// Removes the last bytes of the file.
    fn take_back(&mut self, bytes: usize) -> io::Result<()> {
        if let Some(current) = &mut self.current {
            let length = current.length - bytes as u64;
            rustix::fs::ftruncate(&current.file, length)?;
            current.length = length;
        }
        Ok(())
    }

    /// Renames the current file to the first backup; the next write creates another. If we are
    /// killed between two renames, the gap is filled by the next rotation; only the backup beyond
    /// the last number is lost.
    fn rotate(&mut self) -> io::Result<()> {
        if self.backups == 0 {
            if let Some(current) = &mut self.current {
                rustix::fs::ftruncate(&current.file, 0)?;
                current.length = 0;
                self.at_line_start = true;
            }
            return Ok(());
        }
        for number in (1..self.first_free()?).rev() {
            self.rename(&self.old(number), &self.old(number + 1))?;
        }
        self.rename(&self.name, &self.old(1))?;
        self.current = None;
        Ok(())
    }

    /// The first free backup number; the last number if there is none.
    fn first_free(&self) -> io::Result<u32> {
        for number in 1..self.backups {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            match rustix::fs::statat(&self.directory, self.old(number), flags) {
                Ok(_) => {}
                Err(Errno::NOENT) => return Ok(number),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.backups)
    }

    fn old(&self, number: u32) -> String {
        format!("{}.{number}", self.name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        match rustix::fs::renameat(&self.directory, from, &self.directory, to) {
            // It was removed: there is nothing to keep.
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
