//! From no worker to several, and back.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use baton_testing::until_at_last;
use serde_json::json;

use super::{Site, in_fleet};
use crate::api::Api as _;
use crate::kill_loop::{SCRIPT, check};

/// In place of `sbatch`: the first time it is killed when the job exists, before it has told its id.
const KILLED: &str = "#!/bin/sh
mkdir \"$0.killed\" 2>/dev/null || exec /usr/bin/sbatch \"$@\"
/usr/bin/sbatch \"$@\" >/dev/null
kill -9 $$
";

#[test]
fn a_fleet_grows_from_nothing_and_shrinks_to_nothing_though_an_answer_is_lost() {
    let site = Site::with_lost_after("30s", |cluster| {
        let bin = cluster.path("bin");
        fs::create_dir(&bin).expect("made");
        fs::write(bin.join("sbatch"), KILLED).expect("written");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(bin.join("sbatch"), mode).expect("changed");
        let path = std::env::var("PATH").expect("set");
        vec![("PATH".to_owned(), format!("{}:{path}", bin.display()))]
    });
    site.add("s", &["--max", "2", "--idle-timeout", "2s"]);
    let cluster = &site.cluster;
    for round in ["first", "second"] {
        let dir = cluster.path(round);
        fs::create_dir(&dir).expect("made");
        let task = json!({ "task": round, "run": SCRIPT, "env": { "DIR": dir } });
        let span = cluster.submit(in_fleet(task, "s"), 49);
        until_at_last("all is done", || {
            let jobs = site.slurm.queue();
            assert!(jobs.len() <= 2, "{jobs:?}");
            cluster.states(span).get("DONE") == Some(&49)
        });
        assert_eq!(check(cluster, span, &dir), 0, "nothing ran twice");
        site.until_empty();
        until_at_last("all jobs have ended", || {
            site.jobs("s").iter().all(|it| it.end.is_some())
        });
    }
    assert!(cluster.path("bin/sbatch.killed").exists());
    site.submitted_once();
    let alarms = site.fleet("s").alarms;
    assert!(alarms.is_empty(), "{alarms:?}");
}
