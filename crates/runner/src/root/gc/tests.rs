//! What is removed, what stays, and what is never touched.

use std::fs;
use std::os::unix::fs::symlink;

use super::super::testing::{
    BEGAN, BOOT, ended_task, ended_task_of, entry, header, started_task, temp_root,
};
use super::*;

const MIB: usize = 1 << 20;
const NOW: Wall = Wall(BEGAN + 100_000_000);

fn id(text: &str) -> TaskId {
    TaskId::new(text).expect("a good id")
}

/// A task that ended this long before NOW, with this many MiB in its sandbox.
fn finished(root: &Root, name: &str, age: u64, mib: usize) {
    ended_task(root, name, Wall(NOW.0 - age));
    let sandbox = root.sandbox(&id(name));
    fs::create_dir_all(sandbox.join(".logs/p/0")).expect("made");
    fs::write(sandbox.join("data"), vec![1; mib * MIB]).expect("written");
    fs::write(sandbox.join(".logs/p/0/stdout"), "out").expect("written");
}

fn chosen(root: &Root, policy: GcPolicy) -> Vec<(String, RemovalReason)> {
    let candidates = find_gc_candidates(root, &policy, NOW).expect("readable");
    let tasks = candidates.tasks.iter();
    tasks
        .map(|task| (task.id.to_string(), task.reason))
        .collect()
}

fn space(mib: usize) -> GcPolicy {
    GcPolicy {
        max_space: Some((mib * MIB) as u64),
        ..GcPolicy::default()
    }
}

fn everything() -> GcPolicy {
    GcPolicy {
        max_tasks: Some(0),
        ..GcPolicy::default()
    }
}

#[test]
fn over_the_space_limit_the_oldest_go_until_the_rest_fits() {
    let (_dir, root) = temp_root();
    // By name, size and age in three different orders.
    finished(&root, "a", 1_000, 1);
    finished(&root, "b", 4_000, 1);
    finished(&root, "c", 2_000, 4);
    finished(&root, "d", 3_000, 1);
    assert_eq!(chosen(&root, space(9)), []);
    assert_eq!(
        chosen(&root, space(7)),
        [("b".to_owned(), RemovalReason::Space)]
    );
    let three = ["b", "d", "c"].map(|name| (name.to_owned(), RemovalReason::Space));
    assert_eq!(chosen(&root, space(2)), three);
}

#[test]
fn age_and_count_take_the_oldest_too() {
    let (_dir, root) = temp_root();
    for (name, age) in [("a", 1_000), ("b", 4_000), ("c", 2_000)] {
        finished(&root, name, age, 0);
    }
    let policy = GcPolicy {
        max_age: Some(Millis(3_999)),
        max_tasks: Some(1),
        ..GcPolicy::default()
    };
    let expected = [
        ("b".to_owned(), RemovalReason::Age),
        ("c".to_owned(), RemovalReason::Count),
    ];
    assert_eq!(chosen(&root, policy), expected);
    assert_eq!(chosen(&root, GcPolicy::default()), []);
}

#[test]
fn selecting_changes_nothing_and_applying_removes_all_of_a_task() {
    let (_dir, root) = temp_root();
    finished(&root, "old", 2_000, 1);
    finished(&root, "new", 1_000, 1);
    let policy = GcPolicy {
        max_tasks: Some(1),
        ..GcPolicy::default()
    };
    let candidates = find_gc_candidates(&root, &policy, NOW).expect("readable");
    assert!(root.sandbox(&id("old")).join("data").exists());
    assert_eq!(candidates.kept_tasks, 1);
    let report = candidates.apply().expect("applied");
    assert_eq!(report.removed, [id("old")]);
    assert!(report.failures.is_empty() && report.bytes >= MIB as u64);
    assert!(!root.sandbox(&id("old")).exists());
    assert!(!root.checkpoint(&id("old")).exists());
    assert_eq!(
        root.list().expect("listed"),
        [entry("new", Phase::Finished)]
    );
    assert!(root.sandbox(&id("new")).join("data").exists());
    let again = candidates.apply().expect("applied twice is applied");
    assert!(again.failures.is_empty());
}

#[test]
fn active_and_driven_tasks_stay() {
    let (_dir, root) = temp_root();
    started_task(&root, "active", BOOT);
    finished(&root, "driven", 1_000, 0);
    let before = find_gc_candidates(&root, &everything(), NOW).expect("readable");
    let _lock = root.lock(&id("driven")).expect("free");
    let candidates = find_gc_candidates(&root, &everything(), NOW).expect("readable");
    assert_eq!(
        (candidates.tasks.len(), candidates.driven),
        (0, vec![id("driven")])
    );
    // Resumed between selection and removal.
    let report = before.apply().expect("applied");
    assert!(matches!(&report.failures[..], [(_, RootError::Driven(_))]));
    assert!(root.sandbox(&id("driven")).exists());
}

#[test]
fn a_sandbox_outside_of_the_root_is_never_touched() {
    let (dir, root) = temp_root();
    let outside = dir.path().join("project");
    fs::create_dir(&outside).expect("made");
    fs::write(outside.join("precious"), "x").expect("written");
    let mut header = header(&root, "a", BEGAN);
    header.sandbox = outside.display().to_string();
    ended_task_of(&root, &header, Wall(BEGAN));
    // A foreign directory of the same name.
    fs::create_dir_all(root.sandbox(&id("a"))).expect("made");
    let candidates = find_gc_candidates(&root, &everything(), NOW).expect("readable");
    assert_eq!(candidates.tasks[0].sandbox, SandboxAction::Keep);
    candidates.apply().expect("applied");
    assert!(outside.join("precious").exists());
    assert!(root.sandbox(&id("a")).exists());
    assert!(!root.checkpoint(&id("a")).exists());
    assert_eq!(root.list().expect("listed"), []);
}

#[test]
fn a_sandbox_that_leads_out_by_links_leads_nowhere() {
    let (dir, root) = temp_root();
    let outside = dir.path().join("project");
    fs::create_dir(&outside).expect("made");
    fs::write(outside.join("precious"), "x").expect("written");
    ended_task(&root, "whole", Wall(BEGAN));
    symlink(&outside, root.sandbox(&id("whole"))).expect("linked");
    finished(&root, "inner", 1_000, 0);
    symlink(&outside, root.sandbox(&id("inner")).join("link")).expect("linked");
    let report = find_gc_candidates(&root, &everything(), NOW)
        .and_then(|candidates| candidates.apply())
        .expect("applied");
    assert_eq!(report.removed.len(), 2);
    assert!(outside.join("precious").exists());
    assert!(root.sandbox(&id("whole")).symlink_metadata().is_err());
}

#[test]
fn a_sandbox_that_an_active_task_uses_stays() {
    let (_dir, root) = temp_root();
    finished(&root, "first", 1_000, 0);
    let mut second = header(&root, "second", BEGAN);
    second.sandbox = root.sandbox(&id("first")).join("sub").display().to_string();
    root.register(&second).expect("written");
    let candidates = find_gc_candidates(&root, &everything(), NOW).expect("readable");
    assert_eq!(candidates.tasks[0].sandbox, SandboxAction::Keep);
}

#[test]
fn a_root_reached_by_a_link_still_knows_its_sandboxes() {
    let (dir, root) = temp_root();
    finished(&root, "a", 1_000, 0);
    let link = dir.path().join("link");
    symlink(root.path(), &link).expect("linked");
    let other = Root::new(&link).expect("a path");
    let candidates = find_gc_candidates(&other, &everything(), NOW).expect("readable");
    assert_eq!(candidates.tasks[0].sandbox, SandboxAction::Remove);
    candidates.apply().expect("applied");
    assert!(!root.sandbox(&id("a")).exists());
}

#[test]
fn logs_can_be_kept() {
    let (_dir, root) = temp_root();
    finished(&root, "a", 1_000, 1);
    let policy = GcPolicy {
        keep_logs: true,
        ..everything()
    };
    let candidates = find_gc_candidates(&root, &policy, NOW).expect("readable");
    candidates.apply().expect("applied");
    let sandbox = root.sandbox(&id("a"));
    assert!(sandbox.join(".logs/p/0/stdout").exists() && !sandbox.join("data").exists());
    assert_eq!(root.list().expect("listed"), []);
}

/// A part of the root that is a link is refused, which stops the removal there as a
/// crash would.
#[test]
fn whatever_stops_a_removal_leaves_a_task_that_the_next_one_finds() {
    for part in [SANDBOXES, CHECKPOINTS] {
        let (dir, root) = temp_root();
        finished(&root, "a", 1_000, 0);
        let candidates = find_gc_candidates(&root, &everything(), NOW).expect("readable");
        let away = dir.path().join("away");
        fs::rename(root.path().join(part), &away).expect("moved");
        symlink(&away, root.path().join(part)).expect("linked");
        let report = candidates.apply().expect("the root opens");
        assert_eq!(
            (report.removed.len(), report.failures.len()),
            (0, 1),
            "{part}"
        );
        assert!(
            away.join("a").exists(),
            "{part}: what a link names was removed"
        );
        assert_eq!(root.list().expect("listed"), [entry("a", Phase::Finished)]);
        fs::remove_file(root.path().join(part)).expect("unlinked");
        fs::rename(&away, root.path().join(part)).expect("moved back");
        let candidates = find_gc_candidates(&root, &everything(), NOW).expect("readable");
        let report = candidates.apply().expect("applied");
        assert_eq!(report.removed, [id("a")]);
        assert!(!root.sandbox(&id("a")).exists() && !root.checkpoint(&id("a")).exists());
    }
}

#[test]
fn a_task_whose_log_cannot_be_read_can_still_go() {
    let (_dir, root) = temp_root();
    finished(&root, "a", 1_000, 0);
    fs::write(root.runner_log(&id("a")), "no log").expect("written");
    let candidates = find_gc_candidates(&root, &everything(), NOW).expect("readable");
    assert_eq!(candidates.tasks.len(), 1);
    assert!(candidates.tasks[0].ended > Wall(0), "when it was filed");
}

#[test]
fn a_checkpoint_without_a_task_goes_after_a_day() {
    let (_dir, root) = temp_root();
    root.prepare(&id("half")).expect("made");
    let changed = changed(&root.checkpoint(&id("half")));
    let at = |ms: u64| {
        let candidates = find_gc_candidates(&root, &GcPolicy::default(), Wall(changed.0 + ms))
            .expect("readable");
        assert_eq!(candidates.leftovers.len(), 1);
        candidates
    };
    let early = at(LEFTOVER_AGE_MIN.0);
    assert!(!early.leftovers[0].remove && early.is_empty());
    early.apply().expect("nothing to do");
    assert!(root.checkpoint(&id("half")).exists());
    let late = at(LEFTOVER_AGE_MIN.0 + 1);
    let report = late.apply().expect("applied");
    assert_eq!(report.removed, [id("half")]);
    assert!(!root.checkpoint(&id("half")).exists());
}

#[test]
fn a_root_that_does_not_exist_has_nothing_to_clear() {
    let (_dir, root) = temp_root();
    let candidates = find_gc_candidates(&root, &everything(), NOW).expect("nothing");
    assert!(candidates.is_empty());
    assert!(
        candidates
            .apply()
            .expect("nothing to do")
            .removed
            .is_empty()
    );
}
