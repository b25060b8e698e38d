//! A Slurm cluster on this host: a controller, four nodes with four cores, and the partitions `low` and `scavenge`, and
//! `high`, which preempts them: jobs of `low` are queued again, if they may be, and those of `scavenge` are cancelled. `scripts/with-slurm.sh` starts it, and ends it when the value is dropped or this process dies.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::until_at_last;

/// A job in Slurm's lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub id: String,
    /// Such as `RUNNING`.
    pub state: String,
    pub node: String,
    pub name: String,
}

/// A cluster of its own.
#[derive(Debug)]
pub struct Slurm {
    dir: PathBuf,
    script: Child,
    /// The script ends with it.
    input: Option<ChildStdin>,
}

impl Slurm {
    /// Starts a cluster, and waits until its nodes are idle.
    ///
    /// # Panics
    /// If Slurm is not installed, or does not start.
    #[must_use]
    pub fn start() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut script = Command::new(root.join("scripts/with-slurm.sh"))
            .args(["sh", "-c", "echo \"$BATON_TEST_SLURM\"; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell script");
        let mut dir = String::new();
        let out = script.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut dir).expect("readable");
        assert!(!dir.is_empty(), "Slurm does not start");
        Self {
            dir: PathBuf::from(dir.trim_end()),
            input: script.stdin.take(),
            script,
        }
    }

    /// The variable by which the commands of Slurm find this cluster.
    pub fn variable(&self) -> (String, String) {
        let file = self.dir.join("slurm.conf");
        ("SLURM_CONF".to_owned(), file.display().to_string())
    }

    /// Runs a command of Slurm, and returns what it prints.
    ///
    /// # Panics
    /// If it fails.
    pub fn run(&self, command: &[&str]) -> String {
        let (name, value) = self.variable();
        let output = Command::new(command[0])
            .args(&command[1..])
            .env(name, value)
            .stdin(Stdio::null())
            .output()
            .expect("scripts/tools.sh has installed it");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The jobs that are queued or run.
    pub fn queue(&self) -> Vec<Job> {
        self.jobs(&[])
    }

    /// The same, and those that have ended lately.
    pub fn history(&self) -> Vec<Job> {
        self.jobs(&["--states=all"])
    }

    fn jobs(&self, options: &[&str]) -> Vec<Job> {
        let command = ["squeue", "--noheader", "--format=%i|%T|%N|%j"];
        let shown = self.run(&[&command, options].concat());
        let jobs = shown.lines().map(|line| {
            let mut words = line.split('|').map(str::to_owned);
            let mut next = || words.next().expect("four words");
            Job {
                id: next(),
                state: next(),
                node: next(),
                name: next(),
            }
        });
        jobs.collect()
    }

    /// Takes so many nodes, as a job with a higher priority does; returns its id.
    pub fn take_nodes(&self, count: u32) -> String {
        let nodes = format!("--nodes={count}");
        let job = ["sbatch", "--parsable", "--partition=high", &nodes];
        let rest = ["--exclusive", "--output=/dev/null", "--wrap=sleep 1000"];
        let id = self.run(&[&job[..], &rest].concat());
        until_at_last("it has its nodes", || {
            let jobs = self.queue().into_iter();
            jobs.filter(|it| it.state == "RUNNING")
                .any(|it| it.id == id)
        });
        id
    }

    /// Tells the controller that a node is down.
    pub fn set_down(&self, node: &str) {
        let name = format!("nodename={node}");
        self.run(&["scontrol", "update", &name, "state=down", "reason=test"]);
    }

    /// `kill -9` of a node's daemon. What runs there is not touched.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill_node(&self, node: &str) {
        self.signal(&format!("slurmd-{node}"), "KILL");
    }

    /// Sends a signal, such as `STOP`, to the controller.
    ///
    /// # Panics
    /// If there is no controller.
    pub fn signal_controller(&self, signal: &str) {
        self.signal("slurmctld", signal);
    }

    fn signal(&self, daemon: &str, signal: &str) {
        let pid = fs::read_to_string(self.dir.join(format!("{daemon}.pid"))).expect("it has a pid");
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), pid.trim()])
            .status();
        assert!(sent.expect("a command").success(), "{daemon} is gone");
    }

    /// Starts a controller that was killed again, with its state.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_controller(&self) {
        let started = Command::new(self.dir.join("start-controller")).status();
        assert!(started.expect("a script").success(), "it starts again");
        let (name, value) = self.variable();
        until_at_last("the controller answers", || {
            let ping = Command::new("sinfo").env(&name, &value).output();
            ping.is_ok_and(|it| it.status.success())
        });
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        drop(self.input.take());
        // A panic here would hide the first one.
        let _ = self.script.wait();
    }
}
