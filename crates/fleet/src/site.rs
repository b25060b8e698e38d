//! The place of pilots: their binary, scheduler and token, and the directory of their files.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_fs::private::{PrivateDir, file_options};
use baton_model::fleet::FleetName;
use baton_model::ids::JobId;

use crate::slurm::Containment;

/// What the jobs of all fleets of one store share.
#[derive(Clone, Debug)]
pub struct Site {
    /// The binary `baton`, as the hosts of pilots find it.
    pub binary: PathBuf,
    /// Worker addresses of the schedulers, which pilots try in turn.
    pub schedulers: Vec<String>,
    /// What pilots have to show.
    pub token: PilotToken,
    /// The directory of scripts, and of the logs and states of pilots, for each fleet in a directory
    /// of its own. Hosts of pilots use the same path.
    pub dir: PathBuf,
    /// The beginning of the names of all jobs of this store, such as `baton-7f3a`. A generation of the
    /// store may follow after a dot; then the fleet and the id of the job, each after a `-`.
    pub store: String,
    /// Further variables of the commands that are run.
    pub env: Vec<(String, String)>,
    /// How long one command may run.
    pub timeout: Duration,
    /// How long a pilot that is stopped may take before it is killed, where Baton has to kill it.
    pub kill_after: Duration,
    /// Whether Slurm ends all processes of a job, as far as is known.
    pub containment: Containment,
}

/// The token of pilots. Scripts and command lines have the path of its file only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PilotToken {
    /// None is needed.
    None,
    /// It is in this file of the operator, as hosts of pilots find it.
    File(PathBuf),
    /// The scheduler issues one for each fleet, in [`Site::TOKEN_FILE`] of its directory.
    Issued,
}

impl Site {
    /// The name of the file with the token of a fleet, in its directory.
    pub const TOKEN_FILE: &str = "token";
    /// A time limit of commands that a busy Slurm controller seldom exceeds.
    pub const TIMEOUT: Duration = Duration::from_secs(30);
    /// Longer than a worker takes to drain by default.
    pub const KILL_AFTER: Duration = Duration::from_secs(60);

    /// The job of this store and fleet that has this name.
    #[must_use]
    pub fn job_of(&self, fleet: &FleetName, name: &str) -> Option<JobId> {
        let rest = name.strip_prefix(&self.store)?;
        let rest = match rest.strip_prefix('.') {
            Some(rest) => rest.trim_start_matches(|it: char| it.is_ascii_hexdigit()),
            None => rest,
        };
        let rest = rest.strip_prefix('-')?.strip_prefix(fleet.as_str())?;
        let job = JobId(rest.strip_prefix("-p")?.parse().ok()?);
        rest.strip_prefix('-')
            .is_some_and(|id| id == job.to_string())
            .then_some(job)
    }

    /// The directory of a fleet.
    pub(crate) fn fleet_path(&self, fleet: &FleetName) -> PathBuf {
        self.dir.join(fleet.as_str())
    }

    /// The file with the token of a fleet's pilots.
    pub(crate) fn token_path(&self, fleet: &FleetName) -> Option<PathBuf> {
        match &self.token {
            PilotToken::None => None,
            PilotToken::File(path) => Some(path.clone()),
            PilotToken::Issued => Some(self.fleet_path(fleet).join(Self::TOKEN_FILE)),
        }
    }

    /// Makes the directory of a fleet, which no other user may read.
    pub(crate) fn make_fleet_dir(&self, fleet: &FleetName) -> Result<PathBuf, String> {
        let dir = PrivateDir::create(&self.dir).map_err(|error| error.to_string())?;
        let dir = dir
            .subdirectory(fleet.as_str(), 0o700)
            .map_err(|error| error.to_string())?;
        Ok(dir.path().to_owned())
    }

    /// Refuses a token that other users may read, and an issued one that is gone. An operator's that is missing here
    /// may be on the hosts of pilots.
    pub(crate) fn check_token(&self, fleet: &FleetName) -> Result<(), String> {
        let Some(path) = self.token_path(fleet) else {
            return Ok(());
        };
        match fs::metadata(&path) {
            Err(error) if self.token == PilotToken::Issued => Err(format!(
                "cannot read the token that was issued for the fleet, {}: {error}; restart the scheduler, \
                 which issues another",
                path.display()
            )),
            Ok(found) if found.mode() & 0o077 != 0 => Err(format!(
                "other users may read the token file {path} (mode {mode:04o}); run `chmod 600 {path}`",
                path = path.display(),
                mode = found.mode() & 0o7777,
            )),
            _ => Ok(()),
        }
    }
}

/// Writes a file of a fleet's directory, durable and at once: it has its whole content or is not there.
pub(crate) fn write_file(path: &Path, mode: u32, content: &[u8]) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let draft = path.with_file_name(name);
    // Left by a scheduler that ended meanwhile.
    let _ = fs::remove_file(&draft);
    let mut file = file_options()
        .write(true)
        .create_new(true)
        .open(&draft)
        .map_err(failed)?;
    file.write_all(content).map_err(failed)?;
    rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(mode))
        .map_err(|error| failed(error.into()))?;
    file.sync_all().map_err(failed)?;
    fs::rename(&draft, path).map_err(failed)?;
    let parent = path.parent().unwrap_or(Path::new("/"));
    File::open(parent)
        .and_then(|dir| dir.sync_all())
        .map_err(failed)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn site(dir: &Path) -> Site {
        Site {
            binary: "/opt/baton/bin/baton".into(),
            schedulers: vec!["login1:8081".to_owned(), "login2:8081".to_owned()],
            token: PilotToken::File("/etc/baton/pilots.token".into()),
            dir: dir.to_owned(),
            store: "baton-7f3a".to_owned(),
            env: Vec::new(),
            timeout: Site::TIMEOUT,
            kill_after: Site::KILL_AFTER,
            containment: Containment::default(),
        }
    }

    #[test]
    fn a_job_is_known_by_its_name() {
        let site = site(Path::new("/x"));
        let fleet: FleetName = "gpu".parse().expect("valid");
        for ours in ["baton-7f3a-gpu-p12", "baton-7f3a.2e-gpu-p12"] {
            assert_eq!(site.job_of(&fleet, ours), Some(JobId(12)), "{ours}");
        }
        for other in [
            "baton-7f3a-gpu-2-p12",
            "baton-7f3a-gpu-p",
            "baton-7f3a-gpu-p+1",
            "baton-7f3a-gpu-p012",
            "baton-7f3a-gpu-p12-0",
            "baton-7f3a-gpu-p12 ",
            "baton-7f3agpu-p12",
            "baton-7f3a.x-gpu-p12",
            "baton-7f3a0-gpu-p12",
            "baton-0000-gpu-p12",
            "gpu-p12",
        ] {
            assert_eq!(site.job_of(&fleet, other), None, "{other}");
        }
    }

    #[test]
    fn a_token_that_others_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a directory");
        let mut site = site(dir.path());
        let path = dir.path().join("token");
        site.token = PilotToken::File(path.clone());
        let fleet: FleetName = "gpu".parse().expect("valid");
        assert_eq!(
            site.check_token(&fleet),
            Ok(()),
            "it may be on other hosts only"
        );
        fs::write(&path, "secret").expect("written");
        let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode));
        set(0o640).expect("ours");
        let error = site.check_token(&fleet).expect_err("refused");
        assert!(error.contains("(mode 0640); run `chmod 600 "), "{error}");
        set(0o600).expect("ours");
        assert_eq!(site.check_token(&fleet), Ok(()));
        site.token = PilotToken::Issued;
        let error = site.check_token(&fleet).expect_err("it is not there");
        assert!(error.contains("restart the scheduler"), "{error}");
    }
}
