//! The output of a task's processes: `SANDBOX/.logs/PROCESS/RUN/{stdout,stderr}[.N]`.
//!
//! The file without a number is the one being written. Where files are rotated, `.1`
//! was written before it, `.2` before that.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use baton_model::task::{ProcessName, RunNo};

use super::tree::Dir;
use rustix::fs::{Mode, OFlags};

/// The directory of all logs in a sandbox.
pub const LOGS_DIR: &str = ".logs";

/// One of the two streams of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// The name of its file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The log directory of one process; `None` if its name is no file name, which only a damaged
/// definition has.
#[must_use]
pub fn log_dir(sandbox: &Path, process: &ProcessName) -> Option<PathBuf> {
    let name = process.0.as_str();
    let plain = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
    plain.then(|| sandbox.join(LOGS_DIR).join(name))
}

/// Removes the output of one run. No link is followed: the owner of the sandbox could redirect the
/// removal.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_run_logs(sandbox: &Path, process: &ProcessName, run: RunNo) -> io::Result<()> {
    let Some(logs) = Dir::open(sandbox)?.part(LOGS_DIR)? else {
        return Ok(());
    };
    match logs.part(&process.0)? {
        Some(runs) => runs.remove(&run.0.to_string()),
        None => Ok(()),
    }
}

/// The runs that have a directory, in order; none if the log directory does not exist.
///
/// # Errors
/// If it cannot be read.
pub fn run_dirs(log_dir: &Path) -> io::Result<Vec<RunNo>> {
    let names = match fs::read_dir(log_dir) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut runs = Vec::new();
    for name in names {
        let name = name?.file_name();
        let number = name.to_str().and_then(|text| text.parse().ok());
        runs.extend(number.map(RunNo));
    }
    runs.sort_unstable();
    Ok(runs)
}

/// Opens a log file for reading. The sandbox belongs to the task, which may have replaced a log by
/// a link to a file that only the reader may read, or by a pipe without a writer. Only a regular
/// file is opened.
///
/// # Errors
/// If it is not a regular file, or may not be read.
pub fn open_log(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ))
    }
}

/// The files of one stream of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLogs {
    dir: PathBuf,
    stream: Stream,
}

impl RunLogs {
    /// One stream of one run, of the process with this log directory.
    #[must_use]
    pub fn new(log_dir: &Path, run: RunNo, stream: Stream) -> Self {
        Self {
            dir: log_dir.join(run.0.to_string()),
            stream,
        }
    }

    /// The file being written.
    #[must_use]
    pub fn current(&self) -> PathBuf {
        self.dir.join(self.stream.word())
    }

    /// Every existing file, the oldest first; the last one is being written.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn files(&self) -> io::Result<Vec<PathBuf>> {
        let names = match fs::read_dir(&self.dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut numbered = Vec::new();
        for name in names {
            let name = name?.file_name();
            let rest = name
                .to_str()
                .and_then(|n| n.strip_prefix(self.stream.word()));
            let age = match rest {
                Some("") => Some(0),
                Some(rest) => rest.strip_prefix('.').and_then(|n| n.parse::<u32>().ok()),
                None => None,
            };
            numbered.extend(age.map(|age| (age, name)));
        }
        numbered.sort_by_key(|(age, _)| std::cmp::Reverse(*age));
        let names = numbered.into_iter();
        Ok(names.map(|(_, name)| self.dir.join(name)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_rotated_files_are_listed_in_the_order_of_writing() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let logs = log_dir(temp.path(), &ProcessName("p".into())).expect("a good name");
        assert_eq!(run_dirs(&logs).expect("not there yet"), []);
        for run in ["0", "10", "9", "x"] {
            fs::create_dir_all(logs.join(run)).expect("made");
        }
        assert_eq!(
            run_dirs(&logs).expect("read"),
            [RunNo(0), RunNo(9), RunNo(10)]
        );
        let run = RunLogs::new(&logs, RunNo(9), Stream::Stdout);
        assert!(run.files().expect("nothing yet").is_empty());
        for name in [
            "stdout",
            "stdout.1",
            "stdout.10",
            "stdout.2",
            "stderr",
            "stdout.gz",
        ] {
            fs::write(logs.join("9").join(name), "").expect("written");
        }
        let files = run.files().expect("read");
        let names: Vec<_> = files.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(names, ["stdout.10", "stdout.2", "stdout.1", "stdout"]);
        assert_eq!(files.last(), Some(&run.current()));
    }

    #[test]
    fn only_a_plain_file_is_opened() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let plain = temp.path().join("plain");
        fs::write(&plain, "x").expect("written");
        open_log(&plain).expect("a plain file");
        let link = temp.path().join("link");
        std::os::unix::fs::symlink(&plain, &link).expect("linked");
        assert!(open_log(&link).is_err());
        assert!(open_log(temp.path()).is_err());
        let pipe = temp.path().join("pipe");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, Mode::RWXU, 0).expect("made");
        assert!(open_log(&pipe).is_err());
    }

    #[test]
    fn a_name_cannot_lead_out_of_the_sandbox() {
        for name in ["", "..", ".", "a/b", "/etc"] {
            assert_eq!(log_dir(Path::new("/s"), &ProcessName(name.into())), None);
        }
    }
}
