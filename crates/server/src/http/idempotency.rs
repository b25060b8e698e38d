//! `Idempotency-Key`: a request that is sent again creates nothing new.

use axum::http::HeaderMap;
use baton_model::library::IdempotencyKey;
use sha2::{Digest, Sha256};

use super::problem::{Answer, Fault};
use crate::limits::IDEMPOTENCY_KEY_CHARS_MAX;

/// Header with the idempotency key of a request.
pub(super) const HEADER: &str = "idempotency-key";

/// The key in the headers of a request, if there is one.
pub(super) fn text(headers: &HeaderMap) -> Answer<Option<&str>> {
    let mut values = headers.get_all(HEADER).iter();
    let (Some(first), second) = (values.next(), values.next()) else {
        return Ok(None);
    };
    let text = first.to_str().unwrap_or_default();
    if second.is_some() || text.is_empty() || text.len() > IDEMPOTENCY_KEY_CHARS_MAX {
        return Err(Fault::bad_request(format!(
            "Idempotency-Key must be a single value of 1 to {IDEMPOTENCY_KEY_CHARS_MAX} ASCII characters"
        )));
    }
    Ok(Some(text))
}

/// The key of a request. `scope` separates equal keys of unrelated requests; `request` is everything
/// that a repetition must have in common with the first.
pub(super) fn key<'a>(
    scope: &[&str],
    text: &str,
    request: impl IntoIterator<Item = &'a [u8]>,
) -> IdempotencyKey {
    let named = scope.iter().copied().chain([text]);
    let key = match scope {
        [] => Sha256::digest(text).into(),
        _ => digest(named.map(str::as_bytes)),
    };
    IdempotencyKey {
        key: (eight(&key, 0), eight(&key, 8)),
        request: eight(&digest(request), 0),
    }
}

/// Hashes texts so that no other division into texts has the same hash.
fn digest<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    hasher.finalize().into()
}

fn eight(hash: &[u8; 32], from: usize) -> u64 {
    let bytes = hash[from..].iter().take(8);
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_request_is_known_by_its_parts_and_not_by_how_they_run_together() {
        let of = |parts: &[&str]| key(&[], "k", parts.iter().map(|it| it.as_bytes())).request;
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        assert_ne!(of(&["a", "bc"]), of(&["ab", "c"]));
        assert_ne!(of(&["a", ""]), of(&[]));
    }

    #[test]
    fn equal_keys_of_two_owners_are_two_keys() {
        let of = |scope: &[&str], text| key(scope, text, []).key;
        assert_eq!(of(&["runs", "ann"], "k"), of(&["runs", "ann"], "k"));
        assert_ne!(of(&["runs", "ann"], "k"), of(&["runs", "bob"], "k"));
        assert_ne!(of(&["runs", "ann"], "k"), of(&["instances", "ann"], "k"));
        assert_ne!(of(&["runs", "ann"], "k"), of(&[], "k"));
    }

    #[test]
    fn a_key_is_one_short_text() {
        let with = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                let value = HeaderValue::from_str(value).expect("plain");
                headers.append(HEADER, value);
            }
            text(&headers).map(|text| text.map(str::to_owned))
        };
        assert!(matches!(with(&[]), Ok(None)));
        assert_eq!(with(&["a"]).expect("good").as_deref(), Some("a"));
        for bad in [&[""][..], &["a", "b"], &[&"x".repeat(256)]] {
            assert!(with(bad).is_err(), "{bad:?}");
        }
    }
}
