//! The disk is full.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use baton_testing::processes::lacks_root;

use crate::crash_support::processes::{self, Role};
use crate::crash_support::{Rig, orphans, tasks, until, verdict};

const PAGE: usize = 4096;

/// A small file system of its own.
struct SmallFilesystem(PathBuf);

impl SmallFilesystem {
    fn mount(at: &Path) -> Self {
        fs::create_dir_all(at).expect("made");
        let mut mount = Command::new("mount");
        orphans::run_ok(
            mount
                .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
                .arg(at),
        );
        Self(at.to_owned())
    }

    /// Fills all but these pages.
    fn fill(&self, pages: usize) {
        let mut file = OpenOptions::new();
        let file = file.create(true).append(true).open(self.filler());
        let mut file = file.expect("made");
        while file.write(&[0; PAGE]).is_ok_and(|written| written > 0) {}
        let length = file.metadata().expect("readable").len();
        file.set_len(length.saturating_sub((pages * PAGE) as u64))
            .expect("shortened");
    }

    fn free(&self) {
        fs::remove_file(self.filler()).expect("removed");
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for SmallFilesystem {
    fn drop(&mut self) {
        // Lazily: open files do not block it.
        orphans::run(Command::new("umount").arg("-l").arg(&self.0));
    }
}

/// True if the first run of the first process is there.
fn first_run_started(rig: &Rig) -> bool {
    let all = processes::with_role(rig.dir.path(), Role::Process);
    let mut marks = all.into_iter().filter_map(|who| who.mark);
    marks.any(|mark| mark.ends_with(":0:0"))
}

#[test]
fn a_full_disk_stops_the_runner_and_not_the_work() {
    if lacks_root("mount") {
        return;
    }
    let work = tasks::wait_for("go");
    let mut rig = Rig::new(&tasks::task(&[
        tasks::process("steady", 0, &work, &[]),
        // Fails until a file exists, and so fills the log.
        tasks::process(
            "flapper",
            0,
            "test -e calm || { echo $BATON_RUN 9 >> ended.flapper; exit 9; }",
            &[],
        ),
    ]));
    let sandbox = rig.dir.path().join("sandbox");
    rig.move_sandbox(&sandbox);
    let small = SmallFilesystem::mount(&rig.root);
    rig.start();
    rig.wait_for("waits.go");
    small.fill(0);
    assert_eq!(rig.wait(), Some(5), "{}", rig.stderr_of_last_runner());
    let told = rig.stderr_of_last_runner();
    assert!(told.contains("make room"), "it says what to do: {told}");
    assert!(told.contains("local run --root"), "{told}");
    assert!(told.contains("--task-id crash"), "{told}");
    assert!(first_run_started(&rig), "what runs goes on");

    // While it is full, trying again changes nothing.
    rig.start();
    assert_eq!(rig.wait(), Some(5), "{}", rig.stderr_of_last_runner());
    assert!(first_run_started(&rig), "what runs goes on");

    small.free();
    rig.allow("calm");
    rig.allow("go");
    rig.finish();
    verdict::success(&mut rig);
    assert_eq!(rig.recorded_lines("begun.steady"), ["0"], "it ran once");
    drop(rig);
    drop(small);
}

#[test]
fn a_disk_that_is_full_from_the_beginning_leaves_nothing_that_is_in_the_way() {
    if lacks_root("mount") {
        return;
    }
    let mut refused = 0;
    for pages in 0..10 {
        let mut rig = Rig::new(&tasks::chain());
        let sandbox = rig.dir.path().join("sandbox");
        rig.move_sandbox(&sandbox);
        let small = SmallFilesystem::mount(&rig.root);
        small.fill(pages);
        rig.start();
        let code = rig.wait();
        if code != Some(0) {
            refused += 1;
            let told = rig.stderr_of_last_runner();
            assert_eq!(code, Some(5), "with {pages} pages: {told}");
            assert!(told.contains("No space left"), "with {pages} pages: {told}");
            small.free();
            rig.finish();
        }
        verdict::success(&mut rig);
        until("no process is left", || {
            processes::of_rig(rig.dir.path()).is_empty()
        });
        drop(rig);
        drop(small);
    }
    println!("refused {refused} times");
    assert!(refused > 0, "no disk was full enough");
}
