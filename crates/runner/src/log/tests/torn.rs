//! Torn tails, as a crash leaves them.

use std::fs::OpenOptions;
use std::io::Write;

use baton_testing::Rng;

use super::*;

#[test]
fn a_log_cut_at_any_byte_gives_the_whole_records_before_the_cut_and_goes_on() {
    let dir = LogDir::new();
    let notes = notes(6);
    let whole = dir.log_of(&notes);
    let boundaries = boundaries(&notes);
    assert_eq!(boundaries[6], whole.len());
    for cut in 28..=whole.len() {
        dir.put(&whole[..cut]);
        let kept = boundaries[1..].iter().filter(|&&end| end <= cut).count();
        let end = boundaries[kept];

        let seen = must_read(&dir.path());
        assert_eq!(seen.records, notes[..kept], "cut at {cut}");
        assert_eq!(seen.torn_bytes, (cut - end) as u64, "cut at {cut}");
        assert_eq!(dir.bytes().len(), cut, "reading changed the log");

        let (log, recovered) = dir.open().expect("a torn tail is no damage");
        assert_eq!(recovered, seen, "cut at {cut}");
        assert_eq!(dir.bytes(), whole[..end], "cut at {cut}");
        assert_eq!((log.bytes(), log.records()), (end as u64, kept as u64));
        drop(log);
        dir.must_go_on_after(&notes[..kept]);
    }
}

#[test]
fn a_log_cut_within_its_header_is_refused_and_not_touched() {
    let dir = LogDir::new();
    let whole = dir.log_of(&notes(2));
    for cut in 0..28 {
        dir.put(&whole[..cut]);
        let error = error_of(dir.open());
        assert!(
            matches!(error, LogError::Short { bytes, .. } if bytes == cut as u64),
            "{error}"
        );
        assert_eq!(dir.bytes(), whole[..cut]);
    }
}

#[test]
fn zeros_after_the_last_record_are_torn() {
    let dir = LogDir::new();
    let notes = notes(3);
    let whole = dir.log_of(&notes);
    for zeros in [1, 4, 15, 16, 17, 32, 511, 4096, 100_000] {
        let mut bytes = whole.clone();
        bytes.resize(whole.len() + zeros, 0);
        dir.put(&bytes);
        let (_, recovered) = dir.open().expect("zeros are no damage");
        assert_eq!(recovered.records, notes);
        assert_eq!(recovered.torn_bytes, zeros as u64);
        assert_eq!(dir.bytes(), whole);
        dir.must_go_on_after(&notes);
    }
}

#[test]
fn a_last_record_whose_end_is_zeros_is_torn() {
    let dir = LogDir::new();
    let notes = notes(4);
    let whole = dir.log_of(&notes);
    let last = boundaries(&notes)[3];
    for from in last..whole.len() {
        let mut bytes = whole.clone();
        bytes[from..].fill(0);
        bytes.resize(8192, 0);
        dir.put(&bytes);
        let (_, recovered) = dir.open().expect("zeros are no damage");
        assert_eq!(recovered.records, notes[..3]);
        assert_eq!(dir.bytes(), whole[..last]);
    }
}

#[test]
fn garbage_after_the_last_record_is_torn() {
    let dir = LogDir::new();
    let notes = notes(3);
    let whole = dir.log_of(&notes);
    let mut rng = Rng::new(1);
    for length in [1, 7, 16, 64, 1000, 50_000] {
        let mut bytes = whole.clone();
        bytes.extend(rng.bytes(length));
        dir.put(&bytes);
        let (_, recovered) = dir.open().expect("garbage at the end is no damage");
        assert_eq!(recovered.records, notes);
        assert_eq!(dir.bytes(), whole);
    }
}

#[test]
fn a_head_that_promises_more_than_the_longest_record_is_torn() {
    let dir = LogDir::new();
    let notes = notes(2);
    let whole = dir.log_of(&notes);
    let mut bytes = whole.clone();
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    bytes.extend_from_slice(&[7; 4]);
    bytes.extend_from_slice(&3_u64.to_le_bytes());
    bytes.extend_from_slice(b"\"short\"");
    dir.put(&bytes);
    let (_, recovered) = dir.open().expect("a torn head is no damage");
    assert_eq!(recovered.records, notes);
    assert_eq!(dir.bytes(), whole);
}

#[test]
fn reading_during_an_append_returns_complete_records_and_changes_nothing() {
    let dir = LogDir::new();
    let notes = notes(5);
    let all = dir.log_of(&notes);
    let boundaries = boundaries(&notes);
    dir.put(&all[..boundaries[3]]);
    let mut appender = OpenOptions::new()
        .append(true)
        .open(dir.path())
        .expect("the log");
    for (index, byte) in all[boundaries[3]..].iter().enumerate() {
        appender.write_all(&[*byte]).expect("an append");
        let length = boundaries[3] + index + 1;
        let whole = boundaries[1..].iter().filter(|&&end| end <= length).count();
        let seen = must_read(&dir.path());
        assert_eq!(seen.records, notes[..whole]);
        assert_eq!(dir.bytes(), all[..length]);
    }
}

#[test]
fn a_reader_that_races_with_a_truncation_reads_again_before_it_reports_damage() {
    let dir = LogDir::new();
    let notes = notes(5);
    let whole = dir.log_of(&notes);
    let boundaries = boundaries(&notes);
    // The beginning of another third record, which was torn, and behind it what was
    // written after it had been cut off.
    let mut mixture = whole.clone();
    mixture[boundaries[2] + 8..boundaries[2] + 20].fill(b'x');
    let mut readings = [mixture.clone(), whole].into_iter();
    let load = || Ok(readings.next().expect("two are enough"));
    let (seen, damage) = crate::log::read::salvage_from::<String>(load, &dir.path(), Kind::Runner)
        .expect("a log that can be read");
    assert_eq!(seen.records, notes);
    assert!(damage.is_none());

    let mut count = 0;
    let load = || {
        count += 1;
        Ok(mixture.clone())
    };
    let (_, damage) = crate::log::read::salvage_from::<String>(load, &dir.path(), Kind::Runner)
        .expect("a report");
    assert_eq!(damage.expect("damage that stays is damage").sequence, 3);
    assert_eq!(count, 2);
}
