//! The header *Range*.
//!
//! One byte range is supported. Anything else in the header is ignored, as the standard allows: the
//! response is then the same as without it.

use axum::http::{HeaderMap, header};

/// A byte range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Range {
    /// From the first to the last byte, both inclusive, or to the end.
    From(u64, Option<u64>),
    /// This many bytes at the end.
    Last(u64),
}

impl Range {
    /// The range of a request, if it has exactly one.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        // Logs have no ETag to compare with.
        if headers.contains_key(header::IF_RANGE) {
            return None;
        }
        let mut values = headers.get_all(header::RANGE).iter();
        let (first, second) = (values.next()?, values.next());
        let text = first.to_str().ok().filter(|_| second.is_none())?;
        Self::parse(text)
    }

    fn parse(text: &str) -> Option<Self> {
        let (unit, range) = text.split_once('=')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        let (first, last) = range.trim().split_once('-')?;
        let number = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            // An overflow means the whole log.
            plain.then(|| text.parse().unwrap_or(u64::MAX))
        };
        match (first, last) {
            ("", count) => Some(Self::Last(number(count)?)),
            (first, "") => Some(Self::From(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }

    /// First and last byte of a log of this size, both inclusive; `None` if the range is empty.
    pub(super) fn within(self, size: u64) -> Option<(u64, u64)> {
        let end = size.checked_sub(1)?;
        match self {
            Self::From(first, last) => {
                let last = last.map_or(end, |last| last.min(end));
                (first <= end).then_some((first, last))
            }
            Self::Last(0) => None,
            Self::Last(count) => Some((size.saturating_sub(count), end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn one_range_of_bytes_is_read_and_everything_else_ignored() {
        for (text, range) in [
            ("bytes=0-9", Range::From(0, Some(9))),
            ("Bytes= 7-", Range::From(7, None)),
            ("bytes=-5", Range::Last(5)),
            (
                "bytes=0-99999999999999999999",
                Range::From(0, Some(u64::MAX)),
            ),
        ] {
            assert_eq!(Range::parse(text), Some(range), "{text}");
        }
        for text in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=9-0",
            "bytes=0-1,3-4",
            "lines=0-1",
            "bytes=+1-2",
            "bytes=1--2",
        ] {
            assert_eq!(Range::parse(text), None, "{text}");
        }
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_static("bytes=0-1");
        headers.append(header::RANGE, value.clone());
        assert!(Range::of(&headers).is_some());
        headers.append(header::RANGE, value.clone());
        assert_eq!(Range::of(&headers), None);
        let conditional = [(header::RANGE, value.clone()), (header::IF_RANGE, value)];
        assert_eq!(Range::of(&conditional.into_iter().collect()), None);
    }

    #[test]
    fn a_range_is_cut_to_what_there_is() {
        let all = [
            (Range::From(0, None), 10, Some((0, 9))),
            (Range::From(3, Some(5)), 10, Some((3, 5))),
            (Range::From(3, Some(50)), 10, Some((3, 9))),
            (Range::From(10, None), 10, None),
            (Range::Last(4), 10, Some((6, 9))),
            (Range::Last(40), 10, Some((0, 9))),
            (Range::Last(0), 10, None),
            (Range::From(0, None), 0, None),
            (Range::Last(1), 0, None),
        ];
        for (range, size, found) in all {
            assert_eq!(range.within(size), found, "{range:?} of {size}");
        }
    }
}
