//! A cluster of real processes: schedulers and workers of the built binary, in a directory
//! of their own, that can be killed, stopped and started again at any time.
//!
//! Their logs go to files, and to standard error if the test fails.
//!
//! | module | holds |
//! |---|---|
//! | `effects` | a script whose executions can be counted, and seen to overlap |
//! | `mounts` | a small file system that can be filled |
//! | `processes` | processes of this machine: inspection and signals |
//! | `rng` | random numbers from a seed |

#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

pub(crate) mod effects;
pub(crate) mod mounts;
pub(crate) mod processes;
pub(crate) mod rng;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_client::{Client, ClientError, Span};
use baton_model::api::{Event, Indices, Instance, Submit, SubmitReply, Worker};
use baton_model::ids::InstanceId;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use processes::parent;
pub(crate) use processes::{is_alive, processes, signal};

/// A timeout for slow machines.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// One scheduler and its workers.
pub(crate) struct Cluster {
    dir: TempDir,
    options: Vec<String>,
    workers_listen: String,
    /// The file with the workers' token.
    token: Option<PathBuf>,
    scheduler: Option<Child>,
    addresses: Option<(String, String)>,
    workers: BTreeMap<String, Child>,
    runtime: tokio::runtime::Runtime,
}

impl Cluster {
    /// A cluster whose scheduler runs, with these options beside the usual ones.
    pub(crate) fn new(options: &[&str]) -> Self {
        let mut cluster = Self::idle(options);
        cluster.start_scheduler();
        cluster
    }

    /// A cluster whose scheduler was not started yet.
    pub(crate) fn idle(options: &[&str]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        Self {
            dir: tempfile::tempdir().expect("a directory"),
            options: options.iter().map(|it| (*it).to_owned()).collect(),
            workers_listen: "127.0.0.1:0".to_owned(),
            token: None,
            scheduler: None,
            addresses: None,
            workers: BTreeMap::new(),
            runtime,
        }
    }

    /// From its start on, the scheduler listens here for workers, also for those of other
    /// machines, which need a token.
    pub(crate) fn listen_for_workers(&mut self, address: &str) {
        address.clone_into(&mut self.workers_listen);
        let path = self.path("worker.token");
        let made = baton()
            .args(["token", "create", "--role", "worker", "--data"])
            .arg(self.path("data"))
            .stdout(File::create(&path).expect("a file"))
            .status();
        assert!(made.expect("baton starts").success(), "no token");
        self.token = Some(path);
    }

    /// A path below the cluster's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts the scheduler, on the ports it had before, and waits until it is ready.
    pub(crate) fn start_scheduler(&mut self) {
        let (listen, workers) = match &self.addresses {
            Some((url, workers)) => (
                url.trim_start_matches("http://").to_owned(),
                workers.clone(),
            ),
            None => ("127.0.0.1:0".to_owned(), self.workers_listen.clone()),
        };
        let begun = Instant::now();
        loop {
            let mut child = baton()
                .args(["scheduler", "--json", "--listen", &listen])
                .args(["--worker-listen", &workers, "--data"])
                .arg(self.path("data"))
                .args(&self.options)
                .stdout(Stdio::piped())
                .stderr(self.log_file("scheduler"))
                .spawn()
                .expect("baton starts");
            let mut line = String::new();
            let out = child.stdout.take().expect("piped");
            BufReader::new(out).read_line(&mut line).expect("readable");
            if let Ok(ready) = serde_json::from_str::<Value>(&line) {
                let word = |key: &str| ready[key].as_str().expect("a word").to_owned();
                self.addresses = Some((word("url"), word("workers")));
                self.scheduler = Some(child);
                return;
            }
            // The killed process may still hold its port.
            let status = child.wait().expect("it ends");
            assert!(begun.elapsed() < PATIENCE, "no scheduler: {status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A file that a process appends its log to.
    fn log_file(&self, name: &str) -> File {
        let mut file = OpenOptions::new();
        let file = file.create(true).append(true).open(self.log_path(name));
        file.expect("a log")
    }

    fn log_path(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.log"))
    }

    /// The log of the scheduler, or of a worker, over all its restarts.
    pub(crate) fn log(&self, name: &str) -> Vec<String> {
        lines(&self.log_path(name))
    }

    /// Where clients connect, without the scheme.
    pub(crate) fn clients_at(&self) -> String {
        let (url, _) = self.addresses.as_ref().expect("it ran");
        url.trim_start_matches("http://").to_owned()
    }

    pub(crate) fn workers_at(&self) -> String {
        self.addresses.as_ref().expect("it ran").1.clone()
    }

    /// The number of the scheduler.
    pub(crate) fn scheduler_pid(&self) -> u32 {
        self.scheduler.as_ref().expect("it runs").id()
    }

    /// `kill -9` of the scheduler.
    pub(crate) fn kill_scheduler(&mut self) {
        if let Some(mut child) = self.scheduler.take() {
            child.kill().expect("ours");
            child.wait().expect("ours");
        }
    }

    /// Starts a worker, or starts it again.
    pub(crate) fn start_worker(&mut self, name: &str, options: &[&str]) {
        self.start_worker_by(baton(), name, options);
    }

    /// Starts a worker with a command of one's own that ends as the binary.
    pub(crate) fn start_worker_by(&mut self, mut by: Command, name: &str, options: &[&str]) {
        let by = by
            .args(["worker", "--name", name, "--scheduler", &self.workers_at()])
            .arg("--state")
            .arg(self.path(name))
            .args(options)
            .stderr(self.log_file(name));
        if let Some(token) = &self.token {
            by.arg("--token-file").arg(token);
        }
        let child = by.spawn().expect("baton starts");
        self.workers.insert(name.to_owned(), child);
    }

    /// The number of a worker's agent.
    pub(crate) fn worker_pid(&self, name: &str) -> u32 {
        self.workers[name].id()
    }

    /// `kill -9` of a worker's agent alone.
    pub(crate) fn kill_worker(&mut self, name: &str) {
        if let Some(mut child) = self.workers.remove(name) {
            child.kill().expect("ours");
            child.wait().expect("ours");
        }
    }

    /// The number of a worker's coordinator, if there is one.
    pub(crate) fn coordinator_pid(&self, name: &str) -> Option<u32> {
        let state = self.path(name);
        let found = processes(|line| {
            line.contains("__coordinator") && line.contains(&*state.to_string_lossy())
        });
        // A process that it is launching still has its command line.
        let is_child = |pid: u32| parent(pid).is_some_and(|parent| found.contains(&parent));
        found.iter().copied().find(|pid| !is_child(*pid))
    }

    /// Runs a request against the scheduler, and retries while it cannot be reached.
    pub(crate) fn ask<T, F>(&self, what: impl Fn(Client) -> F) -> T
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let begun = Instant::now();
        loop {
            match self.ask_once(&what) {
                Ok(answer) => return answer,
                Err(error) => {
                    assert!(begun.elapsed() < PATIENCE, "no answer: {error}");
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }

    /// Runs a request against the scheduler once.
    pub(crate) fn ask_once<T, F>(&self, what: impl Fn(Client) -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let url = &self.addresses.as_ref().expect("it ran").0;
        let client = Client::new(url).expect("a URL");
        self.runtime.block_on(what(client))
    }

    /// Submits a task once, and ignores errors.
    pub(crate) fn try_submit(&self, file: Value) -> Result<SubmitReply, ClientError> {
        let submit = Submit {
            file,
            params: BTreeMap::new(),
            array: None,
        };
        self.ask_once(|client| {
            let submit = submit.clone();
            async move { client.submit(&submit).await }
        })
    }

    /// Submits a task, as an array of so many if there are several.
    pub(crate) fn submit(&self, file: Value, count: u64) -> Span {
        let submit = Submit {
            file,
            params: BTreeMap::new(),
            array: (count > 1).then_some(Indices { from: 1, to: count }),
        };
        let submitted = self.ask(|client| {
            let submit = submit.clone();
            async move { client.submit(&submit).await }
        });
        Span {
            first: id(&submitted.first),
            last: id(&submitted.last),
        }
    }

    /// Submits a shell script.
    pub(crate) fn sh(&self, name: &str, script: &str) -> InstanceId {
        self.submit(json!({ "task": name, "run": script }), 1).first
    }

    /// One instance.
    pub(crate) fn instance(&self, id: InstanceId) -> Instance {
        self.ask(|client| async move { client.instance(id).await })
    }

    /// The timeline of one instance, as lines.
    pub(crate) fn timeline(&self, id: InstanceId) -> Vec<Event> {
        self.ask(|client| async move { client.timeline(id).await })
    }

    /// The number of instances of a range by state.
    pub(crate) fn states(&self, span: Span) -> BTreeMap<String, u64> {
        let summary = self.ask(|client| async move { client.range(span).await });
        let counts = summary.counts.into_iter();
        counts
            .map(|(state, count)| (state.word().to_owned(), count))
            .collect()
    }

    /// Waits until an instance has ended; returns it.
    pub(crate) fn finish(&self, id: InstanceId) -> Instance {
        self.until("an instance ends", || {
            let it = self.instance(id);
            it.state.is_terminal().then_some(it)
        })
    }

    /// Waits for a condition.
    pub(crate) fn until<T>(&self, what: &str, mut check: impl FnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = check() {
                return found;
            }
            assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a worker is HEALTHY.
    pub(crate) fn healthy(&self, name: &str) {
        self.until("the worker is healthy", || {
            let worker = self.worker(name)?;
            (worker.state.word() == "HEALTHY").then_some(())
        });
    }

    /// A worker as the scheduler sees it, if it has a seat.
    pub(crate) fn worker(&self, name: &str) -> Option<Worker> {
        let workers = self.ask(|client| async move { client.workers().await });
        workers.into_iter().find(|it| it.name == name)
    }

    /// All processes with the cluster's directory in their command line or environment.
    pub(crate) fn left(&self) -> Vec<u32> {
        let dir = self.dir.path().to_string_lossy().into_owned();
        processes(|line| line.contains(&dir))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let dir = self.dir.path().to_string_lossy().into_owned();
        if std::thread::panicking() {
            for name in std::iter::once("scheduler").chain(self.workers.keys().map(|it| &**it)) {
                eprintln!("== {name}:\n{}", self.log(name).join("\n"));
            }
        }
        self.kill_scheduler();
        for name in self.workers.keys().cloned().collect::<Vec<_>>() {
            self.kill_worker(&name);
        }
        // Coordinators first, or they would start queued attempts.
        for _ in 0..100 {
            let left = processes(|line| line.contains(&dir));
            if left.is_empty() {
                return;
            }
            for pid in left {
                signal(pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The id that a text names.
pub(crate) fn id(text: &str) -> InstanceId {
    let number = text.trim_start_matches('i').parse().expect("an id");
    InstanceId(number)
}

/// Where the built binary is.
pub(crate) const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// The built binary, quiet unless something is wrong.
pub(crate) fn baton() -> Command {
    quiet(Command::new(BATON))
}

/// A command that becomes the built binary, likewise.
pub(crate) fn quiet(mut command: Command) -> Command {
    command
        .env("BATON_LOG", "warn")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// Tests that mount, or create namespaces, need root; prints a note otherwise.
pub(crate) fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: needs root");
    }
    root
}

/// Lines of a file; none if it is not there.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(ToOwned::to_owned).collect()
}
