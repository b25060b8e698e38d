//! Launch parameters of an attempt.
//!
//! A command is launched as it is. A task of processes is run by a standalone runner, which is then
//! the attempt's only process. If files must be fetched first, a small command fetches them and
//! then executes the work. Only these two need files, which are in the attempt's own directory.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_core::supervision::attempts::{Assignment, Attempt};
use baton_core::supervision::io::Ending;
use baton_model::ids::LeaseId;
use baton_model::paths;
use baton_model::placement::Offer;
use baton_model::progress::PROGRESS_VARIABLE;
use baton_model::secret::{SECRETS_LINK, SECRETS_VARIABLE, SecretName, SecretValue};
use baton_model::spec::{InstanceSpec, NODES_VARIABLE, Work};
use baton_model::time::{Millis, Mono};
use baton_model::trace::TRACE_VARIABLE;
use baton_runner::launch_error::LaunchError;
use baton_runner::masking::SecretsDir;
use baton_runner::sys::users::{self, User};
use baton_runner::wire::{AttemptPaths, Credentials, Launch, Limit, Request, RunEnd, Sink};
use baton_tls::Trust;

use crate::Config;
use crate::attempt_dir::{
    FetchCache, FetchList, RUNNER_DIR, TASK_FILE, TaskFile, dir_name, prepare_dir, user_dir,
};
use crate::devices::DeviceVariables;
use crate::hosts::{GangHosts, HOST_FILE, MACHINE_FILE};
use crate::log_limit::clamp_rotation;
use crate::secrets::Secrets;
use crate::state::{CACHE, LOGS, WORK};
use crate::tag::Tags;
use crate::{output_files, outputs, progress, stderr_tail};

/// The hidden command that runs the task of an attempt. Its argument is the directory with the
/// [`TaskFile`], below which the runner keeps its own files.
pub const ATTEMPT_COMMAND: &str = "__attempt";
/// The hidden command that fetches files into its directory and then executes another: `FILE --
/// ARGV…`. The file is a [`FetchList`].
pub const FETCH_COMMAND: &str = "__fetch";

const URIS_FILE: &str = ".baton-uris.json";
const CA_FILE: &str = ".baton-ca.pem";
const OUTPUT_FILE: &str = "baton-output";
const PROGRESS_FILE: &str = "baton-progress";

/// A health check process that takes longer has failed.
const CHECK_MAX: Millis = Millis::from_secs(10);
/// How long a user lookup is cached.
const USER_CACHE_TTL: Millis = Millis::from_secs(60);
/// The PATH of attempts, if the agent has none.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Variables of the agent's environment that attempts inherit.
const INHERITED_VARS: [&str; 4] = ["PATH", "HOME", "USER", "LANG"];

/// State shared by all launches.
#[derive(Debug)]
pub(crate) struct Launcher {
    state: PathBuf,
    /// The path of the directories of attempts, as text.
    work: String,
    binary: String,
    env: Vec<(String, String)>,
    /// The names of custom resources, in the order in which they are claimed.
    named: Vec<String>,
    offer: Arc<Offer>,
    device_variables: DeviceVariables,
    users: HashMap<String, (Mono, User)>,
    tags: Tags,
    /// A CA that fetched files may come from, beside those of the system.
    ca: Option<PathBuf>,
    fetch_cache: u64,
    /// As in the configuration of the agent.
    log_limit: u64,
    /// Directories in which work may run outside of its sandbox.
    directories: Vec<String>,
    pub(crate) secrets: Secrets,
}

impl Launcher {
    pub(crate) fn new(state: &Path, mark: &str, config: &Config) -> Self {
        let inherited = INHERITED_VARS.into_iter();
        let mut env: Vec<(String, String)> = inherited
            .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
            .collect();
        if !env.iter().any(|(name, _)| name == "PATH") {
            env.push(("PATH".to_owned(), DEFAULT_PATH.to_owned()));
        }
        Self {
            state: state.to_owned(),
            work: format!("{}/{WORK}", state.display()),
            binary: config.binary.to_string_lossy().into_owned(),
            env,
            named: config.offer.capacity.named.keys().cloned().collect(),
            device_variables: DeviceVariables::new(&config.offer, config.gpu_vendor),
            offer: Arc::clone(&config.offer),
            users: HashMap::new(),
            tags: Tags::default(),
            ca: config.tls.as_ref().and_then(|tls| match &tls.trust {
                Trust::Ca(ca) => Some(ca.clone()),
                _ => None,
            }),
            fetch_cache: config.fetch_cache,
            log_limit: config.log_limit,
            directories: config.directories.clone(),
            secrets: Secrets::new(mark),
        }
    }

    /// The capacity of each claimed resource.
    pub(crate) fn amounts(&self, config: &Config) -> Vec<u64> {
        let capacity = &config.offer.capacity;
        let mut amounts = vec![
            u64::from(config.slots),
            capacity.cpu_milli,
            capacity.memory,
            capacity.disk,
            capacity.gpu.milli(),
        ];
        amounts.extend(capacity.named.values());
        amounts
    }

    /// The amounts that an attempt claims, in the same order. It claims nothing of resources that
    /// this worker does not have: the scheduler counts those for all workers together.
    fn claim(&self, assignment: &Assignment) -> Vec<u64> {
        let request = assignment.spec.resources(&assignment.requests);
        let mut claim = vec![
            1,
            request.cpu_milli,
            // The memory it was placed with, which may have grown since the first attempt.
            assignment.memory_min,
            request.disk,
            request.gpu.milli(),
        ];
        let named = self.named.iter();
        claim.extend(named.map(|name| request.named.get(name).copied().unwrap_or(0)));
        claim
    }

    /// The launch of one run of an attempt, or why it cannot be launched.
    pub(crate) fn launch(&mut self, attempt: &Attempt, now: Mono) -> Result<Launch, LaunchError> {
        let assignment = &attempt.assignment;
        let tag = self.tags.write(assignment);
        let tag = tag.map_err(|error| unencodable(&error))?;
        let spec = &*assignment.spec;
        let user = spec
            .user
            .as_deref()
            .map(|name| self.user(name, now))
            .transpose()?;
        let me = users::effective_uid();
        if let Some(user) = user.as_ref().filter(|user| me != 0 && user.uid != me) {
            return Err(LaunchError::Work(format!(
                "user `{}`: only a worker that runs as root can run work as another user",
                user.name
            )));
        }
        self.check_directories(spec).map_err(LaunchError::Work)?;
        let outputs = output_files::paths(spec, assignment.lease);
        let [stdout_path, stderr_path] = outputs.map_err(LaunchError::Work)?;
        let dir = dir_name(assignment.lease);
        let env = self.env(assignment, &dir, user.as_ref());
        let credentials = user.filter(|_| me == 0).map(|user| user.credentials());
        let secrets = (!spec.secrets.is_empty()).then(|| self.secrets.of(assignment.lease));
        let secrets = secrets.as_ref();
        let argv = self.argv(spec, assignment.lease, &env, credentials.as_ref(), secrets)?;
        let resources = spec.resources(&assignment.requests);
        let devices = self.device_variables.claim(&self.offer, &resources);
        Ok(Launch {
            argv,
            env,
            // Files are fetched into the sandbox, and then the directory is entered.
            cwd: spec
                .paths
                .cwd
                .clone()
                .filter(|_| spec.uris.is_empty())
                .unwrap_or_default(),
            credentials,
            limits: limits(assignment.memory_max),
            stdout: Sink::File,
            stderr: Sink::File,
            stdout_path,
            stderr_path,
            secrets: secrets.map(SecretsDir::to_text),
            paths: Some(AttemptPaths {
                stdout: format!("{dir}.out"),
                stderr: format!("{dir}.err"),
                dir,
            }),
            ..attempt.launch(tag, self.claim(assignment), devices, now)
        })
    }

    /// Checks that this worker allows the directories of the work.
    fn check_directories(&self, spec: &InstanceSpec) -> Result<(), String> {
        let processes = match &spec.work {
            Work::Command(_) => &[][..],
            Work::Task(task) => &*task.processes,
        };
        let of_processes = processes.iter().filter_map(|process| process.cwd.as_ref());
        let of_processes = of_processes.filter(|cwd| cwd.starts_with('/'));
        for cwd in spec.paths.cwd.iter().chain(of_processes) {
            let allowed = self.directories.iter().map(String::as_str);
            if !paths::is_within(cwd, allowed) {
                return Err(format!(
                    "the worker does not allow work in the directory `{cwd}`; start it with \
                     `--allow-cwd DIR`, or submit with `--cwd sandbox`"
                ));
            }
        }
        Ok(())
    }

    /// The request to watch an attempt that another coordinator has started.
    pub(crate) fn adoption(&mut self, attempt: &Attempt, now: Mono) -> Option<Request> {
        let assignment = &attempt.assignment;
        // A spec that was encoded once can be encoded again; without a tag the handover file
        // still identifies the attempt.
        let tag = self.tags.write(assignment).unwrap_or_default();
        attempt.adoption(tag, self.claim(assignment), now)
    }

    /// The attempt that a run was stored with.
    pub(crate) fn read_tag(&mut self, tag: &str) -> Option<Assignment> {
        self.tags.read(tag)
    }

    /// The trivial process of a health check. The coordinator creates and removes the files of a
    /// launch for it.
    pub(crate) fn check(&self) -> Launch {
        Launch {
            argv: vec!["true".to_owned()],
            env: self.env.clone(),
            // Only for a coordinator that an older agent has started.
            cwd: self.state.to_string_lossy().into_owned(),
            timeout: Some(CHECK_MAX),
            is_check: true,
            ..Launch::default()
        }
    }

    /// The end of a run as the coordinator reports it, with the outputs of its attempt.
    pub(crate) fn ending(&self, end: &RunEnd, assignment: Option<&Assignment>) -> Ending {
        let ending = Ending::recorded(end);
        match assignment {
            Some(assignment) => self.with_texts(assignment, ending),
            None => ending,
        }
    }

    /// Adds the outputs of an attempt to its end, or the last lines of its standard error, and its progress. A
    /// restarted agent reads them again: the files of an attempt are not removed before the
    /// scheduler knows its end.
    pub(crate) fn with_texts(&self, assignment: &Assignment, mut ending: Ending) -> Ending {
        let lease = assignment.lease;
        if let Ok(masker) = self.secrets.masker(lease, &assignment.spec) {
            let path = self.progress_file(&assignment.spec, lease);
            ending.report.progress = progress::read(Path::new(&path), masker);
        }
        let last_lines = || stderr_tail::read(&self.state, lease, &assignment.spec);
        if !ending.report.outcome.is_success() {
            ending.report.stderr_tail = last_lines();
            return ending;
        }
        let masker = self.secrets.masker(lease, &assignment.spec);
        let path = self.output(&assignment.spec, lease, &dir_name(lease));
        match masker.and_then(|masker| outputs::read(Path::new(&path), masker)) {
            Ok(outputs) => ending.report.outputs = outputs,
            Err(error) => {
                let reason = format!("the file named by $BATON_OUTPUT is invalid: {error}");
                tracing::info!("{lease}: {reason}");
                self.append_reason(lease, &reason);
                ending.has_bad_outputs = true;
                ending.report.stderr_tail = last_lines();
            }
        }
        ending
    }

    /// The file for an attempt's outputs. Its directory is created for it alone, so there is none
    /// at first. Outputs that may have a secret stay in memory, where they are masked when they are read.
    fn output(&self, spec: &InstanceSpec, lease: LeaseId, dir: &str) -> String {
        self.own_file(spec, lease, dir, OUTPUT_FILE)
    }

    /// The file for an attempt's progress, beside that for its outputs.
    pub(crate) fn progress_file(&self, spec: &InstanceSpec, lease: LeaseId) -> String {
        self.own_file(spec, lease, &dir_name(lease), PROGRESS_FILE)
    }

    fn own_file(&self, spec: &InstanceSpec, lease: LeaseId, dir: &str, name: &str) -> String {
        if spec.secrets.is_empty() {
            [&*self.work, "/", dir, "/", name].concat()
        } else {
            [&*self.secrets.of(lease).to_text(), "/", name].concat()
        }
    }

    /// Appends to the attempt's own stderr log why it was not launched, or failed despite its exit
    /// status. The log still belongs to this attempt: either it was never opened, or the attempt
    /// has left a file, and then the coordinator gives its stderr log to no other attempt.
    pub(crate) fn append_reason(&self, lease: LeaseId, reason: &str) {
        let name = format!("{}.err", dir_name(lease));
        let path = self.state.join(LOGS).join(name);
        let written = File::options().create(true).append(true).open(&path);
        let written = written.and_then(|mut file| writeln!(file, "baton: {reason}"));
        if let Err(error) = written {
            tracing::warn!(
                "{lease} has failed ({reason}), and {}: {error}",
                path.display()
            );
        }
    }

    /// Keeps the secrets of an attempt for its processes, or says why it cannot have them.
    pub(crate) fn keep_secrets(
        &mut self,
        assignment: &Assignment,
        values: &[(SecretName, SecretValue)],
        now: Mono,
    ) -> Result<(), String> {
        let spec = &*assignment.spec;
        let user = spec.user.as_deref().map(|name| self.user(name, now));
        let user = user.transpose().map_err(|error| error.to_string())?;
        let owner = user.filter(|_| users::effective_uid() == 0);
        let owner = owner.map(|user| user.credentials());
        self.secrets
            .keep(assignment.lease, spec, values, owner.as_ref())
    }

    fn user(&mut self, name: &str, now: Mono) -> Result<User, LaunchError> {
        if let Some((at, user)) = self.users.get(name)
            && now.since(*at) < USER_CACHE_TTL
        {
            return Ok(user.clone());
        }
        let found = users::by_name(name)
            .map_err(|error| LaunchError::about(format!("the lookup of user `{name}`"), &error))?;
        let missing = || LaunchError::Work(format!("user `{name}`: no such user on this host"));
        let user = found.ok_or_else(missing)?;
        self.users.insert(name.to_owned(), (now, user.clone()));
        Ok(user)
    }

    /// Later ones take precedence: the agent's variables, the user's, the spec's, Baton's own.
    fn env(
        &self,
        assignment: &Assignment,
        dir: &str,
        user: Option<&User>,
    ) -> Vec<(String, String)> {
        let (spec, lease) = (&*assignment.spec, assignment.lease);
        let output = self.output(spec, lease, dir);
        let attempt = lease.attempt;
        let mut baton_env = vec![
            ("BATON_INSTANCE", attempt.instance.to_string()),
            ("BATON_ATTEMPT", attempt.number.0.to_string()),
            ("BATON_TOKEN_EPOCH", lease.epoch.0.to_string()),
            ("BATON_OUTPUT", output),
            (PROGRESS_VARIABLE, self.progress_file(spec, lease)),
            ("BATON_OWNER", spec.owner.clone()),
            ("BATON_NAME", spec.name.clone()),
        ];
        if let Some(trace) = assignment.trace {
            baton_env.push((TRACE_VARIABLE, trace.to_string()));
        }
        if !spec.secrets.is_empty() {
            let files = self.secrets.of(lease).files();
            baton_env.push((SECRETS_VARIABLE, files.to_string_lossy().into_owned()));
        }
        if spec.paths.cwd.is_some() {
            baton_env.push(("BATON_SANDBOX", [&*self.work, "/", dir].concat()));
        }
        if let Some(array) = spec.array {
            let index = array.index(attempt.instance);
            baton_env.push(("BATON_ARRAY_INDEX", index.to_string()));
        }
        if spec.nodes.is_gang() {
            let file = |name: &str| [&*self.work, "/", dir, "/", name].concat();
            baton_env.push((NODES_VARIABLE, spec.nodes.get().to_string()));
            baton_env.push(("BATON_HOSTFILE", file(HOST_FILE)));
            baton_env.push(("BATON_MACHINEFILE", file(MACHINE_FILE)));
        }
        let mut env = Vec::with_capacity(self.env.len() + spec.env.len() + baton_env.len() + 3);
        let user_env = user.map(|user| {
            [
                ("HOME", user.home.clone()),
                ("USER", user.name.clone()),
                ("LOGNAME", user.name.clone()),
            ]
        });
        let user_env = user_env.as_ref().map_or(&[][..], |it| &it[..]);
        let is_own = |name: &str| baton_env.iter().any(|(own, _)| *own == name);
        for (name, value) in &self.env {
            let replaced = user_env.iter().any(|(other, _)| other == name);
            if !replaced && !spec.env.contains_key(name) {
                env.push((name.clone(), value.clone()));
            }
        }
        for (name, value) in user_env {
            if !spec.env.contains_key(*name) {
                env.push(((*name).to_owned(), value.clone()));
            }
        }
        for (name, value) in &spec.env {
            if !is_own(name) {
                env.push((name.clone(), value.clone()));
            }
        }
        env.extend(
            baton_env
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value)),
        );
        env
    }

    fn argv(
        &self,
        spec: &InstanceSpec,
        lease: LeaseId,
        env: &[(String, String)],
        owner: Option<&Credentials>,
        secrets: Option<&SecretsDir>,
    ) -> Result<Vec<String>, LaunchError> {
        let mut files = Vec::new();
        let json = |value: serde_json::Result<Vec<u8>>| value.map_err(|error| unencodable(&error));
        let mut argv = match &spec.work {
            Work::Command(argv) if argv.is_empty() => {
                return Err(LaunchError::Work("the command is empty".to_owned()));
            }
            Work::Command(argv) => argv.clone(),
            Work::Task(task) => {
                let mut task = (**task).clone();
                clamp_rotation(&mut task, self.log_limit);
                let file = TaskFile {
                    id: dir_name(lease),
                    spec: task,
                    env: env.to_vec(),
                    warning: spec.warn.map(|warn| warn.signal),
                    device_variables: self.device_variables.names().map(str::to_owned).collect(),
                    secrets: secrets.map(SecretsDir::to_text),
                };
                files.push((RUNNER_DIR, TASK_FILE, json(serde_json::to_vec(&file))?));
                let words = [&*self.binary, ATTEMPT_COMMAND, RUNNER_DIR];
                words.map(str::to_owned).to_vec()
            }
        };
        if !spec.uris.is_empty() {
            let (list, ca) = self.fetch_list(spec, owner)?;
            files.push(("", URIS_FILE, json(serde_json::to_vec(&list))?));
            files.extend(ca.map(|ca| ("", CA_FILE, ca)));
            let words = [&*self.binary, FETCH_COMMAND, URIS_FILE, "--"];
            argv.splice(0..0, words.map(str::to_owned));
        }
        if let Some(hosts) = GangHosts::of(spec) {
            files.push(("", HOST_FILE, hosts.host_file().into_bytes()));
            files.push(("", MACHINE_FILE, hosts.machine_file().into_bytes()));
        }
        let dir = self.state.join(WORK).join(dir_name(lease));
        // A file that is fetched goes first.
        let is_free = !spec.uris.iter().any(|uri| uri.name == SECRETS_LINK);
        let link = secrets.map(SecretsDir::files);
        prepare_dir(&dir, owner, &files, link.as_deref().filter(|_| is_free))
            .map_err(|error| LaunchError::about(dir.display(), &error))?;
        Ok(argv)
    }

    /// Removes the files of an attempt that was not launched. If that fails, they are swept with
    /// those of old attempts.
    pub(crate) fn discard(&self, assignment: &Assignment) {
        let spec = &assignment.spec;
        let has_secrets = !spec.secrets.is_empty();
        if assignment.is_task() || !spec.uris.is_empty() || spec.nodes.is_gang() || has_secrets {
            let dir = self.state.join(WORK).join(dir_name(assignment.lease));
            let _ = fs::remove_dir_all(dir);
        }
    }
}

fn unencodable(error: &serde_json::Error) -> LaunchError {
    LaunchError::Work(format!("its spec cannot be encoded: {error}"))
}

impl Launcher {
    /// What an attempt fetches, and the content of its CA file.
    fn fetch_list(
        &self,
        spec: &InstanceSpec,
        owner: Option<&Credentials>,
    ) -> Result<(FetchList, Option<Vec<u8>>), LaunchError> {
        // A copy, which the user of the attempt can read. It is read again for each attempt, as it
        // is for each connection to the scheduler.
        let ca = self.ca.as_ref().map(|ca| {
            let shown = ca.display();
            fs::read(ca).map_err(|error| {
                LaunchError::about(format!("the CA of its files, {shown}"), &error)
            })
        });
        let ca = ca.transpose()?;
        let cache = (self.fetch_cache > 0).then(|| {
            let cache = self.state.join(CACHE);
            user_dir(&cache, owner).map_err(|error| LaunchError::about(cache.display(), &error))
        });
        let list = FetchList {
            uris: spec.uris.clone(),
            ca: ca.is_some().then(|| PathBuf::from(CA_FILE)),
            cache: cache.transpose()?.map(|dir| FetchCache {
                dir,
                bytes_max: self.fetch_cache,
            }),
            cwd: spec.paths.cwd.clone().map(PathBuf::from),
        };
        Ok((list, ca))
    }
}

/// A backstop for allocations between two samples of the memory in use.
fn limits(memory_max: u64) -> Vec<Limit> {
    let twice = memory_max.saturating_mul(2);
    let limit = Limit {
        resource: libc::RLIMIT_DATA,
        soft: twice,
        hard: twice,
    };
    (memory_max > 0).then_some(limit).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::devices::Vendor;
    use baton_core::supervision::lifetime::Lifetime;

    use baton_model::ids::{AttemptId, AttemptNo, Epoch, InstanceId, WorkerName};
    use baton_model::spec::Array;
    use baton_model::task::{ProcessNo, RunKey, RunNo};

    const CONTEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn attempt(spec: InstanceSpec) -> Attempt {
        let lease = LeaseId {
            attempt: AttemptId {
                instance: InstanceId(12),
                number: AttemptNo(3),
            },
            epoch: Epoch(4),
        };
        let assignment = Assignment {
            lease,
            spec: Arc::new(spec),
            timeout: Some(Millis(100)),
            memory_min: 1 << 19,
            memory_max: 1 << 20,
            requests: Vec::new(),
            began: Some(Mono(30)),
            trace: Some(CONTEXT.parse().expect("valid")),
        };
        let run = RunKey {
            process: ProcessNo(1),
            run: RunNo(0),
        };
        Attempt::new(run, assignment)
    }

    fn launcher(state: &Path) -> Launcher {
        let config = Config {
            scheduler: "127.0.0.1:1".to_owned(),
            token: None,
            token_file: None,
            proxy: None,
            tls: None,
            name: WorkerName::new("w"),
            state: state.to_owned(),
            binary: PathBuf::from("/baton"),
            offer: Arc::default(),
            slots: 1,
            keep: Millis(0),
            fetch_cache: 1 << 20,
            log_limit: 0,
            gpu_vendor: Vendor::Nvidia,
            version: "0".into(),
            host: baton_model::message::HostSize::default(),
            lifetime: Lifetime::default(),
            directories: vec!["/data".to_owned()],
        };
        Launcher::new(state, "w0", &config)
    }

    #[test]
    fn a_command_runs_as_it_is_with_its_limits_and_what_baton_says_wins() {
        let spec = InstanceSpec {
            work: Work::Command(vec!["echo".to_owned(), "a b".to_owned()]),
            env: [
                ("BATON_ATTEMPT", "mine"),
                ("TRACEPARENT", "mine"),
                ("X", "1"),
                ("PATH", "/p"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
            array: Some(Array {
                first: InstanceId(10),
                from: 5,
            }),
            ..InstanceSpec::default()
        };
        let mut launcher = launcher(Path::new("/s"));
        let launch = launcher.launch(&attempt(spec), Mono(50)).expect("fine");
        assert_eq!(launch.argv, ["echo", "a b"]);
        let all = |name: &str| -> Vec<&str> {
            let named = launch.env.iter().filter(|(other, _)| other == name);
            named.map(|(_, value)| value.as_str()).collect()
        };
        assert_eq!(all("BATON_ATTEMPT"), ["3"]);
        assert_eq!(all("BATON_INSTANCE"), ["i12"]);
        assert_eq!(all("BATON_ARRAY_INDEX"), ["7"]);
        assert_eq!(all("BATON_TOKEN_EPOCH"), ["4"]);
        assert_eq!(all("TRACEPARENT"), [CONTEXT]);
        let output = format!("/s/{WORK}/i12.3.e4/baton-output");
        assert_eq!(all("BATON_OUTPUT"), [output]);
        let progress = format!("/s/{WORK}/i12.3.e4/baton-progress");
        assert_eq!(all("BATON_PROGRESS"), [progress]);
        assert_eq!((all("X"), all("PATH")), (vec!["1"], vec!["/p"]));
        assert_eq!(launch.timeout, Some(Millis(80)), "what is left of it");
        assert_eq!(launch.limits[0].soft, 2 << 20);
    }

    #[test]
    fn an_attempt_claims_the_memory_that_it_was_placed_with() {
        let mut spec = InstanceSpec {
            work: Work::Command(vec!["true".to_owned()]),
            ..InstanceSpec::default()
        };
        spec.request.resources.cpu_milli = 500;
        spec.request.resources.memory_min = 1 << 10;
        let mut launcher = launcher(Path::new("/s"));
        let launch = launcher.launch(&attempt(spec), Mono(0));
        let claim = launch.expect("fine").claim;
        assert_eq!(
            claim,
            [1, 500, 1 << 19, 0, 0],
            "not what was asked for at first"
        );
    }

    #[test]
    fn an_empty_command_and_an_unknown_user_are_reported() {
        let mut launcher = launcher(Path::new("/s"));
        let mut launch = |spec| launcher.launch(&attempt(spec), Mono(0));
        let error = launch(InstanceSpec::default()).expect_err("nothing to run");
        assert!(error.to_string().contains("empty"), "{error}");
        let error = launch(InstanceSpec {
            user: Some("no such user".to_owned()),
            ..InstanceSpec::default()
        });
        let error = error.expect_err("unknown user").to_string();
        assert!(error.contains("no such user on"), "{error}");
    }

    #[test]
    fn work_outside_of_its_sandbox_needs_an_allowed_directory() {
        let mut launcher = launcher(Path::new("/s"));
        let mut launch = |cwd: &str| {
            let spec = InstanceSpec {
                work: Work::Command(vec!["./x".to_owned()]),
                paths: baton_model::paths::Paths {
                    cwd: Some(cwd.to_owned()),
                    stdout: Some("out/%i.%t".to_owned()),
                    stderr: None,
                },
                ..InstanceSpec::default()
            };
            launcher.launch(&attempt(spec), Mono(0))
        };
        let launched = launch("/data/a").expect("allowed");
        assert_eq!(launched.cwd, "/data/a");
        assert_eq!(launched.stdout_path.as_deref(), Some("/data/a/out/i12.3"));
        assert_eq!(launched.stderr_path, None);
        for outside in ["/", "/database", "/data/../etc", "data"] {
            let error = launch(outside).expect_err(outside);
            assert!(error.to_string().contains("--allow-cwd"), "{error}");
        }
    }

    #[test]
    fn the_list_of_files_to_fetch_is_written_before_the_launch() {
        let place = tempfile::tempdir().expect("a directory");
        fs::create_dir(place.path().join(WORK)).expect("made");
        fs::create_dir(place.path().join(CACHE)).expect("made");
        let uri = baton_model::spec::Uri {
            from: "file:///x".to_owned(),
            name: "x".to_owned(),
            sha256: None,
            executable: false,
            unpack: false,
            size_max: None,
        };
        let spec = InstanceSpec {
            work: Work::Command(vec!["cat".to_owned(), "x".to_owned()]),
            uris: vec![uri.clone()],
            ..InstanceSpec::default()
        };
        let launch = launcher(place.path()).launch(&attempt(spec), Mono(0));
        let argv = launch.expect("fine").argv;
        assert_eq!(
            argv,
            [
                "/baton",
                FETCH_COMMAND,
                ".baton-uris.json",
                "--",
                "cat",
                "x"
            ]
        );
        let file = place.path().join("work/i12.3.e4/.baton-uris.json");
        let list: FetchList =
            baton_model::json::from_slice(&fs::read(file).expect("written")).expect("a list");
        assert_eq!((list.uris, list.ca), (vec![uri], None));
        let cache = list.cache.expect("a cache");
        assert_eq!(cache.bytes_max, 1 << 20);
        assert!(cache.dir.is_dir() && cache.dir.starts_with(place.path()));
    }
}
