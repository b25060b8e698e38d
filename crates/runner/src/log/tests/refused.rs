//! Logs and records that are refused as they are.

use std::collections::BTreeMap;
use std::error::Error;

use super::*;

/// A log with a wrong header field and a right CRC.
fn with_header(bytes: &[u8], at: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + value.len()].copy_from_slice(value);
    let crc = crc32c::crc32c(&bytes[..24]);
    bytes[24..28].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn a_later_version_of_the_format_is_refused_and_not_touched() {
    let dir = LogDir::new();
    let bytes = with_header(&dir.log_of(&notes(2)), 8, &2_u32.to_le_bytes());
    dir.put(&bytes);
    for error in [
        error_of(dir.open()),
        error_of(read::<String>(&dir.path(), Kind::Runner)),
    ] {
        assert!(matches!(error, LogError::Version { version: 2, .. }));
        let text = error.to_string();
        assert!(text.contains("has format 2"), "{text}");
        assert!(text.contains("reads format 1 only"), "{text}");
    }
    assert_eq!(dir.names(), ["runner"]);
    assert_eq!(dir.bytes(), bytes);
}

#[test]
fn a_log_of_another_kind_is_refused_and_not_touched() {
    let dir = LogDir::new();
    let bytes = dir.log_of(&notes(2));
    let error = error_of(Log::open::<String>(&dir.path(), Kind::Coordinator));
    let text = error.to_string();
    assert!(
        text.ends_with("is the log of a runner, not of a coordinator"),
        "{text}"
    );
    let strange = with_header(&bytes, 12, &9_u32.to_le_bytes());
    dir.put(&strange);
    let error = error_of(dir.open());
    assert!(matches!(error, LogError::WrongKind { found: None, .. }));
    assert_eq!(dir.bytes(), strange);
}

#[test]
fn a_header_without_a_first_number_is_damaged() {
    let dir = LogDir::new();
    let bytes = dir.log_of(&notes(2));
    for first in [0, u64::MAX] {
        dir.put(&with_header(&bytes, 16, &first.to_le_bytes()));
        let damage = damage_of(read::<String>(&dir.path(), Kind::Runner));
        assert_eq!(damage.kind, DamageKind::Header);
        assert!(damage.to_string().contains("is damaged in its header"));
    }
}

#[test]
fn a_file_that_is_no_log_is_refused_and_not_touched() {
    let dir = LogDir::new();
    let text = b"something else that a user keeps here".repeat(3);
    dir.put(&text);
    let error = error_of(dir.open());
    assert!(matches!(error, LogError::NotALog { .. }), "{error}");
    assert_eq!(dir.bytes(), text);
    assert_eq!(dir.names(), ["runner"]);
}

#[test]
fn an_empty_file_is_refused_with_its_length() {
    let dir = LogDir::new();
    dir.put(b"");
    let text = error_of(dir.open()).to_string();
    assert!(text.contains("it has 0 bytes"), "{text}");
}

#[test]
fn a_missing_log_differs_from_other_errors() {
    let dir = LogDir::new();
    for error in [
        error_of(dir.open()),
        error_of(read::<String>(&dir.path(), Kind::Runner)),
    ] {
        assert!(error.is_missing());
        assert!(!error.is_full());
        assert!(error.source().is_some(), "the cause is kept");
    }
    assert!(dir.names().is_empty(), "opening makes nothing");
}

#[test]
fn an_undecodable_record_is_refused_and_not_touched() {
    let dir = LogDir::new();
    let notes = notes(3);
    let mut bytes = dir.log_of(&notes);
    // Even a torn tail is left to a version that can decode the records.
    bytes.extend_from_slice(b"torn");
    dir.put(&bytes);
    let error = error_of(Log::open::<u32>(&dir.path(), Kind::Runner));
    assert!(matches!(
        error,
        LogError::Undecodable {
            sequence: 1,
            offset: 28,
            ..
        }
    ));
    let text = error.to_string();
    assert!(text.contains("or a later one"), "{text}");
    assert_eq!(dir.bytes(), bytes);
    assert_eq!(dir.names(), ["runner"]);
}

#[test]
fn a_record_that_is_too_long_is_refused_and_the_log_goes_on() {
    let dir = LogDir::new();
    let notes = notes(1);
    let before = dir.log_of(&notes);
    let (mut log, _) = dir.open().expect("the log opens");
    log.limit_records(100);
    // With its two quotes the first is as long as allowed.
    let batch = ["a".repeat(98), "a".repeat(99)];
    let error = error_of(log.append(&batch));
    assert!(matches!(error, LogError::TooLong { bytes_max: 100, .. }));
    assert!(matches!(
        error_of(log.replace(&batch)),
        LogError::TooLong { .. }
    ));
    assert_eq!(dir.bytes(), before, "nothing of the batch was written");
    assert_eq!(log.append(&batch[..1]).expect("just short enough"), 2);
    assert!(log.failure().is_none());
}

#[test]
fn a_record_that_cannot_be_json_is_refused_and_the_log_goes_on() {
    let dir = LogDir::new();
    let before = dir.log_of(&notes(1));
    let (mut log, _) = dir.open().expect("the log opens");
    let keyed_by_lists = BTreeMap::from([(vec![1], 2)]);
    let error = error_of(log.append(&[keyed_by_lists]));
    assert!(matches!(error, LogError::Unencodable { .. }), "{error}");
    assert_eq!(dir.bytes(), before);
    log.append(&notes(1)).expect("the log is as good as before");
}
