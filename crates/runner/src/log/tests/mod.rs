//! Fixtures of these tests: small logs on a real disk.

mod damage;
mod failing;
mod faults;
mod full;
mod refused;
mod replace;
mod torn;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;

/// A directory with a log in it, gone with the test.
struct LogDir {
    directory: TempDir,
}

impl LogDir {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("runner")
    }

    /// Creates a log of these records and returns its bytes.
    fn log_of(&self, records: &[String]) -> Vec<u8> {
        Log::create(&self.path(), Kind::Runner, records).expect("a new log");
        self.bytes()
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).expect("the log is there")
    }

    fn put(&self, bytes: &[u8]) {
        fs::write(self.path(), bytes).expect("writing into the temporary directory");
    }

    /// Everything in the directory, in order.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.directory.path())
            .expect("the directory is there")
            .map(|entry| {
                let name = entry.expect("an entry").file_name();
                name.into_string().expect("a name that is text")
            })
            .collect();
        names.sort();
        names
    }

    fn open(&self) -> Result<(Log, RecoveredLog<String>), LogError> {
        Log::open(&self.path(), Kind::Runner)
    }

    /// Opens what a crash has left, then appends.
    fn must_recover_and_go_on(&self, records: &[String]) {
        let (_, recovered) = self.open().expect("a torn tail is no damage");
        assert_eq!(recovered.records, records);
        self.must_go_on_after(records);
    }

    /// Appends to an existing log and reads all of it back.
    fn must_go_on_after(&self, before: &[String]) {
        let (mut log, recovered) = self.open().expect("the log opens");
        assert_eq!(recovered.records, before);
        assert_eq!(recovered.torn_bytes, 0);
        let sequence = log.append(&["later".to_owned()]).expect("an append");
        assert_eq!(sequence, before.len() as u64 + 1);
        log.sync().expect("a sync");
        let mut all = before.to_vec();
        all.push("later".to_owned());
        let recovered = must_read(&self.path());
        assert_eq!(recovered.records, all);
        assert_eq!(log.bytes(), self.bytes().len() as u64);
    }
}

fn must_read(path: &Path) -> RecoveredLog<String> {
    read(path, Kind::Runner).expect("a log that can be read")
}

/// Records of different lengths.
fn notes(count: usize) -> Vec<String> {
    (0..count)
        .map(|n| format!("note {n}{}", "…".repeat(n * 3)))
        .collect()
}

/// The start of each record, and the end of the last: as written, not as scanned.
fn boundaries(records: &[String]) -> Vec<usize> {
    let mut ends = vec![28];
    for record in records {
        let body = serde_json::to_vec(record).expect("text is JSON").len();
        ends.push(ends[ends.len() - 1] + 16 + body);
    }
    ends
}

fn damage_of<T>(result: Result<T, LogError>) -> Damage {
    match result {
        Err(LogError::Damaged(damage)) => *damage,
        Err(other) => panic!("refused for another reason: {other}"),
        Ok(_) => panic!("a damaged log was accepted"),
    }
}

fn error_of<T>(result: Result<T, LogError>) -> LogError {
    match result {
        Err(error) => error,
        Ok(_) => panic!("this should have been refused"),
    }
}

#[test]
fn records_come_back_in_order_with_their_numbers() {
    let dir = LogDir::new();
    let notes = notes(7);
    let mut log = Log::create(&dir.path(), Kind::Runner, &notes[..2]).expect("a new log");
    assert_eq!(log.last_sequence(), 2);
    assert_eq!(log.append(&notes[2..6]).expect("an append"), 6);
    assert_eq!(log.append(&notes[6..]).expect("an append"), 7);
    assert_eq!((log.records(), log.last_sequence()), (7, 7));
    assert_eq!(log.bytes(), boundaries(&notes)[7] as u64);
    let recovered = must_read(&dir.path());
    assert_eq!(recovered.records, notes);
    assert_eq!((recovered.first_sequence, recovered.torn_bytes), (1, 0));
    drop(log);
    dir.must_go_on_after(&notes);
}

#[test]
fn the_bytes_of_a_log_are_laid_out_as_documented() {
    let dir = LogDir::new();
    let mut wanted = b"\xbabaton\r\n".to_vec();
    wanted.extend_from_slice(&1_u32.to_le_bytes());
    wanted.extend_from_slice(&2_u32.to_le_bytes());
    wanted.extend_from_slice(&1_u64.to_le_bytes());
    wanted.extend_from_slice(&crc32c::crc32c(&wanted).to_le_bytes());
    for (sequence, body) in [(1_u64, &b"\"a\""[..]), (2, b"\"line\\n\"")] {
        let length = (body.len() as u32).to_le_bytes();
        let covered = [&length[..], &sequence.to_le_bytes(), body].concat();
        wanted.extend_from_slice(&length);
        wanted.extend_from_slice(&crc32c::crc32c(&covered).to_le_bytes());
        wanted.extend_from_slice(&covered[4..]);
    }
    Log::create(&dir.path(), Kind::Coordinator, &["a", "line\n"]).expect("a new log");
    assert_eq!(dir.bytes(), wanted);
}

#[test]
fn a_log_without_records_opens_and_counts_from_one() {
    let dir = LogDir::new();
    dir.log_of(&[]);
    dir.must_go_on_after(&[]);
}

#[test]
fn appending_nothing_changes_nothing() {
    let dir = LogDir::new();
    let before = dir.log_of(&notes(2));
    let (mut log, _) = dir.open().expect("the log opens");
    assert_eq!(log.append::<String>(&[]).expect("nothing to do"), 2);
    assert_eq!(dir.bytes(), before);
}

#[test]
fn only_the_owner_may_read_a_log() {
    use std::os::unix::fs::PermissionsExt;
    let dir = LogDir::new();
    dir.log_of(&notes(1));
    let mode = fs::metadata(dir.path())
        .expect("the log is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0);
}
