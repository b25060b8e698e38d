//! Damage that a crash cannot cause: wrong bytes with complete records after them.

use super::*;

#[test]
fn every_flipped_bit_is_noticed_and_no_wrong_record_is_read() {
    let dir = LogDir::new();
    let notes = notes(5);
    let whole = dir.log_of(&notes);
    let boundaries = boundaries(&notes);
    for bit in 0..whole.len() * 8 {
        let at = bit / 8;
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (bit % 8);
        dir.put(&bytes);
        let result = read::<String>(&dir.path(), Kind::Runner);
        let Some(hit) = boundaries
            .windows(2)
            .position(|pair| at >= pair[0] && at < pair[1])
        else {
            match error_of(result) {
                LogError::NotALog { .. } => assert!(at < 8, "byte {at}"),
                LogError::Damaged(damage) => {
                    assert_eq!(damage.kind, DamageKind::Header);
                    assert_eq!((damage.records_before, damage.records_after), (0, 5));
                }
                other => panic!("byte {at}: {other}"),
            }
            continue;
        };
        if hit == 4 {
            let recovered = result.expect("the last record may be torn");
            assert_eq!(recovered.records, notes[..4], "bit {bit}");
            assert!(recovered.torn_bytes > 0);
            continue;
        }
        let damage = damage_of(result);
        assert_eq!(damage.offset, boundaries[hit] as u64, "bit {bit}");
        assert_eq!(damage.sequence, hit as u64 + 1, "bit {bit}");
        assert_eq!(damage.kind, DamageKind::NoRecord, "bit {bit}");
        assert_eq!(damage.records_before, hit as u64, "bit {bit}");
        assert_eq!(damage.records_after, 4 - hit as u64, "bit {bit}");
        assert_eq!(damage.resumes_at, Some(boundaries[hit + 1] as u64));
    }
}

#[test]
fn a_damaged_log_is_set_aside_and_the_report_says_where_and_what_to_do() {
    let dir = LogDir::new();
    let notes = notes(6);
    let mut bytes = dir.log_of(&notes);
    let offset = boundaries(&notes)[2];
    bytes[offset + 20] ^= 0x10;
    dir.put(&bytes);

    let error = error_of(dir.open());
    let aside = dir.directory.path().join("runner.damaged-1");
    let text = error.to_string();
    let LogError::Damaged(damage) = error else {
        panic!("refused for another reason: {text}");
    };
    assert_eq!((damage.offset, damage.sequence), (offset as u64, 3));
    assert_eq!((damage.records_before, damage.records_after), (2, 3));
    assert!(matches!(&damage.quarantine, Quarantine::Moved(to) if *to == aside));
    assert_eq!(damage.file(), aside);
    assert_eq!(dir.names(), ["runner.damaged-1"]);
    assert_eq!(fs::read(&aside).expect("set aside"), bytes);
    let path = dir.path();
    for part in [
        format!("{} is damaged at byte {offset}", path.display()),
        "where record 3 should begin".to_owned(),
        "2 whole records before that and 3 after it".to_owned(),
        format!("set aside as {}", aside.display()),
        format!("baton local read {}", aside.display()),
        "run the task again under a new id".to_owned(),
    ] {
        assert!(text.contains(&part), "{part:?} is missing in: {text}");
    }
    assert!(error_of(dir.open()).is_missing());
}

#[test]
fn logs_set_aside_earlier_are_kept() {
    let dir = LogDir::new();
    let notes = notes(3);
    let mut bytes = dir.log_of(&notes);
    bytes[40] ^= 1;
    for number in 1..=3 {
        dir.put(&bytes);
        damage_of(dir.open());
        let name = format!("runner.damaged-{number}");
        assert!(dir.names().contains(&name));
    }
    assert_eq!(dir.names().len(), 3);
}

#[test]
fn reading_or_salvaging_a_damaged_log_leaves_it_where_it_is() {
    let dir = LogDir::new();
    let notes = notes(4);
    let mut bytes = dir.log_of(&notes);
    bytes[boundaries(&notes)[2] + 1] ^= 1;
    dir.put(&bytes);
    let damage = damage_of(read::<String>(&dir.path(), Kind::Runner));
    assert!(matches!(damage.quarantine, Quarantine::Untouched));
    assert!(damage.to_string().contains("The file was not changed."));

    let (before, damage) = salvage::<String>(&dir.path(), Kind::Runner).expect("salvaged");
    assert_eq!(before.records, notes[..2]);
    assert_eq!(damage.expect("a report").sequence, 3);
    assert_eq!(dir.names(), ["runner"]);
    assert_eq!(dir.bytes(), bytes);
}

#[test]
fn salvaging_a_good_log_reports_no_damage() {
    let dir = LogDir::new();
    let notes = notes(2);
    dir.log_of(&notes);
    let (all, damage) = salvage::<String>(&dir.path(), Kind::Runner).expect("read");
    assert_eq!(all.records, notes);
    assert!(damage.is_none());
}

#[test]
fn a_record_cut_out_of_the_middle_is_noticed_by_its_number() {
    let dir = LogDir::new();
    let notes = notes(5);
    let whole = dir.log_of(&notes);
    let boundaries = boundaries(&notes);
    // Not the last one: without it the log is whole.
    for missing in 0..4 {
        let mut bytes = whole[..boundaries[missing]].to_vec();
        bytes.extend_from_slice(&whole[boundaries[missing + 1]..]);
        dir.put(&bytes);
        let damage = damage_of(read::<String>(&dir.path(), Kind::Runner));
        let (sequence, found) = (missing as u64 + 1, missing as u64 + 2);
        assert_eq!(damage.kind, DamageKind::OutOfOrder { found });
        assert_eq!(damage.sequence, sequence);
        assert_eq!(damage.offset, boundaries[missing] as u64);
        assert_eq!(damage.records_after, 4 - missing as u64);
        let text = damage.to_string();
        let part = format!("record {found} is there instead of record {sequence}");
        assert!(text.contains(&part), "{text}");
    }
}

#[test]
fn a_record_that_is_there_twice_is_noticed() {
    let dir = LogDir::new();
    let notes = notes(3);
    let whole = dir.log_of(&notes);
    let mut bytes = whole.clone();
    bytes.extend_from_slice(&whole[boundaries(&notes)[2]..]);
    dir.put(&bytes);
    let damage = damage_of(dir.open());
    assert_eq!(damage.kind, DamageKind::OutOfOrder { found: 3 });
    assert_eq!((damage.sequence, damage.records_before), (4, 3));
}

#[test]
fn a_second_log_behind_the_first_is_damage_and_not_cut_off() {
    let dir = LogDir::new();
    let notes = notes(3);
    let whole = dir.log_of(&notes);
    let twice = [&whole[..], &whole[..]].concat();
    dir.put(&twice);
    let damage = damage_of(dir.open());
    assert_eq!(damage.kind, DamageKind::NoRecord);
    assert_eq!(damage.offset, whole.len() as u64);
    assert_eq!((damage.records_before, damage.records_after), (3, 3));
    assert_eq!(fs::read(damage.file()).expect("set aside"), twice);
}

#[test]
fn a_second_log_without_records_is_only_a_torn_tail() {
    let dir = LogDir::new();
    let empty = dir.log_of(&[]);
    let notes = notes(2);
    let whole = dir.log_of(&notes);
    dir.put(&[&whole[..], &empty[..]].concat());
    let (_, recovered) = dir.open().expect("nothing that was known is lost");
    assert_eq!(recovered.records, notes);
    assert_eq!(dir.bytes(), whole);
}

#[test]
fn a_record_inside_a_string_is_not_taken_for_one_behind_damage() {
    let dir = LogDir::new();
    let inner = dir.log_of(&notes(1));
    let text: String = inner.iter().map(|&byte| char::from(byte)).collect();
    let notes = vec!["first".to_owned(), text];
    let mut bytes = dir.log_of(&notes);
    // Tear the last record, which carries the bytes of a whole log.
    bytes.pop();
    dir.put(&bytes);
    let (_, recovered) = dir.open().expect("a torn tail");
    assert_eq!(recovered.records, notes[..1]);
}
