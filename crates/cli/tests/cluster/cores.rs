//! Pinned attempts of a real worker: what their processes may run on, and that no core is held twice or lost when
//! agent and coordinator are killed.

use std::collections::BTreeSet;
use std::path::Path;

use baton_model::cpu::{CORE, CpuList};
use baton_testing::cluster::{Cluster, lines};
use baton_testing::processes::send;
use baton_testing::until;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::api::Api;

/// More CPUs than any host has: only cores are scarce.
const WORKER: &[&str] = &["--resources", "cpu=10000"];

/// Writes what its process may run on, and what it is told; then it waits.
const SCRIPT: &str = r#"
sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status > "$DIR/$BATON_INSTANCE.new"
echo "${BATON_CPUS-none}" >> "$DIR/$BATON_INSTANCE.new"
mv "$DIR/$BATON_INSTANCE.new" "$DIR/$BATON_INSTANCE"
until [ -e "$DIR/end-$BATON_INSTANCE" ] || [ -e "$DIR/end" ]; do sleep 0.05; done
"#;

fn cpus(text: &str) -> BTreeSet<u32> {
    let list: CpuList = text.parse().expect("a list of CPUs");
    list.iter().collect()
}

/// What an attempt may run on, once it has told.
fn mask(dir: &Path, id: &str) -> BTreeSet<u32> {
    let path = dir.join(id);
    until("it has told its CPUs", || path.exists());
    let told = lines(&path);
    if told[1] != "none" {
        assert_eq!(
            cpus(&told[0]),
            cpus(&told[1]),
            "{id}: the mask is what it is told"
        );
    }
    cpus(&told[0])
}

/// The ids of the cores of the only worker.
fn cores(cluster: &Cluster) -> Vec<String> {
    let workers = cluster.run(&["workers", "--json"]).json();
    let devices = workers[0]["devices"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let cores = devices.iter().filter(|it| it["resource"] == CORE);
    let id = |it: &Value| it["id"].as_str().expect("an id").to_owned();
    cores.map(id).collect()
}

#[test]
fn pinned_attempts_have_cores_of_their_own_through_kills() {
    let mut cluster = Cluster::new(&[]);
    let dir = cluster.path("effects");
    std::fs::create_dir(&dir).expect("made");
    cluster.start_worker("w", WORKER);
    cluster.healthy("w");
    let all = cores(&cluster);
    assert!(all.len() >= 2, "this test needs two cores: {all:?}");
    let file = |cpu: usize, pin: Option<&str>| {
        let mut file = json!({
            "task": "pinned",
            "run": SCRIPT,
            "env": { "DIR": dir },
            "resources": { "cpu": cpu, "memory": 0 },
        });
        if let Some(pin) = pin {
            file["resources"]["pin"] = pin.into();
        }
        file
    };
    cluster.submit(file(all.len() - 1, Some("cores")), 1);
    let many = mask(&dir, "i1");
    cluster.submit(file(1, Some("cores")), 1);
    let one = mask(&dir, "i2");
    cluster.submit(file(1, None), 1);
    let unpinned = mask(&dir, "i3");
    assert!(many.is_disjoint(&one), "{many:?} {one:?}");
    assert_eq!(&many | &one, unpinned, "what is not pinned has all of it");
    assert_eq!(unpinned, cpus(&all.join(",")));
    assert_eq!(lines(&dir.join("i3"))[1], "none");

    // Every core is held, before and after; the one that ends makes room for the next.
    let coordinator = cluster.coordinator_pid("w");
    cluster.kill_worker("w");
    send(coordinator.expect("it runs"), Signal::KILL);
    cluster.start_worker("w", WORKER);
    cluster.healthy("w");
    cluster.submit(file(1, Some("cores")), 1);
    until("it waits for a core", || {
        let wait = cluster.run(&["explain", "i4"]).out;
        wait.contains("lacks 1 core to pin to")
    });
    let line = cluster.run(&["workers"]).out;
    assert!(line.contains("w CPUs: ") && line.contains("i2.1"), "{line}");
    let show = cluster.run(&["show", "i2"]).out;
    assert!(
        show.contains("pinned to cores") && show.contains("core "),
        "{show}"
    );
    std::fs::write(dir.join("end-i2"), "").expect("written");
    assert_eq!(mask(&dir, "i4"), one, "the core of the one that has ended");
    std::fs::write(dir.join("end"), "").expect("written");
    for id in ["i1", "i2", "i3", "i4"] {
        cluster.until_state(id, "DONE");
    }
    until("all cores are free", || {
        !cluster.run(&["workers"]).out.contains("w CPUs: ")
    });
    cluster.stop_without_leftovers("w");
}

#[test]
fn a_socket_and_the_processes_of_a_task_are_bound() {
    let mut cluster = Cluster::new(&[]);
    let dir = cluster.path("effects");
    std::fs::create_dir(&dir).expect("made");
    cluster.start_worker("w", WORKER);
    cluster.healthy("w");
    let all = cpus(&cores(&cluster).join(","));
    let task = json!({
        "task": "two",
        "env": { "DIR": dir },
        "resources": { "cpu": 1, "pin": "cores" },
        "processes": [{ "name": "p", "run": SCRIPT }],
    });
    cluster.submit(task, 1);
    let one = mask(&dir, "i1");
    assert!(one.len() < all.len() && one.is_subset(&all), "{one:?}");
    let options = ["--cpu", "1", "--pin", "socket", "--sandbox"];
    let dir_variable = format!("DIR={}", dir.display());
    let mut command = vec!["submit", "-E", &dir_variable];
    command.extend(options);
    command.extend(["--", SCRIPT]);
    cluster.run(&command).good();
    let socket = mask(&dir, "i2");
    assert!(!socket.is_empty() && socket.is_subset(&all), "{socket:?}");
    std::fs::write(dir.join("end"), "").expect("written");
    for id in ["i1", "i2"] {
        cluster.until_state(id, "DONE");
    }
    let refused = cluster.run(&["submit", "--cpu", "1.5", "--pin", "cores", "--", "true"]);
    let message = "`pin` binds to whole cores, and `cpu` is 1.5";
    assert!(refused.err.contains(message), "{}", refused.err);
}
