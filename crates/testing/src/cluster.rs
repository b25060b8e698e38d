//! A cluster of real processes: a scheduler and workers of the built binary, in a directory of
//! their own, that can be killed, stopped and started again at any time.
//!
//! Their logs go to files, and to standard error if the test fails. Dropping a cluster, also in a
//! panic, kills its processes.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::command::{Addresses, Ended, baton, baton_path, is_healthy, ready};
use crate::processes::{parent, processes, send};
use crate::{PATIENCE, until};

/// One scheduler and its workers.
#[derive(Debug)]
pub struct Cluster {
    dir: TempDir,
    options: Vec<String>,
    /// Variables of the scheduler's environment.
    variables: Vec<(String, String)>,
    workers_listen: String,
    /// The file with the workers' token.
    token: Option<PathBuf>,
    scheduler: Option<Child>,
    addresses: Option<Addresses>,
    workers: BTreeMap<String, Child>,
}

impl Cluster {
    /// A cluster whose scheduler runs, with these options beside the usual ones.
    pub fn new(options: &[&str]) -> Self {
        let mut cluster = Self::idle(options);
        cluster.start_scheduler();
        cluster
    }

    /// A scheduler with one worker, `w1`.
    pub fn with_worker() -> Self {
        let mut cluster = Self::new(&[]);
        let options = ["--resources", "cpu=4,memory=4GiB", "--label", "zone=eu"];
        cluster.start_worker("w1", &options);
        cluster.healthy("w1");
        cluster
    }

    /// A cluster whose scheduler was not started yet.
    pub fn idle(options: &[&str]) -> Self {
        Self {
            dir: tempfile::tempdir().expect("a directory"),
            options: options.iter().map(|it| (*it).to_owned()).collect(),
            variables: Vec::new(),
            workers_listen: "127.0.0.1:0".to_owned(),
            token: None,
            scheduler: None,
            addresses: None,
            workers: BTreeMap::new(),
        }
    }

    /// From its start on, the scheduler has these variables in its environment.
    pub fn set_variables(&mut self, variables: &[(&str, &str)]) {
        let variables = variables.iter();
        self.variables = variables
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
    }

    /// The scheduler's metrics, as Prometheus gets them.
    pub fn metrics(&self) -> String {
        let address = self.clients_at();
        let mut stream = TcpStream::connect(&address).expect("it listens");
        let request =
            format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("readable");
        answer
    }

    /// The value of one of them, with its labels if it has some.
    pub fn metric(&self, name: &str) -> u64 {
        let answer = self.metrics();
        let values = answer.lines().filter_map(|line| line.split_once(' '));
        let mut values = values.filter(|(known, _)| *known == name);
        let (_, value) = values.next().expect(name);
        value.parse().expect("a number")
    }

    /// From its start on, the scheduler listens here for workers, also for those of other
    /// machines, which need a token.
    pub fn listen_for_workers(&mut self, address: &str) {
        address.clone_into(&mut self.workers_listen);
        let args = ["token", "create", "--role", "worker", "--data", "data"];
        let token = crate::command::run(self.dir.path(), &args).good();
        let path = self.path("worker.token");
        std::fs::write(&path, token).expect("written");
        self.token = Some(path);
    }

    /// A path below the cluster's directory, where commands are run.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts the scheduler, on the ports it had before, and waits until it is ready.
    pub fn start_scheduler(&mut self) {
        let (listen, workers) = match &self.addresses {
            Some(_) => (self.clients_at(), self.workers_at()),
            None => ("127.0.0.1:0".to_owned(), self.workers_listen.clone()),
        };
        let begun = Instant::now();
        loop {
            let mut child = server(Command::new(baton_path()))
                .args(["scheduler", "--json", "--listen", &listen])
                .args(["--worker-listen", &workers, "--data"])
                .arg(self.path("data"))
                .args(&self.options)
                .envs(self.variables.iter().cloned())
                .stdout(Stdio::piped())
                .stderr(self.log_file("scheduler"))
                .spawn()
                .expect("baton starts");
            if let Some(addresses) = ready(&mut child) {
                self.addresses = Some(addresses);
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
    pub fn log(&self, name: &str) -> Vec<String> {
        lines(&self.log_path(name))
    }

    fn addresses(&self) -> &Addresses {
        self.addresses.as_ref().expect("it ran")
    }

    /// Where clients find the scheduler.
    pub fn url(&self) -> &str {
        &self.addresses().url
    }

    /// The same, without the scheme.
    pub fn clients_at(&self) -> String {
        self.url().trim_start_matches("http://").to_owned()
    }

    pub fn workers_at(&self) -> String {
        self.addresses().workers.clone()
    }

    pub fn scheduler_pid(&self) -> u32 {
        self.scheduler.as_ref().expect("it runs").id()
    }

    /// Ends the only worker and then the scheduler, and checks that no process is left.
    pub fn stop_without_leftovers(mut self, worker: &str) {
        send(self.worker_pid(worker), Signal::INT);
        until("the worker leaves no process", || {
            let scheduler = self.scheduler_pid();
            self.left().iter().all(|pid| *pid == scheduler)
        });
        self.kill_scheduler();
    }

    /// `kill -9` of the scheduler.
    pub fn kill_scheduler(&mut self) {
        if let Some(mut child) = self.scheduler.take() {
            child.kill().expect("ours");
            child.wait().expect("ours");
        }
    }

    /// Starts a worker, or starts it again.
    pub fn start_worker(&mut self, name: &str, options: &[&str]) {
        self.start_worker_by(Command::new(baton_path()), name, options);
    }

    /// Starts a worker with a command of one's own that ends as the binary.
    pub fn start_worker_by(&mut self, by: Command, name: &str, options: &[&str]) {
        let mut by = server(by);
        by.args(["worker", "--name", name, "--scheduler", &self.workers_at()])
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

    /// The pid of a worker's agent.
    pub fn worker_pid(&self, name: &str) -> u32 {
        self.workers[name].id()
    }

    /// `kill -9` of a worker's agent alone.
    pub fn kill_worker(&mut self, name: &str) {
        if let Some(mut child) = self.workers.remove(name) {
            child.kill().expect("ours");
            child.wait().expect("ours");
        }
    }

    /// The pid of a worker's coordinator, if there is one.
    pub fn coordinator_pid(&self, name: &str) -> Option<u32> {
        let state = self.path(name);
        let found = processes(|line| {
            line.contains("__coordinator") && line.contains(&*state.to_string_lossy())
        });
        // A process that it is launching still has its command line.
        let is_child = |pid: u32| parent(pid).is_some_and(|parent| found.contains(&parent));
        found.iter().copied().find(|pid| !is_child(*pid))
    }

    /// Waits until a worker is HEALTHY.
    pub fn healthy(&self, name: &str) {
        until("the worker is healthy", || {
            let workers = self.run(&["workers", "--json"]);
            workers.code == Some(0) && is_healthy(&workers.json(), name)
        });
    }

    /// A command of a client.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = baton(self.dir.path(), args);
        command.env("BATON_URL", self.url());
        command
    }

    /// A command in the background.
    pub fn begin(&self, args: &[&str]) -> Child {
        self.command(args).spawn().expect("it starts")
    }

    /// A command from beginning to end.
    pub fn run(&self, args: &[&str]) -> Ended {
        self.command(args).output().expect("it ends").into()
    }

    /// The state of an instance.
    pub fn state(&self, id: &str) -> String {
        let shown = self.run(&["show", id, "--json"]).json();
        let state = shown["instance"]["state"].as_str();
        state.expect("it has one").to_owned()
    }

    pub fn until_state(&self, id: &str, state: &str) {
        until(&format!("{id} is {state}"), || self.state(id) == state);
    }

    /// All processes with the cluster's directory in their command line or environment.
    pub fn left(&self) -> Vec<u32> {
        let dir = self.dir.path().to_string_lossy().into_owned();
        processes(|line| line.contains(&dir))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
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
            let left = self.left();
            if left.is_empty() {
                return;
            }
            for pid in left {
                send(pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A command that becomes a server: quiet unless something is wrong.
pub fn server(mut command: Command) -> Command {
    command
        .env("BATON_LOG", "warn")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// Lines of a file; none if it is not there.
pub fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(ToOwned::to_owned).collect()
}
