//! Paths on the worker's host that an instance names: its directory and the files of its output.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{AttemptId, AttemptNo, InstanceId};
use crate::spec::InstanceSpec;

/// The label of workers that run work in directories outside of its sandbox. Work with such a
/// directory requires it.
pub const DIRECTORY_LABEL: &str = "baton/cwd";

/// The placeholders of the paths of output files, with their meaning.
pub const PLACEHOLDERS: [(char, &str); 5] = [
    ('i', "the instance, such as i12"),
    (
        'a',
        "the index in its array or among the items of its task, or 0",
    ),
    ('t', "the number of the attempt"),
    ('n', "the name of the task"),
    ('%', "a percent sign"),
];

/// Where the command of an instance runs, and where its output goes, if not into its sandbox and
/// its logs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Paths {
    /// Its directory: an absolute path, which the worker must allow.
    pub cwd: Option<String>,
    /// The file of standard output, relative to the directory; with placeholders such as `%i`.
    pub stdout: Option<String>,
    /// The same for standard error.
    pub stderr: Option<String>,
}

/// The values of the placeholders for one attempt.
#[derive(Clone, Copy, Debug)]
pub struct PathValues<'a> {
    pub attempt: AttemptId,
    pub index: u64,
    pub name: &'a str,
}

impl PathValues<'_> {
    /// Values to check a path with.
    pub const SAMPLE: PathValues<'static> = PathValues {
        attempt: AttemptId {
            instance: InstanceId(0),
            number: AttemptNo(0),
        },
        index: 0,
        name: "",
    };

    /// The values for an attempt at an instance.
    #[must_use]
    pub fn new(spec: &InstanceSpec, attempt: AttemptId) -> PathValues<'_> {
        PathValues {
            attempt,
            index: spec.index(attempt.instance),
            name: &spec.name,
        }
    }
}

/// Replaces the placeholders of a path.
///
/// # Errors
/// The first unknown placeholder, if there is one.
pub fn expand(path: &str, values: &PathValues<'_>) -> Result<String, String> {
    let mut text = String::with_capacity(path.len() + 16);
    let mut letters = path.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        match letters.next() {
            Some('i') => text.push_str(&values.attempt.instance.to_string()),
            Some('a') => text.push_str(&values.index.to_string()),
            Some('t') => text.push_str(&values.attempt.number.0.to_string()),
            // A slash would name another directory.
            Some('n') => text.push_str(&values.name.replace('/', "_")),
            Some('%') => text.push('%'),
            other => {
                return Err(other
                    .into_iter()
                    .fold("%".to_owned(), |text, c| text + &c.to_string()));
            }
        }
    }
    Ok(text)
}

/// Two instances of one submission that would write to the same file, by their indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collision {
    pub first: u64,
    pub second: u64,
    pub path: String,
}

impl Collision {
    pub const HINT: &'static str = "add `%a`, the index, or `%i`, the instance, to the path";

    /// Finds the first two of several instances with the same path. Each has its index and its path,
    /// in which only `%i` and `%a` may still stand for different texts.
    pub fn find<'a>(paths: impl IntoIterator<Item = (u64, &'a str)>) -> Option<Self> {
        let mut seen = BTreeMap::new();
        for (second, path) in paths {
            if differs_by_index(path) {
                continue;
            }
            if let Some(first) = seen.insert(path, second) {
                let path = path.to_owned();
                return Some(Self {
                    first,
                    second,
                    path,
                });
            }
        }
        None
    }

    /// The error; `noun` is the plural of what has the indices.
    #[must_use]
    pub fn message(&self, noun: &str) -> String {
        let Self {
            first,
            second,
            path,
        } = self;
        format!("{noun} {first} and {second} would write to the same file `{path}`")
    }
}

/// True if a path names a file of its own for every instance of a submission, or a device.
#[must_use]
pub fn differs_by_index(path: &str) -> bool {
    path.starts_with("/dev/") || has_placeholder(path, 'i') || has_placeholder(path, 'a')
}

/// True if a path has this placeholder.
#[must_use]
pub fn has_placeholder(path: &str, wanted: char) -> bool {
    let mut letters = path.chars();
    while let Some(letter) = letters.next() {
        if letter == '%' && letters.next() == Some(wanted) {
            return true;
        }
    }
    false
}

/// True if a directory is one of these or below one, by its text alone.
#[must_use]
pub fn is_within<'a>(directory: &str, mut allowed: impl Iterator<Item = &'a str>) -> bool {
    let is_plain = directory.starts_with('/') && !directory.split('/').any(|part| part == "..");
    is_plain && allowed.any(|parent| std::path::Path::new(directory).starts_with(parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_and_unknown_ones_are_named() {
        let values = PathValues {
            attempt: AttemptId {
                instance: InstanceId(12),
                number: AttemptNo(3),
            },
            index: 7,
            name: "a/b",
        };
        let path = expand("%n/%i.%a.%t.100%%", &values);
        assert_eq!(path.as_deref(), Ok("a_b/i12.7.3.100%"));
        assert_eq!(expand("x%q", &values), Err("%q".to_owned()));
        assert_eq!(expand("x%", &values), Err("%".to_owned()));
    }

    #[test]
    fn the_index_of_an_item_is_its_own() {
        let attempt = AttemptId {
            instance: InstanceId(12),
            number: AttemptNo(1),
        };
        let mut spec = InstanceSpec::default();
        let path = |spec: &InstanceSpec| expand("%a", &PathValues::new(spec, attempt));
        assert_eq!(path(&spec).as_deref(), Ok("0"));
        spec.part = Some(crate::workflow::Part {
            run: crate::ids::RunId(1),
            generation: crate::ids::Generation(1),
            task: 4,
            item: 7,
        });
        assert_eq!(path(&spec).as_deref(), Ok("7"));
        spec.array = Some(crate::spec::Array {
            first: InstanceId(10),
            from: 100,
        });
        assert_eq!(path(&spec).as_deref(), Ok("102"));
    }

    #[test]
    fn instances_with_one_path_collide() {
        let find = |paths: &[&'static str]| Collision::find((0..).zip(paths.iter().copied()));
        let found = find(&["x", "y", "x"]).expect("two paths are equal");
        assert_eq!((found.first, found.second, &*found.path), (0, 2, "x"));
        assert_eq!(find(&["x%a", "x%a"]), None);
        assert_eq!(find(&["%i", "%i"]), None);
        assert_eq!(find(&["/dev/null", "/dev/null"]), None);
        // A percent sign before a letter.
        assert!(find(&["x%%a", "x%%a"]).is_some());
        assert!(find(&["%t", "%t"]).is_some());
    }

    #[test]
    fn a_directory_is_allowed_with_all_below_it_and_nothing_beside_it() {
        let within = |directory| is_within(directory, ["/data", "/srv/a"].into_iter());
        assert!(within("/data") && within("/data/x/y") && within("/srv/a/"));
        assert!(!within("/database") && !within("/") && !within("data"));
        assert!(!within("/data/../etc"));
        assert!(is_within("/anything", ["/"].into_iter()));
    }
}
