//! Follower tests: rotations, truncations, runs, hostile directories.

use std::fs;
use std::io::Write;
use std::path::Path;

use baton_model::message::LogStart;

use super::*;

const BACKUPS: u32 = 8;

fn temp() -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dir = temp.path().join(".logs/p");
    (temp, dir)
}

fn source(dir: &Path) -> LogSource {
    let sandbox = dir.ancestors().nth(2).expect("a sandbox");
    let logs = ProcessLogs::new(sandbox, "p").expect("a good name");
    LogSource::Process(logs, LogStream::Stdout)
}

fn write(dir: &Path, run: u32, text: &str) {
    let run = dir.join(run.to_string());
    fs::create_dir_all(&run).expect("made");
    let mut options = File::options();
    let file = options.append(true).create(true).open(run.join("stdout"));
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .expect("written");
}

fn rotate(dir: &Path, run: u32) {
    let name = |age: u32| dir.join(run.to_string()).join(format!("stdout.{age}"));
    for age in (1..BACKUPS).rev() {
        if name(age).exists() {
            fs::rename(name(age), name(age + 1)).expect("renamed");
        }
    }
    fs::rename(dir.join(run.to_string()).join("stdout"), name(1)).expect("renamed");
}

fn follower(dir: &Path, lines: usize) -> Follower {
    let mut follower = Follower::new(source(dir));
    follower.skip(lines).expect("readable");
    follower
}

fn read(follower: &mut Follower) -> String {
    let mut text = Vec::new();
    let mut take = |bytes: &[u8]| {
        text.extend_from_slice(bytes);
        true
    };
    follower.read(&mut take).expect("readable");
    String::from_utf8(text).expect("text")
}

#[test]
fn what_is_written_later_is_read_later_and_once() {
    let (_temp, dir) = temp();
    let mut follower = follower(&dir, 10);
    assert!(follower.has_no_file());
    assert_eq!(read(&mut follower), "");
    write(&dir, 0, "a\n");
    assert_eq!(read(&mut follower), "a\n");
    write(&dir, 0, "b");
    assert_eq!(read(&mut follower), "b");
    assert_eq!(read(&mut follower), "");
}

#[test]
fn rotations_lose_and_repeat_nothing() {
    let (_temp, dir) = temp();
    write(&dir, 0, "a\nb\n");
    let mut follower = follower(&dir, 1);
    assert_eq!(read(&mut follower), "b\n");
    write(&dir, 0, "c\n");
    rotate(&dir, 0);
    write(&dir, 0, "d\n");
    rotate(&dir, 0);
    write(&dir, 0, "e\n");
    assert_eq!(read(&mut follower), "c\nd\ne\n");
    assert_eq!(read(&mut follower), "");
}

#[test]
fn a_file_that_was_rotated_out_of_existence_is_followed_by_the_oldest_left() {
    let (_temp, dir) = temp();
    write(&dir, 0, "a\n");
    let mut follower = follower(&dir, 10);
    assert_eq!(read(&mut follower), "a\n");
    fs::remove_file(dir.join("0/stdout")).expect("removed");
    write(&dir, 0, "b\n");
    rotate(&dir, 0);
    write(&dir, 0, "c\n");
    assert_eq!(read(&mut follower), "b\nc\n");
}

#[test]
fn a_file_that_was_emptied_is_read_from_its_beginning() {
    let (_temp, dir) = temp();
    write(&dir, 0, "abc\n");
    let mut follower = follower(&dir, 10);
    assert_eq!(read(&mut follower), "abc\n");
    File::create(dir.join("0/stdout")).expect("emptied");
    write(&dir, 0, "d\n");
    assert_eq!(read(&mut follower), "d\n");
}

#[test]
fn later_runs_follow_each_other_and_none_is_left_out() {
    let (_temp, dir) = temp();
    write(&dir, 0, "old\n");
    write(&dir, 1, "a\n");
    let mut follower = follower(&dir, 10);
    assert_eq!(read(&mut follower), "a\n");
    write(&dir, 1, "b\n");
    write(&dir, 2, "c\n");
    fs::create_dir(dir.join("3")).expect("made");
    write(&dir, 10, "d\n");
    assert_eq!(read(&mut follower), "b\nc\nd\n");
}

#[test]
fn one_run_alone_is_left_for_no_other() {
    let (_temp, dir) = temp();
    write(&dir, 0, "a\n");
    write(&dir, 1, "b\n");
    let mut follower = Follower::of_run(source(&dir), RunNo(0));
    assert_eq!(read(&mut follower), "a\n");
}

#[test]
fn a_follower_from_the_start_begins_with_the_first_run() {
    let (_temp, dir) = temp();
    write(&dir, 0, "a\n");
    rotate(&dir, 0);
    write(&dir, 0, "b\n");
    write(&dir, 1, "c\n");
    assert_eq!(read(&mut Follower::new(source(&dir))), "a\nb\nc\n");
}

#[test]
fn a_released_file_is_found_again_after_a_rotation() {
    let (_temp, dir) = temp();
    write(&dir, 0, "a\n");
    let mut follower = follower(&dir, 10);
    assert_eq!(read(&mut follower), "a\n");
    follower.release();
    write(&dir, 0, "b\n");
    rotate(&dir, 0);
    write(&dir, 0, "longer than what was read\n");
    assert_eq!(read(&mut follower), "b\nlonger than what was read\n");
}

#[test]
fn a_receiver_that_stops_misses_nothing() {
    let (_temp, dir) = temp();
    write(&dir, 0, &"x".repeat(2 * BLOCK + 1));
    rotate(&dir, 0);
    write(&dir, 0, "y");
    let mut follower = Follower::new(source(&dir));
    let mut lengths = Vec::new();
    let mut take = |bytes: &[u8]| {
        lengths.push(bytes.len());
        false
    };
    while !follower.read(&mut take).expect("readable") {}
    assert_eq!(lengths, [BLOCK, BLOCK, 1, 1]);
}

#[test]
fn an_empty_file_that_another_writer_was_given_is_left() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let (ours, theirs) = (temp.path().join("ours"), temp.path().join("theirs"));
    fs::write(&ours, "").expect("written");
    let mut follower = Follower::new(LogSource::File(ours.clone()));
    assert_eq!(read(&mut follower), "");
    fs::rename(&ours, &theirs).expect("renamed");
    fs::write(&theirs, "theirs").expect("written");
    assert_eq!(read(&mut follower), "");
    fs::write(&ours, "ours").expect("written");
    assert_eq!(read(&mut follower), "ours");
}

#[test]
fn other_entries_are_no_part_of_the_log() {
    let (_temp, dir) = temp();
    write(&dir, 0, "a\n");
    rotate(&dir, 0);
    fs::create_dir_all(dir.join("0/stdout.3")).expect("made");
    fs::write(dir.join("0/stdout.gz"), "compressed").expect("written");
    write(&dir, 0, "b\n");
    for other in ["0/stdout.2", "0/stdout.7"] {
        fs::hard_link(dir.join("0/stdout"), dir.join(other)).expect("linked");
    }
    fs::hard_link(dir.join("0/stdout.1"), dir.join("0/stdout.9")).expect("linked");
    assert_eq!(read(&mut Follower::new(source(&dir))), "a\nb\n");
}

/// The writer is never more files ahead than are kept.
#[test]
fn a_writer_that_rotates_all_the_time_is_read_completely_and_in_order() {
    use std::sync::atomic::{AtomicU32, Ordering};
    const LINES: u32 = 300;
    let (_temp, dir) = temp();
    write(&dir, 0, "");
    let seen = AtomicU32::new(0);
    let text = std::thread::scope(|threads| {
        threads.spawn(|| {
            for number in 0..LINES {
                while number >= seen.load(Ordering::SeqCst) + BACKUPS - 1 {
                    std::thread::yield_now();
                }
                write(&dir, 0, &format!("{number}\n"));
                rotate(&dir, 0);
            }
        });
        let mut follower = Follower::new(source(&dir));
        let mut text = String::new();
        while seen.load(Ordering::SeqCst) < LINES {
            let new = read(&mut follower);
            let lines = u32::try_from(new.lines().count()).expect("few");
            seen.fetch_add(lines, Ordering::SeqCst);
            text += &new;
        }
        text
    });
    let expected: String = (0..LINES).map(|number| format!("{number}\n")).collect();
    assert_eq!(text, expected);
}

/// Reads everything in pieces of three bytes, each from the cursor of the one before.
fn in_pieces(source: &LogSource, mut start: LogStart) -> (String, LogStart) {
    let mut text = Vec::new();
    loop {
        let piece = source.piece(RunNo(0), start, 3).expect("readable");
        let piece = piece.expect("there");
        start = LogStart::Cursor(piece.cursor.expect("within the log"));
        if piece.bytes.is_empty() {
            return (String::from_utf8(text).expect("text"), start);
        }
        text.extend(piece.bytes);
    }
}

#[test]
fn pieces_continue_across_rotations_and_begin_at_the_oldest_file() {
    let (_temp, dir) = temp();
    let source = source(&dir);
    let begin = LogStart::Offset(0);
    assert_eq!(source.piece(RunNo(0), begin, 3).expect("readable"), None);
    write(&dir, 0, "0123456789");
    let (text, end) = in_pieces(&source, begin);
    assert_eq!(text, "0123456789");
    write(&dir, 0, "abc");
    rotate(&dir, 0);
    write(&dir, 0, "d");
    rotate(&dir, 0);
    write(&dir, 0, "efgh");
    assert_eq!(in_pieces(&source, end).0, "abcdefgh");
    assert_eq!(in_pieces(&source, begin).0, "0123456789abcdefgh");
    assert_eq!(in_pieces(&source, LogStart::Offset(12)).0, "cdefgh");
    let piece = source.piece(RunNo(0), LogStart::Offset(99), 3);
    let piece = piece.expect("readable").expect("there");
    assert_eq!((piece.bytes.len(), piece.size, piece.cursor), (0, 18, None));
    // The file of the cursor is gone: the oldest that is left comes next.
    fs::remove_file(dir.join("0/stdout.2")).expect("removed");
    assert_eq!(in_pieces(&source, end).0, "defgh");
}

#[test]
fn a_file_that_was_truncated_is_read_in_pieces_from_its_beginning() {
    let (_temp, dir) = temp();
    write(&dir, 0, "0123456789");
    let source = source(&dir);
    let (_, end) = in_pieces(&source, LogStart::Offset(0));
    fs::write(dir.join("0/stdout"), "new").expect("written");
    assert_eq!(in_pieces(&source, end).0, "new");
}
