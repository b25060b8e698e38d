//! Schedulers are killed, frozen and cut off, and the database restarts, while side-effecting instances
//! and a workflow run and clients submit.
//!
//! | variable | chooses |
//! |---|---|
//! | `BATON_QUORUM_SECONDS` | for how long there are faults |
//! | `BATON_INSTANCES`, `BATON_WORKERS` | the work, and who does it |
//! | `BATON_SEED` | other faults |
//!
//! `make soak` runs it for longer.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use baton_client::{Client, ClientError};
use baton_model::api::{Submit, SubmitRun};
use baton_model::ids::RunId;
use baton_testing::cluster::lines;
use baton_testing::processes::send;
use baton_testing::{Rng, setting, until, until_some};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::Quorum;
use crate::api::{Api, id};
use crate::kill_loop::{SCRIPT, check};

const SCHEDULERS: usize = 3;

/// Short, so that there are many elections. Workers keep their work for longer than any of them takes.
const OPTIONS: [&str; 2] = ["--leader-lease", "2s"];

/// Layers of the workflow, and items of each.
const LAYERS: usize = 5;
const WIDTH: usize = 4;

/// An item of the workflow; like an instance, it holds a lock while it lives.
const ITEM: &str = r#"
me="$DIR/$LAYER.$BATON_ITEM_INDEX"
exec 9>"$me.lock"
flock -n 9 || echo "$BATON_ATTEMPT" >> "$me.overlap"
sleep 0.2
echo "end $BATON_INSTANCE" >> "$me"
"#;

fn workflow(dir: &Path) -> Value {
    let layer = |number: usize| {
        let after: Vec<_> = number
            .checked_sub(1)
            .iter()
            .map(|it| format!("L{it}"))
            .collect();
        json!({
            "for_each": format!("0..{WIDTH}"),
            "after": after,
            "env": { "DIR": dir, "LAYER": format!("L{number}") },
            "run": ITEM,
        })
    };
    let tasks: BTreeMap<_, _> = (0..LAYERS)
        .map(|it| (format!("L{it}"), layer(it)))
        .collect();
    json!({ "workflow": "layers", "tasks": tasks })
}

#[test]
fn nothing_is_lost_or_doubled_whatever_scheduler_dies_freezes_or_is_cut_off() {
    let seconds = setting("BATON_QUORUM_SECONDS").unwrap_or(6);
    let count = setting("BATON_INSTANCES").unwrap_or(150);
    let workers = setting("BATON_WORKERS").unwrap_or(3);
    let mut rng = Rng::new(setting("BATON_SEED").unwrap_or(1));
    let mut quorum = Quorum::on_network(SCHEDULERS, &OPTIONS);
    let dir = quorum.path("effects");
    std::fs::create_dir(&dir).expect("made");
    for worker in 0..workers {
        quorum.start_worker(&format!("w{worker}"));
    }
    let file = json!({
        "task": "effects",
        "run": SCRIPT,
        "env": { "DIR": dir },
        "resources": { "cpu": 1 },
    });
    let span = quorum.submit(file, count);
    let run = quorum.ask(|client| {
        let submit = SubmitRun {
            file: workflow(&dir),
            params: BTreeMap::new(),
            open: false,
        };
        async move { client.submit_run_once(&submit, "the-run").await }
    });
    let run = RunId(run.id.trim_start_matches('r').parse().expect("an id"));
    let over = AtomicBool::new(false);
    let submitter = Submitter::of(&quorum);
    let (faults, submitted) = thread::scope(|scope| {
        let submitting = scope.spawn(|| submitter.submit_until(&over));
        let faults = inject(&mut quorum, &mut rng, Duration::from_secs(seconds));
        over.store(true, Ordering::Relaxed);
        (faults, submitting.join().expect("it submits"))
    });
    let begun = Instant::now();
    let states = until_some("everything ends", || {
        let states = quorum.states(span);
        let over = ["DONE", "FAILED"].iter().filter_map(|it| states.get(*it));
        (over.sum::<u64>() == count).then_some(states)
    });
    assert_eq!(
        states.get("FAILED"),
        Some(&(count / 50)),
        "those that exit with 7"
    );
    assert_eq!(check(&quorum, span, &dir), 0, "finished work ran again");
    until("the workflow is done", || {
        let state = quorum
            .ask(|client| async move { client.run(run).await })
            .state;
        assert!(!state.is_terminal() || state.word() == "DONE", "{state}");
        state.is_terminal()
    });
    each_item_ran_once(&dir);
    let settled = begun.elapsed().as_secs();
    for submitted in &submitted {
        let state = quorum.finish(id(submitted)).state;
        assert_eq!(state.word(), "DONE", "{submitted} was acknowledged");
    }
    eprintln!(
        "{seconds} s, {workers} workers: {faults:?}, settled {settled} s later; {count} instances, {} items of a workflow and {} \
         acknowledged submissions are there, ran once and never overlapped",
        LAYERS * WIDTH,
        submitted.len()
    );
}

/// Injects faults for so long; returns how many of each kind.
fn inject(quorum: &mut Quorum, rng: &mut Rng, time: Duration) -> BTreeMap<&'static str, u64> {
    let begun = Instant::now();
    let mut faults = BTreeMap::new();
    // The database restarts after one third of the time, and after two.
    let mut restarts = [time / 3, time * 2 / 3].into_iter().peekable();
    while begun.elapsed() < time {
        thread::sleep(Duration::from_millis(rng.below(400)));
        if restarts.next_if(|at| begun.elapsed() >= *at).is_some() {
            *faults.entry("restarts of PostgreSQL").or_default() += 1;
            quorum.database.stop();
            thread::sleep(Duration::from_millis(rng.below(500)));
            quorum.database.run();
            continue;
        }
        let victim = if rng.below(2) == 0 {
            quorum.leader()
        } else {
            usize::try_from(rng.below(SCHEDULERS as u64)).expect("small")
        };
        // Some are over before the lease of the leader, others much later.
        let pause = Duration::from_millis(rng.below(5_000));
        match rng.below(3) {
            0 => {
                *faults.entry("kills").or_default() += 1;
                quorum.kill(victim);
                quorum.start(victim);
            }
            1 => {
                *faults.entry("freezes").or_default() += 1;
                let frozen = quorum.pid(victim);
                send(frozen, Signal::STOP);
                thread::sleep(pause);
                send(frozen, Signal::CONT);
            }
            _ => match &quorum.network {
                Some(network) => {
                    *faults.entry("cut-offs").or_default() += 1;
                    network.cut(victim);
                    thread::sleep(pause);
                    network.heal(victim);
                }
                // There is no namespace, as was printed.
                None => *faults.entry("cut-offs that were skipped").or_default() += 1,
            },
        }
    }
    faults
}

/// A client that submits one instance after the other.
struct Submitter {
    client: Client,
}

impl Submitter {
    fn of(quorum: &Quorum) -> Self {
        let mut client = Client::new(quorum.scheduler_url()).expect("URLs");
        if let Some(token) = quorum.token() {
            client = client.with_token(token);
        }
        Self { client }
    }

    /// Returns the ids of all that were acknowledged.
    fn submit_until(&self, over: &AtomicBool) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let submit = Submit {
            file: json!({ "task": "t", "run": ["true"] }),
            params: BTreeMap::new(),
            array: None,
            ..Default::default()
        };
        let mut acknowledged = Vec::new();
        for number in 0.. {
            // Repeated with its key, whatever became of it.
            let key = format!("submission-{number}");
            let submitted = until_some("a submission is acknowledged", || {
                let submitted: Result<_, ClientError> =
                    runtime.block_on(self.client.submit_once(&submit, &key));
                submitted.ok()
            });
            acknowledged.push(submitted.first);
            if over.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        acknowledged
    }
}

fn each_item_ran_once(dir: &Path) {
    for layer in 0..LAYERS {
        for item in 0..WIDTH {
            let name = format!("L{layer}.{item}");
            let overlaps = lines(&dir.join(format!("{name}.overlap")));
            assert!(overlaps.is_empty(), "{name}: two at once: {overlaps:?}");
            let ends = lines(&dir.join(&name));
            assert_eq!(ends.len(), 1, "{name}: {ends:?}");
        }
    }
}
