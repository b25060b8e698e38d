//! Several schedulers that share a store: one leads, the others follow.

use std::sync::Arc;
use std::time::Duration;

use baton_core::leader::ElectionTimeouts;
use baton_model::fact::{CopyEvidence, Fact};
use baton_model::time::Millis;
use baton_server::Config;
use baton_store::facts::FactQuery;
use baton_store::{FactLog as _, Store, Views as _};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::rig::{Got, Server, config, got, task, until};
use crate::shared_store::{History, Session, Shared};

/// Longer than anything takes on a slow machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A scheduler, its connection to the store, and its directory.
pub(crate) struct Member {
    pub(crate) server: Server,
    session: Arc<Session>,
    _data: TempDir,
}

impl Member {
    async fn join(shared: &Arc<Shared>, name: &str) -> Self {
        Self::join_with(shared, name, |config| config).await
    }

    pub(crate) async fn join_with(
        shared: &Arc<Shared>,
        name: &str,
        change: impl FnOnce(Config) -> Config,
    ) -> Self {
        let data = tempfile::tempdir().expect("a place");
        let session = shared.open();
        let config = change(Config {
            name: name.to_owned(),
            // A leader that is not deposed by a test must not be on a slow machine either.
            election: ElectionTimeouts {
                renew: Millis(100),
                read: Millis(100),
                lapse: Millis::from_secs(30),
            },
            ..config(data.path())
        });
        let store: Arc<dyn Store> = Arc::clone(&session) as _;
        Self {
            server: Server::start_store(config, store).await,
            session,
            _data: data,
        }
    }

    /// Submits as a client does that repeats its request while leaders change.
    async fn submit_by_and_by(&self, name: &str) {
        let submitted = until(async || {
            let request = self.server.request(Method::POST, "/instances/");
            let request = request.header("content-type", "application/json");
            let request = request.header("idempotency-key", name);
            let sent = got(request.body(task(name).to_string())).await;
            sent.status == StatusCode::CREATED
        });
        assert!(submitted.await, "{name} was never accepted");
    }

    pub(crate) async fn role(&self) -> Value {
        self.server.get("/readyz").await.body["role"].clone()
    }
}

/// Three schedulers, as soon as one of them leads and all others know it.
async fn three() -> Vec<Member> {
    let shared = Shared::new();
    let mut members = Vec::new();
    for name in ["a", "b", "c"] {
        members.push(Member::join(&shared, name).await);
    }
    leader(&members).await;
    members
}

/// The index of the one leader of these schedulers, as soon as each can forward to it.
async fn leader(members: &[Member]) -> usize {
    let mut found = None;
    let elected = until(async || {
        let mut leaders = Vec::new();
        for (index, member) in members.iter().enumerate() {
            if member.role().await == "leader" {
                leaders.push(index);
            }
            // It is answered by the leader.
            let workers = member.server.get("/workers/").await;
            if workers.status != StatusCode::OK {
                return false;
            }
        }
        found = leaders.first().copied();
        leaders.len() == 1
    });
    assert!(elected.await, "not exactly one leads");
    found.expect("just found")
}

fn follower(leader: usize) -> usize {
    (leader + 1) % 3
}

#[tokio::test]
async fn exactly_one_of_three_leads_and_all_say_so() {
    let members = three().await;
    let leader = leader(&members).await;
    let mut epochs = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let ready = member.server.get("/readyz").await;
        assert_eq!(ready.status, StatusCode::OK, "{ready:?}");
        let role = if index == leader {
            "leader"
        } else {
            "follower"
        };
        assert_eq!(ready.body["role"], role, "{ready:?}");
        epochs.extend(ready.body["epoch"].as_u64());
        let list = member.server.get("/schedulers/").await;
        assert_eq!(list.status, StatusCode::OK, "{list:?}");
        let items = list.body["items"].as_array().expect("a list");
        assert_eq!(items.len(), 3, "{list:?}");
        let leads: Vec<_> = items.iter().filter(|it| it["role"] == "leader").collect();
        assert_eq!(leads.len(), 1, "{list:?}");
        let url = members[leader].server.url("");
        assert_eq!(leads[0]["url"], url, "{list:?}");
        let answers: Vec<_> = items.iter().filter(|it| it["answers"] == true).collect();
        assert_eq!(answers.len(), 1, "{list:?}");
        assert_eq!(answers[0]["url"], member.server.url(""), "{list:?}");
        let root = member.server.get("/").await;
        assert_eq!(root.body["links"]["schedulers"], "/schedulers/");
    }
    assert_eq!(epochs.len(), 1);
}

#[tokio::test]
async fn a_write_to_a_follower_reaches_the_leader_with_its_idempotency_key() {
    let members = three().await;
    let leader = leader(&members).await;
    let follower = &members[follower(leader)].server;
    let submit = async |server: &Server| -> Got {
        let request = server.request(Method::POST, "/instances/");
        let request = request.header("content-type", "application/json");
        let request = request.header("idempotency-key", "the-same");
        let request = request.header("baton-user", "ann");
        got(request.body(task("t").to_string())).await
    };
    let first = submit(follower).await;
    assert_eq!(first.status, StatusCode::CREATED, "{first:?}");
    let again = submit(&members[leader].server).await;
    assert_eq!(again.body["links"], first.body["links"], "{again:?}");
    let path = first.headers["location"].to_str().expect("a path");
    // A read of what only the store knows, and one of the leader's memory.
    let shown = follower.get(path).await;
    assert_eq!(shown.body["state"], "QUEUED", "{shown:?}");
    let submitter = &shown.body["details"]["origin"]["submittedBy"];
    assert_eq!(submitter["name"], "ann", "{shown:?}");
    let explained = follower.get(&format!("{path}/explain")).await;
    assert_eq!(explained.status, StatusCode::OK, "{explained:?}");
    let ended = follower.delete(path).await;
    assert!(ended.status.is_success(), "{ended:?}");
    let gone = follower.get(&format!("{path}?wait=30")).await;
    assert_eq!(gone.body["state"], "HALTED", "{gone:?}");
    // An error of the leader is that of the follower.
    let wrong = json!({"file": 1});
    let bad = follower.send(Method::POST, "/instances/", &wrong).await;
    let same = &members[leader].server;
    let same = same.send(Method::POST, "/instances/", &wrong).await;
    assert_eq!((bad.status, bad.body), (same.status, same.body));
}

#[tokio::test]
async fn work_submitted_to_a_follower_runs_on_a_worker_of_the_leader() {
    let members = three().await;
    let leader = leader(&members).await;
    let follower = &members[follower(leader)].server;
    let _worker = members[leader].server.worker("w").await;
    let path = follower.submit("good").await;
    let ended = follower.get(&format!("{path}?wait=60")).await;
    assert_eq!(ended.body["state"], "DONE", "{ended:?}");
}

#[tokio::test]
async fn a_request_is_forwarded_once_at_most() {
    let members = three().await;
    let leader = leader(&members).await;
    let follower = &members[follower(leader)].server;
    for (method, path) in [(Method::POST, "/instances/"), (Method::GET, "/workers/")] {
        let request = follower.request(method, path);
        let request = request.header("baton-forwarded-by", "another");
        let refused = got(request.body(task("t").to_string())).await;
        refused.is_problem(StatusCode::SERVICE_UNAVAILABLE, "no-leader");
        assert!(refused.detail().contains("another"), "{refused:?}");
        assert!(refused.headers.contains_key("retry-after"));
    }
    // The leader answers whatever it was sent through.
    let leader = &members[leader].server;
    let request = leader.request(Method::GET, "/workers/");
    let answered = got(request.header("baton-forwarded-by", "another")).await;
    assert_eq!(answered.status, StatusCode::OK, "{answered:?}");
}

#[tokio::test]
async fn when_the_session_of_the_leader_ends_another_takes_over_at_once() {
    let mut members = three().await;
    let first = leader(&members).await;
    let path = members[first].server.submit("kept").await;
    // The lease would last for longer than the test.
    members[first].session.cut();
    let killed = members.remove(first);
    let next = leader(&members).await;
    let shown = members[next].server.get(&path).await;
    assert_eq!(shown.body["state"], "QUEUED", "{shown:?}");
    members[1 - next].submit_by_and_by("more").await;
    // What was cut off knows that it does not lead, and comes back as a follower.
    let cut = killed.server.until_ready(false).await;
    assert_eq!(cut.body["role"], "follower", "{cut:?}");
    killed.session.reconnect();
    let back = killed.server.until_ready(true).await;
    assert_eq!(back.body["role"], "follower", "{back:?}");
    killed.submit_by_and_by("after-all").await;
    members.push(killed);
    assert_eq!(leader(&members).await, next, "it leads on");
}

#[tokio::test]
async fn an_orderly_end_of_the_leader_is_a_takeover_at_once() {
    let mut members = three().await;
    let first = leader(&members).await;
    let before = members[first].server.get("/readyz").await.body["epoch"].as_u64();
    members.remove(first).server.stop().await;
    let next = leader(&members).await;
    let after = members[next].server.get("/readyz").await.body["epoch"].as_u64();
    assert!(after > before, "{before:?} {after:?}");
    let list = members[next].server.get("/schedulers/").await;
    assert_eq!(list.body["total"], 2, "it has withdrawn: {list:?}");
}

fn short_lease(config: Config) -> Config {
    Config {
        election: ElectionTimeouts {
            renew: Millis(50),
            read: Millis(50),
            lapse: Millis(1_000),
        },
        ..config
    }
}

#[tokio::test]
async fn a_leader_whose_renewals_are_not_answered_stops_leading_by_itself() {
    let shared = Shared::new();
    let member = Member::join_with(&shared, "a", short_lease).await;
    assert!(until(async || member.role().await == "leader").await);
    // There is no other scheduler to depose it.
    member.session.hang_renewals();
    let follows = until(async || member.role().await == "follower").await;
    assert!(
        follows,
        "it extends leases that the next leader does not know of"
    );
    member.session.thaw();
    assert!(until(async || member.role().await == "leader").await);
}

#[tokio::test]
async fn a_store_that_fails_to_tell_what_it_has_lost_is_not_led() {
    let shared = Shared::new();
    shared.set_history(History::Unreadable);
    let member = Member::join_with(&shared, "a", short_lease).await;
    let refused = async || {
        let ready = member.server.get("/readyz").await.body.to_string();
        ready.contains("the connection is lost")
    };
    assert!(until(refused).await, "it does not give the reason");
    assert_eq!(member.role().await, "follower");
    shared.set_history(History::Broken);
    assert!(until(async || member.role().await == "leader").await);
    let opened = async || {
        let page = member.session.facts(&FactQuery::default());
        let facts = page.expect("readable").items;
        let mut facts = facts.iter().map(|entry| &entry.fact);
        facts.any(|fact| {
            matches!(
                fact,
                Fact::CopyOpened {
                    evidence: CopyEvidence::OtherHistory,
                    ..
                }
            )
        })
    };
    assert!(until(opened).await, "it does not take the store for a copy");
}

#[tokio::test]
async fn a_frozen_leader_is_replaced_after_its_lease_and_then_follows() {
    let shared = Shared::new();
    let frozen = Member::join_with(&shared, "a", short_lease).await;
    assert!(until(async || frozen.role().await == "leader").await);
    frozen.session.freeze();
    let next = Member::join_with(&shared, "b", short_lease).await;
    assert!(until(async || next.role().await == "leader").await);
    frozen.session.thaw();
    let follows = until(async || frozen.role().await == "follower").await;
    assert!(follows, "it still believes that it leads");
    frozen.submit_by_and_by("t").await;
}

#[tokio::test]
async fn a_request_that_a_frozen_leader_holds_is_answered_by_the_next() {
    let shared = Shared::new();
    let frozen = Member::join_with(&shared, "a", short_lease).await;
    assert!(until(async || frozen.role().await == "leader").await);
    let next = Member::join_with(&shared, "b", short_lease).await;
    let knows = async || next.server.get("/workers/").await.status == StatusCode::OK;
    assert!(until(knows).await, "it does not know the leader");
    frozen.session.freeze();
    let request = next.server.request(Method::POST, "/instances/");
    let request = request.header("content-type", "application/json");
    let request = request.header("idempotency-key", "once");
    let sent = got(request.body(task("t").to_string()));
    let sent = timeout(TEST_TIMEOUT, sent).await.expect("an answer");
    assert_eq!(sent.status, StatusCode::CREATED, "{sent:?}");
    frozen.session.thaw();
}

#[tokio::test]
async fn without_a_leader_a_write_is_refused_and_reads_go_on() {
    let shared = Shared::new();
    let member = Member::join(&shared, "a").await;
    assert!(until(async || member.role().await == "leader").await);
    let path = member.server.submit("t").await;
    // Another session leads, and no scheduler that announces itself.
    let stranger = shared.open();
    let sharing = stranger.sharing().expect("shared");
    sharing.depose().expect("reached");
    let row = stranger.read_row().expect("reached");
    let epoch = row.epoch.successor(1).expect("not the last");
    stranger.take(row.epoch, epoch).expect("reached");
    assert!(until(async || member.role().await == "follower").await);
    let refused = member
        .server
        .send(Method::POST, "/instances/", &task("t"))
        .await;
    refused.is_problem(StatusCode::SERVICE_UNAVAILABLE, "no-leader");
    assert!(refused.headers.contains_key("retry-after"));
    let timeline = member.server.get(&format!("{path}/timeline")).await;
    assert_eq!(timeline.status, StatusCode::OK, "{timeline:?}");
    let history = member.server.get("/history/").await;
    assert_eq!(history.status, StatusCode::OK, "{history:?}");
}

#[tokio::test]
async fn an_event_stream_of_a_follower_shows_the_commits_of_the_leader() {
    let members = three().await;
    let leader = leader(&members).await;
    let follower = &members[follower(leader)].server;
    let request = follower.request(Method::GET, "/events");
    let mut stream = request.send().await.expect("an answer");
    assert_eq!(stream.status(), StatusCode::OK);
    members[leader].server.submit("seen-by-all").await;
    let mut text = String::new();
    let seen = timeout(TEST_TIMEOUT, async {
        while !text.contains("seen-by-all") {
            let piece = stream.chunk().await.expect("it goes on");
            text.push_str(&String::from_utf8_lossy(&piece.expect("no end")));
        }
    });
    assert!(seen.await.is_ok(), "{text}");
}

#[tokio::test]
async fn a_follower_refuses_workers_and_a_deposed_leader_sends_its_own_away() {
    let mut members = three().await;
    let first = leader(&members).await;
    let follower = follower(first);
    let _refused = members[follower].server.worker("wf").await;
    let _worker = members[first].server.worker("wl").await;
    let names = async |server: &Server| -> Vec<String> {
        let list = server.get("/workers/").await;
        let items = list.body["items"].as_array().cloned().unwrap_or_default();
        let names = items.iter().filter_map(|it| it["name"].as_str());
        names.map(str::to_owned).collect()
    };
    let known = until(async || names(&members[follower].server).await == ["wl"]);
    assert!(known.await, "the leader does not know its worker");
    members[first].session.cut();
    let killed = members.remove(first);
    killed.server.until_ready(false).await;
    leader(&members).await;
}
