//! Rotation in real directories.

mod disk;

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use baton_testing::until;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::*;
use crate::helpers::stream::IGNORED;

fn files_in(dir: &Path, size: u64, backups: u32) -> RotatingFiles {
    let directory = OwnedFd::from(File::open(dir).expect("opens"));
    RotatingFiles::new(directory, "stdout", size, backups)
}

fn temporary() -> TempDir {
    TempDir::new().expect("a directory")
}

/// Bytes in which every section identifies its position, without a line end.
fn numbered(length: usize) -> Vec<u8> {
    (0..)
        .flat_map(|n: u32| n.to_be_bytes())
        .map(|b| b | 0x80)
        .take(length)
        .collect()
}

/// A reader that returns pieces one by one, each after an action.
#[derive(Default)]
struct Pieces<'a>(VecDeque<Piece<'a>>);

struct Piece<'a> {
    before: Box<dyn FnOnce() + 'a>,
    bytes: Vec<u8>,
}

impl<'a> Pieces<'a> {
    fn then(self, bytes: &[u8]) -> Self {
        self.after(|| (), bytes)
    }

    fn after(mut self, before: impl FnOnce() + 'a, bytes: &[u8]) -> Self {
        let before = Box::new(before);
        let bytes = bytes.to_vec();
        self.0.push_back(Piece { before, bytes });
        self
    }
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(Piece { before, bytes }) = self.0.pop_front() else {
            return Ok(0);
        };
        before();
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

fn plain(pieces: &[&[u8]]) -> Pieces<'static> {
    let none = Pieces::default();
    pieces.iter().fold(none, |all, piece| all.then(piece))
}

/// All files, the oldest first.
fn contents(dir: &Path) -> Vec<Vec<u8>> {
    let mut names: Vec<(u32, std::path::PathBuf)> = fs::read_dir(dir)
        .expect("lists")
        .map(|entry| entry.expect("lists").path())
        .map(|path| {
            let age = path
                .extension()
                .map_or(0, |end| end.to_string_lossy().parse().expect("numbered"));
            (age, path)
        })
        .collect();
    names.sort_unstable();
    let ages: Vec<u32> = names.iter().map(|(age, _)| *age).collect();
    assert!(ages.iter().copied().eq(0..ages.len() as u32), "{ages:?}");
    names
        .iter()
        .rev()
        .map(|(_, path)| fs::read(path).expect("reads"))
        .collect()
}

fn lengths(dir: &Path) -> Vec<usize> {
    contents(dir).iter().map(Vec::len).collect()
}

fn text(dir: &Path) -> String {
    String::from_utf8(contents(dir).concat()).expect("text")
}

#[test]
fn every_byte_is_there_in_order_and_no_file_is_too_long() {
    for piece in [1, 7, 99, 100, 101, 250] {
        let dir = temporary();
        let data = numbered(1_234);
        let pieces: Vec<&[u8]> = data.chunks(piece).collect();
        copy(plain(&pieces), files_in(dir.path(), 100, 50), None).expect("copies");
        let files = contents(dir.path());
        assert_eq!(files.concat(), data, "pieces of {piece}");
        let (last, full) = files.split_last().expect("some");
        assert!(full.iter().all(|file| file.len() == 100));
        assert_eq!((full.len(), last.len()), (12, 34));
    }
}

#[test]
fn a_file_that_is_just_full_is_not_rotated_before_there_is_more() {
    let dir = temporary();
    copy(plain(&[&[b'a'; 100]]), files_in(dir.path(), 100, 3), None).expect("copies");
    assert_eq!(lengths(dir.path()), [100]);
    copy(plain(&[b"b"]), files_in(dir.path(), 100, 3), None).expect("copies");
    assert_eq!(lengths(dir.path()), [100, 1]);
}

#[test]
fn the_configured_number_of_backups_is_kept() {
    for backups in [1, 2, 5] {
        let dir = temporary();
        let data = numbered(1_010);
        let files = files_in(dir.path(), 100, backups);
        copy(plain(&[&data]), files, None).expect("copies");
        let kept = 100 * backups as usize + 10;
        assert_eq!(contents(dir.path()).len(), backups as usize + 1);
        assert_eq!(contents(dir.path()).concat(), data[data.len() - kept..]);
    }
}

#[test]
fn without_backups_the_file_is_truncated() {
    let dir = temporary();
    let data = numbered(250);
    copy(plain(&[&data]), files_in(dir.path(), 100, 0), None).expect("copies");
    assert_eq!(contents(dir.path()), [&data[200..]]);
}

#[test]
fn an_existing_file_is_appended_to() {
    let dir = temporary();
    let data = numbered(330);
    for piece in data.chunks(33) {
        copy(plain(&[piece]), files_in(dir.path(), 100, 9), None).expect("copies");
    }
    assert_eq!(contents(dir.path()).concat(), data);
    assert_eq!(lengths(dir.path()), [100, 100, 100, 30]);
}

#[test]
fn a_file_that_was_too_long_before_is_moved_away() {
    let dir = temporary();
    fs::write(dir.path().join("stdout"), [b'a'; 500]).expect("writes");
    copy(plain(&[b"b"]), files_in(dir.path(), 100, 2), None).expect("copies");
    assert_eq!(lengths(dir.path()), [500, 1]);
}

#[test]
fn a_gap_among_the_old_files_is_filled_and_none_is_lost() {
    let dir = temporary();
    for (name, content) in [("stdout", "c"), ("stdout.2", "b"), ("stdout.3", "a")] {
        fs::write(dir.path().join(name), content).expect("writes");
    }
    copy(plain(&[b"d"]), files_in(dir.path(), 1, 3), None).expect("copies");
    assert_eq!(text(dir.path()), "abcd");
}

#[test]
fn a_line_longer_than_many_files_is_only_cut() {
    let dir = temporary();
    let data = numbered(3 << 20);
    copy(&data[..], files_in(dir.path(), 100_000, 100), None).expect("copies");
    assert_eq!(contents(dir.path()).concat(), data);
    assert!(lengths(dir.path()).iter().all(|length| *length <= 100_000));
}

#[test]
fn a_removed_log_is_created_again() {
    let dir = temporary();
    let log = dir.path().join("stdout");
    let remove = || fs::remove_file(&log).expect("removes");
    let pieces = Pieces::default().then(b"aaaa").after(remove, b"bbbb");
    copy(pieces, files_in(dir.path(), 4, 2), None).expect("copies");
    assert_eq!(contents(dir.path()), [b"bbbb"]);
}

#[test]
fn dropped_bytes_are_counted_and_reported_in_the_log() {
    let dir = temporary();
    let log = dir.path().join("stdout");
    fs::create_dir(&log).expect("makes an obstacle");
    let clear = || fs::remove_dir(&log).expect("removes");
    let pieces = Pieces::default()
        .then(b"one")
        .then(b"two and")
        .after(clear, b"three\n")
        .then(b"four\n");
    copy(pieces, files_in(dir.path(), 1_000, 2), None).expect("copies");
    let text = text(dir.path());
    assert!(
        text.starts_with("[baton: 10 bytes are missing here: Is a directory"),
        "{text}"
    );
    assert!(text.ends_with("]\nthree\nfour\n"), "{text}");
}

#[test]
fn the_line_about_missing_bytes_stays_within_the_size() {
    for size in [1, 2, 20, 60, 100] {
        let dir = temporary();
        let log = dir.path().join("stdout");
        fs::create_dir(&log).expect("makes an obstacle");
        let clear = || fs::remove_dir(&log).expect("removes");
        let pieces = Pieces::default().then(b"lost").after(clear, b"kept");
        copy(pieces, files_in(dir.path(), size, 9), None).expect("copies");
        let all = contents(dir.path());
        assert!(all.iter().all(|file| file.len() as u64 <= size));
        assert!(all.concat().ends_with(b"kept"), "size {size}");
    }
}

#[test]
fn bytes_missing_at_the_end_are_reported_there_or_are_an_error() {
    let dir = temporary();
    fs::create_dir(dir.path().join("stdout")).expect("makes an obstacle");
    copy(plain(&[b"lost"]), files_in(dir.path(), 100, 2), None).expect_err("it was not reported");

    let mut files = files_in(dir.path(), 100, 2);
    files.append(b"lost");
    fs::remove_dir(dir.path().join("stdout")).expect("removes");
    files.finish().expect("says it");
    assert!(text(dir.path()).starts_with("[baton: 4 bytes are missing"));
}

#[test]
fn neither_a_link_nor_a_pipe_is_written_through() {
    let dir = temporary();
    let outside = temporary();
    let victim = outside.path().join("victim");
    fs::write(&victim, "precious").expect("writes");
    std::os::unix::fs::symlink(&victim, dir.path().join("stdout")).expect("links");
    copy(plain(&[b"x"]), files_in(dir.path(), 100, 2), None).expect_err("refused");
    assert_eq!(fs::read(&victim).expect("reads"), b"precious");

    let dir = temporary();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let pipe = dir.path().join("stdout");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
        .expect("makes a pipe");
    copy(plain(&[b"x"]), files_in(dir.path(), 100, 2), None).expect_err("refused");
    let reader = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
    let _reader = rustix::fs::open(&pipe, reader, mode).expect("opens");
    copy(plain(&[b"x"]), files_in(dir.path(), 100, 2), None).expect_err("refused");
}

/// In a process of its own: the test starts its own binary once more, as the helper.
#[test]
fn the_helper_writes_below_descriptor_3_and_outlives_signals() {
    const ROLE: &str = "BATON_TEST_ROTATE";
    const THIS: &str =
        "helpers::rotate::tests::the_helper_writes_below_descriptor_3_and_outlives_signals";
    if std::env::var_os(ROLE).is_some() {
        std::process::exit(rotate(&["stdout", "8", "9"].map(str::to_owned)));
    }
    let dir = temporary();
    let mut helper = Command::new("sh")
        .args(["-c", r#"exec 3<"$0"; exec "$@""#])
        .arg(dir.path())
        .arg(std::env::current_exe().expect("this test"))
        .args(["--exact", THIS, "--nocapture"])
        .env(ROLE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    let mut pipe = helper.stdin.take().expect("a pipe");
    pipe.write_all(b"hello, ").expect("writes");
    until("it is written", || {
        fs::read(dir.path().join("stdout")).is_ok_and(|text| text == b"hello, ")
    });
    let pid = Pid::from_child(&helper);
    for signal in IGNORED {
        let signal = Signal::from_named_raw(signal).expect("has a name");
        kill_process(pid, signal).expect("is there");
    }
    pipe.write_all(b"world").expect("writes");
    drop(pipe);
    assert_eq!(helper.wait().expect("ends").code(), Some(0));
    assert_eq!(contents(dir.path()), [&b"hello, w"[..], &b"orld"[..]]);
}

#[test]
fn wrong_usage_differs_from_a_failure() {
    let cases: [&[&str]; 9] = [
        &[],
        &["stdout", "1"],
        &["stdout", "1", "1", "1"],
        &["stdout", "0", "1"],
        &["stdout", "-1", "1"],
        &["stdout", "1", "many"],
        &["", "1", "1"],
        &["..", "1", "1"],
        &["../stdout", "1", "1"],
    ];
    for args in cases {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        assert_eq!(rotate(&args), 2, "{args:?}");
    }
}
