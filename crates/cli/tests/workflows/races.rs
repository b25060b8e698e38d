//! Of two concurrent commands on a run one succeeds.

use baton_testing::command::Ended;

use crate::workspace::Workspace;

const FAILING: &str = "workflow: failing
tasks:
  good: { run: 'echo good >> DIR/ran' }
  bad: { run: 'echo bad $BATON_GENERATION >> DIR/ran; exit 1', after: [good] }
";

const ROUNDS: u32 = 8;

#[test]
fn of_two_simultaneous_resumes_one_goes_on_and_the_other_is_told_why_not() {
    let workspace = Workspace::start();
    let over = workspace.finished(FAILING);
    let run = over.id();
    let mut lost = Vec::new();
    for generation in 1..=ROUNDS {
        let number = generation.to_string();
        let args = ["resume", run, "--generation", &number, "--json"];
        let both = [workspace.begin(&args), workspace.begin(&args)];
        let ended = both.map(|it| Ended::from(it.wait_with_output().expect("it ends")));
        let codes = ended.each_ref().map(|it| it.code);
        assert!(
            codes == [Some(0), Some(3)] || codes == [Some(3), Some(0)],
            "{ended:?}"
        );
        for it in ended {
            if it.code == Some(0) {
                assert_eq!(it.json()["generation"], generation + 1);
            } else {
                lost.push(it.err);
            }
        }
        let over = workspace.wait(run);
        over.has_failed();
        assert_eq!(over.run["generation"], generation + 1);
    }
    for told in &lost {
        let clear = told.contains(&format!("{run} is at generation"))
            || told.contains(&format!("{run} is LAUNCHED"))
            || told.contains(&format!("{run} is RUNNING"));
        assert!(clear && told.contains("baton "), "{told}");
    }
    let mut wanted = vec!["good".to_owned()];
    wanted.extend((1..=ROUNDS + 1).map(|it| format!("bad {it}")));
    assert_eq!(workspace.lines("ran"), wanted, "once in each generation");
}

#[test]
fn a_stale_generation_and_a_live_run_are_refused_and_nothing_is_changed() {
    let workspace = Workspace::start();
    let run = workspace.submit(
        "workflow: live
tasks:
  held: { run: 'until test -e DIR/go; do sleep 0.02; done; exit 1' }
",
    );
    for (args, word) in [
        (&["resume", &run][..], "baton halt"),
        (&["resume", &run, "--dry-run"], "baton halt"),
        (&["retry", &run], "baton halt"),
        (&["halt", &run, "--generation", "2"], "generation 1"),
    ] {
        let refused = workspace.run(args);
        assert_eq!(refused.code, Some(3), "{args:?}: {refused:?}");
        assert!(refused.err.contains(word), "{args:?}: {refused:?}");
    }
    workspace.touch("go");
    workspace.wait(&run).has_failed();
    for args in [
        &["resume", &run, "--generation", "2"][..],
        &["retry", &run, "--generation", "7"],
        &["halt", &run],
    ] {
        let refused = workspace.run(args);
        assert_eq!(refused.code, Some(3), "{args:?}: {refused:?}");
    }
    assert_eq!(workspace.show(&run)["run"]["generation"], 1);
}
