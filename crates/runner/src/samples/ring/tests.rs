//! Rings in real directories.

use tempfile::TempDir;

use super::*;

fn sample(n: u64) -> Sample {
    Sample {
        wall: Wall(n),
        run: RunKey {
            process: ProcessNo(7),
            run: RunNo(u64::MAX),
        },
        cpu_ms: n + 1,
        rss: n + 2,
        threads: 3,
        processes: 4,
        read: n + 5,
        written: n + 6,
    }
}

fn samples(range: std::ops::Range<u64>) -> Vec<Sample> {
    range.map(sample).collect()
}

fn place() -> (TempDir, std::path::PathBuf) {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("samples");
    (dir, path)
}

fn slot_at(slot: u64) -> u64 {
    HEADER_BYTES as u64 + slot * SLOT_BYTES as u64
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).expect("opens");
    file.write_all_at(bytes, at).expect("writes");
}

#[test]
fn what_was_pushed_is_read_oldest_first() {
    let (_dir, path) = place();
    let mut ring = Ring::open(&path, 10).expect("opens");
    assert_eq!(read(&path).expect("reads"), []);
    ring.push(&samples(0..3)).expect("pushes");
    ring.push(&samples(3..5)).expect("pushes");
    assert_eq!(read(&path).expect("reads"), samples(0..5));
}

#[test]
fn only_the_last_samples_are_kept_and_the_file_never_grows() {
    for batch in [1, 2, 5, 7, 8, 23] {
        let (_dir, path) = place();
        let mut ring = Ring::open(&path, 7).expect("opens");
        let size = fs::metadata(&path).expect("is there").len();
        let mut pushed = 0;
        while pushed < 50 {
            ring.push(&samples(pushed..pushed + batch)).expect("pushes");
            pushed += batch;
            let kept = samples(pushed.saturating_sub(7)..pushed);
            assert_eq!(read(&path).expect("reads"), kept, "batches of {batch}");
        }
        assert_eq!(fs::metadata(&path).expect("is there").len(), size);
    }
}

#[test]
fn a_ring_opened_again_goes_on_where_it_was() {
    let (_dir, path) = place();
    for n in 0..20 {
        let mut ring = Ring::open(&path, 6).expect("opens");
        ring.push(&samples(n..n + 1)).expect("pushes");
    }
    assert_eq!(read(&path).expect("reads"), samples(14..20));
}

#[test]
fn a_torn_or_damaged_slot_is_skipped() {
    let (_dir, path) = place();
    let mut ring = Ring::open(&path, 8).expect("opens");
    ring.push(&samples(0..5)).expect("pushes");
    // Sample n has number n + 1.
    overwrite(&path, slot_at(2) + 40, &[0xff; 9]);
    overwrite(&path, slot_at(4), &[0; SLOT_BYTES / 2]);
    let left = [sample(0), sample(2), sample(4)];
    assert_eq!(read(&path).expect("reads"), left);
}

#[test]
fn a_slot_in_the_wrong_place_is_skipped() {
    let (_dir, path) = place();
    let mut ring = Ring::open(&path, 8).expect("opens");
    ring.push(&samples(0..2)).expect("pushes");
    overwrite(&path, slot_at(5), &encode(1, &sample(0)));
    assert_eq!(read(&path).expect("reads"), samples(0..2));
}

#[test]
fn the_ring_goes_on_after_a_damaged_last_slot() {
    let (_dir, path) = place();
    let mut ring = Ring::open(&path, 4).expect("opens");
    ring.push(&samples(0..4)).expect("pushes");
    overwrite(&path, slot_at(0), &[0xff; SLOT_BYTES]);
    let mut ring = Ring::open(&path, 4).expect("opens");
    ring.push(&[sample(9)]).expect("pushes");
    let kept = [sample(0), sample(1), sample(2), sample(9)];
    assert_eq!(read(&path).expect("reads"), kept);
}

#[test]
fn what_is_not_such_a_ring_is_replaced() {
    let other_size = |path: &Path| drop(Ring::open(path, 3).expect("opens"));
    let cut = |path: &Path| {
        drop(Ring::open(path, 5).expect("opens"));
        let file = OpenOptions::new().write(true).open(path).expect("opens");
        file.set_len(slot_at(5) - 1).expect("cuts");
    };
    let bad_header = |path: &Path| {
        drop(Ring::open(path, 5).expect("opens"));
        overwrite(path, 9, &[1]);
    };
    let text = |path: &Path| fs::write(path, "hello\n".repeat(100)).expect("writes");
    let empty = |path: &Path| fs::write(path, "").expect("writes");
    let cases: [&dyn Fn(&Path); 5] = [&other_size, &cut, &bad_header, &text, &empty];
    for (case, spoil) in cases.iter().enumerate() {
        let (_dir, path) = place();
        spoil(&path);
        let mut ring = Ring::open(&path, 5).expect("opens");
        ring.push(&samples(0..2)).expect("pushes");
        assert_eq!(read(&path).expect("reads"), samples(0..2), "case {case}");
        assert_eq!(fs::metadata(&path).expect("is there").len(), slot_at(5));
    }
}

#[test]
fn a_link_is_replaced_and_what_it_points_at_is_left_alone() {
    let (dir, path) = place();
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").expect("writes");
    std::os::unix::fs::symlink(&victim, &path).expect("links");
    let mut ring = Ring::open(&path, 5).expect("opens");
    ring.push(&samples(0..2)).expect("pushes");
    assert_eq!(fs::read(&victim).expect("reads"), b"precious");
    assert_eq!(read(&path).expect("reads"), samples(0..2));
}

#[test]
fn a_partial_file_of_a_dead_runner_is_no_obstacle() {
    let (dir, path) = place();
    fs::write(dir.path().join("samples.new"), "half").expect("writes");
    let mut ring = Ring::open(&path, 5).expect("opens");
    ring.push(&samples(0..2)).expect("pushes");
    assert_eq!(read(&path).expect("reads"), samples(0..2));
}

#[test]
fn no_slots_and_too_many_are_refused() {
    let (_dir, path) = place();
    for slots in [0, SLOTS_MAX + 1] {
        let error = Ring::open(&path, slots).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
    assert!(!path.exists());
}

#[test]
fn reading_what_is_not_a_ring_is_an_error() {
    let (_dir, path) = place();
    let kind = |path: &Path| read(path).expect_err("refused").kind();
    assert_eq!(kind(&path), io::ErrorKind::NotFound);
    fs::write(&path, "hello").expect("writes");
    assert_eq!(kind(&path), io::ErrorKind::InvalidData);
}
