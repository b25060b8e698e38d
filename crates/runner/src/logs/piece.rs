//! One piece of a run's log, across rotations, for a reader that keeps nothing open.

use std::fs::File;
use std::io;
use std::time::SystemTime;

use baton_model::message::{LogCursor, LogFileId, LogStart};
use baton_model::task::RunNo;

use super::LogSource;
use super::holes::read_data;

/// A piece of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Fewer bytes than requested only at the end.
    pub bytes: Vec<u8>,
    /// The size of all files of the run, measured after reading.
    pub size: u64,
    /// Where the next piece begins; `None` if the start lies behind the end.
    pub cursor: Option<LogCursor>,
}

/// The end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    pub bytes: Vec<u8>,
    /// When it was last written.
    pub modified: SystemTime,
}

impl LogSource {
    /// Reads at most the last `bytes_max` bytes of a run; `None` if it has no file.
    ///
    /// # Errors
    /// Those of [`LogSource::piece`].
    pub fn tail(&self, run: RunNo, bytes_max: usize) -> io::Result<Option<Tail>> {
        let Some(start) = self.piece(run, LogStart::Offset(0), 0)? else {
            return Ok(None);
        };
        let files = self.files(run)?.into_iter().flatten();
        let Some(last) = files.filter_map(|it| it.file).next_back() else {
            return Ok(None);
        };
        let modified = last.metadata()?.modified()?;
        let offset = start.size.saturating_sub(bytes_max as u64);
        let piece = self.piece(run, LogStart::Offset(offset), bytes_max)?;
        Ok(piece.map(|piece| Tail {
            bytes: piece.bytes,
            modified,
        }))
    }

    /// Reads at most `bytes_max` bytes of a run; `None` if it has no file.
    ///
    /// # Errors
    /// If a file cannot be read, or the files are rotated too fast to be listed.
    pub fn piece(
        &self,
        run: RunNo,
        start: LogStart,
        bytes_max: usize,
    ) -> io::Result<Option<Piece>> {
        let Some(files) = self.files(run)? else {
            return Err(io::Error::other("its files are rotated too fast"));
        };
        let files = files.into_iter();
        let files: Vec<_> = files.filter_map(|it| Some((it.id, it.file?))).collect();
        if files.is_empty() {
            return Ok(None);
        }
        let (mut index, mut offset) = locate(&files, start)?;
        let mut bytes = vec![0; bytes_max];
        let mut filled = 0;
        loop {
            filled += read_data(&files[index].1, &mut bytes[filled..], &mut offset)?;
            // Listed before reading: a file with a successor does not grow.
            if filled == bytes_max || index + 1 == files.len() {
                break;
            }
            index += 1;
            offset = 0;
        }
        bytes.truncate(filled);
        let (id, file) = &files[index];
        if filled > 0 && !self.is_named(file)? {
            return Ok(None);
        }
        let mut size = 0;
        for (_, file) in &files {
            size += file.metadata()?.len();
        }
        let is_within = offset <= file.metadata()?.len();
        let cursor = is_within.then_some(LogCursor { file: *id, offset });
        Ok(Some(Piece {
            bytes,
            size,
            cursor,
        }))
    }
}

/// The file in which a piece begins, and the offset there.
fn locate(files: &[(LogFileId, File)], start: LogStart) -> io::Result<(usize, u64)> {
    let size = |index: usize| Ok::<_, io::Error>(files[index].1.metadata()?.len());
    match start {
        LogStart::Offset(mut offset) => {
            let mut index = 0;
            while index + 1 < files.len() && offset >= size(index)? {
                offset -= size(index)?;
                index += 1;
            }
            Ok((index, offset))
        }
        LogStart::Cursor(cursor) => Ok(match files.iter().position(|it| it.0 == cursor.file) {
            Some(index) if size(index)? >= cursor.offset => (index, cursor.offset),
            // A file that was truncated is read from its beginning.
            Some(index) => (index, 0),
            None => (0, 0),
        }),
    }
}
