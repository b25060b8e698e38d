//! The hosts of each job, recorded before anything is started there.
//!
//! The file `NAME.hosts` of a fleet's directory has a line for each pilot, its host. A second submission of a
//! job finds it, and starts nothing elsewhere; a list knows from it the jobs of hosts that cannot be
//! reached. A scheduler without these files, because it took over on another host, learns all the rest
//! from the hosts themselves.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_model::fleet::JobSighting;

use crate::driver::Fleet;
use crate::site::write_file;

/// How long a record is kept at least: a submission may be under way.
const KEEP: Duration = Duration::from_secs(3_600);

const ENDING: &str = ".hosts";

/// The hosts of a job's pilots, by their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Assignment(Vec<String>);

impl Assignment {
    pub(super) fn pilots(&self) -> impl Iterator<Item = (u32, String)> {
        (0..).zip(self.0.iter().cloned())
    }

    pub(super) fn hosts(&self) -> impl Iterator<Item = String> {
        self.0.iter().cloned()
    }
}

fn path(dir: &Path, job: &str) -> PathBuf {
    dir.join(format!("{job}{ENDING}"))
}

/// Records the hosts of a job.
pub(super) fn write(dir: &Path, job: &str, hosts: Vec<String>) -> Result<Assignment, String> {
    if let Some(host) = hosts.iter().find(|it| it.contains(char::is_whitespace)) {
        return Err(format!("`{host}` is no host: it has a space"));
    }
    let text: String = hosts.iter().map(|host| format!("{host}\n")).collect();
    write_file(&path(dir, job), 0o600, text.as_bytes())?;
    Ok(Assignment(hosts))
}

/// The recorded hosts of a job, if there are any.
pub(super) fn read(dir: &Path, job: &str) -> Result<Option<Assignment>, String> {
    let path = path(dir, job);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(Assignment(text.lines().map(str::to_owned).collect()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

/// The recorded hosts of all jobs.
pub(super) fn read_all(
    dir: &Path,
    fleet: Fleet<'_>,
) -> Result<BTreeMap<String, Assignment>, String> {
    let failed = |error: io::Error| format!("cannot read {}: {error}", dir.display());
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut all = BTreeMap::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_string_lossy();
        let Some(job) = name.strip_suffix(ENDING) else {
            continue;
        };
        // It may have been removed by another list.
        if fleet.site.job_of(fleet.name, job).is_some()
            && let Some(assignment) = read(dir, job)?
        {
            all.insert(job.to_owned(), assignment);
        }
    }
    Ok(all)
}

/// Removes the records of jobs that a list shows as over, or does not show.
pub(super) fn forget_ended(
    dir: &Path,
    assigned: &BTreeMap<String, Assignment>,
    jobs: &[JobSighting],
) {
    for job in assigned.keys() {
        if jobs.iter().any(|it| it.name == *job && !it.state.is_over()) {
            continue;
        }
        let path = path(dir, job);
        let modified = fs::metadata(&path).and_then(|it| it.modified());
        let age = modified.ok().and_then(|it| it.elapsed().ok());
        if age.is_some_and(|it| it > KEEP) {
            // The next list tries again.
            let _ = fs::remove_file(path);
        }
    }
}
