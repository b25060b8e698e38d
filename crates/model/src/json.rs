//! Decoding of JSON.
//!
//! `serde_json` compiles the decoding of a type once for each of its readers (text, bytes, files, values).
//! Baton decodes text only, so that the binary has one copy; `clippy.toml` disallows the other readers.

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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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
