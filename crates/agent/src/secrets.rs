//! The secrets of attempts on this host: in files in memory, never on a disk.
//!
//! Each attempt has a directory below that of its worker ([`SecretsDir`]), from before its launch until the scheduler
//! knows its end. A worker that starts removes what an earlier agent has left.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use baton_fs::private::PrivateDir;
use baton_model::ids::LeaseId;
use baton_model::secret::{SecretName, SecretValue};
use baton_model::spec::InstanceSpec;
use baton_runner::masking::{HeldSecret, Masker, SecretsDir};
use baton_runner::sys::users;
use baton_runner::wire::Credentials;
use rustix::fs::{FsWord, statfs};

use crate::attempt_dir::dir_name;
use crate::sweep::lease_of;

/// Where files are in memory, in order of preference.
const PLACES: [&str; 2] = ["/dev/shm", "/run/user"];
/// The type of such a file system.
const TMPFS_MAGIC: FsWord = 0x0102_1994;

/// The directories of the attempts of one worker.
#[derive(Debug)]
pub(crate) struct Secrets {
    /// The directory of the worker.
    base: PathBuf,
    /// Attempts that have a directory.
    kept: BTreeSet<LeaseId>,
}

impl Secrets {
    /// `mark` is that of the worker.
    pub(crate) fn new(mark: &str) -> Self {
        let user = users::effective_uid().to_string();
        let runtime = PathBuf::from(PLACES[1]).join(user);
        let places = [PathBuf::from(PLACES[0]), runtime];
        let in_memory = places.iter().find(|place| is_in_memory(place));
        let base = in_memory
            .unwrap_or(&places[0])
            .join(format!("baton-{mark}"));
        let kept = PrivateDir::open(&base).and_then(|dir| dir.names());
        let kept = kept.unwrap_or_default();
        Self {
            base,
            kept: kept.iter().filter_map(|name| lease_of(name)).collect(),
        }
    }

    /// The directory of an attempt.
    pub(crate) fn of(&self, lease: LeaseId) -> SecretsDir {
        SecretsDir::new(self.base.join(dir_name(lease)))
    }

    /// Keeps the values of an attempt for its processes.
    ///
    /// # Errors
    /// Why it cannot have them.
    pub(crate) fn keep(
        &mut self,
        lease: LeaseId,
        spec: &InstanceSpec,
        values: &[(SecretName, SecretValue)],
        owner: Option<&Credentials>,
    ) -> Result<(), String> {
        let mut secrets = Vec::with_capacity(spec.secrets.len());
        for wanted in &spec.secrets {
            let name = &wanted.name;
            let value = values.iter().find(|(other, _)| other == name);
            let (_, value) = value.ok_or_else(|| format!("the scheduler has not sent `{name}`"))?;
            let secret = HeldSecret {
                env: wanted.env.clone(),
                file: wanted.file_name().map(str::to_owned),
                value: value.expose().to_vec(),
            };
            if let (Some(env), Err(reason)) = (&wanted.env, secret.as_variable()) {
                return Err(format!(
                    "the variable {env} cannot have the secret `{name}`: {reason}; use a file"
                ));
            }
            secrets.push(secret);
        }
        self.prepare()?;
        let dir = self.of(lease);
        let failed = |error| format!("its secrets, in {}: {error}", self.base.display());
        // What an agent has left that died before it could launch.
        dir.remove().map_err(failed)?;
        dir.create(&secrets, owner).map_err(failed)?;
        self.kept.insert(lease);
        Ok(())
    }

    fn prepare(&self) -> Result<(), String> {
        let place = self.base.parent().unwrap_or(Path::new("/"));
        if !is_in_memory(place) {
            return Err(format!(
                "this worker has no file system in memory for secrets: mount a tmpfs at {}",
                PLACES[0]
            ));
        }
        let dir = PrivateDir::create(&self.base).map_err(|error| error.to_string())?;
        // Other users must be able to reach their own directories below.
        let mode = if users::effective_uid() == 0 {
            0o711
        } else {
            0o700
        };
        dir.set_mode(mode).map_err(|error| error.to_string())
    }

    /// Masks the values of an attempt; none if it has no secrets.
    ///
    /// # Errors
    /// If it has some, and they are gone.
    pub(crate) fn masker(
        &self,
        lease: LeaseId,
        spec: &InstanceSpec,
    ) -> Result<Option<Masker>, String> {
        if spec.secrets.is_empty() {
            return Ok(None);
        }
        let read = self.of(lease).read();
        let read = read.map_err(|error| format!("its secrets cannot be read: {error}"))?;
        Ok(Some(Masker::new(read.iter().map(|it| &*it.value))))
    }

    /// Removes the directories of attempts that are not among these.
    pub(crate) fn retain(&mut self, is_held: impl Fn(LeaseId) -> bool) {
        let gone = self.kept.iter().copied().filter(|lease| !is_held(*lease));
        for lease in gone.collect::<Vec<_>>() {
            match self.of(lease).remove() {
                Ok(()) => {
                    self.kept.remove(&lease);
                }
                Err(error) => tracing::error!(
                    "the secrets of {lease} cannot be removed from {}: {error}",
                    self.base.display()
                ),
            }
        }
        if self.kept.is_empty() {
            // It is there only if there were secrets, and is created again for the next ones.
            let _ = fs::remove_dir(&self.base);
        }
    }
}

fn is_in_memory(place: &Path) -> bool {
    statfs(place).is_ok_and(|it| it.f_type == TMPFS_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::ids::{AttemptId, AttemptNo, Epoch, InstanceId};
    use baton_model::secret::SecretUse;

    fn lease(instance: u64) -> LeaseId {
        LeaseId {
            attempt: AttemptId {
                instance: InstanceId(instance),
                number: AttemptNo(1),
            },
            epoch: Epoch(1),
        }
    }

    fn spec(env: Option<&str>) -> InstanceSpec {
        InstanceSpec {
            secrets: vec![SecretUse {
                name: "db".parse().expect("a name"),
                env: env.map(str::to_owned),
                file: None,
            }],
            ..InstanceSpec::default()
        }
    }

    fn values(value: &[u8]) -> Vec<(SecretName, SecretValue)> {
        let value = SecretValue::new(value.to_vec()).expect("a value");
        vec![("db".parse().expect("a name"), value)]
    }

    #[test]
    fn secrets_are_in_memory_until_their_attempt_is_over() {
        let mark = format!("test-{}", std::process::id());
        let mut secrets = Secrets::new(&mark);
        for instance in [1, 2] {
            let kept = secrets.keep(lease(instance), &spec(None), &values(b"hunter2"), None);
            kept.expect("kept");
        }
        let dir = secrets.of(lease(1));
        assert!(is_in_memory(&dir.files()));
        let masker = secrets.masker(lease(1), &spec(None)).expect("readable");
        let shown = masker.expect("there are secrets").masked(b"a hunter2 b");
        assert_eq!(shown, b"a *** b");
        let none = secrets.masker(lease(1), &InstanceSpec::default());
        assert!(none.expect("fine").is_none());
        let mut next = Secrets::new(&mark);
        next.retain(|it| it == lease(2));
        assert!(dir.read().is_err(), "the next agent removes what is left");
        assert!(secrets.masker(lease(1), &spec(None)).is_err());
        next.retain(|_| false);
        assert!(!secrets.base.exists());
    }

    #[test]
    fn what_no_variable_can_have_and_what_was_not_sent_are_errors() {
        let mut secrets = Secrets::new("test-never-made");
        let mut keep = |spec: &InstanceSpec, values: &[_]| {
            secrets
                .keep(lease(1), spec, values, None)
                .expect_err("refused")
        };
        let error = keep(&spec(Some("DB")), &values(&[0, 1]));
        assert!(error.contains("zero byte"), "{error}");
        let error = keep(&spec(None), &[]);
        assert!(error.contains("has not sent `db`"), "{error}");
    }
}
