//! One stream of one process, across rotations, truncations and runs.
//!
//! A file is identified by device and inode, not by name: a rotation renames it, and reading
//! continues with the file written after it. The follower moves on to a later run only if that run
//! existed before the end of the current one was read.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use baton_model::task::RunNo;
use baton_runner::root::{RunLogs, Stream, open_log, run_dirs};

use super::last;

/// Read position in the output of a process.
#[derive(Debug)]
pub(in crate::local) struct Follower {
    dir: PathBuf,
    stream: Stream,
    /// Only this run, and none after it.
    only: Option<RunNo>,
    run: Option<RunNo>,
    open: Option<OpenLog>,
}

#[derive(Debug)]
struct OpenLog {
    file: File,
    id: FileId,
    offset: u64,
}

/// Device and inode.
type FileId = (u64, u64);

const BLOCK: usize = 64 * 1_024;

/// Receives the bytes read; returns false to stop.
pub(in crate::local) type Take<'a> = dyn FnMut(&[u8]) -> bool + 'a;

impl Follower {
    /// Starts at the last `lines` lines of the newest run, or of the run `only`.
    pub(in crate::local) fn begin(
        dir: PathBuf,
        stream: Stream,
        only: Option<RunNo>,
        lines: usize,
    ) -> io::Result<Self> {
        let run = match only {
            Some(run) => Some(run),
            None => run_dirs(&dir)?.last().copied(),
        };
        let mut follower = Self {
            dir,
            stream,
            only,
            run,
            open: None,
        };
        let mut opened = follower.files()?;
        let files: Vec<File> = opened
            .iter()
            .map(|opened| opened.file.try_clone())
            .collect::<io::Result<_>>()?;
        if let Some((index, offset)) = last::start_of_last_lines(&files, lines)? {
            let mut first = opened.swap_remove(index);
            first.move_to(offset)?;
            follower.open = Some(first);
        }
        Ok(follower)
    }

    /// True if there is no file to read yet.
    pub(super) const fn has_no_file(&self) -> bool {
        self.open.is_none()
    }

    /// Reads everything written since the last call.
    pub(in crate::local) fn read(&mut self, take: &mut Take<'_>) -> io::Result<()> {
        loop {
            // Listed before reading, so that the end of the current run is not missed.
            let later = self.later_run()?;
            if self.open.is_none() {
                self.open = self.files()?.into_iter().next();
            }
            if let Some(opened) = &mut self.open
                && !opened.read_to_end(take)?
            {
                return Ok(());
            }
            let next = self.next_file()?;
            if let Some(next) = next {
                // More may have been written between the last read and the rotation.
                if let Some(opened) = &mut self.open
                    && !opened.read_to_end(take)?
                {
                    return Ok(());
                }
                self.open = Some(next);
            } else if later.is_some() {
                self.run = later;
                self.open = None;
            } else {
                return Ok(());
            }
        }
    }

    /// The run after this one, if any.
    fn later_run(&self) -> io::Result<Option<RunNo>> {
        if self.only.is_some() {
            return Ok(None);
        }
        let runs = run_dirs(&self.dir)?;
        let later = runs.into_iter().find(|run| Some(*run) > self.run);
        Ok(later)
    }

    /// The file written after the current one; the oldest file if the current one is gone.
    fn next_file(&self) -> io::Result<Option<OpenLog>> {
        let Some(opened) = &self.open else {
            return Ok(None);
        };
        let mut files = self.files()?;
        let index = files.iter().position(|file| file.id == opened.id);
        let next = index.map_or(0, |index| index + 1);
        Ok((next < files.len()).then(|| files.swap_remove(next)))
    }

    /// The files of the run, oldest first.
    fn files(&self) -> io::Result<Vec<OpenLog>> {
        let Some(run) = self.run else {
            return Ok(Vec::new());
        };
        let mut files = Vec::new();
        for path in RunLogs::new(&self.dir, run, self.stream).files()? {
            match open_log(&path) {
                Ok(file) => files.push(OpenLog::new(file)?),
                // Rotated away since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        // A rotation during the listing may show one file under two names.
        files.dedup_by_key(|opened| opened.id);
        Ok(files)
    }
}

impl OpenLog {
    fn new(file: File) -> io::Result<Self> {
        let id = file_id(&file.metadata()?);
        Ok(Self {
            file,
            id,
            offset: 0,
        })
    }

    fn move_to(&mut self, offset: u64) -> io::Result<()> {
        self.offset = self.file.seek(SeekFrom::Start(offset))?;
        Ok(())
    }

    /// Returns false if the receiver wants no more.
    fn read_to_end(&mut self, take: &mut Take<'_>) -> io::Result<bool> {
        if self.file.metadata()?.len() < self.offset {
            // The file was truncated; its content is new.
            self.move_to(0)?;
        }
        let mut block = vec![0; BLOCK];
        loop {
            match self.file.read(&mut block) {
                Ok(0) => return Ok(true),
                Ok(read) => {
                    self.offset += read as u64;
                    if !take(&block[..read]) {
                        return Ok(false);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn file_id(meta: &Metadata) -> FileId {
    (meta.dev(), meta.ino())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    use super::*;

    fn temp() -> (tempfile::TempDir, PathBuf) {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let dir = temp.path().join("p");
        (temp, dir)
    }

    fn write(dir: &Path, run: u32, text: &str) {
        let run = dir.join(run.to_string());
        fs::create_dir_all(&run).expect("made");
        let mut options = File::options();
        let file = options.append(true).create(true).open(run.join("stdout"));
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .expect("written");
    }

    fn rotate(dir: &Path, run: u32) {
        let name = |age: u32| dir.join(run.to_string()).join(format!("stdout.{age}"));
        for age in (1..3).rev() {
            if name(age).exists() {
                fs::rename(name(age), name(age + 1)).expect("renamed");
            }
        }
        fs::rename(dir.join(run.to_string()).join("stdout"), name(1)).expect("renamed");
    }

    fn follower(dir: &Path, lines: usize) -> Follower {
        Follower::begin(dir.to_owned(), Stream::Stdout, None, lines).expect("readable")
    }

    fn read(follower: &mut Follower) -> String {
        let mut text = Vec::new();
        let mut take = |bytes: &[u8]| {
            text.extend_from_slice(bytes);
            true
        };
        follower.read(&mut take).expect("readable");
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn what_is_written_later_is_read_later_and_once() {
        let (_temp, dir) = temp();
        let mut follower = follower(&dir, 10);
        assert!(follower.has_no_file());
        assert_eq!(read(&mut follower), "");
        write(&dir, 0, "a\n");
        assert_eq!(read(&mut follower), "a\n");
        write(&dir, 0, "b");
        assert_eq!(read(&mut follower), "b");
        assert_eq!(read(&mut follower), "");
    }

    #[test]
    fn rotations_lose_and_repeat_nothing() {
        let (_temp, dir) = temp();
        write(&dir, 0, "a\nb\n");
        let mut follower = follower(&dir, 1);
        assert_eq!(read(&mut follower), "b\n");
        write(&dir, 0, "c\n");
        rotate(&dir, 0);
        write(&dir, 0, "d\n");
        rotate(&dir, 0);
        write(&dir, 0, "e\n");
        assert_eq!(read(&mut follower), "c\nd\ne\n");
        assert_eq!(read(&mut follower), "");
    }

    #[test]
    fn a_file_that_was_rotated_out_of_existence_is_followed_by_the_oldest_left() {
        let (_temp, dir) = temp();
        write(&dir, 0, "a\n");
        let mut follower = follower(&dir, 10);
        assert_eq!(read(&mut follower), "a\n");
        fs::remove_file(dir.join("0/stdout")).expect("removed");
        write(&dir, 0, "b\n");
        rotate(&dir, 0);
        write(&dir, 0, "c\n");
        assert_eq!(read(&mut follower), "b\nc\n");
    }

    #[test]
    fn a_file_that_was_emptied_is_read_from_its_beginning() {
        let (_temp, dir) = temp();
        write(&dir, 0, "abc\n");
        let mut follower = follower(&dir, 10);
        assert_eq!(read(&mut follower), "abc\n");
        File::create(dir.join("0/stdout")).expect("emptied");
        write(&dir, 0, "d\n");
        assert_eq!(read(&mut follower), "d\n");
    }

    #[test]
    fn later_runs_follow_each_other_and_none_is_left_out() {
        let (_temp, dir) = temp();
        write(&dir, 0, "old\n");
        write(&dir, 1, "a\n");
        let mut follower = follower(&dir, 10);
        assert_eq!(read(&mut follower), "a\n");
        write(&dir, 1, "b\n");
        write(&dir, 2, "c\n");
        fs::create_dir(dir.join("3")).expect("made");
        write(&dir, 10, "d\n");
        assert_eq!(read(&mut follower), "b\nc\nd\n");
    }

    #[test]
    fn one_run_alone_is_left_for_no_other() {
        let (_temp, dir) = temp();
        write(&dir, 0, "a\n");
        write(&dir, 1, "b\n");
        let only = Some(RunNo(0));
        let begun = Follower::begin(dir, Stream::Stdout, only, 10);
        assert_eq!(read(&mut begun.expect("readable")), "a\n");
    }
}
