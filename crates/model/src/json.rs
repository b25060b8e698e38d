//! Decoding of JSON.
//!
//! `serde_json` compiles the decoding of a type once for each of its readers (text, bytes, files, values).
//! Baton decodes text only, so that the binary has one copy; `clippy.toml` disallows the other readers.

use std::borrow::Cow;

use serde::de::{DeserializeOwned, Error as _};

/// Decodes JSON from bytes.
///
/// # Errors
/// If the bytes are not UTF-8, not JSON, or not a `T`.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| serde_json::Error::custom(format_args!("not UTF-8: {error}")))?;
    serde_json::from_str(text)
}

/// Decodes a value that is already parsed.
///
/// # Errors
/// If the value is not a `T`.
pub fn from_value<T: DeserializeOwned>(value: &serde_json::Value) -> Result<T, serde_json::Error> {
    serde_json::from_str(&value.to_string())
}

/// Decodes JSON from bytes, in which no object may have a key twice: the sender may mean either value,
/// and another reader may take the other one.
///
/// # Errors
/// As [`from_slice`], and for a duplicate key.
pub fn from_slice_unique<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    let value = from_slice(bytes)?;
    match duplicate_key(bytes) {
        None => Ok(value),
        Some(key) => {
            let key: String = key.chars().take(KEY_CHARS_SHOWN).collect();
            Err(serde_json::Error::custom(format_args!(
                "duplicate key {key:?}; keep one of its values"
            )))
        }
    }
}

/// Characters of a key that an error shows.
const KEY_CHARS_SHOWN: usize = 60;

/// A key that an object has twice, in valid JSON. It looks at tokens only: a second decoding of each
/// type would be as large as the first.
fn duplicate_key(text: &[u8]) -> Option<String> {
    // The keys of the objects that are open, and where those of each begin; arrays have none.
    let mut keys: Vec<Cow<'_, [u8]>> = Vec::new();
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut is_key = false;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'{' => {
                open.push(Some(keys.len()));
                is_key = true;
            }
            b'[' => {
                open.push(None);
                is_key = false;
            }
            b',' => is_key = open.last().is_some_and(Option::is_some),
            b':' => is_key = false,
            b'}' | b']' => {
                if let Some(Some(first)) = open.pop() {
                    let of_object = &mut keys[first..];
                    of_object.sort_unstable();
                    if let Some(pair) = of_object.windows(2).find(|pair| pair[0] == pair[1]) {
                        return Some(String::from_utf8_lossy(&pair[0]).into_owned());
                    }
                    keys.truncate(first);
                }
            }
            b'"' => {
                let end = at + string_length(&text[at..]);
                if is_key {
                    keys.push(unescaped(&text[at - 1..=end]));
                }
                at = end + 1;
            }
            _ => {}
        }
    }
    None
}

/// The length of a string of valid JSON, up to its closing quote.
fn string_length(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        match text.get(at) {
            None | Some(b'"') => return at,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

/// The text of a quoted string: two spellings of a key are one key.
fn unescaped(quoted: &[u8]) -> Cow<'_, [u8]> {
    let plain = &quoted[1..quoted.len() - 1];
    if !plain.contains(&b'\\') {
        return Cow::Borrowed(plain);
    }
    match from_slice::<String>(quoted) {
        Ok(text) => Cow::Owned(text.into_bytes()),
        Err(_) => Cow::Borrowed(plain),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn an_object_with_a_key_twice_is_refused() {
        let read = |text: &str| super::from_slice_unique::<Value>(text.as_bytes());
        for (text, key) in [
            (r#"{"a": 1, "a": 1}"#, "a"),
            (r#"{"a": {"b": 1, "c": [{"b": 2}], "b": 3}}"#, "b"),
            (r#"[0, {"a": "\"", "b": [], "a": 2}]"#, "a"),
            (r#"{"ab": 1, "\u0061b": 2}"#, "ab"),
            (r#"{"": 1, "": 2}"#, ""),
            (r#"{"x": {}, "é": [{"x": 1}], "é": 2}"#, "é"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert_eq!(
                error,
                format!("duplicate key {key:?}; keep one of its values")
            );
        }
        for text in [
            r#"{"a": {"a": {"a": 1}}, "b": "a"}"#,
            r#"[{"a": 1}, {"a": 2}, "a", "a", ["a", "a"]]"#,
            r#"{"a": "a", "b": ["a:", "{\"a\":1,\"a\":2}", "\\"], "c": "}"}"#,
            r#"{"a\"": 1, "a\\": 2, "a": [[[]]]}"#,
            "\"a\"",
            "{}",
        ] {
            assert!(read(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn bytes_are_decoded_if_they_are_text() {
        let read = super::from_slice::<Vec<String>>("[\"é\"]".as_bytes());
        assert_eq!(read.expect("a list"), ["é"]);
        let error = super::from_slice::<Value>(b"[\"\xff\"]").expect_err("not a text");
        assert!(error.to_string().starts_with("not UTF-8: "), "{error}");
    }

    #[test]
    fn a_value_is_decoded_like_its_text() {
        assert_eq!(
            super::from_value::<Vec<u8>>(&json!([1, 2])).expect("a list"),
            [1, 2]
        );
        assert!(super::from_value::<Vec<u8>>(&json!([1, 256])).is_err());
    }
}
