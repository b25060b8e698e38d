//! A subreaper of orphaned processes.
//!
//! A killed runner leaves its coordinator to the next subreaper above. The first process of a
//! container may not reap dead children for a while, and the exit code of a process is
//! known only after that. So the tests do not depend on it: this process
//! adopts the orphans, and reaps those that have ended.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, Once};
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};

/// Children that a caller waits for; they are left to it.
static OWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Adopts every orphan from now on.
pub(crate) fn adopt() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_child_subreaper(Some(getpid())).expect("this kernel has subreapers");
        std::thread::spawn(|| {
            loop {
                let own = OWN.lock().expect("no thread panics with it");
                for pid in children().filter(|pid| !own.contains(pid)) {
                    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
                    // One that still runs is checked again in the next round.
                    let _ = waitpid(pid, WaitOptions::NOHANG);
                }
                drop(own);
                std::thread::sleep(Duration::from_millis(3));
            }
        });
    });
}

/// Starts a child that the caller waits for.
pub(crate) fn start(command: &mut Command) -> Child {
    let mut own = OWN.lock().expect("no thread panics with it");
    let child = command.spawn();
    let child = child.unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    own.insert(child.id());
    child
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Output {
    let child = start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let pid = child.id();
    let output = child.wait_with_output().expect("our child");
    disown(pid);
    output
}

/// Runs a command that must succeed.
pub(crate) fn run_ok(command: &mut Command) {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// A child was waited for.
pub(crate) fn disown(pid: u32) {
    OWN.lock().expect("no thread panics with it").remove(&pid);
}

fn children() -> impl Iterator<Item = u32> {
    let threads = fs::read_dir("/proc/self/task").expect("/proc is there");
    let lists = threads.flatten().map(|thread| {
        // A thread that has just ended has none.
        fs::read_to_string(thread.path().join("children")).unwrap_or_default()
    });
    lists.flat_map(|list| {
        let pids = list.split_whitespace().filter_map(|pid| pid.parse().ok());
        pids.collect::<Vec<u32>>()
    })
}
