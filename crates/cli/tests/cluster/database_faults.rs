//! A PostgreSQL server without room on its disk.

use std::process::Command;

use baton_client::ClientError;
use baton_testing::cluster::Cluster;
use baton_testing::postgres::{Server, run_sql};
use baton_testing::processes::lacks_root;
use baton_testing::{Rng, until, until_some};
use serde_json::{Value, json};

use crate::api::{Api, id};
use crate::mounts::SmallFilesystem;

/// A text of this size that cannot be compressed to much less.
fn large(rng: &mut Rng) -> Value {
    let text: String = (0..2_000)
        .map(|_| format!("{:x}", rng.below(1 << 20)))
        .collect();
    json!({ "task": "t", "run": ["true"], "env": { "TEXT": text } })
}

/// Waits until a submission is refused with 503 and a reason that contains this.
fn refused(cluster: &Cluster, reason: &str, mut file: impl FnMut() -> Value) -> Vec<String> {
    let mut accepted = Vec::new();
    until(
        "a submission is refused with the reason",
        || match cluster.try_submit(file()) {
            Ok(submitted) => {
                accepted.push(submitted.first);
                false
            }
            Err(ClientError::Problem(problem)) => {
                assert_eq!(problem.status, 503, "{problem:?}");
                problem.detail.contains(reason)
            }
            Err(_) => false,
        },
    );
    accepted
}

#[test]
fn a_server_whose_disk_is_full_refuses_writes_with_the_reason_until_there_is_room() {
    if lacks_root("mount a file system") {
        return;
    }
    let server = Server::start();
    let at = server.socket().join("small");
    let Some(disk) = SmallFilesystem::mount(&at, "size=32m") else {
        return;
    };
    let owned = Command::new("chown").arg("postgres:").arg(&at).status();
    assert!(owned.is_ok_and(|it| it.success()), "the server owns it");
    let make = format!("CREATE TABLESPACE small LOCATION '{}'", at.display());
    run_sql(server.socket(), "postgres", &make);
    let make = "CREATE DATABASE small TABLESPACE small";
    run_sql(server.socket(), "postgres", make);
    let url = format!(
        "postgres:///small?host={}&user=baton",
        server.socket().display()
    );
    let cluster = Cluster::new(&["--store", &url]);
    let mut rng = Rng::new(1);
    cluster.submit(large(&mut rng), 1);
    disk.fill();
    let accepted = refused(&cluster, "No space left on device", || large(&mut rng));
    disk.free();
    let after = until_some("it goes on by itself", || {
        cluster.try_submit(large(&mut rng)).ok()
    });
    for submitted in accepted.iter().chain([&after.first]) {
        let state = cluster.instance(id(submitted)).state;
        assert_eq!(state.word(), "QUEUED", "{submitted} was acknowledged");
    }
}
