//! The chain of Slurm jobs that keeps a scheduler alive (`contrib/slurm/scheduler-chain.sh`), with a real Slurm: the
//! job of the scheduler reaches its time limit, the next one takes over, and no work notices.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use baton_testing::cluster::lines;
use baton_testing::command::{Ended, baton_path};
use baton_testing::slurm::Slurm;
use baton_testing::{until, until_some};
use tempfile::TempDir;

/// A time limit of Slurm is a minute at least, and is noticed some half a minute later.
const LINK_MAX: Duration = Duration::from_secs(300);

struct Chain {
    slurm: Slurm,
    root: TempDir,
}

impl Chain {
    fn dir(&self) -> PathBuf {
        self.root.path().join("chain")
    }

    fn script(&self, args: &[&str]) -> Ended {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/slurm/scheduler-chain.sh");
        let (name, value) = self.slurm.variable();
        let mut command = Command::new(file);
        command.arg(args[0]).arg(self.dir()).args(&args[1..]);
        command.env(name, value).env("BATON", baton_path());
        command.env("BATON_CHAIN_HOST", "127.0.0.1");
        command.env("BATON_CHAIN_NOTICE", "5");
        command.stdin(Stdio::null());
        Ended::from(command.output().expect("it can be started"))
    }

    /// Runs `baton` with the variables that the script prints.
    fn baton(&self, args: &str) -> Ended {
        let variables = self.script(&["env"]);
        if variables.code != Some(0) {
            return variables;
        }
        let variables = variables.out;
        let mut command = Command::new("bash");
        command.env("BATON_CONFIG", "");
        let script = format!("{variables}\nexec {} {args}", baton_path().display());
        command.args(["-c", &script]).current_dir(self.root.path());
        Ended::from(command.output().expect("it can be started"))
    }

    /// Starts a worker as a job of its own, which looks for the scheduler where the chain says.
    fn start_worker(&self) {
        let dir = self.dir().display().to_string();
        let worker = format!(
            "exec {} worker --name w --scheduler @{dir}/address --token-file {dir}/worker.token --state {}",
            baton_path().display(),
            self.root.path().join("worker").display()
        );
        let name = ["--job-name=worker", "--output=/dev/null"];
        self.slurm
            .run(&["sbatch", "--mem=64", name[0], name[1], "--wrap", &worker]);
    }

    /// Runs `baton` until a job of the chain has answered it; between two of them nothing does.
    fn insist(&self, args: &str) -> String {
        until_some("a job of the chain answers", || {
            let ended = self.baton(args);
            (ended.code == Some(0)).then(|| ended.out.trim().to_owned())
        })
    }

    fn url(&self) -> String {
        fs::read_to_string(self.dir().join("url")).unwrap_or_default()
    }

    fn state(&self, id: &str) -> String {
        let shown = self.baton(&format!("show {id} --json"));
        if shown.code != Some(0) {
            return String::new();
        }
        let state = shown.json()["instance"]["state"]
            .as_str()
            .map(str::to_owned);
        state.expect("it has one")
    }
}

#[test]
fn a_chain_of_jobs_keeps_the_scheduler_and_loses_nothing() {
    let chain = Chain {
        slurm: Slurm::start(),
        root: tempfile::tempdir().expect("a directory"),
    };
    let options = ["start", "--partition=low", "--time=1", "--mem=64"];
    chain.script(&options).good();
    let again = chain.script(&options);
    assert!(again.err.contains("end it with"), "{}", again.err);
    until("the first job serves", || {
        chain.baton("status").code == Some(0)
    });
    chain.start_worker();
    let (end, trace) = (
        chain.root.path().join("end"),
        chain.root.path().join("trace"),
    );
    let long = format!(
        "submit --sandbox -- 'echo begun >> {0}; until [ -e {1} ]; do sleep 0.1; done; echo ended >> {0}'",
        trace.display(),
        end.display()
    );
    let long = chain.insist(&long);
    until("it runs", || lines(&trace) == ["begun"]);
    let many = chain.insist("submit --array 1-200 --sandbox -- sleep 0.2");
    let range = many.split(' ').next().unwrap_or_default();
    let (_, end_of_many) = range.split_once("..").expect("a range of ids");

    let (first, begun) = (chain.url(), Instant::now());
    while chain.url() == first || chain.baton("status").code != Some(0) {
        assert!(
            begun.elapsed() < LINK_MAX,
            "{:?}",
            lines(&chain.dir().join("chain.log"))
        );
        thread::sleep(Duration::from_millis(200));
    }
    until("the next job knows what runs", || {
        chain.state(&long) == "RUNNING"
    });
    let last = chain.insist("submit --sandbox -- true");
    fs::write(&end, "").expect("written");
    for id in [&*long, end_of_many, &last] {
        until("everything ends", || chain.state(id) == "DONE");
    }
    let shown = chain.insist(&format!("show {long} --json"));
    let long: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    let long = &long["instance"];
    assert_eq!(
        (long["failures"].as_u64(), long["losses"].as_u64()),
        (Some(0), Some(0)),
        "{long}"
    );
    assert_eq!(lines(&trace), ["begun", "ended"], "it ran once");

    chain.script(&["stop"]).good();
    until("no job of the chain is left", || {
        let names = chain.slurm.run(&["squeue", "-h", "-o", "%j"]);
        !names.contains("baton-chain")
    });
}
