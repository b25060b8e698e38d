//! Parsing of paths, queries and bodies.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Query, Request};
use axum::http::{StatusCode, Uri, header};
use baton_core::clock::Zone;
use baton_files::times;
use baton_model::api::MEDIA_TYPE;
use baton_model::ids::{BackfillId, InstanceId, RunId};
use baton_model::json;
use baton_model::outcome::KillMode;
use baton_model::time::Wall;
use serde::de::DeserializeOwned;

use super::bodies;
use super::problem::{Answer, Fault};
use crate::clock;
use crate::limits::{BODY_BYTES_MAX, TARGET_RANGES_MAX, WAIT_SECONDS_MAX, WORKFLOW_BYTES_MAX};

/// The instances that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// One instance.
    One(InstanceId),
    /// Inclusive ranges, by id; no two overlap.
    Many(Vec<Ids>),
}

/// The first and the last id of a range.
pub(super) type Ids = (InstanceId, InstanceId);

impl Target {
    /// `i12`, `12`, `i1..i9`, `1..9`, or several of them: `i1..i9,i12`.
    pub(super) fn parse(text: &str) -> Answer<Self> {
        if !text.contains(',') && !text.contains("..") {
            return Ok(Self::One(instance(text)?));
        }
        let mut ranges = Vec::new();
        for part in text.split(',') {
            if ranges.len() == TARGET_RANGES_MAX {
                return Err(Fault::bad_request(format!(
                    "a request names at most {TARGET_RANGES_MAX} ids and ranges; send several"
                )));
            }
            ranges.push(range(part)?);
        }
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let overlaps = next.0 <= before.1;
            if overlaps {
                before.1 = before.1.max(next.1);
            }
            overlaps
        });
        Ok(Self::Many(ranges))
    }
}

fn range(text: &str) -> Answer<Ids> {
    let Some((first, last)) = text.split_once("..") else {
        let id = instance(text)?;
        return Ok((id, id));
    };
    let (first, last) = (instance(first)?, instance(last)?);
    if first > last {
        return Err(Fault::bad_request(format!(
            "{first}..{last} is not a range: the first id is greater than the last"
        )));
    }
    Ok((first, last))
}

/// `i12` or `12`.
pub(super) fn instance(text: &str) -> Answer<InstanceId> {
    number(text, 'i').map(InstanceId).ok_or_else(|| {
        Fault::bad_request("an instance id is a number such as i12, a range is written i12..i20")
    })
}

/// `r12` or `12`.
pub(super) fn run(text: &str) -> Answer<RunId> {
    let id = number(text, 'r').map(RunId);
    id.ok_or_else(|| Fault::bad_request("a run id is a number such as r12"))
}

/// `b12` or `12`.
pub(super) fn backfill(text: &str) -> Answer<BackfillId> {
    let id = number(text, 'b').map(BackfillId);
    id.ok_or_else(|| Fault::bad_request("a backfill id is a number such as b12"))
}

/// A number, with or without the letter of its kind. Stores keep ids as signed integers.
fn number(text: &str, letter: char) -> Option<u64> {
    let digits = text.strip_prefix(letter).unwrap_or(text);
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plain);
    number.filter(|number| *number <= i64::MAX.unsigned_abs())
}

/// Query parameters; unknown ones are rejected.
#[derive(Debug)]
pub(super) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    pub(super) fn of(uri: &Uri, known: &[&str]) -> Answer<Self> {
        let values = Query::<Vec<(String, String)>>::try_from_uri(uri);
        let Query(values) = values
            .map_err(|error| Fault::bad_request(format!("cannot parse the query: {error}")))?;
        let mut parameters = BTreeMap::new();
        for (name, value) in values {
            if !known.contains(&name.as_str()) {
                return Err(Fault::bad_request(format!(
                    "unknown parameter {:?}; supported: {}",
                    short(&name),
                    known.join(", ")
                )));
            }
            if parameters.insert(name.clone(), value).is_some() {
                return Err(Fault::bad_request(format!(
                    "the parameter {name} is repeated"
                )));
            }
        }
        Ok(Self(parameters))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn number<T: std::str::FromStr>(&self, name: &str) -> Answer<Option<T>> {
        self.parsed(name, "a number")
    }

    /// A parameter that must parse as `what`.
    pub(super) fn parsed<T: std::str::FromStr>(&self, name: &str, what: &str) -> Answer<Option<T>> {
        let read = |text: &str| {
            text.parse().map_err(|_| {
                Fault::bad_request(format!("{name} must be {what}, not {:?}", short(text)))
            })
        };
        self.text(name).map(read).transpose()
    }

    /// A time: milliseconds since 1970, how long ago, such as `2h`, or an instant, in UTC if the text
    /// names no zone.
    pub(super) fn time(&self, name: &str) -> Answer<Option<Wall>> {
        let read = |text: &str| {
            if let Ok(ms) = text.parse() {
                return Ok(Wall(ms));
            }
            let past = times::past(text, clock::now().wall, &Zone::UTC);
            past.map_err(|error| Fault::bad_request(format!("{name}: {error}")))
        };
        self.text(name).map(read).transpose()
    }

    /// The order of a list: one of two words, of which the first is the default. True if it is the
    /// second one.
    pub(super) fn is_reversed(&self, orders: [&str; 2]) -> Answer<bool> {
        let [usual, reversed] = orders;
        match self.text("sort") {
            None => Ok(false),
            Some(word) if word == usual => Ok(false),
            Some(word) if word == reversed => Ok(true),
            Some(other) => Err(Fault::bad_request(format!(
                "this list cannot be sorted by {:?}; supported: {usual}, {reversed}",
                short(other)
            ))),
        }
    }

    /// How attempts are killed: `now` asks for all processes at once.
    pub(super) fn kill_mode(&self) -> Answer<KillMode> {
        let now = self.parsed("now", "true or false")?.unwrap_or(false);
        Ok(if now {
            KillMode::Now
        } else {
            KillMode::Graceful
        })
    }

    /// Duration of a long poll, if requested.
    pub(super) fn wait(&self) -> Answer<Option<Duration>> {
        let seconds = self.number::<u64>("wait")?;
        Ok(seconds.map(|it| Duration::from_secs(it.min(WAIT_SECONDS_MAX))))
    }

    /// All parameters except the cursor, for links.
    pub(super) fn filters(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.0.iter();
        all.filter(|(name, _)| *name != "cursor")
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Truncates input that an error quotes.
pub(super) fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Extension of a request whose body may be larger than others.
#[derive(Clone, Copy)]
struct Large;

/// Allows the body of a workflow: one of a million items is larger than any other body.
pub(super) fn large(mut request: Request) -> Request {
    request.extensions_mut().insert(Large);
    request
}

/// Reads a JSON body.
pub(super) async fn body<T: DeserializeOwned>(request: Request) -> Answer<T> {
    let is_workflow = is_large(&request);
    let bytes = bytes(request).await?;
    if is_workflow {
        parse_workflow(&bytes)
    } else {
        parse(&bytes)
    }
}

/// Reads an optional JSON body.
pub(super) async fn optional_body<T: DeserializeOwned>(request: Request) -> Answer<Option<T>> {
    let is_workflow = is_large(&request);
    let bytes = bytes(request).await?;
    if bytes.is_empty() {
        Ok(None)
    } else if is_workflow {
        parse_workflow(&bytes)
    } else {
        parse(&bytes)
    }
}

fn is_large(request: &Request) -> bool {
    request.extensions().get::<Large>().is_some()
}

/// Decodes a body, in which no object may have a key twice.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Answer<T> {
    decode(bytes, json::from_slice_unique)
}

/// Decodes the body of a workflow. The reader of its file refuses duplicate keys itself, and tells where
/// they stand.
pub(super) fn parse_workflow<T: DeserializeOwned>(bytes: &[u8]) -> Answer<T> {
    decode(bytes, json::from_slice)
}

fn decode<T>(
    bytes: &[u8],
    decode: impl FnOnce(&[u8]) -> Result<T, serde_json::Error>,
) -> Answer<T> {
    // serde would accept a list as the fields of an object in order.
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if let Some(b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f') = first {
        let wanted = "the body must be an object, as in {\"name\": \"value\"}";
        return Err(Fault::bad_request(wanted));
    }
    decode(bytes).map_err(|error| Fault::bad_request(format!("cannot parse the body: {error}")))
}

/// Reads a body that is JSON.
pub(super) async fn bytes(request: Request) -> Answer<Vec<u8>> {
    let media = request.headers().get(header::CONTENT_TYPE);
    let media = media.map(|media| media.to_str().unwrap_or_default().to_owned());
    if let Some(media) = media {
        let essence = media.split(';').next().unwrap_or_default().trim();
        let fits = [MEDIA_TYPE, "application/json"];
        if !fits.iter().any(|fits| essence.eq_ignore_ascii_case(fits)) {
            return Err(Fault::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "other-media-type",
                format!("unsupported media type; send JSON as {MEDIA_TYPE} or application/json"),
            ));
        }
    }
    let bytes_max = if is_large(&request) {
        WORKFLOW_BYTES_MAX
    } else {
        BODY_BYTES_MAX
    };
    bodies::read(request, bytes_max).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_with_and_without_their_letter_and_nothing_else_is() {
        assert!(matches!(
            Target::parse("i12"),
            Ok(Target::One(InstanceId(12)))
        ));
        assert!(matches!(
            Target::parse("3..i9"),
            Ok(Target::Many(ranges)) if ranges == [(InstanceId(3), InstanceId(9))]
        ));
        assert!(matches!(
            Target::parse("i20,3..i9,7..12,i14"),
            Ok(Target::Many(ranges)) if ranges == [
                (InstanceId(3), InstanceId(12)),
                (InstanceId(14), InstanceId(14)),
                (InstanceId(20), InstanceId(20)),
            ]
        ));
        let long = vec!["i1"; TARGET_RANGES_MAX + 1].join(",");
        assert!(Target::parse(&long).is_err());
        for bad in [
            "",
            "i",
            "ii1",
            "-1",
            "+1",
            "1 ",
            "1..",
            "..",
            "9..3",
            "i1#1",
            "1e3",
            "99999999999999999999",
            "9223372036854775808",
            "..%2F",
            "i1,",
            ",",
            "i1,,i2",
            "i1,i3..i2",
        ] {
            assert!(Target::parse(bad).is_err(), "{bad}");
        }
    }
}
