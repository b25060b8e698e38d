//! A server whose connections other sessions have taken.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::Instant;

use baton_client::ClientError;
use baton_model::ids::InstanceId;
use baton_testing::command::run;
use baton_testing::postgres::{Server, idle_session, run_sql};
use baton_testing::processes::{is_alive, send};
use baton_testing::{until, until_some};
use rustix::process::Signal;
use serde_json::json;

use super::Quorum;
use crate::api::{Api, id};

/// The reason that clients and operators are told.
const REASON: &str = "the server of the store has no connection left";

/// A user without rights: a few connections are reserved for administrators.
const USER: &str = "scheduler";

/// The sessions of all schedulers, and those of the leader.
const OF_ALL: &str = "application_name LIKE 'baton-%'";
const OF_LEADER: &str = "application_name IN (SELECT leader.application_name FROM pg_locks AS held \
    JOIN pg_stat_activity AS leader ON leader.pid = held.pid \
    WHERE held.locktype = 'advisory' AND held.granted AND held.classid = 1113683054)";

/// Idle sessions that hold all connections.
struct Crowd {
    sessions: Vec<Child>,
}

impl Crowd {
    fn gather(socket: &Path) -> Self {
        let mut crowd = Self {
            sessions: Vec::new(),
        };
        crowd.grow(socket);
        crowd
    }

    /// Takes all that are free.
    fn grow(&mut self, socket: &Path) {
        while let Some(session) = idle_session(socket, USER) {
            self.sessions.push(session);
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for session in &mut self.sessions {
            // It may have ended by itself.
            let _ = session.kill();
            let _ = session.wait();
        }
    }
}

/// One of the schedulers, as a client that knows no other.
struct Only(String);

impl Api for Only {
    fn scheduler_url(&self) -> &str {
        &self.0
    }
}

/// Two schedulers on a server with few connections, and a worker with an attempt that lasts until there
/// is the file `go`.
struct Scene {
    quorum: Quorum,
    held: InstanceId,
    pid: u32,
}

impl Scene {
    fn set() -> Self {
        let mut server = Server::start();
        server.set(&["max_connections=48"]);
        let role = format!("CREATE ROLE {USER} LOGIN");
        run_sql(server.socket(), "postgres", &role);
        let url = server.database();
        let name = url.split(['/', '?']).nth(3).expect("a database");
        let owner = format!("ALTER DATABASE {name} OWNER TO {USER}");
        run_sql(server.socket(), "postgres", &owner);
        let url = url.replace("user=baton", &format!("user={USER}"));
        let mut quorum = Quorum::on(url, server, None, 2, &["--leader-lease", "2s"]);
        quorum.start_worker("w");
        let script = "echo $$ > $DIR/pid; until [ -e $DIR/go ]; do sleep 0.05; done";
        let task = json!({ "task": "held", "run": script, "env": { "DIR": quorum.dir.path() } });
        let held = quorum.submit(task, 1).first;
        let pid = until_some("it starts", || {
            let text = fs::read_to_string(quorum.path("pid")).ok()?;
            text.trim().parse().ok()
        });
        Self { quorum, held, pid }
    }

    fn socket(&self) -> &Path {
        self.quorum.database.socket()
    }

    fn only(&self, number: usize) -> Only {
        let at = self.quorum.schedulers[number].addresses.as_ref();
        Only(at.expect("it runs").url.clone())
    }

    /// Ends these connections of schedulers, and gives them to others before the schedulers notice.
    fn rob(&self, schedulers: &[usize], sessions: &str, crowd: &mut Crowd) {
        for number in schedulers {
            send(self.quorum.pid(*number), Signal::STOP);
        }
        let end = format!(
            "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE {sessions}"
        );
        assert_ne!(run_sql(self.socket(), "postgres", &end), "0");
        crowd.grow(self.socket());
        for number in schedulers {
            send(self.quorum.pid(*number), Signal::CONT);
        }
    }

    /// Waits until a scheduler says why it is not ready.
    fn is_not_ready(&self, number: usize) {
        until("it says why it is not ready", || {
            let said = self.quorum.readiness(number);
            let reason = said.as_ref().and_then(|it| it["reason"].as_str());
            reason.is_some_and(|it| it.contains(REASON))
        });
    }

    /// Waits until a scheduler refuses reads and writes with the reason.
    fn refuses_all(&self, number: usize) {
        let (only, held) = (self.only(number), self.held);
        let write = || {
            let answer = only.try_submit(json!({ "task": "t", "run": ["true"] }));
            answer.map(drop)
        };
        let read = || {
            let answer = only.ask_once(|client| async move { client.instance(held).await });
            answer.map(drop)
        };
        // The first failures are those of the old connections.
        until("a write is refused with the reason", || {
            tells_reason(write())
        });
        until("a read is refused with the reason", || tells_reason(read()));
    }

    /// Submits a task, and waits for its end.
    fn works(&self) {
        let task = json!({ "task": "t", "run": ["true"] });
        let submitted = until_some("it is accepted", || {
            self.quorum.try_submit(task.clone()).ok()
        });
        let over = self.quorum.finish(id(&submitted.first));
        assert_eq!(over.state.word(), "DONE");
    }

    /// All schedulers are ready, one of them leads, and the attempt was never interrupted.
    fn recovers(&self) {
        until("all are ready, and one leads", || {
            let roles = (0..2).map(|number| {
                let said = self.quorum.readiness(number)?;
                let role = said["role"].as_str()?.to_owned();
                said["ready"].as_bool()?.then_some(role)
            });
            let mut roles: Vec<_> = roles.flatten().collect();
            roles.sort_unstable();
            roles == ["follower", "leader"]
        });
        assert!(is_alive(self.pid), "the worker keeps its work");
        fs::write(self.quorum.path("go"), "").expect("written");
        let over = self.quorum.finish(self.held);
        assert_eq!((over.state.word(), over.attempts), ("DONE", 1));
    }
}

/// Whether a request was refused with the reason. None may succeed without a connection.
fn tells_reason(answer: Result<(), ClientError>) -> bool {
    match answer {
        Err(ClientError::Problem(problem)) => {
            assert_eq!(problem.status, 503, "{problem:?}");
            problem.detail.contains(REASON)
        }
        other => panic!("there is no connection: {other:?}"),
    }
}

#[test]
fn schedulers_that_have_their_connections_go_on_when_others_take_the_rest() {
    let scene = Scene::set();
    let leader = scene.quorum.leader();
    scene.works();
    let crowd = Crowd::gather(scene.socket());
    assert!(!crowd.sessions.is_empty());
    let term = |number| scene.quorum.readiness(number).map(|it| it["epoch"].clone());
    let before = term(leader);
    scene.works();
    // Reads of both, and a write through the follower.
    for number in 0..2 {
        let only = scene.only(number);
        assert_eq!(only.instance(scene.held).state.word(), "RUNNING");
        only.submit(json!({ "task": "t", "run": ["true"] }), 1);
    }
    // One that comes now says why it does not start.
    let args = ["scheduler", "--listen", "127.0.0.1:0", "--worker-listen"];
    let args = [&args[..], &["127.0.0.1:0", "--data", "new", "--store"]].concat();
    let args = [&args[..], &[&*scene.quorum.url]].concat();
    let refused = run(scene.quorum.dir.path(), &args);
    assert_ne!(refused.code, Some(0));
    assert!(refused.err.contains(REASON), "{}", refused.err);
    assert_eq!(term(leader), before, "no election");
    drop(crowd);
    scene.recovers();
}

#[test]
fn a_leader_that_loses_its_connections_to_others_is_replaced_by_one_that_has_some() {
    let scene = Scene::set();
    scene.works();
    let leader = scene.quorum.leader();
    let mut crowd = Crowd::gather(scene.socket());
    scene.rob(&[leader], OF_LEADER, &mut crowd);
    let next = scene.quorum.leader_but(leader);
    assert_ne!(next, leader);
    scene.is_not_ready(leader);
    // Clients that ask the other one first as well.
    scene.works();
    assert!(is_alive(scene.pid), "the worker keeps its work");
    drop(crowd);
    scene.recovers();
}

#[test]
fn without_any_connection_schedulers_say_why_and_go_on_by_themselves_when_there_are_some() {
    let scene = Scene::set();
    scene.works();
    let mut crowd = Crowd::gather(scene.socket());
    scene.rob(&[0, 1], OF_ALL, &mut crowd);
    for number in 0..2 {
        scene.is_not_ready(number);
        scene.refuses_all(number);
    }
    assert!(is_alive(scene.pid), "the worker keeps its work");
    let freed = Instant::now();
    drop(crowd);
    scene.works();
    let after = freed.elapsed().as_millis();
    eprintln!("work submitted and done {after} ms after connections were free");
    scene.recovers();
}
