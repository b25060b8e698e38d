//! A site with a stand-in for `baton`, and the calls of a fleet.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use baton_fleet::{PilotToken, Site, TokenStore, answer};
use baton_model::fleet::{
    Backend, FleetAnswer, FleetCall, FleetName, FleetSpec, JobSighting, JobState, Shape,
};
use baton_model::ids::JobId;
use baton_model::placement::Capacity;
use baton_model::time::{Millis, Wall};
use baton_model::token::Secret;
use baton_testing::{processes, until_some};
use tempfile::TempDir;

/// In place of `baton`: appends `started PID ARGS` and `stopped PID` to files, and waits for SIGTERM. It obeys
/// `--exit STATUS`, which ends it at once, and `--deaf`, by which it ignores SIGTERM.
const STAND_IN: &str = r#"#!/bin/sh
dir=${0%/*}
deaf=
last=
for arg in "$@"; do
    [ "$last" != --exit ] || { echo "it fails as told" >&2; exit "$arg"; }
    [ "$arg" != --deaf ] || deaf=1
    last=$arg
done
trap '[ -n "$deaf" ] || { echo "$$" >>"$dir/stopped"; exit 0; }' TERM
echo "$$ $*" >>"$dir/started"
while :; do sleep 0.05; done
"#;

/// The secret in the token file, which must be nowhere else.
pub(crate) const SECRET: &str = "s3cret-of-pilots";

/// A fleet with its site, in a temporary directory.
pub(crate) struct Bench {
    pub(crate) site: Site,
    pub(crate) fleet: FleetName,
    pub(crate) spec: FleetSpec,
    pub(crate) tokens: Tokens,
    dir: TempDir,
}

/// A store of tokens, all of which are valid.
#[derive(Default)]
pub(crate) struct Tokens(AtomicU8);

impl TokenStore for Tokens {
    fn issue(&self, _: &FleetName, _: Wall) -> Result<Secret, String> {
        Ok(Secret::from_bits(
            [self.0.fetch_add(1, Ordering::Relaxed); 32],
        ))
    }

    fn end_of(&self, _: &FleetName, _: &Secret) -> Option<Wall> {
        None
    }

    fn revoke(&self, _: &Secret) {}
}

impl Bench {
    pub(crate) fn new(backend: Backend) -> Self {
        let dir = tempfile::Builder::new().prefix("baton fleet'").tempdir();
        let dir = dir.expect("a directory");
        let at = |name: &str| dir.path().join(name);
        write(&at("baton"), 0o755, STAND_IN);
        write(&at("token"), 0o600, SECRET);
        fs::create_dir(at("home")).expect("made");
        let site = Site {
            binary: at("baton"),
            schedulers: vec!["a:8081".to_owned(), "b:8081".to_owned()],
            token: PilotToken::File(at("token")),
            dir: at("site"),
            store: "baton-t1".to_owned(),
            // Jobs run the login shell of a user, whose own files are not of this test.
            env: vec![("HOME".to_owned(), at("home").display().to_string())],
            timeout: Duration::from_secs(60),
            kill_after: Site::KILL_AFTER,
            containment: baton_fleet::Containment::default(),
        };
        let spec = FleetSpec {
            backend,
            shape: Shape {
                capacity: Capacity {
                    cpu_milli: 1_000,
                    memory: 64 << 20,
                    ..Capacity::default()
                },
                labels: BTreeMap::from([("zone".to_owned(), "it's; $(here)".to_owned())]),
            },
            workers_per_job: 1,
            min: 0,
            max: 10,
            backlog: 2,
            time_limit: None,
            idle_timeout: Millis::from_secs(300),
            before: None,
            after: None,
            worker_args: Vec::new(),
        };
        Self {
            site,
            fleet: "gpu".parse().expect("a name"),
            spec,
            tokens: Tokens::default(),
            dir,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn name(&self, job: u64) -> String {
        format!("{}-{}-{}", self.site.store, self.fleet, JobId(job))
    }

    pub(crate) fn submit(&self, job: u64) -> FleetAnswer {
        self.submit_without(job, &[])
    }

    pub(crate) fn submit_without(&self, job: u64, excluded: &[&str]) -> FleetAnswer {
        let call = FleetCall::Submit {
            fleet: self.fleet.clone(),
            job: JobId(job),
            name: self.name(job),
            spec: Arc::new(self.spec.clone()),
            excluded: excluded.iter().map(|&it| it.to_owned()).collect(),
        };
        answer(&call, &self.site, &self.tokens)
    }

    /// Submits a job that is taken, and returns its native id.
    pub(crate) fn submitted(&self, job: u64) -> String {
        match self.submit(job) {
            FleetAnswer::Submitted { native, .. } => native,
            other => panic!("{other:?}"),
        }
    }

    /// Issues the next token of the fleet.
    pub(crate) fn issue(&self) -> Secret {
        let next = Secret::from_bits([self.tokens.0.load(Ordering::Relaxed); 32]);
        let call = FleetCall::Token {
            fleet: self.fleet.clone(),
            call: 1,
            until: Wall(2),
            enough: Wall(1),
        };
        let answer = answer(&call, &self.site, &self.tokens);
        assert!(
            matches!(answer, FleetAnswer::TokenReady { call: 1, .. }),
            "{answer:?}"
        );
        next
    }

    pub(crate) fn list(&self) -> FleetAnswer {
        let call = FleetCall::List {
            fleet: self.fleet.clone(),
            spec: Arc::new(self.spec.clone()),
        };
        answer(&call, &self.site, &self.tokens)
    }

    pub(crate) fn listed(&self) -> Vec<JobSighting> {
        match self.list() {
            FleetAnswer::Listed { jobs, .. } => jobs,
            other => panic!("{other:?}"),
        }
    }

    /// The sighting of a job, if a list has it.
    pub(crate) fn sighting(&self, job: u64) -> Option<JobSighting> {
        let name = self.name(job);
        self.listed().into_iter().find(|it| it.name == name)
    }

    /// Waits until a list has a job in this state. A manager on a busy machine may not answer at once.
    pub(crate) fn until(&self, job: u64, state: JobState) -> JobSighting {
        let name = self.name(job);
        until_some(&format!("job {job} is {state:?}"), || match self.list() {
            FleetAnswer::Listed { jobs, .. } => jobs
                .into_iter()
                .find(|it| it.name == name && it.state == state),
            _ => None,
        })
    }

    pub(crate) fn cancel(&self, native: &str, job: u64) -> FleetAnswer {
        let call = FleetCall::Cancel {
            fleet: self.fleet.clone(),
            spec: Arc::new(self.spec.clone()),
            jobs: vec![(native.to_owned(), self.name(job))],
        };
        answer(&call, &self.site, &self.tokens)
    }

    /// Cancels a job, and expects that the order is taken.
    pub(crate) fn cancelled(&self, native: &str, job: u64) {
        let answer = self.cancel(native, job);
        assert!(
            matches!(answer, FleetAnswer::Cancelled { .. }),
            "{answer:?}"
        );
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The pilots that were started: pid and arguments.
    pub(crate) fn pilots(&self) -> Vec<(u32, String)> {
        let lines = self.lines("started").into_iter();
        let parse = |line: String| {
            let (pid, args) = line.split_once(' ')?;
            Some((pid.parse().ok()?, args.to_owned()))
        };
        lines.filter_map(parse).collect()
    }

    /// Waits until so many pilots were started.
    pub(crate) fn until_pilots(&self, count: usize) -> Vec<(u32, String)> {
        until_some(&format!("{count} pilots run"), || {
            Some(self.pilots()).filter(|it| it.len() >= count)
        })
    }

    /// The pilots that have obeyed SIGTERM.
    pub(crate) fn stopped(&self) -> Vec<u32> {
        let lines = self.lines("stopped").into_iter();
        lines.filter_map(|line| line.parse().ok()).collect()
    }

    /// The names and texts of all files of the site, below its directory.
    pub(crate) fn files(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut dirs = vec![self.site.dir.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    dirs.push(path);
                } else {
                    let text = fs::read(&path).unwrap_or_default();
                    let name = path.display().to_string();
                    found.push((name, String::from_utf8_lossy(&text).into_owned()));
                }
            }
        }
        found
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // What a failed test leaves; each has the directory in its command line.
        let dir = self.path().display().to_string();
        processes::kill_all(|text| text.contains(&dir));
    }
}

pub(crate) fn write(path: &Path, mode: u32, text: &str) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
}

/// The reason of an answer that has one.
pub(crate) fn reason(answer: &FleetAnswer) -> &str {
    match answer {
        FleetAnswer::Refused { reason, .. }
        | FleetAnswer::Unclear { reason, .. }
        | FleetAnswer::ListFailed { reason, .. }
        | FleetAnswer::CancelFailed { reason, .. } => reason,
        _ => panic!("{answer:?}"),
    }
}

pub(crate) fn assert_refused(answer: &FleetAnswer, text: &str) {
    assert!(matches!(answer, FleetAnswer::Refused { .. }), "{answer:?}");
    assert!(reason(answer).contains(text), "{answer:?}");
}

pub(crate) fn assert_unclear(answer: &FleetAnswer) {
    assert!(matches!(answer, FleetAnswer::Unclear { .. }), "{answer:?}");
}
