//! Several schedulers on one PostgreSQL database: one leads, and any of them may die, freeze or lose the
//! database at any time.
//!
//! `BATON_SEED`, `BATON_KILLS` and `BATON_INSTANCES` choose another or a longer run; `make soak` does.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_testing::cluster::server;
use baton_testing::command::{Addresses, baton, baton_path, ready};
use baton_testing::postgres::Server;
use baton_testing::processes::send;
use baton_testing::{Rng, setting, until, until_some};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::Api;
use crate::kill_loop::{SCRIPT, check};

/// One of the schedulers.
struct Scheduler {
    child: Option<Child>,
    addresses: Option<Addresses>,
}

/// Schedulers that share a database, and their workers.
struct Quorum {
    dir: TempDir,
    database: Server,
    url: String,
    schedulers: Vec<Scheduler>,
    workers: BTreeMap<String, Child>,
    clients: String,
}

impl Quorum {
    fn new(count: usize) -> Self {
        let database = Server::start();
        let mut quorum = Self {
            dir: tempfile::tempdir().expect("a directory"),
            url: database.database(),
            database,
            schedulers: Vec::new(),
            workers: BTreeMap::new(),
            clients: String::new(),
        };
        for number in 0..count {
            quorum.schedulers.push(Scheduler {
                child: None,
                addresses: None,
            });
            quorum.start(number);
        }
        let urls = quorum
            .schedulers
            .iter()
            .filter_map(|it| it.addresses.as_ref());
        let urls: Vec<_> = urls.map(|it| it.url.clone()).collect();
        quorum.clients = urls.join(",");
        quorum
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a scheduler, on the ports that it had before.
    fn start(&mut self, number: usize) {
        let name = format!("s{number}");
        let (listen, workers) = match &self.schedulers[number].addresses {
            Some(before) => {
                let clients = before.url.trim_start_matches("http://").to_owned();
                (clients, before.workers.clone())
            }
            None => ("127.0.0.1:0".to_owned(), "127.0.0.1:0".to_owned()),
        };
        let (addresses, child) = until_some("the scheduler starts", || {
            let mut log = OpenOptions::new();
            let log = log
                .create(true)
                .append(true)
                .open(self.path(&format!("{name}.log")));
            let mut child = server(Command::new(baton_path()))
                .args(["scheduler", "--json", "--listen", &listen])
                .args(["--worker-listen", &workers, "--store", &self.url, "--data"])
                .arg(self.path(&name))
                .stdout(Stdio::piped())
                .stderr(log.expect("a log"))
                .spawn()
                .expect("baton starts");
            match ready(&mut child) {
                Some(addresses) => Some((addresses, child)),
                // The killed process may still hold its port.
                None => {
                    child.wait().expect("it ends");
                    None
                }
            }
        });
        self.schedulers[number] = Scheduler {
            child: Some(child),
            addresses: Some(addresses),
        };
    }

    fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.schedulers[number].child.take() {
            child.kill().expect("ours");
            child.wait().expect("ours");
        }
    }

    fn pid(&self, number: usize) -> u32 {
        self.schedulers[number]
            .child
            .as_ref()
            .expect("it runs")
            .id()
    }

    fn start_worker(&mut self, name: &str) {
        let at = self
            .schedulers
            .iter()
            .filter_map(|it| it.addresses.as_ref());
        let at: Vec<_> = at.map(|it| it.workers.clone()).collect();
        let mut log = OpenOptions::new();
        let log = log
            .create(true)
            .append(true)
            .open(self.path(&format!("{name}.log")));
        let child = server(Command::new(baton_path()))
            .args(["worker", "--name", name, "--resources", "cpu=2"])
            .args(["--scheduler", &at.join(","), "--state"])
            .arg(self.path(name))
            .stderr(log.expect("a log"))
            .spawn()
            .expect("baton starts");
        self.workers.insert(name.to_owned(), child);
    }

    /// What one scheduler says about all of them.
    fn seen_by(&self, number: usize) -> Option<Value> {
        let addresses = self.schedulers[number].addresses.as_ref()?;
        let mut command = baton(self.dir.path(), &["schedulers", "--json"]);
        let output = command.env("BATON_URL", &addresses.url).output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// The scheduler that leads, once one does and answers.
    fn leader(&self) -> usize {
        until_some("one leads", || {
            let alive = |number: &usize| self.schedulers[*number].child.is_some();
            (0..self.schedulers.len()).filter(alive).find(|number| {
                let url = self.schedulers[*number]
                    .addresses
                    .as_ref()
                    .map(|it| it.url.clone());
                let seen = self.seen_by(*number);
                let items = seen.as_ref().and_then(Value::as_array);
                items.is_some_and(|items| {
                    items
                        .iter()
                        .any(|it| it["role"] == "leader" && it["url"].as_str() == url.as_deref())
                })
            })
        })
    }
}

impl Api for Quorum {
    fn scheduler_url(&self) -> &str {
        &self.clients
    }
}

impl Drop for Quorum {
    fn drop(&mut self) {
        for number in 0..self.schedulers.len() {
            self.kill(number);
        }
        for (_, mut worker) in std::mem::take(&mut self.workers) {
            send(worker.id(), Signal::INT);
            // Its work ends with it.
            let _ = worker.wait();
        }
        if std::thread::panicking() {
            for number in 0..self.schedulers.len() {
                let log = std::fs::read_to_string(self.path(&format!("s{number}.log")));
                eprintln!("s{number}:\n{}", log.unwrap_or_default());
            }
        }
    }
}

/// Schedulers die and freeze, and the database restarts, while side-effecting instances run.
#[test]
fn nothing_is_lost_or_doubled_whatever_scheduler_dies_or_freezes_and_while_the_database_restarts() {
    let kills = setting("BATON_KILLS").unwrap_or(5);
    let count = setting("BATON_INSTANCES").unwrap_or(300);
    let mut rng = Rng::new(setting("BATON_SEED").unwrap_or(1));
    let mut quorum = Quorum::new(3);
    let dir = quorum.path("effects");
    std::fs::create_dir(&dir).expect("made");
    for worker in ["w0", "w1", "w2"] {
        quorum.start_worker(worker);
    }
    let file = json!({
        "task": "effects",
        "run": SCRIPT,
        "env": { "DIR": dir },
        "resources": { "cpu": 1 },
    });
    let span = quorum.submit(file, count);
    for round in 0..kills {
        std::thread::sleep(Duration::from_millis(rng.below(400)));
        match (round, rng.below(4)) {
            (1, _) => {
                quorum.database.stop();
                std::thread::sleep(Duration::from_millis(rng.below(500)));
                quorum.database.run();
            }
            (_, 0) => {
                let number = usize::try_from(rng.below(3)).expect("small");
                quorum.kill(number);
                quorum.start(number);
            }
            (_, 1) => {
                let frozen = quorum.pid(quorum.leader());
                send(frozen, Signal::STOP);
                std::thread::sleep(Duration::from_millis(rng.below(3_000)));
                send(frozen, Signal::CONT);
            }
            _ => {
                let leader = quorum.leader();
                quorum.kill(leader);
                quorum.start(leader);
            }
        }
    }
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
    assert_eq!(
        check(&quorum, span, &dir),
        0,
        "a parent always observed the end"
    );
}

/// Measures how long no scheduler leads after `kill -9` of the leader; `BATON_KILLS` of them.
#[test]
fn another_scheduler_leads_soon_after_the_leader_was_killed() {
    let kills = setting("BATON_KILLS").unwrap_or(3);
    let mut quorum = Quorum::new(3);
    let mut times = Vec::new();
    for _ in 0..kills {
        let leader = quorum.leader();
        let begun = Instant::now();
        quorum.kill(leader);
        let file = json!({ "task": "t", "run": ["true"] });
        until("a submission is accepted", || {
            quorum.try_submit(file.clone()).is_ok()
        });
        times.push(begun.elapsed().as_millis());
        quorum.start(leader);
    }
    times.sort_unstable();
    eprintln!("milliseconds from kill -9 of the leader to the first commit: {times:?}");
    let leaders = until_some("all agree", || {
        let seen: Vec<_> = (0..3).filter_map(|number| quorum.seen_by(number)).collect();
        let leaders: Vec<_> = seen.iter().filter_map(Value::as_array).flatten().collect();
        let mut leaders: Vec<_> = leaders.iter().filter(|it| it["role"] == "leader").collect();
        leaders.dedup_by_key(|it| it["name"].to_string());
        (seen.len() == 3 && leaders.len() == 1).then_some(leaders.len())
    });
    assert_eq!(leaders, 1);
}
