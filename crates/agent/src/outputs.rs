//! Outputs of an attempt: small values, in the file that `BATON_OUTPUT` names.
//!
//! The file holds a JSON object, or lines `KEY=VALUE`, where a value that is JSON is parsed as JSON
//! and any other is a string. The last value of a repeated key counts, so a script may append.
//! Outputs are reported as the text of a JSON object in canonical form.
//!
//! The file belongs to the attempt's user, so it is opened with care ([`open_plain`]), and reading is
//! bounded. Errors quote nothing of its content.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use baton_model::limits::OUTPUTS_BYTES_MAX;
use baton_runner::masking::Masker;
use serde_json::{Map, Value};

use crate::plain_file::open_plain;

/// Maximum nesting of lists and maps: far below the limit of JSON parsers, so that the values can
/// be embedded in other documents.
const DEPTH_MAX: usize = 64;

/// Reads the outputs from a file; `None` if it is missing or empty.
///
/// # Errors
/// Why the file is invalid, for the author of the attempt's script.
pub(crate) fn read(path: &Path, masker: Option<Masker>) -> Result<Option<Arc<str>>, String> {
    let Some((file, _)) = open_plain(path)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    file.take(OUTPUTS_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    parse(&bytes, masker)
}

/// Parses the content of the file.
fn parse(bytes: &[u8], masker: Option<Masker>) -> Result<Option<Arc<str>>, String> {
    if bytes.len() > OUTPUTS_BYTES_MAX {
        return Err(format!("it is longer than {OUTPUTS_BYTES_MAX} bytes"));
    }
    let text = str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let text = text.trim_ascii();
    if text.is_empty() {
        return Ok(None);
    }
    let mut values = if text.starts_with('{') {
        serde_json::from_str(text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            format!(
                "it starts like a JSON object but is not valid JSON at line {line}, column {column}"
            )
        })?
    } else {
        lines(text)?
    };
    if values.values().any(|value| is_deeper(value, DEPTH_MAX)) {
        return Err(format!("a value is nested deeper than {DEPTH_MAX} levels"));
    }
    if let Some(mut masker) = masker {
        values = mask_all(&values, &mut masker);
    }
    let json = Value::Object(values).to_string();
    if json.len() > OUTPUTS_BYTES_MAX {
        return Err(format!(
            "its JSON has {} bytes; {OUTPUTS_BYTES_MAX} are allowed",
            json.len()
        ));
    }
    Ok(Some(json.into()))
}

/// The same values, without what would show a secret.
fn mask_all(values: &Map<String, Value>, masker: &mut Masker) -> Map<String, Value> {
    let values = values.iter().map(|(key, value)| {
        let key = mask_text(key, masker);
        let value = mask_value(value, masker);
        (key, value)
    });
    values.collect()
}

fn mask_value(value: &Value, masker: &mut Masker) -> Value {
    match value {
        Value::String(text) => mask_text(text, masker).into(),
        Value::Array(values) => values.iter().map(|it| mask_value(it, masker)).collect(),
        Value::Object(values) => mask_all(values, masker).into(),
        // Secrets may be numbers; then the text that is left is none.
        Value::Number(number) => {
            let text = number.to_string();
            match mask_text(&text, masker) {
                masked if masked == text => value.clone(),
                masked => masked.into(),
            }
        }
        Value::Null | Value::Bool(_) => value.clone(),
    }
}

fn mask_text(text: &str, masker: &mut Masker) -> String {
    String::from_utf8_lossy(&masker.masked(text.as_bytes())).into_owned()
}

fn lines(text: &str) -> Result<Map<String, Value>, String> {
    let mut values = Map::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let pair = line.split_once('=').filter(|(key, _)| is_key(key));
        let Some((key, value)) = pair else {
            return Err(format!(
                "line {} is not KEY=VALUE, and the file is not a JSON object",
                index + 1
            ));
        };
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        values.insert(key.to_owned(), value);
    }
    Ok(values)
}

fn is_key(key: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let further = |b: u8| letter(b) || b.is_ascii_digit() || b == b'-';
    key.bytes().next().is_some_and(letter) && key.bytes().all(further)
}

/// JSON parsers bound the nesting, so this recursion is bounded.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let below = |value: &Value| levels == 0 || is_deeper(value, levels - 1);
    match value {
        Value::Array(values) => values.iter().any(below),
        Value::Object(values) => values.values().any(below),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::Mode;

    #[test]
    fn objects_and_lines_become_one_text() {
        for (written, json) in [
            ("", None),
            (" \n\n", None),
            ("{}", Some("{}")),
            (
                "{\"b\" : [1, 2.50],\n \"a\": null}\n",
                Some(r#"{"a":null,"b":[1,2.5]}"#),
            ),
            ("{\"a b\": 1, \"a b\": 2}", Some(r#"{"a b":2}"#)),
            ("rows=12", Some(r#"{"rows":12}"#)),
            (
                "rows=12\r\n\nname=a b\nok=true\nfiles=[\"x\", \"y\"]\n",
                Some(r#"{"files":["x","y"],"name":"a b","ok":true,"rows":12}"#),
            ),
            ("a=1\na=\n", Some(r#"{"a":""}"#)),
            ("a=b=c", Some(r#"{"a":"b=c"}"#)),
            ("a=007", Some(r#"{"a":"007"}"#)),
            ("a=\"007\"", Some(r#"{"a":"007"}"#)),
            ("a={\"b\":", Some(r#"{"a":"{\"b\":"}"#)),
            ("_a-1=x", Some(r#"{"_a-1":"x"}"#)),
        ] {
            let read = parse(written.as_bytes(), None)
                .unwrap_or_else(|reason| panic!("{written:?}: {reason}"));
            assert_eq!(read.as_deref(), json, "{written:?}");
        }
    }

    #[test]
    fn what_is_neither_is_refused_with_its_place_and_not_quoted() {
        for (written, reason) in [
            (&b"a=\xff"[..], "UTF-8"),
            (b"{\"a\": 1\n \"secret\": 2}", "line 2, column 2"),
            (b"{} {}", "not valid"),
            (b"[1, 2]", "line 1"),
            (b"a=1\nsecret", "line 2"),
            (b"a b=secret", "line 1"),
            (b"=secret", "line 1"),
            (b"1a=secret", "line 1"),
            ("\u{e4}=secret".as_bytes(), "line 1"),
        ] {
            let error = parse(written, None).expect_err("it is neither");
            assert!(error.contains(reason), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn too_much_is_refused_as_written_and_as_json() {
        let room = OUTPUTS_BYTES_MAX - r#"{"a":""}"#.len();
        let fits = format!("a={}", "x".repeat(room));
        let json = parse(fits.as_bytes(), None).expect("it fits");
        assert_eq!(json.map(|json| json.len()), Some(OUTPUTS_BYTES_MAX));
        let quotes = format!("a={}", "\"".repeat(room));
        assert!(parse(quotes.as_bytes(), None).is_err_and(|reason| reason.contains("JSON")));
        let long = " ".repeat(OUTPUTS_BYTES_MAX + 1);
        assert!(parse(long.as_bytes(), None).is_err_and(|reason| reason.contains("longer")));
    }

    #[test]
    fn what_is_nested_too_deep_is_refused_and_anything_less_can_be_read_again() {
        let nested = |levels: usize| format!("a={}1{}", "[".repeat(levels), "]".repeat(levels));
        let json = parse(nested(DEPTH_MAX).as_bytes(), None).expect("deep enough");
        let json = json.expect("not empty");
        serde_json::from_str::<Value>(&json).expect("it can be read again");
        let deeper = parse(nested(DEPTH_MAX + 1).as_bytes(), None);
        assert!(deeper.is_err_and(|reason| reason.contains("deeper")));
    }

    #[test]
    fn only_a_plain_file_of_one_name_is_read_and_none_is_nothing() {
        let place = tempfile::tempdir().expect("a directory");
        let path = |name: &str| place.path().join(name);
        assert_eq!(read(&path("missing"), None), Ok(None));
        fs::write(path("plain"), "a=1").expect("written");
        assert_eq!(read(&path("plain"), None), Ok(Some(r#"{"a":1}"#.into())));
        symlink(path("plain"), path("link")).expect("linked");
        assert!(read(&path("link"), None).is_err());
        fs::create_dir(path("folder")).expect("made");
        assert!(read(&path("folder"), None).is_err());
        let mode = Mode::RUSR | Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), kind, mode, 0).expect("made");
        assert!(
            read(&path("pipe"), None).is_err(),
            "it does not wait for a writer"
        );
        fs::hard_link(path("plain"), path("other")).expect("linked");
        assert!(read(&path("plain"), None).is_err());
    }

    #[test]
    fn outputs_show_no_secret() {
        let mut parsed = Vec::new();
        for text in [
            r#"{"a":"x hunter2","b":[12345678,1],"c":{"hunter2":true}}"#,
            "a=hunter2",
        ] {
            let masker = Masker::new([&b"hunter2"[..], b"12345678"]);
            let json = parse(text.as_bytes(), Some(masker)).expect("valid");
            parsed.push(json.expect("some").to_string());
        }
        assert_eq!(
            parsed,
            [
                r#"{"a":"x ***","b":["***",1],"c":{"***":true}}"#,
                r#"{"a":"***"}"#
            ]
        );
    }
}
