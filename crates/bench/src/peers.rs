//! Baselines for throughput: a bare spawn loop, and HyperQueue, the fastest peer.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_runner::sys::spawn;
use baton_terminal::output::Failure;
use rustix::process::{WaitOptions, wait};

use crate::cluster::TIMEOUT;
use crate::rig::io_failure;

/// Starts `count` processes, `at_once` at a time, in a loop of vfork, exec and wait.
pub(crate) fn raw(count: u64, at_once: usize) -> Result<Duration, Failure> {
    let argv = ["/bin/true".to_owned()];
    let mut spawner =
        spawn::Spawner::new().map_err(|error| io_failure("prepare to start processes", &error))?;
    let command = spawn::Command::new(&argv, &[]);
    let begun = Instant::now();
    let (mut started, mut running) = (0, 0);
    while started < count || running > 0 {
        if started < count && running < at_once {
            spawner.spawn(&command).map_err(Failure::failed)?;
            (started, running) = (started + 1, running + 1);
            continue;
        }
        wait(WaitOptions::empty())
            .map_err(|error| io_failure("wait for a process", &error.into()))?;
        running -= 1;
    }
    Ok(begun.elapsed())
}

/// The same with HyperQueue, if installed: its command, or its Python package, which includes a
/// server and a worker. Without output files and without its journal, its fastest configuration.
pub(crate) fn hyperqueue(
    place: &Path,
    count: u64,
    at_once: usize,
) -> Result<Option<Duration>, Failure> {
    match command(place, count, at_once)? {
        Some(took) => Ok(Some(took)),
        None => package(place, count, at_once),
    }
}

/// Python script that prints the duration in seconds.
const SCRIPT: &str = "
import sys, time
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
place, count, at_once = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def run(client, count):
    job = Job()
    for _ in range(count):
        job.program(['/bin/true'], stdout=None, stderr=None)
    begun = time.monotonic()
    client.wait_for_jobs([client.submit(job)])
    return time.monotonic() - begun
with LocalCluster(place, WorkerConfig(cores=at_once)) as cluster:
    client = cluster.client()
    run(client, 100)
    print(run(client, count))
";

fn package(place: &Path, count: u64, at_once: usize) -> Result<Option<Duration>, Failure> {
    let dir = place.join("hq");
    std::fs::create_dir_all(&dir).map_err(|error| io_failure("make a directory", &error))?;
    let output = Command::new("python3")
        .args(["-c", SCRIPT])
        .arg(&dir)
        .args([count.to_string(), at_once.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let seconds = output.ok().and_then(|output| {
        let text = String::from_utf8(output.stdout).ok()?;
        text.lines().next_back()?.trim().parse::<f64>().ok()
    });
    Ok(seconds.map(Duration::from_secs_f64))
}

fn command(place: &Path, count: u64, at_once: usize) -> Result<Option<Duration>, Failure> {
    let dir = place.join("hq");
    let hq = |args: &[&str]| {
        let mut command = Command::new("hq");
        command.arg("--server-dir").arg(&dir).args(args);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    };
    let mut server = match hq(&["server", "start"]).spawn() {
        Ok(child) => Guard(child),
        Err(_) => return Ok(None),
    };
    let begun = Instant::now();
    while !answers(&mut hq(&["server", "info"])) {
        let gone = matches!(server.0.try_wait(), Ok(Some(_)));
        if gone || begun.elapsed() > Duration::from_secs(30) {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let cpus = at_once.to_string();
    let worker = hq(&["worker", "start", "--cpus", &cpus]).spawn();
    let _worker = Guard(worker.map_err(|error| io_failure("start a worker of hq", &error))?);
    let array = format!("1-{count}");
    let run = |array: &str| {
        let args = [
            "submit",
            "--wait",
            "--array",
            array,
            "--stdout",
            "none",
            "--stderr",
            "none",
            "--",
            "/bin/true",
        ];
        answers(&mut hq(&args))
    };
    if !run("1-100") {
        return Ok(None);
    }
    let begun = Instant::now();
    let done = run(&array);
    let took = begun.elapsed();
    // Its worker exits with it.
    let _ = hq(&["server", "stop"]).status();
    Ok(done.then_some(took).filter(|took| *took < TIMEOUT))
}

fn answers(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}

/// A child process, killed on drop.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
