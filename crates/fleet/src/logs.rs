//! Logs of jobs, as far as they are files of this host.
//!
//! Slurm writes one for each job, `NAME.log`; processes of this host write one for each pilot, `NAME-NUMBER.log`.
//! Those of `ssh` are on the hosts, unless these share the directory. Only regular files within the directory are
//! read: a job runs programs of users.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use baton_fs::enclosure::{Enclosure, EnclosureError};
use baton_model::fleet::FleetName;

/// Logs of one job that are read. More pilots say the same.
const LOGS_MAX: usize = 4;

/// The end of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLog {
    /// Its name in the directory of the fleet.
    pub file: String,
    /// The position of the first byte.
    pub begin: u64,
    pub bytes: Vec<u8>,
}

/// The ends of the logs of a job, each of so many bytes at most; none if this host has none.
///
/// # Errors
/// If a directory or a log cannot be read.
pub fn job_logs(
    dir: &Path,
    fleet: &FleetName,
    name: &str,
    bytes_max: u64,
) -> io::Result<Vec<JobLog>> {
    let enclosure = match Enclosure::open(&dir.join(fleet.as_str())) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let all = enclosure.find(".").map_err(io::Error::other)?;
    let mut files = Vec::new();
    for entry in all.entries()? {
        let file = entry?.file_name().into_string().unwrap_or_default();
        let rest = file.strip_prefix(name);
        if rest
            .is_some_and(|rest| rest == ".log" || (rest.starts_with('-') && rest.ends_with(".log")))
        {
            files.push(file);
        }
    }
    files.sort();
    files.truncate(LOGS_MAX);
    let logs = files
        .into_iter()
        .map(|file| end(&enclosure, file, bytes_max));
    logs.filter_map(Result::transpose).collect()
}

/// The end of a file; none if it is no regular file of the directory, or gone.
fn end(enclosure: &Enclosure, file: String, bytes_max: u64) -> io::Result<Option<JobLog>> {
    let found = match enclosure.find(&file) {
        Ok(found) if found.metadata().is_file() => found,
        Ok(_) | Err(EnclosureError::Outside { .. }) => return Ok(None),
        Err(EnclosureError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(EnclosureError::Io(error)) => return Err(error),
    };
    let mut opened = found.open()?;
    let size = opened.metadata()?.len();
    let begin = size.saturating_sub(bytes_max);
    opened.seek(SeekFrom::Start(begin))?;
    let mut bytes = Vec::new();
    opened.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(Some(JobLog { file, begin, bytes }))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn logs_of_a_job_are_those_with_its_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let fleet: FleetName = "gpu".parse().expect("a name");
        assert_eq!(
            job_logs(dir.path(), &fleet, "b-gpu-p1", 9).expect("none"),
            []
        );
        let at = dir.path().join("gpu");
        fs::create_dir(&at).expect("made");
        for (file, text) in [
            ("b-gpu-p1.log", "0123456789"),
            ("b-gpu-p1-0.log", "pilot"),
            ("b-gpu-p12.log", "another job"),
            ("b-gpu-p1-0.sh", "a script"),
        ] {
            fs::write(at.join(file), text).expect("written");
        }
        symlink("/etc/hostname", at.join("b-gpu-p1-1.log")).expect("a link");
        let logs = job_logs(dir.path(), &fleet, "b-gpu-p1", 4).expect("readable");
        let found: Vec<_> = logs
            .iter()
            .map(|it| (it.file.as_str(), it.begin, it.bytes.as_slice()))
            .collect();
        assert_eq!(
            found,
            [
                ("b-gpu-p1-0.log", 1, &b"ilot"[..]),
                ("b-gpu-p1.log", 6, &b"6789"[..])
            ]
        );
    }
}
