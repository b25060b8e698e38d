//! Devices of a real worker: who gets which, what its processes see, and that none is held twice or
//! lost while agent and coordinator are killed.
//!
//! `BATON_SEED` and `BATON_KILLS` choose another or a longer run; `make soak` does.

use std::time::Duration;

use baton_testing::cluster::{Cluster, lines};
use baton_testing::processes::send;
use baton_testing::{Rng, setting, until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::api::Api;

const WORKER: &[&str] = &["--resources", "cpu=100,gpu=[a,b,c],fpga=[x,y]"];

/// Locks every device that it sees for as long as anything of it lives.
const SCRIPT: &str = r#"
for device in ${CUDA_VISIBLE_DEVICES//,/ }; do
    exec {fd}>"$DIR/$device.lock"
    flock -n $fd || echo "$BATON_INSTANCE.$BATON_ATTEMPT $device" >> "$DIR/overlaps"
done
echo "$CUDA_VISIBLE_DEVICES" >> "$DIR/seen-$COUNT"
sleep 0.0$((RANDOM % 10))
"#;

#[test]
fn no_device_is_held_twice_or_lost_under_kills() {
    let kills = setting("BATON_KILLS").unwrap_or(12);
    let mut rng = Rng::new(setting("BATON_SEED").unwrap_or(1));
    let mut cluster = Cluster::new(&[]);
    let dir = cluster.path("effects");
    std::fs::create_dir(&dir).expect("made");
    cluster.start_worker("w", WORKER);
    cluster.healthy("w");
    let count = 10 * kills;
    let command = |gpus: u64| {
        json!({
            "task": "command",
            "run": SCRIPT,
            "env": { "DIR": dir, "COUNT": gpus.to_string(), "CUDA_VISIBLE_DEVICES": "mine" },
            "resources": { "cpu": 0, "gpu": gpus },
        })
    };
    let task = json!({
        "task": "task",
        "env": { "DIR": dir, "COUNT": "task" },
        "resources": { "cpu": 0, "gpu": 2 },
        "processes": [{ "name": "p", "run": SCRIPT, "env": { "CUDA_VISIBLE_DEVICES": "mine" } }],
    });
    let spans = [
        cluster.submit(command(1), count),
        cluster.submit(command(0), count / 4),
        cluster.submit(task, count / 4),
    ];
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(rng.below(250)));
        let victim = rng.below(3);
        let coordinator = cluster.coordinator_pid("w");
        if victim < 2 {
            cluster.kill_worker("w");
        }
        if victim > 0
            && let Some(pid) = coordinator
        {
            send(pid, Signal::KILL);
        }
        if victim < 2 {
            cluster.start_worker("w", WORKER);
        }
    }
    let counts = [count, count / 4, count / 4];
    for (span, count) in spans.into_iter().zip(counts) {
        until("everything is done", || {
            cluster.states(span).get("DONE") == Some(&count)
        });
    }
    let overlaps = lines(&dir.join("overlaps"));
    assert!(overlaps.is_empty(), "held twice: {overlaps:?}");
    let seen = |name: &str| lines(&dir.join(name));
    let is_one = |line: &String| ["a", "b", "c"].contains(&line.as_str());
    assert!(seen("seen-1").iter().all(is_one), "{:?}", seen("seen-1"));
    let is_two = |line: &String| ["a,b", "b,c", "a,c"].contains(&line.as_str());
    assert!(
        seen("seen-task").iter().all(is_two),
        "{:?}",
        seen("seen-task")
    );
    assert!(seen("seen-0").iter().all(String::is_empty));
    let all = cluster.submit(command(3), 1);
    until("no device is lost", || {
        cluster.states(all).get("DONE") == Some(&1)
    });
    assert_eq!(seen("seen-3").last().map(String::as_str), Some("a,b,c"));
    let is_free = |worker: &Value| {
        let devices = worker["devices"].as_array().expect("devices");
        let named = devices.iter().filter(|device| device["resource"] != "core");
        named.count() == 5 && devices.iter().all(|device| device["free"] == json!(1))
    };
    until("all devices are free", || {
        cluster
            .run(&["workers", "--json"])
            .json()
            .as_array()
            .is_some_and(|all| all.iter().all(is_free))
    });
    cluster.stop_without_leftovers("w");
}

#[test]
fn devices_and_their_holders_are_shown() {
    let mut cluster = Cluster::new(&[]);
    let dir = cluster.path("effects");
    std::fs::create_dir(&dir).expect("made");
    cluster.start_worker("w", WORKER);
    cluster.healthy("w");
    let file = |gpu: Value, fpga: u64| {
        json!({
            "task": "holder",
            "run": "env > \"$DIR/$BATON_INSTANCE\"; until [ -e \"$DIR/end\" ]; do sleep 0.05; done",
            "env": { "DIR": dir },
            "resources": { "cpu": 0, "gpu": gpu, "fpga": fpga },
        })
    };
    let running = |cluster: &Cluster, id: &str| cluster.until_state(id, "RUNNING");
    for (id, gpu, fpga) in [
        ("i1", json!(0.5), 0),
        ("i2", json!(0.5), 1),
        ("i3", json!(1), 0),
    ] {
        cluster.submit(file(gpu, fpga), 1);
        running(&cluster, id);
    }
    let shown = || cluster.run(&["workers"]).out;
    let expected = [
        "w gpu: a i1.1 (0.5) i2.1 (0.5), b i3.1, c free",
        "w fpga: x i2.1, y free",
    ];
    until("the holders are reported", || {
        expected
            .iter()
            .all(|line| shown().lines().any(|shown| shown == *line))
    });
    let show = cluster.run(&["show", "i2"]).out;
    assert!(show.contains("fpga x, gpu a (0.5 of it)"), "{show}");
    let json = cluster.run(&["show", "--json", "i3"]).json();
    let details = &json["instance"]["details"];
    assert_eq!(details["devices"][0]["id"], "b", "{json}");
    assert_eq!(details["resources"]["gpu"], 1, "{json}");
    let env = lines(&dir.join("i2"));
    for line in [
        "CUDA_VISIBLE_DEVICES=a",
        "NVIDIA_VISIBLE_DEVICES=a",
        "BATON_GPUS=a",
        "BATON_RESOURCE_FPGA=x",
    ] {
        assert!(env.iter().any(|it| it == line), "{line}: {env:?}");
    }
    // Neither of these fits beside them; the second has no room at all.
    cluster.submit(file(json!(0.6), 0), 1);
    running(&cluster, "i4");
    cluster.submit(file(json!(0.6), 0), 1);
    let wait = cluster.run(&["explain", "i5"]).out;
    assert!(wait.contains("0.2 of gpu"), "{wait}");
    std::fs::write(dir.join("end"), "").expect("written");
    for id in ["i1", "i2", "i3", "i4", "i5"] {
        cluster.until_state(id, "DONE");
    }
    let refused = cluster.run(&["submit", "--gpu", "1.5", "--", "true"]);
    let message = "neither a part of one device nor a whole number";
    assert!(refused.err.contains(message), "{}", refused.err);
}
