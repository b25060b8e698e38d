//! The files of one rotating log.

use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Room for the line that says what is missing.
const NOTE_BYTES_MAX: usize = 256;

/// The file that is written, and those before it.
#[derive(Debug)]
pub(super) struct Files {
    directory: OwnedFd,
    name: String,
    size: u64,
    backups: u32,
    /// `None` before the first byte, and where it could not be opened.
    current: Option<Current>,
    /// Known to be at the start of a line.
    at_line_start: bool,
    /// What the log has yet to say.
    missing: Option<Missing>,
}

#[derive(Debug)]
struct Current {
    file: OwnedFd,
    length: u64,
}

#[derive(Debug)]
struct Missing {
    bytes: u64,
    reason: io::Error,
}

impl Files {
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
            self.missing = Some(Missing { bytes, reason });
            // It may have been removed, or be that of a file system that is gone: the
            // next piece has a look at what is there by then.
            self.current = None;
        }
    }

    /// Says what is missing, if that was not yet possible.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.note_missing()
    }

    /// What is left of `bytes` after an error was not written.
    fn write_all(&mut self, bytes: &mut &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = self.make_room(1)?;
            let most = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
            let written = self.write(&bytes[..most])?;
            *bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Writes the line about what is missing: whole and into one file, or not at all.
    fn note_missing(&mut self) -> io::Result<()> {
        let Some(missing) = &self.missing else {
            return Ok(());
        };
        let Missing { bytes, reason } = missing;
        let mut text = [0; NOTE_BYTES_MAX];
        let mut rest = &mut text[..];
        // It fits; what does not, such as a long reason, is cut off.
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

    /// Rotates if there is room for fewer bytes than this, which is at most the size of a
    /// file. Returns how many fit.
    fn make_room(&mut self, wanted: u64) -> io::Result<u64> {
        if self.room()? < wanted {
            self.rotate()?;
        }
        match self.room()? {
            room if room < wanted => Err(io::Error::other("somebody else writes to the log")),
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

    fn open(&self) -> io::Result<Current> {
        // NONBLOCK: the directory may belong to somebody who has put a pipe there.
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
        Ok(Current { file, length })
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

    /// Removes the last bytes of the file again.
    fn take_back(&mut self, bytes: usize) -> io::Result<()> {
        if let Some(current) = &mut self.current {
            let length = current.length - bytes as u64;
            rustix::fs::ftruncate(&current.file, length)?;
            current.length = length;
        }
        Ok(())
    }

    /// Makes the current file the first of the old ones and begins another. A step that
    /// was carried out before we were killed leaves a gap, which the next time fills;
    /// no old file is lost but the one beyond the last place.
    fn rotate(&mut self) -> io::Result<()> {
        if self.backups == 0 {
            if let Some(current) = &mut self.current {
                rustix::fs::ftruncate(&current.file, 0)?;
                current.length = 0;
                self.at_line_start = true;
            }
            return Ok(());
        }
        for place in (1..self.first_free()?).rev() {
            self.rename(&self.old(place), &self.old(place + 1))?;
        }
        self.rename(&self.name, &self.old(1))?;
        self.current = None;
        Ok(())
    }

    /// The first place without an old file; the last place if there is none.
    fn first_free(&self) -> io::Result<u32> {
        for place in 1..self.backups {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            match rustix::fs::statat(&self.directory, self.old(place), flags) {
                Ok(_) => {}
                Err(Errno::NOENT) => return Ok(place),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.backups)
    }

    fn old(&self, place: u32) -> String {
        format!("{}.{place}", self.name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        match rustix::fs::renameat(&self.directory, from, &self.directory, to) {
            // Somebody has removed it: it need not be kept.
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
