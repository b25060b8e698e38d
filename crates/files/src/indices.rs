//! Indices of an array as people write them: `1-1000`, `0-9:2`, `1,3,5`, `1-10:3,20`.
//!
//! They are parsed into ranges of consecutive indices, in the order in which they are written.

/// Ranges that one array may have: each has a spec of its own. A plain range of any length is one; of
/// a range with a step, each index is one.
pub const INDEX_RANGES_MAX: usize = 10_000;

/// Consecutive indices, both ends included.
pub type IndexRange = (u64, u64);

/// Parses indices, and checks that none is repeated.
///
/// # Errors
/// A message for a person, with the part that is wrong.
pub fn parse(text: &str) -> Result<Vec<IndexRange>, String> {
    if text.contains('%') {
        return Err(format!(
            "`{text}`: a limit such as %20 is no part of the indices; in a request it is `maxConcurrent`"
        ));
    }
    let mut ranges = Vec::new();
    for part in text.split(',') {
        push(part.trim(), &mut ranges)?;
    }
    let mut sorted = ranges.clone();
    sorted.sort_unstable();
    let repeated = sorted.windows(2).find(|pair| pair[1].0 <= pair[0].1);
    match repeated {
        Some(pair) => Err(format!("the index {} is repeated", pair[1].0)),
        None => Ok(ranges),
    }
}

/// The number of indices.
#[must_use]
pub fn count(ranges: &[IndexRange]) -> u64 {
    let counts = ranges
        .iter()
        .map(|(from, to)| (to - from).saturating_add(1));
    counts.fold(0, u64::saturating_add)
}

fn push(part: &str, ranges: &mut Vec<IndexRange>) -> Result<(), String> {
    let (range, step) = match part.split_once(':') {
        None => (part, 1),
        Some((range, step)) => (range, number(step, part)?),
    };
    let (from, to) = match range.split_once('-') {
        None if step != 1 || part.contains(':') => {
            return Err(format!("`{part}`: a step needs a range, such as 0-9:2"));
        }
        None => {
            let index = number(range, part)?;
            (index, index)
        }
        Some((from, to)) => (number(from, part)?, number(to, part)?),
    };
    if from > to {
        return Err(format!("`{part}`: the last index is less than the first"));
    }
    match step {
        0 => return Err(format!("`{part}`: the step must be at least 1")),
        1 => ranges.push((from, to)),
        step => {
            let mut index = Some(from);
            while let Some(at) = index.filter(|at| *at <= to && ranges.len() <= INDEX_RANGES_MAX) {
                ranges.push((at, at));
                index = at.checked_add(step);
            }
        }
    }
    if ranges.len() > INDEX_RANGES_MAX {
        return Err(format!(
            "more than {INDEX_RANGES_MAX} indices with steps or in a list; only a plain range such as \
             1-1000000 may be longer"
        ));
    }
    Ok(())
}

fn number(text: &str, part: &str) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| digits);
    number.ok_or_else(|| {
        format!("`{part}` is no index; expected indices such as 1-1000, 0-9:2 or 1,3,5")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_steps_and_lists_are_read() {
        for (text, ranges) in [
            ("1-1000", &[(1, 1_000)][..]),
            ("5", &[(5, 5)]),
            ("0-9:2", &[(0, 0), (2, 2), (4, 4), (6, 6), (8, 8)]),
            ("1,3,5", &[(1, 1), (3, 3), (5, 5)]),
            ("1-10:3,20", &[(1, 1), (4, 4), (7, 7), (10, 10), (20, 20)]),
            ("7-9, 1-3:1", &[(7, 9), (1, 3)]),
            ("18446744073709551615", &[(u64::MAX, u64::MAX)]),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(ranges), "{text}");
        }
        assert_eq!(count(&[(0, u64::MAX), (1, 2)]), u64::MAX);
        assert_eq!(count(&[(1, 3), (7, 7)]), 4);
    }

    #[test]
    fn bad_indices_are_named() {
        for (text, part) in [
            ("", "`` is no index"),
            ("1-", "`1-` is no index"),
            ("-1", "`-1` is no index"),
            ("a-b", "expected indices such as 1-1000"),
            ("1..3", "`1..3` is no index"),
            ("3-1", "the last index is less than the first"),
            ("0-9:0", "the step must be at least 1"),
            ("0-9:", "`0-9:` is no index"),
            ("5:2", "a step needs a range"),
            ("1,,2", "`` is no index"),
            ("1-5,3", "the index 3 is repeated"),
            ("0-100000:2", "more than 10000"),
            ("1-1000%20", "`maxConcurrent`"),
            ("99999999999999999999", "is no index"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
