//! Acknowledged facts survive `kill -9` at any moment.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use baton_store::{FactLog as _, Views as _};
use baton_testing::Rng;

use crate::file::{open, place};
use crate::leading::{Leader, NOW, submitted};

/// Names the store to the child process; without it the child's test does nothing.
const CHILD: &str = "BATON_STORE_CRASH_TEST";

const BATCH: u64 = 3;

const ROUNDS: u64 = 40;

/// The process that is killed: commits forever, and prints what was acknowledged.
#[test]
fn child_commits_until_it_is_killed() {
    let Some(path) = env::var_os(CHILD) else {
        return;
    };
    let store = open(Path::new(&path));
    let mut leader = Leader::elect(&store);
    let mut next = leader.ledger.known().last().map_or(0, |last| last.0 + 1);
    loop {
        let batch = leader.batch((next..next + BATCH).map(submitted).collect());
        next += BATCH;
        let done = move |outcome: Result<_, _>| {
            outcome.map(drop).expect("it commits");
            let mut out = std::io::stdout().lock();
            writeln!(out, "acknowledged {next}").expect("the parent reads");
        };
        store.submit(batch, NOW, Box::new(done));
    }
}

#[test]
fn what_was_acknowledged_survives_kill_9_and_what_survives_is_a_prefix() {
    let (_dir, path) = place();
    let mut rng = Rng::new(7);
    let mut stored = 0;
    for round in 0..ROUNDS {
        let acknowledged = kill_after(&path, 1 + rng.below(60));
        let store = open(&path);
        let leader = Leader::elect(&store);
        let ids: Vec<_> = leader.ledger.waiting().map(|it| it.first.0).collect();
        let prefix: Vec<_> = (0..ids.len() as u64).collect();
        assert_eq!(ids, prefix, "round {round}: a gap");
        assert!(leader.ledger.known().ranges().count() <= 1);
        stored = ids.len() as u64;
        assert!(
            stored >= acknowledged,
            "round {round}: {acknowledged} were acknowledged, {stored} are stored"
        );
        assert_eq!(stored % BATCH, 0, "round {round}: half a batch");
    }
    let store = open(&path);
    assert_eq!(store.check(), Ok(()));
    let counts = store.counts().expect("readable");
    assert_eq!(counts.states.values().sum::<u64>(), stored);
}

/// Starts the child, kills it after `lines` acknowledgements, and returns the last one that it had
/// printed.
fn kill_after(path: &Path, lines: u64) -> u64 {
    let mut child = Command::new(env::current_exe().expect("this test has a file"))
        .args([
            "--exact",
            "crash::child_commits_until_it_is_killed",
            "--nocapture",
        ])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the child starts");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut last = 0;
    let mut read = 0;
    let mut line = String::new();
    let mut killed = false;
    while out.read_line(&mut line).expect("readable") > 0 {
        // The last line may be torn, and the test harness prints lines of its own before the first.
        if let Some((_, number)) = line.split_once("acknowledged ")
            && let Some(number) = number.strip_suffix('\n')
        {
            last = number.parse().expect("a number");
            read += 1;
        }
        line.clear();
        if read >= lines && !killed {
            child.kill().expect("SIGKILL can be sent");
            killed = true;
        }
    }
    child.wait().expect("waited for");
    assert!(killed, "the child ended by itself after {read} lines");
    last
}
