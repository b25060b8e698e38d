//! The array of a submission: indices, or the items of a file.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use baton_files::indices::{self, IndexRange};
use baton_model::api::{self, Indices};
use clap::Args;
use serde_json::Value;

use crate::output::Failure;

/// Items of one array, as the scheduler accepts them.
const ITEMS_MAX: usize = 10_000;

/// Bytes of a file of items: as much as the scheduler accepts in one request.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Elements of an array.
#[derive(Debug, Default, Args)]
pub(super) struct ArrayArgs {
    /// Submit an array: one instance per index, with its index in BATON_ARRAY_INDEX. Ranges, steps and
    /// lists: 1-1000, 0-9:2, 1,3,5, 1-10:3,20. %N runs at most N at the same time: 1-1000%20
    #[arg(long, value_name = "INDICES", value_parser = array, conflicts_with_all = ["each_line", "from_json"])]
    array: Option<Array>,
    /// Submit an array: one instance per line of a file, or of standard input (-), with the line in
    /// BATON_ITEM, and as {{ item }} in the command. Empty lines are skipped
    #[arg(long, value_name = "FILE", conflicts_with = "from_json")]
    each_line: Option<PathBuf>,
    /// Submit an array: one instance per element of a JSON array in a file, or in standard input (-),
    /// with the element in BATON_ITEM, and as {{ item }} or {{ item.KEY }} in the command
    #[arg(long, value_name = "FILE")]
    from_json: Option<PathBuf>,
    /// Run at most N elements of the array at the same time
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_concurrent: Option<u32>,
}

/// Indices, parsed and as they were written.
#[derive(Clone, Debug)]
struct Array {
    ranges: Vec<IndexRange>,
    text: String,
    /// The number of elements that run at the same time.
    max_concurrent: Option<u32>,
}

fn array(text: &str) -> Result<Array, String> {
    let (text, max_concurrent) = match text.split_once('%') {
        None => (text, None),
        Some((text, most)) => {
            let most = most.parse().ok().filter(|most| *most > 0);
            let hint = "expected the number of elements at the same time after %, as in 1-1000%20";
            (text, Some(most.ok_or(hint)?))
        }
    };
    Ok(Array {
        ranges: indices::parse(text)?,
        text: text.to_owned(),
        max_concurrent,
    })
}

impl ArrayArgs {
    pub(super) const fn is_some(&self) -> bool {
        self.array.is_some() || self.has_items()
    }

    pub(super) const fn has_items(&self) -> bool {
        self.each_line.is_some() || self.from_json.is_some()
    }

    /// The number of instances.
    pub(super) fn count(&self) -> Result<u64, Failure> {
        if let Some(array) = &self.array {
            return Ok(indices::count(&array.ranges));
        }
        let items = self.request()?.items;
        Ok(items.map_or(1, |items| items.len() as u64))
    }

    /// The part of a request that describes the array.
    pub(super) fn request(&self) -> Result<api::Submit<Value>, Failure> {
        let mut request = api::Submit {
            max_concurrent: self.max_concurrent,
            ..api::Submit::default()
        };
        if self.max_concurrent.is_some() && !self.is_some() {
            return Err(Failure::usage(
                "-j applies to arrays only: --array, --each-line or --from-json",
            ));
        }
        if let Some(array) = &self.array {
            if array.max_concurrent.is_some() && self.max_concurrent.is_some() {
                return Err(Failure::usage(
                    "name the number of elements at the same time once: with -j, or after %",
                ));
            }
            request.max_concurrent = request.max_concurrent.or(array.max_concurrent);
            match *array.ranges {
                [(from, to)] => request.array = Some(Indices { from, to }),
                _ => request.indices = Some(array.text.clone()),
            }
        }
        if let Some(path) = &self.each_line {
            request.items = Some(counted(lines(&text(path)?), path)?);
        }
        if let Some(path) = &self.from_json {
            request.items = Some(counted(elements(&text(path)?, path)?, path)?);
        }
        Ok(request)
    }
}

fn shown(path: &Path) -> String {
    if path == Path::new("-") {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

fn text(path: &Path) -> Result<String, Failure> {
    let failure = |reason: String| Failure::usage(format!("{}: {reason}", shown(path)));
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        let stdin = std::io::stdin().lock();
        stdin.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        let file = std::fs::File::open(path).map_err(|error| failure(error.to_string()))?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
    };
    read.map_err(|error| failure(error.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(failure(format!(
            "larger than {FILE_BYTES_MAX} bytes; submit it in parts, or name files in it"
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .split(|byte| *byte == b'\n')
            .count();
        failure(format!("line {line} is not UTF-8"))
    })
}

fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(Value::from).collect()
}

fn elements(text: &str, path: &Path) -> Result<Vec<Value>, Failure> {
    let shown = shown(path);
    match serde_json::from_str(text) {
        Ok(Value::Array(items)) => Ok(items),
        Ok(_) => Err(Failure::usage(format!(
            "{shown}: expected a JSON array, with one element for each instance"
        ))),
        Err(error) => Err(Failure::usage(format!("{shown}: {error}"))),
    }
}

fn counted(items: Vec<Value>, path: &Path) -> Result<Vec<Value>, Failure> {
    let reason = match items.len() {
        0 => "there is no item in it".to_owned(),
        count if count > ITEMS_MAX => {
            format!("{count} items, and an array has at most {ITEMS_MAX}; submit it in parts")
        }
        _ => return Ok(items),
    };
    Err(Failure::usage(format!("{}: {reason}", shown(path))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_lines_or_elements() {
        let items = lines("a b\r\n\nc\n");
        assert_eq!(items, [Value::from("a b"), Value::from("c")]);
        let path = Path::new("x.json");
        assert_eq!(elements("[1, {}]", path).map(|it| it.len()).ok(), Some(2));
        for bad in ["{}", "[1", ""] {
            assert!(elements(bad, path).is_err(), "{bad}");
        }
        assert!(counted(Vec::new(), path).is_err());
        assert!(counted(vec![Value::Null; ITEMS_MAX + 1], path).is_err());
    }

    #[test]
    fn a_plain_range_is_sent_as_before() {
        let args = |text| ArrayArgs {
            array: Some(array(text).expect(text)),
            ..ArrayArgs::default()
        };
        let both = ArrayArgs {
            max_concurrent: Some(2),
            ..args("1-9%3")
        };
        assert!(
            both.request().is_err(),
            "which of the two counts is not clear"
        );
        let alone = ArrayArgs {
            max_concurrent: Some(2),
            ..ArrayArgs::default()
        };
        assert!(alone.request().is_err(), "there is no array");
        let plain = args("1-9").request().expect("good");
        assert_eq!(plain.array, Some(Indices { from: 1, to: 9 }));
        let list = args("1-9,12").request().expect("good");
        assert_eq!(
            (list.array, list.indices.as_deref()),
            (None, Some("1-9,12"))
        );
    }
}
